//! JSON as models write it: words around it, line breaks in strings, a comma too many, single quotes, other names for the
//! same fields.

use protocol::EditFormat;
use serde_json::{Map, Value};

use crate::tools;

/// What stands between a brace and its counterpart.
pub(crate) struct Piece<'a> {
    /// The text of it, to the end of all text where the counterpart is missing.
    pub(crate) whole: &'a str,
    /// The object, if it is one.
    pub(crate) object: Option<Map<String, Value>>,
    /// What comes after it.
    pub(crate) rest: &'a str,
}

/// The first piece of a text.
pub(crate) fn piece(text: &str) -> Option<Piece<'_>> {
    let text = &text[text.find('{')?..];
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    if let Some(Ok(object)) = values.next() {
        let (whole, rest) = text.split_at(values.byte_offset());
        return Some(Piece { whole, object: Some(object), rest });
    }
    let (repaired, end) = repaired(text);
    let (whole, rest) = text.split_at(end);
    Some(Piece { whole, object: serde_json::from_str(&repaired).ok(), rest })
}

/// An answer without the thoughts that some models write before it. An object may have such a tag in a string.
pub(crate) fn without_thoughts(text: &str) -> &str {
    let text = text.trim();
    if text.starts_with(['{', '[']) {
        return text;
    }
    let ends = ["</think>", "</thinking>"].iter().find_map(|end| text.split_once(end));
    ends.map_or(text, |(_, answer)| answer.trim_start())
}

/// Marks of thoughts that servers leave in the text.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// What a model says beside its thoughts; None where it says nothing else, or never came to the end of them.
pub fn beside_thoughts(text: &str) -> Option<&str> {
    let mut text = text.trim();
    while let Some((inner, end)) =
        THOUGHTS.iter().find_map(|(begin, end)| Some((text.strip_prefix(begin)?, end)))
    {
        text = inner.split_once(end)?.1.trim_start();
    }
    // Where the request ends with the first mark, the answer has only the second one.
    let ended = THOUGHTS.iter().find_map(|(begin, end)| {
        let (thoughts, said) = text.split_once(end)?;
        let ends_line = said.is_empty() || said.starts_with(['\n', '\r']);
        (ends_line && !thoughts.contains(begin)).then(|| said.trim_start())
    });
    Some(ended.unwrap_or(text)).filter(|said| !said.is_empty())
}

/// A call, whatever its fields are called.
pub(crate) struct Spelled {
    pub(crate) tool: String,
    /// An object, or a string where they are broken.
    pub(crate) arguments: Value,
    /// Whether they were in an object of their own.
    pub(crate) nested: bool,
}

/// Reads an object as calls: one, or those of a list in it.
pub(crate) fn all_spelled(mut object: Map<String, Value>) -> Vec<Spelled> {
    if let Some(Value::Array(calls)) = object.get_mut("tool_calls") {
        let calls = std::mem::take(calls).into_iter();
        return calls
            .filter_map(|call| if let Value::Object(call) = call { spelled(call) } else { None })
            .collect();
    }
    spelled(object).into_iter().collect()
}

/// Reads an object as a call.
pub(crate) fn spelled(mut object: Map<String, Value>) -> Option<Spelled> {
    for wrapper in ["call", "tool_call", "function", "function_call"] {
        if let Some(Value::Object(inner)) = object.get_mut(wrapper) {
            return spelled(std::mem::take(inner));
        }
    }
    if let Some(call) = under_its_name(&object) {
        return Some(call);
    }
    // A check is chosen by `name` as well, so that is the last to be the tool's.
    let names = ["call", "tool", "tool_name", "function", "action", "name"];
    let name = names.into_iter().find(|name| matches!(object.get(*name), Some(Value::String(_))))?;
    let Some(Value::String(tool)) = object.remove(name) else { return None };
    let nested = ["arguments", "parameters", "args", "params", "action_input", "tool_input", "input"]
        .into_iter()
        .find_map(|name| arguments(name, object.get(name)?));
    match nested {
        Some(arguments) => Some(Spelled { tool, arguments, nested: true }),
        None => Some(Spelled { tool, arguments: Value::Object(object), nested: false }),
    }
}

/// `{"read": {"path": "a"}}`, where these are arguments of that tool: its name is a word that other objects have as well.
fn under_its_name(object: &Map<String, Value>) -> Option<Spelled> {
    let (tool, arguments) = object.iter().next().filter(|_| object.len() == 1)?;
    let fits = tools::exists(tool)
        && arguments.as_object().is_some_and(|arguments| !arguments.is_empty())
        && tools::parse(EditFormat::default(), tool, &arguments.to_string()).is_ok();
    fits.then(|| Spelled { tool: tool.clone(), arguments: arguments.clone(), nested: true })
}

fn arguments(name: &str, value: &Value) -> Option<Value> {
    let certain = ["arguments", "parameters"].contains(&name);
    match value {
        Value::Object(_) => Some(value.clone()),
        Value::Null if certain => Some(Value::Object(Map::new())),
        // JSON in a string is how most providers send arguments.
        Value::String(text) => match piece(text).and_then(|piece| piece.object) {
            Some(object) if text.trim_start().starts_with('{') => Some(Value::Object(object)),
            _ => certain.then(|| value.clone()),
        },
        _ => None,
    }
}

