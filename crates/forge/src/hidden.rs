//! Secrets in texts of others: a server that says what it was sent may say it in another spelling.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Shorter values stand in texts by chance.
const SHORTEST: usize = 6;
/// Shorter pieces of Base64 do too.
const SHORTEST_PIECE: usize = 8;

/// A text without the secrets, in whichever of the usual spellings they stand in it.
pub(crate) fn hidden(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        for spelling in spellings(secret) {
            if text.contains(&spelling) {
                text = text.replace(&spelling, "***");
            }
        }
    }
    text
}

/// Whether a secret stands in a text.
pub(crate) fn is_told_in(text: &str, secret: &str) -> bool {
    secret.len() >= SHORTEST && spellings(secret).iter().any(|spelling| text.contains(spelling))
}

/// As it is, in hexadecimal, as part of an address, and in Base64 also in the middle of something longer, as a password is
/// after a user's name.
fn spellings(secret: &str) -> Vec<String> {
    let hex = |upper: bool| -> String {
        secret.bytes().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
    };
    let escaped = |lower: bool| -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let escape = |byte: u8| match (plain(byte), lower) {
            (true, _) => char::from(byte).to_string(),
            (false, true) => format!("%{byte:02x}"),
            (false, false) => format!("%{byte:02X}"),
        };
        secret.bytes().map(escape).collect()
    };
    let mut all = vec![secret.to_owned(), hex(false), hex(true), escaped(false), escaped(true)];
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for before in 0..3 {
            let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.bytes()).collect();
            let encoded = engine.encode(&bytes);
            // A letter that other bytes have a part in is theirs too.
            let from = (before * 8).div_ceil(6);
            let to = bytes.len() * 8 / 6;
            all.extend(
                encoded.get(from..to).filter(|piece| piece.len() >= SHORTEST_PIECE).map(str::to_owned),
            );
        }
    }
    // The longest first, so that none leaves a piece of another.
    all.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn a_secret_is_hidden_in_every_spelling() {
        let secret = "s3cret+token/4711=";
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        for told in [
            secret.to_owned(),
            hex.to_uppercase(),
            hex,
            "s3cret%2Btoken%2F4711%3D".to_owned(),
            "s3cret%2btoken%2f4711%3d".to_owned(),
            STANDARD.encode(secret),
            STANDARD.encode(format!("x-access-token:{secret}")),
            STANDARD.encode(format!("oauth2:{secret}")),
            STANDARD.encode(format!("a:{secret} and more")),
            URL_SAFE_NO_PAD.encode(format!("ab:{secret}")),
        ] {
            let text = hidden(&format!("you sent <{told}>, which is bad"), &[secret]);
            assert!(text.contains("***") && text.ends_with(", which is bad"), "{told}: {text}");
            assert!(is_told_in(&told, secret) && !is_told_in(&text, secret), "{told}: {text}");
        }
        assert_eq!(hidden("nothing of it", &[secret, ""]), "nothing of it");
    }
}
