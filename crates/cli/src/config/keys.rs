//! Keys that were written where the name of one belongs: they are refused, and not shown.

use anyhow::bail;

/// What the keys and tokens of well-known providers and forges begin with.
const BEGINNINGS: [&str; 14] = [
    "sk-",
    "sk_",
    "AIza",
    "AKIA",
    "xai-",
    "gsk_",
    "hf_",
    "pplx-",
    "nvapi-",
    "ya29.",
    "eyJ",
    "ghp_",
    "github_pat_",
    "glpat-",
];

/// From so many letters and digits on without anything between them it is no name that people give.
const LONG: usize = 24;

/// Whether this is rather a key than the name of something.
pub(super) fn looks_like_key(text: &str) -> bool {
    let jumbled = text.chars().all(|letter| letter.is_ascii_alphanumeric())
        && text.contains(|letter: char| letter.is_ascii_digit());
    (jumbled && text.len() >= LONG) || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// Refuses what cannot be the name of a variable, without showing it. `setting` is where it stands.
pub(super) fn check_variable(setting: &str, name: &str) -> anyhow::Result<()> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let first = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    if first && name.chars().all(good) && !looks_like_key(name) {
        return Ok(());
    }
    bail!(
        "{setting} is the name of a variable (letters, digits and '_', without '$'), never what is in it\n  \
         put the value into a variable of the server's environment, and write that variable's name there"
    )
}

/// Refuses what is rather a key than the name of a secret, without showing it. `setting` is where it stands.
pub(super) fn check_secret(setting: &str, name: &str) -> anyhow::Result<()> {
    if !looks_like_key(name) {
        return Ok(());
    }
    bail!(
        "{setting} is the name of a secret, and what stands there looks like the key itself\n  \
         keep the key with `slipway secret set NAME`, which reads it from standard input, and write that NAME there"
    )
}

/// A message without words that look like keys.
pub(super) fn covered(message: &str) -> String {
    let in_word = |letter: char| letter.is_ascii_alphanumeric() || "-_.+/=".contains(letter);
    let pieces = message.split_inclusive(|letter| !in_word(letter));
    let cover = |piece: &str| {
        let end = piece.trim_end_matches(|letter| !in_word(letter)).len();
        let (word, rest) = piece.split_at(end);
        if looks_like_key(word) { format!("…{rest}") } else { piece.to_owned() }
    };
    pieces.map(cover).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_from_a_name_and_never_shown() {
        let long = "a1b2c3d4".repeat(4);
        for key in
            ["sk-ant-api03-AAAA/BBBB", "$MYKEY", "", "AIzaSyAAAA", "my key", "1KEY", "sk_live_1", &long]
        {
            let error = format!("{:#}", check_variable("[models.a] api_key_env", key).unwrap_err());
            assert!(error.starts_with("[models.a] api_key_env is the name"), "{error}");
            assert!(key.is_empty() || !error.contains(key), "{error}");
        }
        for name in ["OPENAI_API_KEY", "_x", "key2", "THE_COMPATIBLE_SERVER_OF_THE_SECOND_TEAM_API_KEY_2"] {
            check_variable("", name).unwrap();
        }
        assert!(check_secret("x", "sk-inline-secret-123").is_err() && check_secret("x", &long).is_err());
        for name in ["MAIN_KEY", "main.key-2", "skipper"] {
            check_secret("x", name).unwrap();
        }
    }

    #[test]
    fn a_message_loses_its_keys_and_nothing_else() {
        assert_eq!(
            covered("unknown field `sk-ab/c+d=`, expected `url`"),
            "unknown field `…`, expected `url`"
        );
        let plain = "line 3, column 1, port: unknown field `port`, expected one of `a`, `b-c`";
        assert_eq!(covered(plain), plain);
        assert_eq!(covered("sk-1\nkey = \"xai-1\" é"), "…\nkey = \"…\" é");
    }
}
