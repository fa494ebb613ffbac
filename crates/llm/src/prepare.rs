//! A request as one server can take it: the conversation made valid, the answer's schema where the server wants it, and
//! limits that the model has. What a wire format writes is then a matter of form.

use std::borrow::Cow;
use std::collections::HashSet;

use protocol::chat::{AnswerSchema, Call, Completion, Message, Part, Request, Stop, ToolChoice, ToolSpec};
use serde_json::Value;

use crate::client::Delta;
use crate::convert::{Converted, convert};
use crate::images;
use crate::model::Model;
use crate::profile::Source;
use crate::quirks::{Quirks, Structured, System};
use crate::wire::Format;

/// The tool whose arguments are the answer, where a server can be told to call a tool and cannot be given a schema.
const ANSWER_TOOL: &str = "answer";

/// What a model says between results and a person's next message, where its server wants it to say something.
const UNDERSTOOD: &str = "Understood.";

/// A request that can be written.
pub(crate) struct Prepared {
    pub(crate) request: Request,
    /// What had to be changed.
    pub(crate) notes: Vec<String>,
    /// Whether the answer comes as a call.
    pub(crate) answer_is_call: bool,
}

/// Makes a request that this server can take.
pub(crate) fn prepare(model: &Model, request: &Request, quirks: Quirks, refused: &HashSet<u64>) -> Prepared {
    let Converted { mut messages, mut notes } =
        convert(&request.messages, quirks.ids, &model.maker(), refused);
    notes.extend(images::tell_in_words(&mut messages, quirks.images, refused));
    let mut prepared = Request {
        system: request.system.clone(),
        messages,
        tools: request.tools.clone(),
        max_output_tokens: limit(model, request.max_output_tokens),
        tool_choice: request.tool_choice,
        answer: request.answer.clone(),
        // Models that reason take none.
        temperature: request.temperature.filter(|_| quirks.temperature && model.overrides.effort.is_none()),
        cache_key: request.cache_key.clone(),
    };
    let mut answer_is_call = false;
    if let Some(answer) = &request.answer {
        match quirks.structured {
            Structured::Schema => {}
            Structured::Told | Structured::Object | Structured::Asked => {
                prepared.system = asking(&request.system, answer)
            }
            Structured::Tool => {
                answer_is_call = true;
                prepared.tools.push(ToolSpec {
                    name: ANSWER_TOOL.to_owned(),
                    description: "Gives the answer. Call it once, with the whole answer.".to_owned(),
                    schema: answer.schema.clone(),
                });
                prepared.tool_choice = ToolChoice::Required;
            }
        }
    }
    if !quirks.closed_schemas {
        let tools = prepared.tools.iter_mut().map(|tool| &mut tool.schema);
        tools.chain(prepared.answer.as_mut().map(|answer| &mut answer.schema)).for_each(open);
    }
    let is_chat = model.provider.format() == Format::Chat;
    if is_chat {
        if !quirks.parallel_calls {
            prepared.messages = one_call_each(prepared.messages);
        }
        prepared.messages = images::after_results(prepared.messages);
    }
    if quirks.system == System::FirstMessage {
        let system = std::mem::take(&mut prepared.system);
        prepared.messages = headed(system, prepared.messages);
    }
    if !quirks.repeated_roles {
        prepared.messages = joined(prepared.messages);
    }
    if is_chat && !quirks.user_after_tools {
        prepared.messages = answered(prepared.messages);
    }
    Prepared { request: prepared, notes, answer_is_call }
}

/// The longest answer, which servers refuse to let exceed what their model can write.
fn limit(model: &Model, wanted: u32) -> u32 {
    let profile = model.profile();
    let certain = profile.source != Source::Assumed || model.overrides.max_output.is_some();
    if certain { wanted.min(profile.max_output) } else { wanted }
}

