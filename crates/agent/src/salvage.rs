//! Tool calls that a model wrote as text. Small models often cannot do better, and what they meant is plain: a fenced
//! JSON object with a name and arguments, or one in tags.

use protocol::chat::Call;
use serde_json::Value;

use crate::answer::text_call;
use crate::tools;

/// Ids of calls that were found in text begin with this.
pub(crate) const ID_PREFIX: &str = "text_";

const TAGS: [(&str, &str); 2] = [("<tool_call>", "</tool_call>"), ("<tools>", "</tools>")];
const FENCE: &str = "```";

/// The calls that this text consists of, words before them aside; none when it says something after the last one,
/// because then it only shows a call. Ids count from `first`.
pub(crate) fn calls(text: &str, first: usize) -> Vec<Call> {
    let found = tagged(text).or_else(|| fenced(text)).or_else(|| bare(text)).unwrap_or_default();
    found
        .into_iter()
        .enumerate()
        .map(|(index, (tool, arguments))| text_call(first + index, tool, arguments))
        .collect()
}

type Found = Vec<(String, String)>;

/// Tags are meant as calls and nothing else, so a broken one is a call too: its rejection tells the model what is wrong.
fn tagged(text: &str) -> Option<Found> {
    let (open, close) = TAGS.into_iter().find(|(open, _)| text.contains(open))?;
    let mut found = Found::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(open) {
        // The closing tag is often lost because it is a stop word of the model.
        let (inner, after) = after.split_once(close).unwrap_or((after, ""));
        found.push(call(inner).unwrap_or_else(|| (name_in(inner), inner.trim().to_owned())));
        rest = after;
    }
    rest.trim().is_empty().then_some(found)
}

/// Fences hold all kinds of JSON, so only those count that name one of our tools.
fn fenced(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(FENCE) {
        let (inner, after) = after.split_once(FENCE)?;
        let body = inner.strip_prefix("json").or_else(|| inner.strip_prefix("tool_call")).unwrap_or(inner);
        found.push(known(call(body)?)?);
        rest = after;
    }
    (!found.is_empty() && rest.trim().is_empty()).then_some(found)
}

fn bare(text: &str) -> Option<Found> {
    Some(vec![known(call(text)?)?])
}

fn known(call: (String, String)) -> Option<(String, String)> {
    tools::exists(&call.0).then_some(call)
}

/// Reads `{"name": …, "arguments": …}`.
fn call(text: &str) -> Option<(String, String)> {
    let Value::Object(mut object) = serde_json::from_str(text.trim()).ok()? else { return None };
    let Value::String(name) = object.remove("name")? else { return None };
    let arguments = object.remove("arguments").or_else(|| object.remove("parameters"))?;
    Some((name, tools::replayed_arguments(&arguments)))
}

/// The tool's name in a call that is not valid JSON, as far as it can be seen.
fn name_in(broken: &str) -> String {
    let name = broken.split_once("\"name\"").and_then(|(_, rest)| rest.split('"').nth(1));
    name.unwrap_or("tool_call").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String, String)> {
        calls(text, 1).into_iter().map(|call| (call.id, call.tool, call.arguments)).collect()
    }

    fn one(tool: &str, arguments: &str) -> Vec<(String, String, String)> {
        vec![("text_1".into(), tool.into(), arguments.into())]
    }

    #[test]
    fn the_forms_that_models_write_are_understood() {
        let ls = one("shell", r#"{"command":"ls"}"#);
        let forms = [
            "```json\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n```",
            "```\n{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}\n```\n",
            "I will look first.\n<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
            "<tools>{\"name\": \"shell\", \"arguments\": \"{\\\"command\\\":\\\"ls\\\"}\"}</tools>",
            "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
            "{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
        ];
        for form in forms {
            assert_eq!(found(form), ls, "{form}");
        }
    }

    #[test]
    fn several_calls_are_numbered() {
        let text = "<tool_call>{\"name\":\"list\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"check\",\"arguments\":{}}</tool_call>";
        let ids: Vec<String> = calls(text, 4).into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["text_4", "text_5"]);
    }

    #[test]
    fn text_that_only_shows_a_call_or_other_json_is_left_alone() {
        for text in [
            "Run it like this:\n```json\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n```\nThat is all.",
            "```json\n{\"name\": \"package\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"shell\"}\n```",
            "```rust\nfn main() {}\n```",
            "Done: ``` is a fence.",
            "{\"ok\": true}",
            "All tests pass.",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_broken_call_in_tags_is_still_a_call() {
        let broken = "<tool_call>{\"name\": \"write\", \"arguments\": {\"path\": </tool_call>";
        assert_eq!(found(broken), one("write", "{\"name\": \"write\", \"arguments\": {\"path\":"));
        assert_eq!(found("<tool_call>ls</tool_call>"), one("tool_call", "ls"));
    }
}
