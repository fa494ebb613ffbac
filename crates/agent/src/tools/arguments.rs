//! From the arguments a model wrote to an invocation: what every tool shares. Forgiving where the meaning is plain
//! (another harness's name for a field, a number in quotes, JSON encoded twice) and helpful where it is not.

use protocol::chat::ToolSpec;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Invocation;

/// A tool's definition.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) fields: &'static [Field],
    /// Names that other harnesses use, with ours. An empty name of ours means that the field says nothing to us.
    pub(super) aliases: &'static [(&'static str, &'static str)],
    /// Makes the invocation of an object whose names and simple types were put right.
    pub(super) read: fn(Value) -> Result<Invocation, String>,
}

/// One argument of a tool.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    pub(super) about: &'static str,
}

/// The type of an argument. Nothing nested: models write flat objects with fewer mistakes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    String,
    Integer,
    Boolean,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
        }
    }
}

/// Whether an argument may be left out.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Need {
    Required,
    Optional,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
        }
    }
}

/// The arguments as the log keeps them: the JSON value, or a JSON string with the raw text when they are broken.
/// Nothing at all stands for no arguments, and JSON inside a JSON string for that JSON.
pub fn recorded_input(arguments: &str) -> Value {
    let mut text = arguments.to_owned();
    loop {
        if text.trim().is_empty() {
            return Value::Object(Map::new());
        }
        match serde_json::from_str(&text) {
            Ok(Value::String(inner)) => text = inner,
            Ok(Value::Null) => return Value::Object(Map::new()),
            Ok(value) => return value,
            Err(_) => return Value::String(text),
        }
    }
}

/// The arguments as the model is sent them again, from what the log keeps.
pub fn replayed_arguments(input: &Value) -> String {
    match input {
        Value::String(raw) => raw.clone(),
        value => value.to_string(),
    }
}

/// Reads an object into a tool's own type.
pub(super) fn typed<T: DeserializeOwned>(object: Value) -> Result<T, String> {
    serde_json::from_value(object).map_err(|error| error.to_string())
}

/// Refuses an argument that must say something and does not.
pub(super) fn said(name: &str, value: String) -> Result<String, String> {
    if value.trim().is_empty() { Err(format!("`{name}` is empty")) } else { Ok(value) }
}

impl Tool {
    pub(super) fn spec(&self) -> ToolSpec {
        let mut properties = Map::new();
        for field in self.fields {
            properties.insert(
                field.name.to_owned(),
                json!({"type": field.kind.name(), "description": field.about}),
            );
        }
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
        ToolSpec {
            name: self.name.to_owned(),
            description: self.about.to_owned(),
            schema: json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }),
        }
    }

    pub(super) fn parse(&self, arguments: &str) -> Result<Invocation, String> {
        let refuse = |problem: String| {
            format!(
                "The arguments of \"{}\" cannot be used: {problem}.\nSend the call again with a JSON object of these fields: {}.",
                self.name,
                self.expected()
            )
        };
        match recorded_input(arguments) {
            Value::Object(object) => (self.read)(Value::Object(self.tidied(object))).map_err(refuse),
            Value::String(raw) => Err(refuse(broken(&raw))),
            other => Err(refuse(format!("they are not a JSON object but `{other}`"))),
        }
    }

    /// The object with our names, without nulls, and with numbers and booleans out of their quotes.
    fn tidied(&self, object: Map<String, Value>) -> Map<String, Value> {
        let mut tidy = Map::new();
        let mut renamed = Vec::new();
        for (name, value) in object {
            if value.is_null() {
                continue;
            }
            match self.aliases.iter().find(|(alias, _)| *alias == name) {
                Some((_, "")) => {}
                Some((_, ours)) => renamed.push((name, *ours, value)),
                None => {
                    tidy.insert(name, value);
                }
            }
        }
        for (alias, ours, value) in renamed {
            // Two values for one field would be a guess, so the second one stays under its name and is refused.
            let name = if tidy.contains_key(ours) { alias } else { ours.to_owned() };
            tidy.insert(name, value);
        }
        for field in self.fields {
            if let Some(value) = tidy.get_mut(field.name) {
                unquote(value, field.kind);
            }
        }
        tidy
    }

    fn expected(&self) -> String {
        let fields: Vec<String> = self
            .fields
            .iter()
            .map(|field| format!("{} ({}, {})", field.name, field.kind.name(), field.need.name()))
            .collect();
        fields.join(", ")
    }

    /// The definition as text in a fixed order, so that a test can show it.
    #[cfg(test)]
    pub(super) fn outline(&self) -> String {
        let mut text = format!("{}: {}", self.name, self.about);
        for field in self.fields {
            let (kind, need) = (field.kind.name(), field.need.name());
            text.push_str(&format!("\n  {} ({kind}, {need}): {}", field.name, field.about));
        }
        text
    }
}

fn unquote(value: &mut Value, kind: Kind) {
    let better = match (kind, &*value) {
        (Kind::Integer, Value::String(text)) => text.trim().parse::<u64>().ok().map(Value::from),
        (Kind::Integer, Value::Number(number)) => number
            .as_f64()
            .filter(|float| !number.is_u64() && float.fract() == 0.0 && (0.0..9e15).contains(float))
            .map(|float| Value::from(float as u64)),
        (Kind::Boolean, Value::String(text)) => {
            text.trim().to_ascii_lowercase().parse::<bool>().ok().map(Value::from)
        }
        _ => None,
    };
    if let Some(better) = better {
        *value = better;
    }
}

