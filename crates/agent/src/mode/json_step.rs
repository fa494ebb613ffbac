//! `json_step`: one JSON object for each step, held to a schema, for models that cannot write the provider's own calls. The
//! conversation is told in plain messages: what the model wrote, and what came of it.

use protocol::chat::{AnswerSchema, Completion, Message, Part, Request, ToolSpec};
use serde_json::{Map, Value, json};

use super::{Mode, View};
use crate::answer::{self, normalise};
use crate::tools::recorded_input;

/// The call that ends the work. It is no tool: what it says becomes the answer.
const FINISH: &str = "finish";

#[derive(Debug)]
pub(super) struct JsonStep;

impl Mode for JsonStep {
    fn request(&self, view: &View<'_>) -> Request {
        Request {
            system: format!("{}\n{}", view.system.trim_end(), manual(view.tools)),
            messages: told(view.messages),
            max_output_tokens: view.max_output_tokens,
            answer: Some(AnswerSchema { name: "step".to_owned(), schema: schema(view.tools) }),
            ..Request::default()
        }
    }

    fn read(&self, view: &View<'_>, mut completion: Completion) -> Completion {
        if !completion.parts.iter().any(|part| matches!(part, Part::Call(_))) {
            let text: Vec<&str> = completion.parts.iter().filter_map(answer::text).collect();
            if let Some(step) = step(&text.join("\n")) {
                completion.parts.retain(|part| answer::text(part).is_none());
                completion.parts.extend(step.into_parts(answer::next_number(view.messages)));
            }
        }
        normalise(view.messages, completion)
    }
}

/// What a model does in one step.
struct Step {
    thought: String,
    tool: String,
    arguments: Map<String, Value>,
}

impl Step {
    fn into_parts(mut self, number: usize) -> Vec<Part> {
        let thought = self.thought.trim().to_owned();
        if self.tool == FINISH {
            let summary = self.arguments.remove("summary");
            let summary = summary.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
            let text = if summary.trim().is_empty() { thought } else { summary };
            return vec![Part::Text { text: if text.is_empty() { "Finished.".to_owned() } else { text } }];
        }
        let arguments = Value::Object(self.arguments).to_string();
        let call = Part::Call(answer::text_call(number, self.tool, arguments));
        let text = (!thought.is_empty()).then_some(Part::Text { text: thought });
        text.into_iter().chain([call]).collect()
    }
}

/// Reads a step: the object alone, in a fence, or with words around it.
fn step(text: &str) -> Option<Step> {
    let text = text.trim();
    let inner = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    let parse = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Some(object),
        Ok(_) | Err(_) => None,
    };
    let mut object = parse(text).or_else(|| inner.and_then(parse))?;
    let thought = object.remove("thought").and_then(|text| text.as_str().map(str::to_owned));
    let mut call = match object.remove("call") {
        Some(Value::Object(call)) => call,
        Some(_) => return None,
        None => object,
    };
    let tool = ["tool", "name", "action"].iter().find_map(|name| match call.remove(*name) {
        Some(Value::String(tool)) => Some(tool),
        _ => None,
    })?;
    // Models that know other formats put the arguments one level down.
    let nested = ["arguments", "parameters", "args"].iter().find_map(|name| match call.get(*name) {
        Some(Value::Object(arguments)) => Some(arguments.clone()),
        _ => None,
    });
    Some(Step { thought: thought.unwrap_or_default(), tool, arguments: nested.unwrap_or(call) })
}

/// The conversation in plain messages.
fn told(messages: &[Message]) -> Vec<Message> {
    let mut told: Vec<Message> = Vec::new();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for message in messages {
        let next = match message {
            Message::User { .. } => message.clone(),
            Message::Assistant { parts } => {
                names =
                    answer::calls_of(message).map(|call| (call.id.as_str(), call.tool.as_str())).collect();
                Message::Assistant { parts: vec![Part::Text { text: written(parts) }] }
            }
            Message::Tools { results } => {
                let text: Vec<String> = results
                    .iter()
                    .map(|result| {
                        let known = names.iter().find(|(id, _)| *id == result.call_id);
                        let tool = known.map_or("the call", |(_, tool)| tool);
                        let how = if result.is_error { "failed" } else { "gave" };
                        format!("{tool} {how}:\n{}", result.text)
                    })
                    .collect();
                Message::user(text.join("\n\n"))
            }
        };
        // Small models and their templates want the two sides to take turns.
        match (told.last_mut(), next) {
            (Some(Message::User { text, .. }), Message::User { text: more, images }) if images.is_empty() => {
                text.push_str("\n\n");
                text.push_str(&more);
            }
            (_, next) => told.push(next),
        }
    }
    told
}

/// What the model wrote, in the form that it is to write.
fn written(parts: &[Part]) -> String {
    let words: Vec<&str> = parts.iter().filter_map(answer::text).collect();
    let words = words.join("\n");
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        Part::Text { .. } | Part::Reasoning { .. } => None,
    });
    let steps: Vec<String> = calls
        .map(|call| {
            let mut object = Map::from_iter([("tool".to_owned(), Value::from(call.tool.as_str()))]);
            match recorded_input(&call.arguments) {
                Value::Object(arguments) => object.extend(arguments),
                other => drop(object.insert("arguments".to_owned(), other)),
            }
            json!({"thought": words, "call": object}).to_string()
        })
        .collect();
    if steps.is_empty() {
        json!({"thought": "", "call": {"tool": FINISH, "summary": words}}).to_string()
    } else {
        steps.join("\n")
    }
}

