//! The arguments of a tool: described to clients as a flat JSON Schema, and read strictly.

use protocol::{Code, Problem};
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::scope::Scope;

/// One argument.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    pub(super) about: &'static str,
}

/// What an argument is.
pub(super) enum Kind {
    Text,
    Flag,
    /// A whole number between two, and what it is when absent.
    Number {
        least: u64,
        most: u64,
        default: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of an environment.
    Environment,
}

/// Whether an argument must be given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
    /// Of this and others one must be given; where only some environments are offered, it is this one.
    OneOf,
    /// It is not offered where only some environments are.
    Unrestricted,
}

impl Field {
    pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, need: Need::Required, about }
    }

    pub(super) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, need: Need::Optional, about }
    }

    /// The session that nearly every tool is about.
    pub(super) const fn session() -> Self {
        Self::required("session", Kind::Text, "Id of the session, such as ses_01k…")
    }

    fn describe(&self, scope: &Scope) -> Value {
        let about = self.about;
        match self.kind {
            Kind::Text => json!({"type": "string", "description": about}),
            Kind::Flag => json!({"type": "boolean", "description": about, "default": false}),
            Kind::Number { least, most, default } => json!({
                "type": "integer", "description": about, "minimum": least, "maximum": most, "default": default
            }),
            Kind::Choice(words) => json!({"type": "string", "description": about, "enum": words}),
            Kind::Environment => match scope.environments() {
                Some(names) => json!({"type": "string", "description": about, "enum": names}),
                None => json!({"type": "string", "description": about}),
            },
        }
    }
}

/// The schema of a tool's arguments.
pub(super) fn schema(fields: &[Field], scope: &Scope) -> JsonObject {
    let restricted = scope.environments().is_some();
    let offered: Vec<&Field> =
        fields.iter().filter(|field| !(restricted && field.need == Need::Unrestricted)).collect();
    let required: Vec<&str> = offered
        .iter()
        .filter(|field| match field.need {
            Need::Required => true,
            Need::OneOf => restricted,
            Need::Optional | Need::Unrestricted => false,
        })
        .map(|field| field.name)
        .collect();
    let properties: JsonObject =
        offered.iter().map(|field| (field.name.to_owned(), field.describe(scope))).collect();
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(required));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

/// Reads arguments. What is missing, unknown or of the wrong kind is named.
pub(super) fn read<T: DeserializeOwned>(arguments: JsonObject) -> anyhow::Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Problem::new(Code::BadRequest, format!("wrong arguments: {error}"))
            .hint("the tool's inputSchema says what it takes")
            .into()
    })
}

/// A number within its bounds; what it is when absent.
pub(super) fn bounded(given: Option<u64>, field: &Field) -> anyhow::Result<u64> {
    let Kind::Number { least, most, default } = field.kind else { return Ok(given.unwrap_or_default()) };
    let number = given.unwrap_or(default);
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    let title = format!("{} is between {least} and {most}, and not {number}", field.name);
    Err(Problem::new(Code::BadRequest, title).into())
}
