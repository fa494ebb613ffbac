//! A request as the server understood it: the same conversation in the same words, whichever format it came in. The
//! checks that the formats share are here too.

use protocol::chat::{Message, ToolResult, ToolSpec};
use serde_json::{Map, Value};

/// The language of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1/models/MODEL:streamGenerateContent?alt=sse`.
    Gemini,
}

/// One request that a server got.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its language.
    pub format: Format,
    /// Its headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The model that was asked for.
    pub model: String,
    /// Instructions.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the answer, if a limit was given.
    pub max_output_tokens: Option<u64>,
    /// Whether the answer should be streamed.
    pub stream: bool,
    /// Whether a streamed answer should end with its usage; only chat completions must ask for it.
    pub stream_usage: bool,
    /// The body; a string when it was no JSON.
    pub json: Value,
    /// The body as it came, byte for byte.
    pub body: Vec<u8>,
}

impl Request {
    /// A request of which nothing is understood yet.
    pub(super) fn unread(format: Format, headers: Vec<(String, String)>, json: Value) -> Self {
        Self {
            format,
            headers,
            model: String::new(),
            system: String::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            max_output_tokens: None,
            stream: false,
            stream_usage: format != Format::Chat,
            json,
            body: Vec::new(),
        }
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The results with which the conversation ends; none when something else was said after them.
    pub fn results(&self) -> &[ToolResult] {
        match self.messages.last() {
            Some(Message::Tools { results }) => results,
            Some(Message::User { .. } | Message::Assistant { .. }) | None => &[],
        }
    }

    /// What a person or the platform said last.
    pub fn last_user(&self) -> Option<&str> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::User { text, .. } => Some(text.as_str()),
            Message::Assistant { .. } | Message::Tools { .. } => None,
        })
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }
}

/// What a request does wrong, in a sentence.
pub(super) type Violation = String;

/// A JSON object with its place in the request, for messages that say where.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    place: &'a str,
}

impl<'a> Object<'a> {
    pub(super) fn new(value: &'a Value, place: &'a str) -> Result<Self, Violation> {
        let map = value.as_object().ok_or_else(|| format!("{place} must be an object"))?;
        Ok(Self { map, place })
    }

    /// Refuses fields that the format does not have.
    pub(super) fn only(self, known: &[&str]) -> Result<Self, Violation> {
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("{} has the unknown field {key:?}", self.place)),
            None => Ok(self),
        }
    }

    /// A field that is there and not null.
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, name: &str) -> Result<&'a str, Violation> {
        let value = self.get(name).ok_or_else(|| format!("{} lacks {name}", self.place))?;
        value.as_str().ok_or_else(|| format!("{name} of {} must be a string", self.place))
    }

    pub(super) fn list(self, name: &str) -> Result<&'a [Value], Violation> {
        let value = self.get(name).ok_or_else(|| format!("{} lacks {name}", self.place))?;
        value
            .as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| format!("{name} of {} must be an array", self.place))
    }

    /// A list that may be left out.
    pub(super) fn optional_list(self, name: &str) -> Result<&'a [Value], Violation> {
        if self.get(name).is_some() { self.list(name) } else { Ok(&[]) }
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, Violation> {
        match self.get(name) {
            None => Ok(false),
            Some(value) => {
                value.as_bool().ok_or_else(|| format!("{name} of {} must be a boolean", self.place))
            }
        }
    }

    /// A number above zero, if given.
    pub(super) fn limit(self, name: &str) -> Result<Option<u64>, Violation> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(limit) if limit > 0 => Ok(Some(limit)),
                Some(_) | None => Err(format!("{name} of {} must be a number above zero", self.place)),
            },
        }
    }
}

/// A tool that all formats would take.
pub(super) fn tool(name: &str, description: Option<&Value>, schema: &Value) -> Result<ToolSpec, Violation> {
    check_name(name)?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!("the schema of tool {name:?} must have the type \"object\""));
    }
    for keyword in ["allOf", "anyOf", "enum", "not", "oneOf"] {
        if schema.get(keyword).is_some() {
            return Err(format!("the schema of tool {name:?} must not have {keyword:?} at its top"));
        }
    }
    check_schema(schema, schema).map_err(|what| format!("the schema of tool {name:?}: {what}"))?;
    let description = match description {
        None => String::new(),
        Some(text) => text
            .as_str()
            .ok_or_else(|| format!("the description of tool {name:?} must be a string"))?
            .to_owned(),
    };
    Ok(ToolSpec { name: name.to_owned(), description, schema: schema.clone() })
}

