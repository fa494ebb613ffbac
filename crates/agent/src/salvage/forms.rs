//! Forms in which a tool's name stands beside its arguments and not with them in an object: as a label, before a bracket, on a
//! line of its own, or as an element. The name alone says little, since tools are called as words are, so these count only where
//! the arguments are those of that tool.

use protocol::EditFormat;
use serde_json::{Map, Value};

use super::{Found, place};
use crate::{loose, quoting, tools};

const ACTION: &str = "Action:";
const INPUT: &str = "Action Input:";
/// What an element for the name is called, and one for the arguments.
const NAME_ELEMENTS: [&str; 3] = ["tool", "tool_name", "name"];
const ARGUMENT_ELEMENTS: [&str; 6] = ["args", "arguments", "parameters", "params", "tool_input", "input"];
/// Languages of a fence that a command stands in.
const SHELLS: [&str; 6] = ["bash", "sh", "shell", "zsh", "console", "shellscript"];

/// `Action: read` and, after it, `Action Input: {"path": "a"}`. What comes after that is what the model imagines of the result.
pub(super) fn labelled(text: &str) -> Option<Found> {
    let (at, tool) = action(text)?;
    let input = &text[at..];
    let input = &input[input.find(INPUT)? + INPUT.len()..];
    let piece = loose::piece(input).filter(|_| begins(input))?;
    let lead = text[..at].trim();
    (quoting::means_it(lead) || lead.starts_with("Thought:"))
        .then(|| vec![(tool, tools::replayed_arguments(&Value::Object(piece.object.unwrap_or_default())))])
}

/// `Action:` and, after it, calls in a fence.
pub(super) fn listed(text: &str) -> Option<Found> {
    let at = place(text, ACTION).filter(|at| *at == 0 || text[..*at].ends_with('\n'))?;
    let lead = text[..at].trim();
    let meant = quoting::means_it(lead) || ["Thought:", "Plan:"].iter().any(|word| lead.starts_with(word));
    let list = text[at + ACTION.len()..].trim_start();
    if meant && list.starts_with("```") { super::fenced(list) } else { None }
}

/// Where such a label of one of our tools stands that has an input, and which tool it is.
fn action(text: &str) -> Option<(usize, String)> {
    let at = place(text, ACTION).filter(|at| *at == 0 || text[..*at].ends_with('\n'))?;
    let (label, rest) = text[at + ACTION.len()..].split_once('\n')?;
    let name = name(label.trim().trim_matches('`'))?;
    rest.contains(INPUT).then_some((at, name))
}

/// `read({"path": "a"})`, `functions.read({…})` and `read` with the object after it, all to the end of the text.
pub(super) fn named(text: &str) -> Option<Found> {
    let mut found = Found::new();
    let mut rest = text;
    while let Some(piece) = loose::piece(rest) {
        let at = text.len() - piece.rest.len() - piece.whole.len();
        let lead = if found.is_empty() { &text[..at] } else { &rest[..at - (text.len() - rest.len())] };
        let Some((lead, tool)) = name_before(lead) else {
            if found.is_empty() {
                rest = piece.rest;
                continue;
            }
            return None;
        };
        let arguments = tools::replayed_arguments(&Value::Object(piece.object?));
        let meant = if found.is_empty() { quoting::means_it(lead) } else { lead.trim().is_empty() };
        if !meant || quoting::is_quoted(text, at) || !fits(&tool, &arguments) {
            return None;
        }
        found.push((tool, arguments));
        rest = piece.rest.trim_start_matches([')', ';', ',']);
    }
    let over = rest.replace("```", "").trim().is_empty();
    (!found.is_empty() && over).then_some(found)
}

/// The words before a tool's name at the end of a text, and the name. It begins a line, or the text of a fence.
fn name_before(lead: &str) -> Option<(&str, String)> {
    let lead = lead.trim_end();
    let lead = lead.strip_suffix("```json").or_else(|| lead.strip_suffix("```")).unwrap_or(lead).trim_end();
    let lead = lead.strip_suffix('(').unwrap_or(lead);
    let (before, line) = match lead.rfind('\n') {
        Some(end) => lead.split_at(end + 1),
        None => ("", lead),
    };
    let name = name(line.trim().trim_matches(['`', ':']))?;
    let before = before.trim_end();
    let before = SHELLS
        .iter()
        .chain(&["json", "tool_code", "python", ""])
        .find_map(|language| before.strip_suffix(language).and_then(|before| before.strip_suffix("```")));
    Some((before.unwrap_or(&lead[..lead.len() - line.len()]), name))
}

