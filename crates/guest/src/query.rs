//! Percent-encoding of ids and paths in request lines, shared by both sides so that they cannot disagree.

/// Encodes everything but unreserved characters, so that the result is safe in a path segment and in a query.
#[cfg(feature = "client")]
pub(crate) fn encode(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(char::from(HEX[usize::from(byte >> 4)]));
            encoded.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    encoded
}

/// Decodes what [`encode`] made; None when it is not percent-encoded UTF-8.
#[cfg(feature = "daemon")]
pub(crate) fn decode(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => (digit(bytes.next()?)? << 4) | digit(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

/// The raw value of `name` in a query string.
#[cfg(feature = "daemon")]
pub(crate) fn find<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(all(test, feature = "client", feature = "daemon"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for text in ["", "/a b/ü&x=1?#%2f+", "plain-1.2_~", "\u{1f600}\n"] {
            let encoded = encode(text);
            assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
            assert_eq!(decode(&encoded).as_deref(), Some(text));
        }
    }

    #[test]
    fn broken_encodings_are_refused() {
        for text in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        assert_eq!(find("pathological=1&path=%2Fa&limit=", "path"), Some("%2Fa"));
        assert_eq!(find("path=%2Fa&limit=", "limit"), Some(""));
        assert_eq!(find("path", "path"), None);
    }
}
