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

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseError {
    /// There is nothing in it.
    Empty,
    /// A part is not a number with a unit.
    BadPart(String),
    /// A unit comes twice, or after a smaller one.
    Order,
    /// It does not fit.
    TooLarge,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for ParseError {}

/// The seconds of a text such as "1h 2m 3s".
pub fn parse(text: &str) -> Result<u64, ParseError> {
    let mut seconds = 0;
    for part in text.split_whitespace() {
        let bad = || ParseError::BadPart(part.to_owned());
        let (count, unit) = part.split_at(part.len() - 1);
        let count: u64 = count.parse().map_err(|_| bad())?;
        seconds += match unit {
            "h" => count * 3600,
            "m" => count * 60,
            "s" => count,
            _ => return Err(bad()),
        };
    }
    if text.trim().is_empty() { Err(ParseError::Empty) } else { Ok(seconds) }
}
