//! Tool calls that a model wrote as text. Small models often cannot do better, and what they meant is plain: a JSON object
//! with a name and arguments, alone, in a fence or in tags, or elements as in XML.

use protocol::chat::Call;
use serde_json::{Map, Value};

use crate::answer::text_call;
use crate::loose::{self, spelled, without_thoughts};
use crate::tools;

/// Ids of calls that were found in text begin with this.
pub(crate) const ID_PREFIX: &str = "text_";

const TAGS: [(&str, &str); 6] = [
    ("<tool_call>", "</tool_call>"),
    ("<tools>", "</tools>"),
    ("<function_call>", "</function_call>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("[TOOL_CALLS]", "[/TOOL_CALLS]"),
    ("<|python_tag|>", "<|eom_id|>"),
];
const ELEMENTS: [(&str, &str); 2] = [("<function=", "</function>"), ("<invoke name=", "</invoke>")];
/// Who a message of some models is for.
const RECIPIENT: &str = "to=functions.";
const FENCE: &str = "```";

/// The calls that this text consists of, words before them aside. Tags and elements are meant as calls whatever comes after
/// them. In a fence, or without anything around it, a call is only shown when there are words after it. Ids count from `first`.
pub(crate) fn calls(text: &str, first: usize) -> Vec<Call> {
    let text = without_thoughts(text);
    let found = tagged(text)
        .or_else(|| elements(text))
        .or_else(|| addressed(text))
        .or_else(|| fenced(text))
        .or_else(|| last(text))
        .unwrap_or_default();
    found
        .into_iter()
        .enumerate()
        .map(|(index, (tool, arguments))| text_call(first + index, tool, arguments))
        .collect()
}

/// Whether a text that has no call for [`calls`] seems to have one all the same.
pub(crate) fn seems_to_call(text: &str) -> bool {
    let mut rest = without_thoughts(text);
    let opened = |open: &str| after(rest, open);
    if ELEMENTS.iter().any(|(open, _)| opened(open).is_some())
        || TAGS.iter().any(|(open, _)| opened(open).is_some_and(|begun| begun.contains('{')))
        || opened(RECIPIENT).is_some()
    {
        return true;
    }
    while let Some(piece) = loose::piece(rest) {
        rest = piece.rest;
        let seems = match piece.object {
            Some(object) => spelled(object).is_some_and(|call| call.nested && tools::exists(&call.tool)),
            None => piece.whole.contains("\"arguments\"") && tools::exists(&name_in(piece.whole)),
        };
        if seems {
            return true;
        }
    }
    false
}

type Found = Vec<(String, String)>;

/// What comes after a mark that is not merely quoted.
fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let at = text.match_indices(mark).find(|(at, _)| !text[..*at].ends_with('`'))?.0;
    Some(&text[at + mark.len()..])
}

/// Tags are meant as calls and nothing else, so a broken one is a call too: its rejection tells the model what is wrong.
fn tagged(text: &str) -> Option<Found> {
    let (open, close) = TAGS.into_iter().find(|(open, _)| after(text, open).is_some())?;
    let mut found = Found::new();
    let mut rest = text;
    while let Some(begun) = after(rest, open) {
        // The closing tag is often lost because it is a stop word of the model. Without anything else it is a word.
        let (inner, left) = match begun.split_once(close) {
            Some(parts) => parts,
            None if begun.contains('{') || elements(begun).is_some() => (begun, ""),
            None => break,
        };
        found.extend(in_tags(inner));
        rest = left;
    }
    // In a fence it may be an example.
    let before = &text[..text.find(open)?];
    let example = before.matches(FENCE).count() % 2 == 1 && !rest.replace(FENCE, "").trim().is_empty();
    (!found.is_empty() && !example).then_some(found)
}

fn in_tags(inner: &str) -> Found {
    if let Some((name, arguments)) = inner.split_once("[ARGS]") {
        let arguments = loose::piece(arguments).map_or(arguments, |piece| piece.whole);
        return vec![(name.trim().to_owned(), arguments.trim().to_owned())];
    }
    if let Some(found) = elements(inner) {
        return found;
    }
    let mut found = Found::new();
    let mut rest = inner;
    while let Some(piece) = loose::piece(rest) {
        rest = piece.rest;
        match piece.object {
            Some(object) => found.extend(spelled(object).map(written)),
            None if piece.whole.contains("\"name\"") => {
                found.push((name_in(piece.whole), piece.whole.trim().to_owned()));
            }
            None => {}
        }
    }
    if found.is_empty() { vec![(name_in(inner), inner.trim().to_owned())] } else { found }
}

/// `<function=read><parameter=path>a</parameter></function>`, and the same with `<invoke name="read">`.
fn elements(text: &str) -> Option<Found> {
    let (open, close) = ELEMENTS.into_iter().find(|(open, _)| after(text, open).is_some())?;
    let mut found = Found::new();
    let mut rest = text;
    while let Some(begun) = after(rest, open) {
        let (name, body) = begun.split_once('>')?;
        let name = name.trim_matches(['"', '\'']);
        if name.is_empty() || name.contains(char::is_whitespace) {
            return None;
        }
        let (body, left) = body.split_once(close).unwrap_or((body, ""));
        let arguments = match parameters(body) {
            Some(parameters) => Value::Object(parameters).to_string(),
            None => body.trim().to_owned(),
        };
        found.push((name.to_owned(), arguments));
        rest = left;
    }
    Some(found)
}

