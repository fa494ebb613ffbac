//! What a request may have in it, as the forges publish it: names, types, and what must not be missing.

use serde_json::{Map, Value};

use super::asked::Asked;

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Is {
    Text,
    Number,
    Flag,
    Texts,
    Numbers,
    Object,
    OneOf(&'static [&'static str]),
}

impl Is {
    fn fits(self, value: &Value) -> bool {
        let all = |one: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(one));
        match self {
            Self::Text => value.is_string(),
            Self::Number => value.is_u64(),
            Self::Flag => value.is_boolean(),
            Self::Texts => all(Value::is_string),
            Self::Numbers => all(Value::is_u64),
            Self::Object => value.is_object(),
            Self::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        }
    }

    fn fits_text(self, text: &str) -> bool {
        match self {
            Self::Text => !text.is_empty(),
            Self::Number => text.parse::<u64>().is_ok_and(|number| (1..=100).contains(&number)),
            Self::Flag => matches!(text, "true" | "false"),
            Self::OneOf(words) => words.contains(&text),
            Self::Texts | Self::Numbers | Self::Object => false,
        }
    }
}

/// A field of a body or a query.
pub(super) type Field = (&'static str, Is);

/// What is wrong with a request.
#[derive(Debug)]
pub(super) enum Wrong {
    NotJson,
    Missing(&'static str),
    Unknown(String),
    Type(String),
}

/// Reads a body: a JSON object with all of the needed fields, and with no other than these.
pub(super) fn body(
    asked: &Asked<'_>,
    needed: &[Field],
    optional: &[Field],
) -> Result<Map<String, Value>, Wrong> {
    let value: Option<Value> = serde_json::from_slice(asked.body).ok().filter(|_| asked.is_json());
    let Some(Value::Object(object)) = value else { return Err(Wrong::NotJson) };
    for (name, value) in &object {
        let known = needed.iter().chain(optional).find(|(known, _)| known == name);
        match known {
            None => return Err(Wrong::Unknown(name.clone())),
            Some((_, is)) if !is.fits(value) => return Err(Wrong::Type(name.clone())),
            Some(_) => {}
        }
    }
    let empty = |value: &Value| value.as_str().is_some_and(str::is_empty);
    match needed.iter().find(|(name, _)| object.get(*name).is_none_or(empty)) {
        Some((name, _)) => Err(Wrong::Missing(name)),
        None => Ok(object),
    }
}

/// Looks at a query: no other fields than these.
pub(super) fn query(asked: &Asked<'_>, known: &[Field]) -> Result<(), Wrong> {
    for (name, value) in &asked.query {
        match known.iter().find(|(known, _)| known == name) {
            None => return Err(Wrong::Unknown(name.clone())),
            Some((_, is)) if !is.fits_text(value) => return Err(Wrong::Type(name.clone())),
            Some(_) => {}
        }
    }
    Ok(())
}

/// A text of a body that was looked at.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

/// A list of texts of a body that was looked at.
pub(super) fn texts(object: &Map<String, Value>, name: &str) -> Vec<String> {
    let list = object.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
