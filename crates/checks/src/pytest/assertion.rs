//! The two sides of a failed `assert actual == expected`, where the text leaves no doubt which is which.

use protocol::TestCase;

/// Fills in what was expected and what came, if one of the lines is a failed comparison for equality.
pub(super) fn values(message: &str, test: &mut TestCase) {
    for line in message.lines() {
        let line = line.strip_prefix("AssertionError: ").unwrap_or(line);
        if let Some((left, right)) = line.strip_prefix("assert ").and_then(sides) {
            test.actual = Some(left.to_owned());
            test.expected = Some(right.to_owned());
            return;
        }
    }
}

/// Splits at the one `==` that stands outside quotes and brackets. None when there is none, when there are several, or
/// when the comparison is part of a larger expression.
fn sides(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let (mut depth, mut quote, mut at, mut split) = (0_usize, None::<u8>, 0, None);
    while let Some(&byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            (None, b' ') if depth == 0 => {
                let rest = &bytes[at..];
                if rest.starts_with(b" == ") {
                    if split.is_some() {
                        return None;
                    }
                    split = Some(at);
                } else if [&b" and "[..], b" or ", b" if ", b" in "].iter().any(|word| rest.starts_with(word))
                {
                    return None;
                }
            }
            (None, _) => {}
        }
        at += 1;
    }
    let split = split?;
    let (left, right) = (&text[..split], &text[split + 4..]);
    // pytest shortens long values in the short summary; a half-shown value would mislead.
    let whole = quote.is_none() && depth == 0 && !left.starts_with("not ") && !right.ends_with("...");
    (whole && !left.is_empty() && !right.is_empty()).then_some((left, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_comparison_is_split() {
        assert_eq!(sides("3 == 5"), Some(("3", "5")));
        assert_eq!(sides("'a == b' == 'a == c'"), Some(("'a == b'", "'a == c'")));
        assert_eq!(sides(r"'it\'s == x' == [1, 2]"), Some((r"'it\'s == x'", "[1, 2]")));
        assert_eq!(sides("f(a == b)"), None);
        assert_eq!(sides("1 == 1 == 2"), None);
        assert_eq!(sides("1 == 2 and x"), None);
        assert_eq!(sides("not 1 == 2"), None);
        assert_eq!(sides("'first line == 'se..."), None);
        assert_eq!(sides(" == "), None);
        assert_eq!(sides("é == 'ü\\"), None);
    }
}