fn asking(system: &str, answer: &AnswerSchema) -> String {
    format!(
        "{system}\n\nAnswer with one JSON object and nothing else: no words around it and no fences. It must fit this \
         JSON schema:\n{}",
        crate::wire::text(&answer.schema)
    )
}

/// Takes out of a schema what it says of other properties, which makes it wider, never narrower.
fn open(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            keywords.remove("additionalProperties");
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    // Here the names are not keywords.
                    ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                        named.values_mut().for_each(open);
                    }
                    // These are values, not schemas.
                    ("const" | "default" | "enum" | "examples", _) => {}
                    (_, value) => open(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(open),
        _ => {}
    }
}

/// Writes each call with its own result behind it.
fn one_call_each(messages: Vec<Message>) -> Vec<Message> {
    let mut sent: Vec<Message> = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        let (Message::Assistant { parts }, Some(Message::Tools { .. })) = (&message, messages.peek()) else {
            sent.push(message);
            continue;
        };
        let mut before = Vec::new();
        let mut steps: Vec<Vec<Part>> = Vec::new();
        for part in parts {
            before.push(part.clone());
            if matches!(part, Part::Call(_)) {
                steps.push(std::mem::take(&mut before));
            }
        }
        if let Some(last) = steps.last_mut() {
            // What was said after the last call stays with it.
            last.splice(0..0, before);
        }
        let Some(Message::Tools { results }) = messages.next() else { continue };
        for (parts, result) in steps.into_iter().zip(results) {
            sent.push(Message::Assistant { parts });
            sent.push(Message::Tools { results: vec![result] });
        }
    }
    sent
}

/// Puts the instructions at the head of the first message.
fn headed(system: String, mut messages: Vec<Message>) -> Vec<Message> {
    if system.trim().is_empty() {
        return messages;
    }
    match messages.first_mut() {
        Some(Message::User { text, .. }) => *text = format!("{system}\n\n{text}"),
        Some(Message::Assistant { .. } | Message::Tools { .. }) | None => {
            messages.insert(0, Message::user(system));
        }
    }
    messages
}

/// Joins messages of one role that follow each other.
fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut sent: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match (sent.last_mut(), message) {
            (Some(Message::User { text, images }), Message::User { text: more, images: further }) => {
                text.push_str("\n\n");
                text.push_str(&more);
                images.extend(further);
            }
            (Some(Message::Assistant { parts }), Message::Assistant { parts: more }) => parts.extend(more),
            (_, message) => sent.push(message),
        }
    }
    sent
}

/// Has the model say a word after results, before somebody says something else.
fn answered(messages: Vec<Message>) -> Vec<Message> {
    let mut sent: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        if matches!((sent.last(), &message), (Some(Message::Tools { .. }), Message::User { .. })) {
            sent.push(Message::Assistant { parts: vec![Part::Text { text: UNDERSTOOD.to_owned() }] });
        }
        sent.push(message);
    }
    sent
}

/// A piece of an answer that comes as a call, as the text that it is.
pub(crate) fn delta_as_text(delta: Delta) -> Option<Delta> {
    match delta {
        Delta::Call { arguments, .. } if arguments.is_empty() => None,
        Delta::Call { arguments, .. } => Some(Delta::Text(arguments)),
        delta => Some(delta),
    }
}

/// An answer that came as a call, as the text that it is.
pub(crate) fn completion_as_text(mut completion: Completion) -> Completion {
    let is_answer = |part: &Part| matches!(part, Part::Call(call) if call.tool == ANSWER_TOOL);
    if !completion.parts.iter().any(is_answer) {
        return written_as_text(completion);
    }
    completion.parts.retain(|part| is_answer(part) || matches!(part, Part::Reasoning { .. }));
    for part in &mut completion.parts {
        if let Part::Call(Call { arguments, .. }) = part {
            *part = Part::Text { text: std::mem::take(arguments) };
        }
    }
    if completion.stop == Stop::Tools {
        completion.stop = Stop::End;
    }
    completion
}

