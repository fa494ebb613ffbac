//! The part of JSON schema that Gemini takes. What it refuses is left out, which makes a schema wider, never narrower:
//! arguments are checked again by the tool that gets them.

use serde_json::{Map, Value, json};

/// Keywords that go over as they are.
const PLAIN: &[&str] = &[
    "description",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "nullable",
    "pattern",
    "title",
];

/// Formats that are known; any other is refused.
const FORMATS: &[&str] = &["date-time", "double", "enum", "float", "int32", "int64"];

/// The schema of a tool's arguments; none when it has none, since an object without properties is refused.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    schema.get("properties")?.as_object().filter(|properties| !properties.is_empty())?;
    Some(reduced(schema))
}

/// The schema with only what is taken.
pub(super) fn reduced(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else {
        // `true` allows everything; a type is wanted nevertheless.
        return json!({"type": "string"});
    };
    let mut kept = Map::new();
    for (keyword, value) in schema {
        match keyword.as_str() {
            "type" => set_type(&mut kept, value),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties: Map<_, _> =
                    properties.map(|(name, property)| (name.clone(), reduced(property))).collect();
                if !properties.is_empty() {
                    kept.insert("properties".to_owned(), Value::Object(properties));
                }
            }
            "required" => {
                let known = |name: &Value| {
                    let properties = schema.get("properties").and_then(Value::as_object);
                    name.as_str().is_some_and(|name| properties.is_some_and(|known| known.contains_key(name)))
                };
                let names: Vec<Value> =
                    value.as_array().into_iter().flatten().filter(|name| known(name)).cloned().collect();
                if !names.is_empty() {
                    kept.insert("required".to_owned(), Value::Array(names));
                }
            }
            "items" => drop(kept.insert("items".to_owned(), reduced(value))),
            "anyOf" | "oneOf" => {
                let choices: Vec<Value> = value.as_array().into_iter().flatten().map(reduced).collect();
                if !choices.is_empty() {
                    kept.insert("anyOf".to_owned(), Value::Array(choices));
                }
            }
            // Only texts can be enumerated.
            "enum" if value.as_array().is_some_and(|list| list.iter().all(Value::is_string)) => {
                kept.insert("enum".to_owned(), value.clone());
            }
            "const" if value.is_string() => drop(kept.insert("enum".to_owned(), json!([value]))),
            "format" if value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                kept.insert("format".to_owned(), value.clone());
            }
            plain if PLAIN.contains(&plain) => drop(kept.insert(plain.to_owned(), value.clone())),
            _ => {}
        }
    }
    if kept.contains_key("enum") && !kept.contains_key("type") {
        kept.insert("type".to_owned(), json!("string"));
    }
    Value::Object(kept)
}

/// One type, and `nullable` where JSON schema lists `null` beside it.
fn set_type(kept: &mut Map<String, Value>, value: &Value) {
    let Some(list) = value.as_array() else {
        kept.insert("type".to_owned(), value.clone());
        return;
    };
    let mut types: Vec<&Value> = list.iter().filter(|name| *name != "null").collect();
    if types.len() < list.len() {
        kept.insert("nullable".to_owned(), json!(true));
    }
    match types.len() {
        0 => {}
        1 => drop(types.pop().map(|name| kept.insert("type".to_owned(), name.clone()))),
        _ => {
            let choices: Vec<Value> = types.iter().map(|name| json!({"type": name})).collect();
            kept.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gemini_refuses_is_left_out() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "format": "uri", "minLength": 1},
                "line": {"type": ["integer", "null"], "format": "int64", "default": 1, "exclusiveMinimum": 0},
                "mode": {"const": "replace"},
                "level": {"type": "integer", "enum": [1, 2]},
                "edits": {"type": "array", "items": {"type": "object", "additionalProperties": false,
                    "properties": {"old": {"type": "string"}}, "required": ["old", "gone"]}},
                "any": {"oneOf": [{"type": "string"}, {"type": ["string", "number"]}]},
                "additionalProperties": {"type": "boolean"},
            },
            "required": ["path"],
        });
        assert_eq!(
            parameters(&schema),
            Some(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "line": {"type": "integer", "nullable": true, "format": "int64"},
                    "mode": {"type": "string", "enum": ["replace"]},
                    "level": {"type": "integer"},
                    "edits": {"type": "array", "items": {"type": "object",
                        "properties": {"old": {"type": "string"}}, "required": ["old"]}},
                    "any": {"anyOf": [{"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "number"}]}]},
                    "additionalProperties": {"type": "boolean"},
                },
                "required": ["path"],
            }))
        );
        assert_eq!(parameters(&json!({"type": "object", "properties": {}})), None);
        assert_eq!(parameters(&json!({"type": "object"})), None);
    }
}
