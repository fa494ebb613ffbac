//! OpenRouter's details of reasoning: pieces of what many makers of models give, to be kept as they came and sent back
//! whole, or the maker refuses the next step.

use serde_json::Value;

/// Fields that come in pieces.
const GROWING: &[&str] = &["text", "summary", "data"];

/// The details so far.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Value>);

impl Details {
    /// Takes the next pieces and gives the text that they add.
    pub(super) fn push(&mut self, pieces: &[Value]) -> String {
        let mut said = String::new();
        for piece in pieces.iter().filter(|piece| piece.is_object()) {
            for name in ["text", "summary"] {
                said.push_str(piece.get(name).and_then(Value::as_str).unwrap_or_default());
            }
            let same = |known: &Value| {
                ["type", "index"].iter().all(|name| known.get(name) == piece.get(name))
                    && known.get("index").is_some_and(|index| !index.is_null())
            };
            match self.0.last_mut().filter(|known| same(known)) {
                Some(known) => grow(known, piece),
                None => self.0.push(piece.clone()),
            }
        }
        said
    }

    /// All of them; none when there were none.
    pub(super) fn finish(self) -> Option<Value> {
        if self.0.is_empty() { None } else { Some(Value::Array(self.0)) }
    }
}

/// Adds a piece to what it continues.
fn grow(known: &mut Value, piece: &Value) {
    for (name, value) in piece.as_object().into_iter().flatten() {
        let earlier = known.get(name).and_then(Value::as_str);
        known[name.as_str()] = match (earlier, value) {
            (Some(earlier), Value::String(more)) if GROWING.contains(&name.as_str()) => {
                Value::from(format!("{earlier}{more}"))
            }
            (_, Value::Null) => continue,
            (_, value) => value.clone(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_become_what_they_are_pieces_of() {
        let mut details = Details::default();
        let text =
            |text: &str| json!({"type": "reasoning.text", "index": 0, "text": text, "signature": null});
        assert_eq!(details.push(&[text("One")]), "One");
        assert_eq!(details.push(&[text(" two.")]), " two.");
        let signed = json!({"type": "reasoning.text", "index": 0, "text": "", "signature": "SIG"});
        let hidden = json!({"type": "reasoning.encrypted", "index": 1, "data": "DATA", "id": "rs_1"});
        assert_eq!(details.push(&[signed, hidden.clone()]), "");
        let whole = json!({"type": "reasoning.text", "index": 0, "text": "One two.", "signature": "SIG"});
        assert_eq!(details.finish(), Some(json!([whole, hidden])));
        assert_eq!(Details::default().finish(), None);
    }
}
