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
        match self {
            Self::Empty => f.write_str("there is no duration"),
            Self::BadPart(part) => write!(f, "{part:?} is not a number with a unit"),
            Self::Order => f.write_str("each unit may come once, the larger ones first"),
            Self::TooLarge => f.write_str("the duration is too long"),
        }
    }
}

impl std::error::Error for ParseError {}

/// The seconds of a text such as "1h 2m 3s".
pub fn parse(text: &str) -> Result<u64, ParseError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(ParseError::Empty);
    }
    let (mut seconds, mut last) = (0u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let bad = || ParseError::BadPart(rest.split_whitespace().next().unwrap_or(rest).to_owned());
        let unit = match rest[digits..].chars().next() {
            Some('h') => 3600,
            Some('m') => 60,
            Some('s') => 1,
            _ => return Err(bad()),
        };
        if digits == 0 {
            return Err(bad());
        }
        if unit >= last {
            return Err(ParseError::Order);
        }
        let count: u64 = rest[..digits].parse().map_err(|_| ParseError::TooLarge)?;
        let part = count.checked_mul(unit).ok_or(ParseError::TooLarge)?;
        seconds = seconds.checked_add(part).ok_or(ParseError::TooLarge)?;
        last = unit;
        rest = rest[digits + 1..].trim_start();
    }
    Ok(seconds)
}