/// Refuses what no server takes in the schema of a tool, at any depth.
fn check_schema(schema: &Value, whole: &Value) -> Result<(), Violation> {
    const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(_) => return Ok(()),
        other => return Err(format!("{other} is no schema")),
    };
    let inside = |value: &Value| check_schema(value, whole);
    for (keyword, value) in keywords {
        let is_text = |value: &Value| value.is_string();
        let good = match keyword.as_str() {
            "type" => {
                let known = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
                known(value)
                    || value.as_array().is_some_and(|names| !names.is_empty() && names.iter().all(known))
            }
            "properties" | "$defs" | "definitions" => {
                let properties = value.as_object().ok_or_else(|| format!("{keyword} is no object"))?;
                for (name, property) in properties {
                    if name.len() > 64 || !name.chars().all(|c| is_word(&c.to_string()) || c == '.') {
                        return Err(format!("{name:?} is no name of a property"));
                    }
                    inside(property)?;
                }
                true
            }
            "items" | "not" => inside(value).map(|()| true)?,
            "additionalProperties" => value.is_boolean() || inside(value).map(|()| true)?,
            "allOf" | "anyOf" | "oneOf" => {
                let schemas = value.as_array().filter(|schemas| !schemas.is_empty());
                schemas
                    .ok_or_else(|| format!("{keyword} is no list of schemas"))?
                    .iter()
                    .try_for_each(inside)?;
                true
            }
            "required" => value.as_array().is_some_and(|names| names.iter().all(is_text)),
            "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
            "description" | "format" | "pattern" | "title" => value.is_string(),
            "$ref" => {
                let place = value.as_str().and_then(|place| place.strip_prefix('#'));
                place.is_some_and(|place| whole.pointer(place).is_some())
            }
            "exclusiveMaximum" | "exclusiveMinimum" | "maximum" | "minimum" | "multipleOf" => {
                value.is_number()
            }
            "maxItems" | "maxLength" | "minItems" | "minLength" => value.is_u64(),
            _ => true,
        };
        if !good {
            return Err(format!("{keyword} cannot be {value}"));
        }
    }
    let is_list = |name: &Value| name == "array";
    let lists = keywords.get("type").is_some_and(|names| {
        is_list(names) || names.as_array().is_some_and(|names| names.iter().any(is_list))
    });
    if lists && !keywords.contains_key("items") {
        return Err("an array has no items".to_owned());
    }
    Ok(())
}

/// Refuses two tools with one name.
pub(super) fn check_tools(tools: &[ToolSpec]) -> Result<(), Violation> {
    for (index, tool) in tools.iter().enumerate() {
        if tools[..index].iter().any(|earlier| earlier.name == tool.name) {
            return Err(format!("the tool {:?} is there twice", tool.name));
        }
    }
    Ok(())
}

/// Refuses names that the real servers refuse.
pub(super) fn check_name(name: &str) -> Result<(), Violation> {
    if name.is_empty() || name.len() > 64 || !is_word(name) {
        return Err(format!(
            "the tool name {name:?} must be 1 to 64 letters, digits, underscores or hyphens"
        ));
    }
    Ok(())
}

/// Letters, digits, underscores and hyphens.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Refuses results that do not answer each of the open calls exactly once.
pub(super) fn check_pairs(open: &[String], results: &[ToolResult]) -> Result<(), Violation> {
    for (index, result) in results.iter().enumerate() {
        let id = &result.call_id;
        if !open.contains(id) {
            return Err(format!("the result {id:?} belongs to no call of the message before it"));
        }
        if results[..index].iter().any(|earlier| earlier.call_id == *id) {
            return Err(format!("the call {id:?} has two results"));
        }
    }
    match open.iter().find(|id| !results.iter().any(|result| result.call_id == **id)) {
        Some(id) => Err(format!("the call {id:?} has no result in the message after it")),
        None => Ok(()),
    }
}