/// The parameters of an element; none where the last one is not whole.
fn parameters(body: &str) -> Option<Map<String, Value>> {
    if body.trim_start().starts_with('{') {
        return loose::piece(body)?.object;
    }
    let mut parameters = Map::new();
    let mut rest = body;
    while let Some((_, begun)) = rest.split_once("<parameter") {
        let (name, begun) = begun.split_once('>')?;
        let name = name.trim_start_matches('=').trim();
        let name = name.strip_prefix("name=").unwrap_or(name).split_whitespace().next()?;
        let (value, left) = begun.split_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        parameters.insert(name.trim_matches(['"', '\'']).to_owned(), Value::from(value));
        rest = left;
    }
    (!parameters.is_empty() || body.trim().is_empty()).then_some(parameters)
}

/// `<|channel|>commentary to=functions.read <|message|>{…}<|call|>`.
fn addressed(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text.contains("<|channel|>").then_some(text)?;
    while let Some((_, begun)) = rest.split_once(RECIPIENT) {
        let (to, begun) = begun.split_once("<|message|>")?;
        let name = to.split(|letter: char| letter.is_whitespace() || letter == '<').next()?;
        let (arguments, left) = begun.split_once("<|call|>").unwrap_or((begun, ""));
        found.push((name.to_owned(), arguments.trim().to_owned()));
        rest = left;
    }
    (!found.is_empty()).then_some(found)
}

/// Fences hold all kinds of JSON, so only those count that name one of our tools.
fn fenced(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(FENCE) {
        let (inner, after) = after.split_once(FENCE)?;
        let body = inner.strip_prefix("json").or_else(|| inner.strip_prefix("tool_call")).unwrap_or(inner);
        body.trim_start().starts_with(['{', '[']).then_some(())?;
        found.extend(last(body)?);
        rest = after;
    }
    (!found.is_empty() && rest.trim().is_empty()).then_some(found)
}

/// The objects at the end of a text, alone or in a list, if all of them call one of our tools.
fn last(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text;
    while let Some(piece) = loose::piece(rest) {
        rest = piece.rest;
        let call = piece.object.and_then(spelled);
        match call.filter(|call| call.nested && tools::exists(&call.tool)) {
            Some(call) => found.push(written(call)),
            None if found.is_empty() => {}
            None => return None,
        }
    }
    let over = rest.chars().all(|letter| letter.is_whitespace() || letter == ']');
    (!found.is_empty() && over).then_some(found)
}

fn written(call: loose::Spelled) -> (String, String) {
    (call.tool, tools::replayed_arguments(&call.arguments))
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
            "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>\nI will wait for {it}.",
            "<function_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</function_call>",
            "[TOOL_CALLS][{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]",
            "[TOOL_CALLS]shell[ARGS]{\"command\": \"ls\"}",
            "<|python_tag|>{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}",
            "<tool_call>\n<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
            "I look.\n<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>",
            "<function=shell>{\"command\": \"ls\"}</function>",
            "<function_calls>\n<invoke name=\"shell\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</function_calls>",
            "<|channel|>commentary to=functions.shell <|constrain|>json<|message|>{\"command\":\"ls\"}<|call|>",
            "I will look: {\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
            "[{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]",
            "<think>Hm, {x}.</think>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
            "```json\n{\"function\": {\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}}\n```",
            "```json\n{\"tool\": \"shell\", \"arguments\": {\"command\": \"ls\"},}\n```",
        ];
        for form in forms {
            let found: Vec<_> = found(form)
                .into_iter()
                .map(|(id, tool, arguments)| (id, tool, tools::recorded_input(&arguments).to_string()))
                .collect();
            assert_eq!(found, ls, "{form}");
        }
    }

    #[test]
    fn several_calls_are_numbered() {
        let text = "<tool_call>{\"name\":\"list\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"check\",\"arguments\":{}}</tool_call>";
        let ids: Vec<String> = calls(text, 4).into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["text_4", "text_5"]);
        let list = r#"[{"name":"list","arguments":{}}, {"name":"check","arguments":{}}]"#;
        let elements = "<function=list></function>\n<function=check></function>";
        let tools = |text: &str| calls(text, 1).into_iter().map(|call| call.tool).collect::<Vec<_>>();
        assert_eq!([tools(list), tools(elements)], [["list", "check"], ["list", "check"]]);
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
            "The parser knows `<tool_call>` and `<function=` now.",
            "It reads <tool_call> as well.",
            "Models write\n```\n<tool_call>{\"name\": \"shell\", \"arguments\": {}}</tool_call>\n```\nand that is read.",
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

    #[test]
    fn an_element_that_was_cut_off_is_a_broken_call() {
        let half = "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\nhal";
        let [(_, tool, arguments)] = &found(half)[..] else { panic!("{half}") };
        assert_eq!(tool, "write");
        assert!(tools::recorded_input(arguments).is_string(), "{arguments}");
    }

    #[test]
    fn what_seems_to_be_a_call_is_told_from_other_text() {
        let call = "{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}";
        for text in [
            format!("```json\n{call}\n```\nThis will show the files."),
            format!("I call {call} now."),
            "{\"name\": \"shell\", \"arguments\": {\"command\": \"echo \"x\" y\"}}".to_owned(),
            "<invoke name=\"read the file\">".to_owned(),
        ] {
            assert_eq!(found(&text), [], "{text}");
            assert!(seems_to_call(&text), "{text}");
        }
        for text in [
            "Done: `fn main() {}` is there.",
            "{\"name\": \"slipway\", \"arguments\": {}}",
            "It reads `<function=x>` and <tool_call> now.",
        ] {
            assert!(!seems_to_call(text), "{text}");
        }
    }
}
