//! `plan`: the model's to-do list. People follow it, and the model keeps its way when the conversation becomes long: the
//! list is put back from the log, whatever else is left out.

use protocol::event::{PlanItem, PlanState};
use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, typed};

/// Most items of a plan; more than anybody follows.
const ITEMS: usize = 50;
/// Most characters of one item.
const WORDS: usize = 300;

/// A line of text for each item, because a list of objects is written with more mistakes; such a list is understood too.
pub(super) const TOOL: Tool = Tool {
    name: "plan",
    about: "Writes down your to-do list for work of several steps; people see it. Send the whole list each time an item changes.",
    fields: &[Field {
        name: "items",
        kind: Kind::String,
        need: Need::Required,
        about: "One item on each line: [ ] pending, [>] in progress, [x] completed, [-] skipped or [!] failed, then what it is.",
    }],
    aliases: &[("plan", "items"), ("todos", "items"), ("steps", "items"), ("explanation", "")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    items: Value,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let items: Vec<PlanItem> = match &args.items {
        Value::String(text) => text.lines().filter_map(line).collect(),
        Value::Array(values) => values.iter().filter_map(element).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err("`items` is not a text with a line for each item".to_owned());
        }
    };
    match items.len() {
        0 => Err("`items` has no line that says what is to be done".to_owned()),
        1..=ITEMS => Ok(Invocation::Plan { items }),
        many => Err(format!("`items` has {many} lines, and {ITEMS} is the most: join small ones")),
    }
}

/// The mark of a state, as the model writes it and as it is shown.
pub fn plan_mark(state: PlanState) -> &'static str {
    match state {
        PlanState::Pending => "[ ]",
        PlanState::InProgress => "[>]",
        PlanState::Completed => "[x]",
        PlanState::Skipped => "[-]",
        PlanState::Failed => "[!]",
    }
}

/// What the model reads when its plan was written down.
pub fn plan_noted(items: &[PlanItem]) -> String {
    let of = |state: PlanState| items.iter().filter(|item| item.state == state).count();
    let open = of(PlanState::Pending) + of(PlanState::InProgress);
    format!("The plan is written down: {} of {} items are left.", open, items.len())
}

/// An item that is a line of text.
fn line(text: &str) -> Option<PlanItem> {
    let text = text.trim();
    // A list in Markdown, or one with numbers.
    let text = ["- ", "* ", "• "].iter().find_map(|bullet| text.strip_prefix(bullet)).unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let text = match text[digits..].strip_prefix(['.', ')']) {
        Some(rest) if digits > 0 => rest.trim_start(),
        Some(_) | None => text,
    };
    let marked = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match marked {
        Some((mark, words)) if mark.trim().chars().count() <= 1 => {
            let state = match mark.trim() {
                ">" | "~" | "/" => PlanState::InProgress,
                "x" | "X" | "✓" => PlanState::Completed,
                "-" => PlanState::Skipped,
                "!" => PlanState::Failed,
                _ => PlanState::Pending,
            };
            item(words, state)
        }
        Some(_) | None => item(text, PlanState::Pending),
    }
}

/// An item as other harnesses have it.
fn element(value: &Value) -> Option<PlanItem> {
    if let Value::String(text) = value {
        return line(text);
    }
    let said = |names: &[&str]| names.iter().find_map(|name| value.get(*name)?.as_str());
    let state = match said(&["state", "status"]).unwrap_or_default() {
        "in_progress" | "in progress" | "active" => PlanState::InProgress,
        "completed" | "complete" | "done" => PlanState::Completed,
        "skipped" | "cancelled" => PlanState::Skipped,
        "failed" | "blocked" => PlanState::Failed,
        _ => PlanState::Pending,
    };
    item(said(&["text", "step", "content", "task", "title"])?, state)
}

fn item(words: &str, state: PlanState) -> Option<PlanItem> {
    let text: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(WORDS).collect();
    (!text.is_empty()).then_some(PlanItem { text, state })
}

#[cfg(test)]
mod tests {
    use super::super::parse_any as parse;
    use super::*;
    use serde_json::json;

    fn planned(arguments: Value) -> Vec<(String, PlanState)> {
        match parse("plan", &arguments.to_string()) {
            Ok(Invocation::Plan { items }) => items.into_iter().map(|item| (item.text, item.state)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_state_has_its_mark_and_is_read_back() {
        use PlanState::{Completed, Failed, InProgress, Pending, Skipped};
        let states = [Pending, InProgress, Completed, Skipped, Failed];
        let lines: Vec<String> = states.iter().map(|state| format!("{} do it", plan_mark(*state))).collect();
        let read: Vec<PlanState> =
            planned(json!({"items": lines.join("\n")})).into_iter().map(|(_, state)| state).collect();
        assert_eq!(read, states);
    }

    #[test]
    fn lists_are_understood_as_other_harnesses_have_them() {
        let expected =
            [("look".to_owned(), PlanState::Completed), ("change it".to_owned(), PlanState::InProgress)];
        for list in [
            json!({"items": "- [x] look\n\n2. [>]  change   it\n"}),
            json!({"plan": [{"step": "look", "status": "completed"}, {"step": "change it", "status": "in_progress"}]}),
            json!({"todos": ["[X] look", {"content": "change it", "status": "in_progress"}]}),
            json!({"explanation": "why not", "items": "* [x] look\n1) [~] change it"}),
        ] {
            assert_eq!(planned(list.clone()), expected, "{list}");
        }
        assert_eq!(planned(json!({"items": "[a note] first"}))[0].0, "[a note] first");
        assert_eq!(planned(json!({"items": "3 files\n- more"}))[0].0, "3 files");
        assert_eq!(planned(json!({"items": "é".repeat(400)}))[0].0.chars().count(), 300);
    }

    #[test]
    fn a_plan_without_items_or_with_too_many_is_refused() {
        insta::assert_snapshot!(parse("plan", r#"{"items": "[ ]\n\n"}"#).unwrap_err(), @r#"
        The arguments of "plan" cannot be used: `items` has no line that says what is to be done.
        Send the call again with a JSON object of these fields: items (string, required).
        "#);
        let many = json!({"items": "[ ] x\n".repeat(51)}).to_string();
        assert!(parse("plan", &many).unwrap_err().contains("51 lines, and 50 is the most"));
        assert!(parse("plan", r#"{"items": 3}"#).is_err());
    }

    #[test]
    fn the_model_is_told_how_much_is_left() {
        let Ok(Invocation::Plan { items }) = parse("plan", r#"{"items": "[x] a\n[>] b\n[ ] c\n[-] d"}"#)
        else {
            panic!()
        };
        assert_eq!(plan_noted(&items), "The plan is written down: 2 of 4 items are left.");
    }
}
