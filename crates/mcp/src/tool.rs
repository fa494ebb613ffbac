//! A tool as a server lists it, after everything that a model should not have to read was cut away.

use serde_json::{Map, Value, json};

/// Most characters of a description.
const DESCRIPTION: usize = 1500;
/// Most bytes of a schema, and how deep it may be.
const SCHEMA: usize = 16 * 1024;
const DEPTH: usize = 24;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The server's own name for it.
    pub name: String,
    /// What it does, in the server's words.
    pub description: String,
    /// JSON schema of its arguments.
    pub schema: Value,
}

impl Tool {
    pub(crate) fn new(listed: &rmcp::model::Tool) -> Self {
        let title = listed.title.as_deref().filter(|_| listed.description.is_none());
        let description = plain(listed.description.as_deref().or(title).unwrap_or_default());
        let (schema, left_out) = schema(&listed.input_schema);
        let description = match left_out {
            Some(why) => format!("{description}\n({why})").trim().to_owned(),
            None => description,
        };
        Self { name: listed.name.to_string(), description, schema }
    }
}

/// A text without letters that are none, and no longer than anybody reads.
fn plain(text: &str) -> String {
    let shown = |letter: &char| *letter == '\n' || !letter.is_control();
    let mut words: String = text.trim().chars().filter(shown).take(DESCRIPTION).collect();
    if text.trim().chars().count() > DESCRIPTION {
        words.push('…');
    }
    words
}

/// A schema that providers take, and what was left out of it.
fn schema(given: &Map<String, Value>) -> (Value, Option<&'static str>) {
    let mut schema = given.clone();
    for key in ["$schema", "$id", "title"] {
        schema.remove(key);
    }
    schema.insert("type".to_owned(), json!("object"));
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), json!({}));
    }
    let schema = Value::Object(schema);
    if schema.to_string().len() > SCHEMA || depth(&schema, DEPTH).is_none() {
        let bare = json!({"type": "object", "properties": {}, "additionalProperties": true});
        return (bare, Some("The schema of its arguments is too large and is left out."));
    }
    (schema, None)
}

/// How deep a value is; None where it is deeper than the limit.
fn depth(value: &Value, limit: usize) -> Option<usize> {
    let left = limit.checked_sub(1)?;
    let inner: Option<Vec<usize>> = match value {
        Value::Object(object) => object.values().map(|value| depth(value, left)).collect(),
        Value::Array(array) => array.iter().map(|value| depth(value, left)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(Vec::new()),
    };
    inner.map(|inner| 1 + inner.into_iter().max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn listed(description: &str, schema: Value) -> Tool {
        let Value::Object(schema) = schema else { panic!() };
        Tool::new(&rmcp::model::Tool::new("t", description.to_owned(), Arc::new(schema)))
    }

    #[test]
    fn a_schema_is_an_object_whatever_the_server_says() {
        let tool = listed("d", json!({"$schema": "http://x", "title": "T"}));
        assert_eq!(tool.schema, json!({"type": "object", "properties": {}}));
        let whole = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        assert_eq!(listed("d", whole.clone()).schema, whole);
    }

    #[test]
    fn what_is_too_much_is_left_out_and_said() {
        let long = listed(
            &"x\u{1b}".repeat(5000),
            json!({"properties": {"a": {"description": "y".repeat(20_000)}}}),
        );
        assert!(long.description.len() < DESCRIPTION + 100 && !long.description.contains('\u{1b}'));
        assert!(long.description.contains("is left out"));
        assert_eq!(long.schema["additionalProperties"], true);
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"items": deep});
        }
        assert!(listed("d", json!({"properties": {"a": deep}})).description.contains("is left out"));
    }
}