fn schema(tools: &[ToolSpec]) -> Value {
    let finish = json!({
        "type": "object",
        "properties": {"tool": {"type": "string", "enum": [FINISH]}, "summary": {"type": "string"}},
        "required": ["tool", "summary"],
        "additionalProperties": false,
    });
    let calls: Vec<Value> = tools.iter().map(call_schema).chain([finish]).collect();
    json!({
        "type": "object",
        "properties": {"thought": {"type": "string"}, "call": {"anyOf": calls}},
        "required": ["thought", "call"],
        "additionalProperties": false,
    })
}

/// The schema of a tool's arguments with its name as the first of them.
fn call_schema(tool: &ToolSpec) -> Value {
    let mut properties =
        Map::from_iter([("tool".to_owned(), json!({"type": "string", "enum": [tool.name]}))]);
    let mut required = vec![Value::from("tool")];
    if let Some(Value::Object(fields)) = tool.schema.get("properties") {
        for (name, field) in fields {
            properties.insert(name.clone(), json!({"type": field.get("type")}));
        }
    }
    if let Some(Value::Array(names)) = tool.schema.get("required") {
        required.extend(names.iter().cloned());
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn manual(tools: &[ToolSpec]) -> String {
    let mut text = String::from(
        "Each of your answers is one JSON object and nothing else: a short thought and one call, such as\n{\"thought\": \"I will look at the file.\", \"call\": {\"tool\": \"read\", \"path\": \"src/main.py\"}}\nYou are then told what the call gave. The calls are:\n",
    );
    for tool in tools {
        let required = tool.schema.get("required").and_then(Value::as_array);
        let fields = tool.schema.get("properties").and_then(Value::as_object);
        let fields: Vec<String> = fields
            .into_iter()
            .flatten()
            .map(|(name, _)| {
                let needed = required.is_some_and(|names| names.iter().any(|known| known == name));
                if needed { name.clone() } else { format!("{name}?") }
            })
            .collect();
        text.push_str(&format!("- {} {{{}}}: {}\n", tool.name, fields.join(", "), tool.description));
    }
    text.push_str(
        "- finish {summary}: Ends the work. Use it when everything is done; the checks run then.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chat::{Stop, ToolResult};
    use protocol::{EditFormat, Usage};

    fn view<'a>(messages: &'a [Message], tools: &'a [ToolSpec]) -> View<'a> {
        View {
            system: "You work.",
            tools,
            messages,
            task: "",
            earlier: &[],
            files: &[],
            round: 0,
            room: 1000,
            max_output_tokens: 10,
        }
    }

    fn read(text: &str) -> Vec<Part> {
        let parts = vec![Part::Text { text: text.into() }];
        let completion = Completion { parts, stop: Stop::End, usage: Usage::default() };
        let once = JsonStep.read(&view(&[], &[]), completion);
        assert_eq!(JsonStep.read(&view(&[], &[]), once.clone()), once, "twice is once");
        once.parts
    }

    fn call(arguments: &str) -> Part {
        Part::Call(answer::text_call(1, "read".into(), arguments.into()))
    }

    #[test]
    fn steps_are_read_in_every_form_that_models_write() {
        for text in [
            r#"{"thought": "", "call": {"tool": "read", "path": "a"}}"#,
            "```json\n{\"call\": {\"tool\": \"read\", \"path\": \"a\"}}\n```",
            r#"{"tool": "read", "path": "a"}"#,
            r#"{"name": "read", "arguments": {"path": "a"}}"#,
            r#"Sure! {"call": {"name": "read", "args": {"path": "a"}}} I hope that helps."#,
            "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>",
        ] {
            assert_eq!(read(text).last(), Some(&call(r#"{"path":"a"}"#)), "{text}");
        }
        let thought = Part::Text { text: "Look.".into() };
        assert_eq!(
            read(r#"{"thought": "Look.", "call": {"tool": "read", "path": "a"}}"#),
            [thought, call(r#"{"path":"a"}"#)]
        );
    }

    #[test]
    fn the_end_is_an_answer_without_a_call() {
        let said = |text: &str| vec![Part::Text { text: text.into() }];
        assert_eq!(
            read(r#"{"thought": "x", "call": {"tool": "finish", "summary": "Fixed."}}"#),
            said("Fixed.")
        );
        assert_eq!(read(r#"{"thought": "", "call": {"tool": "finish"}}"#), said("Finished."));
        assert_eq!(read("All done."), said("All done."));
    }

    #[test]
    fn the_conversation_takes_turns_and_shows_what_was_called() {
        let tools = crate::tools::specs(EditFormat::Whole);
        let result = ToolResult { call_id: "text_1".into(), text: "no such file".into(), is_error: true };
        let messages = [
            Message::user("Fix it."),
            Message::Assistant { parts: vec![Part::Text { text: "Look.".into() }, call(r#"{"path":"a"}"#)] },
            Message::Tools { results: vec![result] },
            Message::user("Try another file."),
        ];
        let request = JsonStep.request(&view(&messages, &tools));
        assert!(
            request.tools.is_empty() && request.system.contains("- write {content, path}"),
            "{}",
            request.system
        );
        let written = r#"{"call":{"path":"a","tool":"read"},"thought":"Look."}"#;
        let expected = [
            Message::user("Fix it."),
            Message::Assistant { parts: vec![Part::Text { text: written.into() }] },
            Message::user("read failed:\nno such file\n\nTry another file."),
        ];
        assert_eq!(request.messages, expected);
        let schema = request.answer.unwrap().schema;
        let calls = schema["properties"]["call"]["anyOf"].as_array().unwrap();
        assert_eq!(calls.len(), tools.len() + 1);
        assert_eq!(calls[0]["required"], json!(["tool", "command"]));
    }
}
