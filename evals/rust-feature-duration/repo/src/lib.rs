//! Lengths of time for people.

/// Seconds as text, such as "1h 2m 3s". Parts that are 0 are left out; nothing at all is "0s".
pub fn format(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if shown.is_empty() {
        return "0s".to_owned();
    }
    shown.join(" ")
}
