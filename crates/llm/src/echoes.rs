//! What of a model's settings must not be shown, in the spellings in which a server may repeat it: as it is, in JSON, in a
//! URL, in Base64, and as the header that an address with a password becomes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;

/// Shorter texts are no secrets, and stand in words by chance.
const SHORTEST: usize = 6;

/// The spellings of every secret, the longest first, so that none leaves the end of another behind.
pub(crate) fn of<'a>(
    key: Option<String>,
    headers: impl Iterator<Item = &'a String>,
    base_url: &str,
) -> Vec<String> {
    let mut secrets: Vec<String> = key.into_iter().collect();
    for value in headers {
        // Without the word for its kind, such as Bearer.
        secrets.extend(value.split_once(' ').map(|(_, rest)| rest.to_owned()));
        secrets.push(value.clone());
    }
    let (place, query) = base_url.trim().split_once('?').unwrap_or((base_url.trim(), ""));
    for (_, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        secrets.extend([value.to_owned(), decoded(value), decoded(&value.replace('+', " "))]);
    }
    secrets.extend(of_user(place));
    let mut spelled: Vec<String> = secrets
        .iter()
        .filter(|secret| secret.len() >= SHORTEST)
        .flat_map(|secret| {
            let engines = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
            engines.map(|engine| engine.encode(secret)).into_iter().chain([secret.clone()])
        })
        .flat_map(|secret| {
            let secret = &secret;
            let [upper, lower] = [|byte| format!("%{byte:02X}"), |byte| format!("%{byte:02x}")]
                .map(|spell: fn(u8) -> String| encoded(secret, spell));
            let quoted = in_json(secret);
            // Some JSON has a backslash before each slash.
            let slashed = quoted.replace('/', "\\/");
            let again = [in_json(&quoted), in_json(&slashed)];
            [secret.clone(), quoted, slashed, upper, lower].into_iter().chain(again)
        })
        .collect();
    spelled.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    spelled.dedup();
    spelled
}

/// The password in an address, or the name where it stands alone, and the header that they become.
fn of_user(place: &str) -> Vec<String> {
    let rest = place.split_once("://").map_or(place, |(_, rest)| rest);
    let host = rest.split(['/', '#']).next().unwrap_or_default();
    let Some((user, _)) = host.rsplit_once('@') else { return Vec::new() };
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let secret = if password.is_empty() { name } else { password };
    // The end of it is padding at most, so that this is found with and without.
    let header = STANDARD_NO_PAD.encode(format!("{}:{}", decoded(name), decoded(password)));
    vec![secret.to_owned(), decoded(secret), header]
}

/// The text as it stands in a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn encoded(text: &str, spell: fn(u8) -> String) -> String {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if stays(byte) { char::from(byte).to_string() } else { spell(byte) }).collect()
}

/// The text without the escapes of URLs.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, secrets: &[String]) -> String {
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }

    #[test]
    fn a_secret_is_known_however_a_server_spells_it() {
        let key = "sk-\"quoted\"-\\back/0123+4=".to_owned();
        let header = "Bearer team-987654".to_owned();
        let base = "https://user:hunter2%2Bhunter2@example.com/v1?sig=ab%2Bcd%3Def&api-version=2024-10-21";
        let secrets = of(Some(key.clone()), [&header].into_iter(), base);
        for (said, left) in [
            (key.clone(), "…"),
            (serde_json::json!({"x": key}).to_string(), "{\"x\":\"…\"}"),
            ("sk-%22quoted%22-%5Cback%2F0123%2B4%3D".into(), "…"),
            ("sk-%22quoted%22-%5cback%2f0123%2b4%3d".into(), "…"),
            ("authorization: Bearer team-987654".into(), "authorization: …"),
            ("token team-987654 is unknown".into(), "token … is unknown"),
            ("Basic dXNlcjpodW50ZXIyK2h1bnRlcjI=".into(), "Basic …="),
            ("hunter2+hunter2 hunter2%2Bhunter2".into(), "… …"),
            ("sig=ab+cd=ef or ab%2Bcd%3Def".into(), "sig=… or …"),
        ] {
            assert_eq!(shown(&said, &secrets), left, "{secrets:?}");
        }
        let alone = of(None, [].into_iter(), "http://sk-alone-in-front@localhost:1/v1");
        assert_eq!(shown("you are sk-alone-in-front", &alone), "you are …");
        assert_eq!(of(None, [].into_iter(), "http://localhost:1/v1?a=b"), Vec::<String>::new());
    }

    #[test]
    fn a_secret_in_base64_and_with_escaped_slashes_is_known() {
        let key = "sk/???0123456789abcdef";
        let secrets = of(Some(key.to_owned()), [].into_iter(), "");
        let [standard, safe] = [STANDARD.encode(key), URL_SAFE.encode(key)];
        assert!(standard.ends_with("==") && standard.contains('/') && standard != safe, "{standard}");
        for said in [&standard, &safe, standard.trim_end_matches('='), safe.trim_end_matches('=')] {
            assert_eq!(shown(&format!("key {said}, bad"), &secrets), "key …, bad", "{secrets:?}");
        }
        assert_eq!(shown(&standard.replace('/', "\\/"), &secrets), "…");
        assert_eq!(shown(r"sk\/???0123456789abcdef", &secrets), "…");
        assert_eq!(shown(r"sk\\/???0123456789abcdef", &secrets), "…");
    }

    #[test]
    fn a_secret_that_begins_like_another_goes_whole() {
        let secrets = of(Some("sk-123456".into()), [&"sk-123456-and-more".to_owned()].into_iter(), "");
        assert_eq!(shown("sk-123456-and-more", &secrets), "…");
    }
}