/// The text up to the counterpart of its first brace as JSON, and where that ends.
fn repaired(text: &str) -> (String, usize) {
    let mut json = String::new();
    let mut depth = 0_usize;
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => match letters.next() {
                Some((_, known)) if "\"\\/bfnrtu".contains(known) => json.extend(['\\', known]),
                Some((_, '\'')) => json.push('\''),
                // No escape at all, as in a regular expression.
                Some((_, other)) => {
                    json.push_str("\\\\");
                    quoted(other, &mut json);
                }
                None => {}
            },
            (Some(mark), _) if letter == mark => {
                quote = None;
                json.push('"');
            }
            (Some(_), _) => quoted(letter, &mut json),
            (None, '"' | '\'') => {
                quote = Some(letter);
                json.push('"');
            }
            (None, '{' | '[') => {
                depth += 1;
                json.push(letter);
            }
            (None, '}' | ']') => {
                if let Some(kept) = json.trim_end().strip_suffix(',').map(str::len) {
                    json.truncate(kept);
                }
                json.push(letter);
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (json, at + letter.len_utf8());
                }
            }
            // Python's words.
            (None, 'T') => json.push('t'),
            (None, 'F') => json.push('f'),
            (None, _) => json.push(letter),
        }
    }
    (json, text.len())
}

/// A letter as it stands in a string of JSON.
fn quoted(letter: char, json: &mut String) {
    match letter {
        '"' => json.push_str("\\\""),
        '\n' => json.push_str("\\n"),
        '\r' => json.push_str("\\r"),
        '\t' => json.push_str("\\t"),
        control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
        letter => json.push(letter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(text: &str) -> Option<Value> {
        piece(text)?.object.map(Value::Object)
    }

    #[test]
    fn what_is_meant_is_read() {
        for (text, meant) in [
            ("{\"a\": \"x\ny\t\"}", json!({"a": "x\ny\t"})),
            (r#"{"a": [1, 2,], }"#, json!({"a": [1, 2]})),
            (r#"{'a': 'say "x"', 'b': True}"#, json!({"a": "say \"x\"", "b": true})),
            (r#"{'a': 'it\'s'}"#, json!({"a": "it's"})),
            (r#"{"a": "\d+\n",}"#, json!({"a": "\\d+\n"})),
            (r#"so: {"a": "}{", "b": {}} and {"#, json!({"a": "}{", "b": {}})),
            ("{\"a\": \"é\n\"}é", json!({"a": "é\n"})),
        ] {
            assert_eq!(object(text), Some(meant), "{text}");
        }
    }

    #[test]
    fn thoughts_are_not_what_a_model_says() {
        for (text, said) in [
            ("<think>\nOkay, …\n</think>\n\nDo the thing", Some("Do the thing")),
            (" <thinking>a</thinking><think>b</think>\nDo it\n", Some("Do it")),
            ("so it is.</think>\n\nDo it", Some("Do it")),
            ("<think>\nOkay, it never ends", None),
            ("<think>all</think>", None),
            ("all\n</think>", None),
            (" ", None),
            ("Reads `</think>` now.\nAnd more.", Some("Reads `</think>` now.\nAnd more.")),
            ("It keeps <think>x</think>\nin answers", Some("It keeps <think>x</think>\nin answers")),
        ] {
            assert_eq!(beside_thoughts(text), said, "{text}");
        }
    }

    #[test]
    fn what_could_mean_anything_is_not() {
        for text in [r#"{"a": "x"#, r#"{"a": "say "x" here"}"#, "{x}", "{", "none", "{'a': 'it's'}"] {
            assert_eq!(object(text), None, "{text}");
        }
        let found = piece("{x} then {\"a\": 1}").unwrap();
        assert_eq!((found.whole, found.rest), ("{x}", " then {\"a\": 1}"));
    }

    #[test]
    fn arguments_are_found_under_every_usual_name() {
        let read = |value: Value| {
            let Value::Object(object) = value else { panic!("{value}") };
            spelled(object).map(|call| (call.tool, call.arguments.to_string(), call.nested))
        };
        let expected = |nested| Some(("read".to_owned(), r#"{"path":"a"}"#.to_owned(), nested));
        for nested in [
            json!({"name": "read", "arguments": {"path": "a"}}),
            json!({"type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}),
            json!({"tool": "read", "parameters": {"path": "a"}}),
            json!({"action": "read", "action_input": {"path": "a"}}),
        ] {
            assert_eq!(read(nested.clone()), expected(true), "{nested}");
        }
        assert_eq!(read(json!({"call": "read", "path": "a"})), expected(false));
        let patch = read(json!({"tool": "patch", "input": "*** {}"}));
        assert_eq!(patch, Some(("patch".into(), r#"{"input":"*** {}"}"#.into(), false)));
        let broken = read(json!({"name": "read", "arguments": "{\"path"}));
        assert_eq!(broken, Some(("read".into(), r#""{\"path""#.into(), true)), "it stays what it is");
        assert_eq!(read(json!({"read": {"path": "a"}})), expected(true));
        for other in
            [json!({"path": "a"}), json!({"read": {"pages": 3}}), json!({"read": {"path": "a"}, "b": 1})]
        {
            assert_eq!(read(other.clone()), None, "{other}");
        }
    }
}
