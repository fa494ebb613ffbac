//! What makes two bodies the same request: what they say, however it is written. The same command over a WebSocket and
//! over HTTP, with or without spaces, or with a default spelled out, is one.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The same for bodies that ask for the same.
pub(super) fn fingerprint(body: &[u8]) -> String {
    let digest = match serde_json::from_slice::<Value>(body) {
        Ok(value) => Sha256::digest(plain(value, true).to_string()),
        // What is no JSON is refused, or empty.
        Err(_) => Sha256::digest(body),
    };
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The members in order. At the top, those that say no more than their absence are left out: every switch of a request
/// is off, and everything that may be missing is, unless it is said.
fn plain(value: Value, top: bool) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> = members
                .into_iter()
                .filter(|(_, value)| !(top && matches!(value, Value::Null | Value::Bool(false))))
                .map(|(name, value)| (name, plain(value, false)))
                .collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(Map::from_iter(members))
        }
        Value::Array(values) => Value::Array(values.into_iter().map(|value| plain(value, false)).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_request_is_written_makes_no_difference_and_what_it_says_does() {
        let same = |one: &str, other: &str| fingerprint(one.as_bytes()) == fingerprint(other.as_bytes());
        assert!(same(r#"{"prompt":"a"}"#, r#" { "now": false, "prompt": "\u0061", "model": null }"#));
        assert!(same(r#"{"a":{"c":1,"b":[{"y":0,"x":0}]}}"#, r#"{"a":{"b":[{"x":0,"y":0}],"c":1}}"#));
        assert!(!same(r#"{"prompt":"a"}"#, r#"{"prompt":"a "}"#));
        assert!(!same(r#"{"prompt":"a"}"#, r#"{"prompt":"a","now":true}"#));
        assert!(!same(r#"{"a":{"b":false}}"#, r#"{"a":{}}"#), "only at the top");
        assert!(!same(r#"{"approved":false}"#, r#"{"approved":true}"#));
        assert!(!same("rubbish", "other rubbish") && same("", ""));
    }
}
