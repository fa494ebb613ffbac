//! How far off an assertion lets a value be: tolerances, bounds, and patterns that fit everything.

use super::assertion::Parts;

/// Words before a number that says how far off a value may be.
const KEYS: [&str; 14] = [
    "delta=",
    "abs=",
    "rel=",
    "atol=",
    "rtol=",
    "abs_tol=",
    "rel_tol=",
    "epsilon=",
    "tolerance=",
    "accuracy:",
    "within(",
    "offset(",
    "withPercentage(",
    "be_within(",
];
/// Calls whose last number is a tolerance.
const CALLS: [&str; 9] = [
    "InDelta",
    "InEpsilon",
    "_NEAR",
    "assert_in_delta",
    "assert_in_epsilon",
    "assert_float_absolute",
    "closeTo",
    "approximately",
    "assertEquals",
];
/// Patterns that fit any text.
const ANYTHING: [&str; 14] = [
    ".*",
    "^.*$",
    "^.*",
    ".*$",
    "^",
    "$",
    "^$|.*",
    ".*?",
    "(.*)",
    "[\\s\\S]*",
    "(?s).*",
    "(?s)^.*$",
    "\\S*",
    ".{0,}",
];

/// How far off the value may be, where a number in the assertion says it. More asks for less.
pub(super) fn of(parts: &Parts, text: &str) -> Option<f64> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let arguments = |text: &str| text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>();
    let chained = parts.chained.as_deref().map(arguments).unwrap_or_default();
    if parts.chain.contains("toBeCloseTo") {
        // Digits behind the point; two where none are named.
        let digits = chained.get(1).map_or(Some(2.0), |digits| digits.parse().ok());
        return digits.map(|digits: f64| 10_f64.powf(-digits));
    }
    if dense.contains("AlmostEqual(") && !dense.contains("delta=") {
        let named = number_behind(&dense, "places=");
        let third = || parts.arguments.get(2).and_then(|third| third.parse().ok());
        return Some(10_f64.powf(-named.or_else(third).unwrap_or(7.0)));
    }
    let widest = KEYS.iter().filter_map(|key| number_behind(&dense, key)).reduce(f64::max);
    if widest.is_some() {
        return widest;
    }
    if CALLS.iter().any(|call| text.contains(call)) {
        let last =
            chained.last().or(parts.arguments.last()).filter(|_| chained.len() + parts.arguments.len() > 2);
        return last.and_then(|last| last.trim_end_matches(['f', 'F', 'd', 'D']).parse().ok());
    }
    // A bound in the condition itself.
    let rest = dense.split_once(&parts.left.split_whitespace().collect::<String>()).map(|(_, rest)| rest)?;
    let bound = parts.right.parse::<f64>().ok();
    match rest.as_bytes().first() {
        Some(b'<') => bound,
        Some(b'>') => bound.map(|least| -least),
        _ => None,
    }
}

/// The number behind a word that no letter stands before.
fn number_behind(dense: &str, key: &str) -> Option<f64> {
    let at = dense
        .match_indices(key)
        .find(|(at, _)| !dense[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))?;
    let rest = &dense[at.0 + key.len()..];
    let end =
        rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+' | 'e')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Whether it asks for a pattern or a part that everything has.
pub(super) fn fits_all(parts: &Parts, text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let patterns = ["regex", "match", "search("].iter().any(|word| lower.contains(word));
    let anything =
        || text.split(['\'', '"', '`', '/']).skip(1).step_by(2).any(|pattern| ANYTHING.contains(&pattern));
    let empty = |text: &str| matches!(text.trim(), "''" | "\"\"" | "``");
    let part = ["tocontain", "toinclude", "tomatch", "contains(", "includes(", "startswith(", "endswith("]
        .iter()
        .any(|word| lower.contains(word));
    let nothing = part
        && (parts.chained.as_deref().is_some_and(empty)
            || lower.contains("('')")
            || lower.contains("(\"\")"));
    let dense: String = lower.chars().filter(|c| !c.is_whitespace()).collect();
    // Nothing has fewer than no elements.
    let count = (dense.contains("len(") || dense.contains(".length") || dense.contains(".size"))
        && (dense.trim_end_matches([')', ';']).ends_with(">=0") || dense.contains("greaterthanorequal(0)"));
    patterns && anything() || nothing || count
}
