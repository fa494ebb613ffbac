//! Tool calls that a model wrote as text. Small models often cannot do better, and what they meant is plain: a JSON object
//! with a name and arguments, alone, in a fence or in tags, elements as in XML, or a call as in Python. What merely speaks of a
//! call is none.

mod forms;

use protocol::EditFormat;
use protocol::chat::Call;
use serde_json::{Map, Value};

use crate::answer::text_call;
use crate::loose::{self, without_thoughts};
use crate::{pythonic, quoting, tools};

pub(crate) use forms::seems_to_run;

/// Ids of calls that were found in text begin with this.
pub(crate) const ID_PREFIX: &str = "text_";

const TAGS: [(&str, &str); 13] = [
    ("<tool_call>", "</tool_call>"),
    ("<tools>", "</tools>"),
    ("<function_call>", "</function_call>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("[TOOL_CALLS]", "[/TOOL_CALLS]"),
    ("<|python_tag|>", "<|eom_id|>"),
    ("<tool_code>", "</tool_code>"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<tool_request>", "</tool_request>"),
    ("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
    ("functools[", "<|end|>"),
];
/// What stands between a name and its arguments.
const BETWEEN: [&str; 3] = ["[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>"];
const ELEMENTS: [(&str, &str); 2] = [("<function=", "</function>"), ("<invoke name=", "</invoke>")];
/// Who a message of some models is for.
const RECIPIENT: &str = "to=functions.";
const FENCE: &str = "```";
/// What stands beside the fence of a call in Python.
const PYTHON: [&str; 6] = ["", "python", "py", "tool_code", "tool_call", "tool_calls"];

/// The calls that this text consists of, words before them aside. Tags and elements are meant as calls whatever comes after
/// them, unless they are quoted. In a fence, or without anything around it, a call is only shown when there are words after it,
/// or when those before it are about something else. Ids count from `first`.
pub(crate) fn calls(text: &str, first: usize) -> Vec<Call> {
    let text = without_thoughts(text);
    let found = tagged(text)
        .or_else(|| elements(text))
        .or_else(|| addressed(text))
        .or_else(|| recipient(text))
        .or_else(|| fenced(text))
        .or_else(|| last(text))
        .or_else(|| spoken(text))
        .or_else(|| forms::labelled(text))
        .or_else(|| forms::listed(text))
        .or_else(|| forms::named(text))
        .or_else(|| forms::nested(text))
        .unwrap_or_default();
    found
        .into_iter()
        .enumerate()
        .map(|(index, (tool, arguments))| text_call(first + index, tool, arguments))
        .collect()
}

/// Whether a text that has no call for [`calls`] seems to have one all the same.
pub(crate) fn seems_to_call(text: &str) -> bool {
    let text = without_thoughts(text);
    let opened = |open: &str| after(text, open);
    if ELEMENTS.iter().any(|(open, _)| opened(open).is_some())
        || TAGS.iter().any(|(open, _)| opened(open).is_some_and(|begun| begun.contains('{')))
        || opened(RECIPIENT).is_some()
        || forms::seems_so(text)
    {
        return true;
    }
    let mut rest = text;
    while let Some(piece) = loose::piece(rest) {
        let at = text.len() - piece.rest.len() - piece.whole.len();
        rest = piece.rest;
        let seems = match piece.object {
            _ if quoting::is_quoted(text, at) => false,
            Some(object) => {
                loose::all_spelled(object).iter().any(|call| call.nested && tools::exists(&call.tool))
            }
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
    place(text, mark).map(|at| &text[at + mark.len()..])
}

/// Where such a mark stands.
fn place(text: &str, mark: &str) -> Option<usize> {
    let mut places = text.match_indices(mark).map(|(at, _)| at);
    places.find(|at| !quoting::is_quoted(text, *at))
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
            None if begun.contains('{') || elements(begun).is_some() || is_marked(begun) => (begun, ""),
            None => break,
        };
        found.extend(in_tags(inner));
        rest = left;
    }
    // What comes after a call that begins an answer is often what the model imagines of its result. After other words it is
    // one more word about a call that is only shown.
    let before = &text[..place(text, open)?];
    let before = before.trim_end().strip_suffix(FENCE).unwrap_or(before);
    let over = quoting::words(before).is_empty() || rest.replace(FENCE, "").trim().is_empty();
    (!found.is_empty() && over && quoting::means_it(before)).then_some(found)
}

fn in_tags(inner: &str) -> Found {
    if let Some(found) = elements(inner).or_else(|| marked(inner)) {
        return found;
    }
    let mut found = Found::new();
    let mut rest = inner;
    while let Some(piece) = loose::piece(rest) {
        rest = piece.rest;
        match piece.object {
            Some(object) => found.extend(loose::all_spelled(object).into_iter().map(written)),
            None if piece.whole.contains("\"name\"") => {
                found.push((name_in(piece.whole), piece.whole.trim().to_owned()));
            }
            None => {}
        }
    }
    if found.is_empty() { vec![(name_in(inner), inner.trim().to_owned())] } else { found }
}

/// A name with its arguments, in one of the ways that models have for the inside of tags: `read[ARGS]{…}`, `read{…}`, keys and
/// values, a call in Python, or the name alone.
fn marked(inner: &str) -> Option<Found> {
    let inner = inner.trim();
    if let Some((name, arguments)) = BETWEEN.iter().find_map(|mark| inner.split_once(mark)) {
        // The kind of a call may stand where its name does.
        let (name, arguments) = match name.trim() {
            "function" | "" => arguments.trim_start().split_once('\n').unwrap_or((arguments, "")),
            _ => (name, arguments),
        };
        let arguments = loose::piece(arguments).map_or(arguments, |piece| piece.whole);
        return Some(vec![(plain_name(name), arguments.trim().to_owned())]);
    }
    if let Some((name, pairs)) = inner.split_once("<arg_key>") {
        let mut arguments = Map::new();
        for pair in pairs.split("<arg_key>") {
            let Some((key, value)) = pair.split_once("</arg_key>") else { continue };
            let value = value
                .trim_start()
                .strip_prefix("<arg_value>")
                .and_then(|value| value.split_once("</arg_value>"));
            let Some((value, _)) = value else { return Some(vec![(plain_name(name), inner.to_owned())]) };
            arguments.insert(key.trim().to_owned(), Value::from(value));
        }
        return Some(vec![(plain_name(name), Value::Object(arguments).to_string())]);
    }
    if let Some(found) = pythonic::calls(inner) {
        let known = found.iter().all(|call| tools::exists(&call.tool));
        return known.then(|| found.into_iter().map(with_names).collect());
    }
    let (name, arguments) = inner.split_at(inner.find('{').unwrap_or(inner.len()));
    let name = plain_name(name);
    tools::exists(&name).then(|| vec![(name, arguments.trim().to_owned())])
}

/// Whether a text that nothing closes is the inside of tags all the same. A name alone is a word.
fn is_marked(begun: &str) -> bool {
    begun.contains(['(', '<', '[']) && marked(begun).is_some()
}

/// A tool's name without what some models write around it: `functions.read:0`.
fn plain_name(name: &str) -> String {
    let name = name.trim();
    let name = name.strip_prefix("functions.").unwrap_or(name);
    name.split([':', '[']).next().unwrap_or(name).to_owned()
}

/// A call in Python whose arguments without a name have the names that belong to their places.
fn with_names(call: pythonic::Written) -> (String, String) {
    let mut arguments = call.named;
    let names = tools::field_names(&call.tool).into_iter();
    arguments.extend(names.map(str::to_owned).zip(call.positional));
    (call.tool, Value::Object(arguments).to_string())
}

/// Calls in Python at the end of a text, in a fence or on lines of their own. People's code has such lines as well, so they
/// count only where each of them can be run as it is, and the words before them say that it is about to be done.
fn spoken(text: &str) -> Option<Found> {
    let text = text.trim();
    let fenced = text.strip_suffix(FENCE).and_then(|text| text.rsplit_once(FENCE));
    let (lead, found) = match fenced {
        Some((lead, inner)) => {
            let (beside, body) = inner.split_once('\n')?;
            PYTHON.contains(&beside.trim()).then_some(())?;
            (lead, pythonic::calls(body)?)
        }
        None => text
            .match_indices('\n')
            .map(|(at, _)| at + 1)
            .chain([0])
            .filter(|at| {
                text[*at..].starts_with(|letter: char| letter == '[' || letter.is_ascii_alphabetic())
            })
            .filter_map(|at| Some((&text[..at], pythonic::calls(&text[at..])?)))
            .min_by_key(|(lead, _)| lead.len())?,
    };
    let certain = |call: &pythonic::Written| {
        let arguments = Value::Object(call.named.clone()).to_string();
        call.positional.is_empty()
            && !call.named.is_empty()
            && tools::exists(&call.tool)
            && tools::parse(EditFormat::default(), &call.tool, &arguments).is_ok()
    };
    (quoting::means_it(lead) && found.iter().all(certain))
        .then(|| found.into_iter().map(with_names).collect())
}

/// `<function=read><parameter=path>a</parameter></function>`, and the same with `<invoke name="read">`.
fn elements(text: &str) -> Option<Found> {
    let (open, close) = ELEMENTS.into_iter().find(|(open, _)| after(text, open).is_some())?;
    let before = &text[..place(text, open)?];
    if !quoting::means_it(before) {
        return None;
    }
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
    let closing = ["</function_calls>", "</tool_calls>", "</tool_call>", "</tools>", "</minimax:tool_call>"];
    let rest = closing.iter().fold(rest.to_owned(), |rest, tag| rest.replace(tag, ""));
    (quoting::words(before).is_empty() || rest.trim().is_empty()).then_some(found)
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
    quoting::means_it(&text[..text.find("<|channel|>")?]).then_some(())?;
    while let Some(begun) = after(rest, RECIPIENT) {
        let (to, begun) = begun.split_once("<|message|>")?;
        let name = to.split(|letter: char| letter.is_whitespace() || letter == '<').next()?;
        let (arguments, left) = begun.split_once("<|call|>").unwrap_or((begun, ""));
        found.push((name.to_owned(), arguments.trim().to_owned()));
        rest = left;
    }
    (!found.is_empty()).then_some(found)
}

/// `>>>read` and its arguments on the lines after it.
fn recipient(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text.strip_prefix(">>>").or_else(|| text.split_once("\n>>>").map(|(_, rest)| rest))?;
    loop {
        let (name, body) = rest.split_once('\n')?;
        let (body, next) = body.split_once("\n>>>").map_or((body, None), |(body, next)| (body, Some(next)));
        let piece = loose::piece(body)
            .filter(|_| body.trim_start().starts_with('{') && tools::exists(name.trim()))?;
        found.push((name.trim().to_owned(), piece.whole.to_owned()));
        match next {
            Some(next) => rest = next,
            None => return Some(found),
        }
    }
}

/// Fences hold all kinds of JSON, so only those count that name one of our tools.
fn fenced(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text;
    quoting::means_it(&text[..text.find(FENCE)?]).then_some(())?;
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
        let at = text.len() - piece.rest.len() - piece.whole.len();
        rest = piece.rest;
        let mut calls = piece.object.map(loose::all_spelled).unwrap_or_default();
        calls.retain(|call| call.nested && tools::exists(&call.tool));
        match calls.is_empty() {
            true if found.is_empty() => {}
            true => return None,
            false if quoting::is_quoted(text, at) => return None,
            // The bracket of a list is no word.
            false if found.is_empty() && !quoting::means_it(&text[..at]) => return None,
            false => found.extend(calls.into_iter().map(written)),
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
            "[shell(command=\"ls\")]",
            "shell(command='ls')",
            "I will look first.\n\nshell(command='ls')",
            "Let me look:\n```python\nshell(command=\"ls\")\n```",
            "```tool_code\nprint(default_api.shell(command=\"ls\"))\n```",
            "<|python_tag|>shell.call(command=\"ls\")",
            "<|python_tag|>shell(command=\"ls\")<|eom_id|>",
            "<tool_call>shell(\"ls\")</tool_call>",
            "<|tool_call_start|>[shell(command=\"ls\")]<|tool_call_end|>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>shell\n```json\n{\"command\": \"ls\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "I look.\n<｜tool▁call▁begin｜>shell<｜tool▁sep｜>{\"command\": \"ls\"}<｜tool▁call▁end｜>",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.shell:0<|tool_call_argument_begin|>{\"command\": \"ls\"}<|tool_call_end|><|tool_calls_section_end|>",
            "[TOOL_CALLS]shell{\"command\": \"ls\"}",
            "[TOOL_CALLS]shell[CALL_ID]a1[ARGS]{\"command\": \"ls\"}",
            "<tool_call>shell\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
            "<tool_call>shell<arg_key>command</arg_key><arg_value>ls</arg_value>",
            ">>>shell\n{\"command\": \"ls\"}",
            "{\"tool_calls\": [{\"id\": \"a\", \"type\": \"function\", \"function\": {\"name\": \"shell\", \"arguments\": \"{\\\"command\\\": \\\"ls\\\"}\"}}]}",
            "First I run the tests:\n```json\n{\"tool_calls\": [{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]}\n```",
            "shell({\"command\": \"ls\"})",
            "I will look.\nfunctions.shell({\"command\": \"ls\"});",
            "```\nshell({\"command\": \"ls\"})\n```",
            "shell\n{\"command\": \"ls\"}",
            "shell\n```json\n{\"command\": \"ls\"}\n```",
            "{\"shell\": {\"command\": \"ls\"}}",
            "Thought: The tests fail.\nAction: shell\nAction Input: {\"command\": \"ls\"}\nObservation: a.py",
            "Action: `shell`\nAction Input:\n```json\n{\"command\": \"ls\"}\n```",
            "<tool_code>print(shell(command=\"ls\"))</tool_code>",
            "I look.\n<shell>\n<command>ls</command>\n</shell>",
            "<shell>{\"command\": \"ls\"}</shell>",
            "<tool>shell</tool><args>{\"command\": \"ls\"}</args>",
            "<minimax:tool_call>\n<invoke name=\"shell\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</minimax:tool_call>",
            "I look.\n<minimax:tool_call><invoke name=\"shell\"><parameter name=\"command\">ls</parameter></invoke>",
            "functools[{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}]",
            "Action: ```json\n[\n    {\n        \"tool_name\": \"shell\",\n        \"parameters\": {\"command\": \"ls\"}\n    }\n]```",
            "Plan: I will look.\nAction:\n```json\n[{\"tool_name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}]\n```",
            "<tool_request>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_request>",
            "[TOOL_REQUEST]{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}[END_TOOL_REQUEST]",
            "<tool_name>shell</tool_name>\n<parameters>\n<command>ls</command>\n</parameters>",
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
        let deepseek = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>list<｜tool▁sep｜>{}<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>check<｜tool▁sep｜>{}<｜tool▁call▁end｜>";
        let glm = "<tool_call>list</tool_call>\n<tool_call>check</tool_call>";
        assert_eq!([tools(deepseek), tools(glm)], [["list", "check"], ["list", "check"]]);
        assert_eq!(tools("[list(path='a'), read(path='b')]"), ["list", "read"]);
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
            "You can call it so:\n```python\nsearch(pattern='x')\n```",
            "I added search. Use it like this:\nsearch(pattern='x')",
            "The new function is called as\n```\nread(path='x')\n```",
            "shell(command='ls') shows the files.",
            "It begins with <tool_call> list",
            "Llama writes <|python_tag|> (and its calls after it).",
            "list()",
            "check()\n",
            "search('x')",
            "search(needle='x')",
            "I will run shell(command='ls') next.",
            "```python\nimport os\nshell(command='ls')\n```",
            "DeepSeek begins with <｜tool▁call▁begin｜> and Llama with <|python_tag|>.",
            ">>> shell(command='ls')\n'a'",
            "I finished. To run it by hand, a client sends:\n\n```json\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n```",
            "The README says:\n\n> <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>\n\nI removed nothing.",
            "The README says:\n<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
            "It ends with:\n> {\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}",
            "I wrote down the format:\n```xml\n<function_calls><invoke name=\"shell\"><parameter name=\"command\">ls</parameter></invoke></function_calls>\n```\nFinished.",
            "Qwen writes its calls in this form: <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call> The server parses them.",
            "Never send this: <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
            "| form | <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call> |",
            "- <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
            "The value is \"<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>\"",
            "It holds:\n\n    <tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
            "The fixture has one recorded call:\n```json\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n```",
            "The first line of demo.py is\nshell(command=\"ls\")",
            "The helper is called so:\nshell({\"command\": \"ls\"})",
            "The config now has\n{\"shell\": {\"command\": \"ls\"}}",
            "{\"check\": {\"enabled\": true}}",
            "{\"tool_calls\": []}",
            "The log has `Action: shell` and\n> Action Input: {\"command\": \"ls\"}",
            "The page has a <search> element, and <list> is none.",
            "The fixture is\n<shell><command>ls</command></shell>",
            "Run it with\n```bash\nnpm test\n```",
            "Phi writes functools[ before its calls.",
            "The log has this.\nAction: ```json\n[{\"tool_name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}]\n```",
            "search\n{\"needle\": 1}",
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
            "Action: shell\nAction Input: ls -la".to_owned(),
            "shell({\"command\": \"echo \"x\"\"})".to_owned(),
            "The plan:\n<shell>\n<command>ls</command>\n</shell>\nThen I stop.".to_owned(),
        ] {
            assert_eq!(found(&text), [], "{text}");
            assert!(seems_to_call(&text), "{text}");
        }
        for text in [
            "Done: `fn main() {}` is there.",
            "{\"name\": \"slipway\", \"arguments\": {}}",
            "It reads `<function=x>` and <tool_call> now.",
            "The README says:\n> {\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\nand no more.",
            "I added a form for\nsearch\nand `list`: {\"path\": \"a\"} is what it sends.",
            "Action: none is needed.",
        ] {
            assert!(!seems_to_call(text), "{text}");
        }
        for text in ["```bash\nnpm test\n```", "I'll look at the files.\n```sh\nls -la\n```\n"] {
            assert!(seems_to_run(text) && found(text).is_empty(), "{text}");
        }
        for text in [
            "I added the script. Run it with\n```bash\nnpm test\n```",
            "I'll explain:\n```bash\nnpm test\n```\nThat is all.",
            "```python\nimport os\n```",
        ] {
            assert!(!seems_to_run(text), "{text}");
        }
    }
}