/// Says what is wrong with broken JSON and shows the place.
fn broken(raw: &str) -> String {
    let Err(error) = serde_json::from_str::<Value>(raw) else {
        return "they are not a JSON object".to_owned();
    };
    let mut text = format!("they are not valid JSON: {error}");
    let Some(line) = error.line().checked_sub(1).and_then(|index| raw.lines().nth(index)) else {
        return text;
    };
    // The column counts bytes; a few characters on either side are enough to see the mistake.
    let at = line.floor_char_boundary(error.column().saturating_sub(usize::from(!error.is_eof())));
    let before: String = line[..at].chars().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect();
    let after: String = line[at..].chars().take(30).collect();
    text.push_str(&format!(", after `{before}`"));
    if !after.is_empty() {
        text.push_str(&format!(" and before `{after}`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::parse_any as parse;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_json_is_answered_with_the_place_and_the_fields() {
        insta::assert_snapshot!(parse("shell", r#"{"command": "echo "hi""}"#).unwrap_err(), @r#"
        The arguments of "shell" cannot be used: they are not valid JSON: expected `,` or `}` at line 1 column 20, after `{"command": "echo "` and before `hi""}`.
        Send the call again with a JSON object of these fields: command (string, required), timeout_ms (integer, optional), background (boolean, optional).
        "#);
        insta::assert_snapshot!(parse("write", "{\"path\": \"a.txt\", \"content\": \"cut off he").unwrap_err(), @r#"
        The arguments of "write" cannot be used: they are not valid JSON: EOF while parsing a string at line 1 column 40, after `a.txt", "content": "cut off he`.
        Send the call again with a JSON object of these fields: path (string, required), content (string, required).
        "#);
    }

    #[test]
    fn wrong_fields_are_answered_with_the_right_ones() {
        insta::assert_snapshot!(parse("read", r#"{"offset": 3}"#).unwrap_err(), @r#"
        The arguments of "read" cannot be used: missing field `path`.
        Send the call again with a JSON object of these fields: path (string, required), offset (integer, optional), limit (integer, optional), column (integer, optional).
        "#);
        insta::assert_snapshot!(parse("read", r#"{"path": "a", "colour": "red"}"#).unwrap_err(), @r#"
        The arguments of "read" cannot be used: unknown field `colour`, expected one of `path`, `offset`, `limit`, `column`.
        Send the call again with a JSON object of these fields: path (string, required), offset (integer, optional), limit (integer, optional), column (integer, optional).
        "#);
        insta::assert_snapshot!(parse("read", r#"{"path": "a", "file_path": "b"}"#).unwrap_err(), @r#"
        The arguments of "read" cannot be used: unknown field `file_path`, expected one of `path`, `offset`, `limit`, `column`.
        Send the call again with a JSON object of these fields: path (string, required), offset (integer, optional), limit (integer, optional), column (integer, optional).
        "#);
        insta::assert_snapshot!(parse("list", "[1]").unwrap_err(), @r#"
        The arguments of "list" cannot be used: they are not a JSON object but `[1]`.
        Send the call again with a JSON object of these fields: path (string, optional).
        "#);
    }

    #[test]
    fn numbers_and_booleans_may_stand_in_quotes() {
        let read = parse("read", r#"{"path": "a", "offset": "7", "limit": 10.0}"#).unwrap();
        assert_eq!(read, Invocation::Read { path: "a".into(), offset: 7, limit: 10, column: 1 });
        let edit = parse("edit", r#"{"path": "a", "old": "b", "new": "c", "all": "True"}"#).unwrap();
        assert!(matches!(edit, Invocation::Edit { all: true, .. }));
        assert!(parse("read", r#"{"path": "a", "offset": "seven"}"#).is_err());
        assert!(parse("read", r#"{"path": "a", "offset": -1}"#).is_err());
    }

    #[test]
    fn no_arguments_nulls_and_double_encoding_are_understood() {
        for nothing in ["", "  ", "null", "{}", r#"{"path": null}"#, "\"{}\""] {
            assert_eq!(parse("list", nothing).unwrap(), Invocation::List { path: ".".into() }, "{nothing:?}");
        }
        let twice = Value::String(r#"{"command":"ls"}"#.into()).to_string();
        assert!(
            matches!(parse("shell", &twice).unwrap(), Invocation::Shell { command, .. } if command == "ls")
        );
    }

    proptest! {
        /// The log keeps a value and the turn keeps text; going from one to the other must not change either.
        #[test]
        fn replaying_what_was_recorded_changes_nothing_more(text in r#"[{}\[\]":,a0 \\]{0,12}|"[a\\"{}:]{0,10}""#) {
            let once = replayed_arguments(&recorded_input(&text));
            prop_assert_eq!(recorded_input(&once), recorded_input(&text));
            prop_assert_eq!(replayed_arguments(&recorded_input(&once)), once);
        }

        #[test]
        fn no_arguments_make_parsing_panic(text in ".{0,40}") {
            for tool in super::super::TOOLS {
                drop(tool.parse(&text));
            }
        }
    }
}
