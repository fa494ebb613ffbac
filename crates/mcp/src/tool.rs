//! A tool as a server lists it, after everything that a model should not have to read was cut away.

use serde_json::Value;

use crate::schema;

/// Most characters of a description.
const DESCRIPTION: usize = 1500;

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
        let (schema, left_out) = schema::plain(&listed.input_schema);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn listed(description: &str, schema: Value) -> Tool {
        let Value::Object(schema) = schema else { panic!() };
        Tool::new(&rmcp::model::Tool::new("t", description.to_owned(), Arc::new(schema)))
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
    }
}