/// `<read><path>a</path></read>`, and `<tool>read</tool><args>{"path": "a"}</args>`.
pub(super) fn nested(text: &str) -> Option<Found> {
    let (at, tool) = element(text)?;
    if !quoting::means_it(&text[..at]) {
        return None;
    }
    let begun = &text[at..];
    let (arguments, rest) = match inner(begun, &tool) {
        Some((body, rest)) => (fields(&tool, body)?, rest),
        None => {
            let (_, begun) = begun.split_once("</")?;
            let (body, rest) = ARGUMENT_ELEMENTS.iter().find_map(|name| inner(begun, name))?;
            (fields(&tool, body)?, rest)
        }
    };
    let arguments = tools::replayed_arguments(&Value::Object(arguments));
    let over = rest.replace("```", "").trim().is_empty();
    (over && fits(&tool, &arguments)).then(|| vec![(tool, arguments)])
}

/// The first element at the beginning of a line that is named like a tool and has what belongs to one, or that holds its name.
fn element(text: &str) -> Option<(usize, String)> {
    let mut from = 0;
    while let Some(found) = text[from..].find('<') {
        let at = from + found;
        from = at + 1;
        let line = text[..at].rfind('\n').map_or(&text[..at], |end| &text[end + 1..at]);
        let (open, body) = text[from..].split_once('>')?;
        if !line.trim().is_empty() || quoting::is_quoted(text, at) {
            continue;
        }
        if NAME_ELEMENTS.contains(&open) {
            let named = body.split_once(&format!("</{open}>")).and_then(|(inner, _)| name(inner.trim()));
            if let Some(tool) = named {
                return Some((at, tool));
            }
        } else if let Some(tool) = name(open)
            && (body.trim_start().starts_with('{')
                || tools::field_names(&tool).iter().any(|field| body.contains(&format!("<{field}>"))))
        {
            return Some((at, tool));
        }
    }
    None
}

/// What an element holds, and what comes after it.
fn inner<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (before, begun) = text.split_once(&format!("<{name}>"))?;
    // Only the ends of other elements may stand before it.
    let before = before.trim();
    if !(before.is_empty() || before.ends_with('>')) {
        return None;
    }
    Some(begun.split_once(&format!("</{name}>")).unwrap_or((begun, "")))
}

fn fields(tool: &str, body: &str) -> Option<Map<String, Value>> {
    if body.trim_start().starts_with('{') {
        return loose::piece(body)?.object;
    }
    let mut fields = Map::new();
    for field in tools::field_names(tool) {
        let Some((_, begun)) = body.split_once(&format!("<{field}>")) else { continue };
        let value = begun.split_once(&format!("</{field}>"))?.0;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        fields.insert(field.to_owned(), Value::from(value));
    }
    (!fields.is_empty()).then_some(fields)
}

/// Whether a text has one of these forms without being a call that can be read.
pub(super) fn seems_so(text: &str) -> bool {
    let beside = || {
        let mut rest = text;
        while let Some(piece) = loose::piece(rest) {
            let at = text.len() - piece.rest.len() - piece.whole.len();
            // In a sentence about a tool its name does not begin a line that ends with it.
            let called =
                |object: &Map<String, Value>| object.keys().any(|key| key == "command" || key == "path");
            if !quoting::is_quoted(text, at)
                && name_before(&text[..at]).is_some()
                && piece.object.as_ref().is_none_or(called)
            {
                return true;
            }
            rest = piece.rest;
        }
        false
    };
    action(text).is_some() || element(text).is_some() || beside()
}

/// Whether a text ends with a command in a fence that it seems to want run: with nothing before it, or words that say so.
pub(crate) fn seems_to_run(text: &str) -> bool {
    let text = loose::without_thoughts(text).trim();
    let Some((lead, inner)) = text.strip_suffix("```").and_then(|text| text.rsplit_once("```")) else {
        return false;
    };
    let Some((language, body)) = inner.split_once('\n') else { return false };
    SHELLS.contains(&language.trim()) && !body.trim().is_empty() && quoting::means_it(lead)
}

/// The name of one of our tools, without what some models write before it.
fn name(written: &str) -> Option<String> {
    let name =
        ["functions.", "default_api.", "tools."].iter().find_map(|before| written.strip_prefix(before));
    let name = name.unwrap_or(written);
    tools::exists(name).then(|| name.to_owned())
}

fn begins(input: &str) -> bool {
    let input = input.trim_start();
    let input = input.strip_prefix("```json").or_else(|| input.strip_prefix("```")).unwrap_or(input);
    input.trim_start().starts_with('{')
}

fn fits(tool: &str, arguments: &str) -> bool {
    tools::parse(EditFormat::default(), tool, arguments).is_ok()
}