/// The same of an answer whose call was written as text, as small models do behind servers that do not hold them to it. What
/// cannot be read as an object stays as it is.
fn written_as_text(mut completion: Completion) -> Completion {
    let texts = completion.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Reasoning { .. } | Part::Call(_) => None,
    });
    let said: String = texts.collect();
    let text = said.trim();
    let inside = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    let text = inside.and_then(|text| text.strip_suffix("```")).unwrap_or(text);
    let Ok(written @ Value::Object(_)) = serde_json::from_str::<Value>(text) else { return completion };
    let arguments = ["arguments", "parameters", "input"].iter().find_map(|name| written.get(name)).cloned();
    let answer = match arguments {
        Some(Value::String(text)) if written["name"] == ANSWER_TOOL => text,
        Some(arguments @ Value::Object(_)) if written["name"] == ANSWER_TOOL => arguments.to_string(),
        Some(_) | None => text.trim().to_owned(),
    };
    completion.parts.retain(|part| !matches!(part, Part::Text { .. }));
    completion.parts.push(Part::Text { text: answer });
    completion
}

/// Whether a schema may be given as strict: every object names all its properties as required and allows no others.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let strict = match map.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    let required: HashSet<Cow<'_, str>> = map
                        .get("required")
                        .and_then(Value::as_array)
                        .into_iter()
                        .flatten()
                        .filter_map(|name| name.as_str().map(Cow::from))
                        .collect();
                    map.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties.keys().all(|name| required.contains(name.as_str()))
                }
                None => map.get("type") != Some(&Value::from("object")),
            };
            strict && !map.contains_key("oneOf") && map.values().all(is_strict)
        }
        Value::Array(list) => list.iter().all(is_strict),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;
    use crate::provider::Provider;
    use protocol::chat::ToolResult;
    use serde_json::json;

    fn call(id: &str) -> Part {
        Part::Call(Call { id: id.into(), tool: "shell".into(), arguments: "{}".into() })
    }

    fn result(id: &str) -> ToolResult {
        ToolResult { call_id: id.into(), text: id.into(), is_error: false, images: Vec::new() }
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    #[test]
    fn an_answer_whose_call_was_written_as_text_is_the_answer() {
        let told = |text: &str| {
            let parts = vec![Part::Text { text: text.into() }];
            let completion = Completion { parts, stop: Stop::End, usage: Default::default() };
            match completion_as_text(completion).parts.as_slice() {
                [Part::Text { text }] => text.clone(),
                other => panic!("{other:?}"),
            }
        };
        for written in [
            "```json\n{\"name\": \"answer\", \"arguments\": {\"n\": 1}}\n```",
            r#"{"name": "answer", "parameters": {"n":1}}"#,
            r#"{"name": "answer", "arguments": "{\"n\":1}"}"#,
            "```\n{\"n\":1}\n```",
            r#"{"n":1}"#,
        ] {
            assert_eq!(told(written), r#"{"n":1}"#, "{written}");
        }
        // An answer that has such fields itself, and what is none.
        for other in [r#"{"name":"Ann","input":{"n":1}}"#, "It is 1.", "```json\n{\"n\":"] {
            assert_eq!(told(other), other);
        }
    }

    #[test]
    fn several_calls_can_be_written_one_after_the_other() {
        let messages = vec![
            Message::user("Go."),
            Message::Assistant { parts: vec![text("Both."), call("a"), call("b"), text("So.")] },
            Message::Tools { results: vec![result("a"), result("b")] },
        ];
        assert_eq!(
            one_call_each(messages),
            [
                Message::user("Go."),
                Message::Assistant { parts: vec![text("Both."), call("a")] },
                Message::Tools { results: vec![result("a")] },
                Message::Assistant { parts: vec![text("So."), call("b")] },
                Message::Tools { results: vec![result("b")] },
            ]
        );
    }

    #[test]
    fn a_model_that_must_answer_results_says_a_word_before_the_next_message() {
        let model = sample(Provider::OpenAiCompatible, "devstral-small");
        let messages = vec![
            Message::user("Go."),
            Message::Assistant { parts: vec![call("a")] },
            Message::Tools { results: vec![result("a")] },
            Message::user("Stop."),
        ];
        let request = Request { messages, ..Request::default() };
        let send = |quirks| prepare(&model, &request, quirks, &HashSet::new()).request.messages;
        let sent = send(Quirks::of(&model));
        assert_eq!(sent[3..], [Message::Assistant { parts: vec![text(UNDERSTOOD)] }, Message::user("Stop.")]);
        assert_eq!(send(Quirks { user_after_tools: true, ..Quirks::of(&model) }).len(), 4);
    }

    #[test]
    fn a_model_without_a_place_for_instructions_reads_them_first() {
        let model = sample(Provider::OpenAiCompatible, "gemma");
        let quirks = Quirks { system: System::FirstMessage, repeated_roles: false, ..Quirks::of(&model) };
        let request = Request {
            system: "Be brief.".into(),
            messages: vec![Message::user("One."), Message::user("Two.")],
            ..Request::default()
        };
        for provider in [Provider::OpenAiCompatible, Provider::Gemini, Provider::OpenAiResponses] {
            let model = sample(provider, "gemma");
            let prepared = prepare(&model, &request, quirks, &HashSet::new()).request;
            assert_eq!(prepared.system, "");
            assert_eq!(prepared.messages, [Message::user("Be brief.\n\nOne.\n\nTwo.")]);
        }
    }

    #[test]
    fn schemas_are_opened_where_they_may_not_be_closed() {
        let mut schema = json!({"type": "object", "additionalProperties": false, "required": ["additionalProperties"],
        "properties": {
            "additionalProperties": {"type": "boolean", "default": {"additionalProperties": 1}},
            "list": {"type": "array", "items": {"anyOf": [{"type": "object", "additionalProperties": {}}]}},
        }});
        open(&mut schema);
        assert_eq!(
            schema,
            json!({"type": "object", "required": ["additionalProperties"], "properties": {
                "additionalProperties": {"type": "boolean", "default": {"additionalProperties": 1}},
                "list": {"type": "array", "items": {"anyOf": [{"type": "object"}]}},
            }})
        );
    }

    #[test]
    fn an_answer_is_no_longer_than_the_model_can_write() {
        let limit = |provider, name| {
            let request = Request { max_output_tokens: 1_000_000, ..Request::default() };
            let model = sample(provider, name);
            let quirks = Quirks::of(&model);
            prepare(&model, &request, quirks, &HashSet::new()).request.max_output_tokens
        };
        assert_eq!(limit(Provider::OpenAi, "gpt-4o"), 16_384);
        assert_eq!(limit(Provider::OpenAiCompatible, "nobody-knows"), 1_000_000);
    }

    #[test]
    fn an_answer_that_came_as_a_call_is_text() {
        let answer =
            Part::Call(Call { id: "x".into(), tool: ANSWER_TOOL.into(), arguments: "{\"a\":1}".into() });
        let completion = |parts| Completion { parts, stop: Stop::Tools, usage: Default::default() };
        let read = completion_as_text(completion(vec![text("Here:"), answer]));
        assert_eq!((read.parts, read.stop), (vec![text("{\"a\":1}")], Stop::End));
        let other = completion(vec![call("a")]);
        assert_eq!(completion_as_text(other.clone()), other);
    }

    #[test]
    fn strict_is_only_what_every_server_takes_as_strict() {
        let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false});
        assert!(is_strict(&strict));
        let mut open = strict.clone();
        open["additionalProperties"] = json!(true);
        let mut optional = strict.clone();
        optional["required"] = json!([]);
        let nested = json!({"anyOf": [strict, {"type": "object"}]});
        assert!(!is_strict(&open) && !is_strict(&optional) && !is_strict(&nested));
    }
}
