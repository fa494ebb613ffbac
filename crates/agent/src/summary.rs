//! What a model wrote when it was asked to sum up a conversation. The conversation is full of calls, and some models go on with
//! it instead: a call in the place of a summary tells nothing of what was done.

use protocol::chat::{Completion, Part, Stop};

use crate::answer;
use crate::loose::beside_thoughts;
use crate::mode::is_step;
use crate::salvage;

/// Headings that a summary is asked for. What has one of them sums up, whatever else the model wrote.
const HEADINGS: [&str; 4] = ["objective", "decisions", "done", "under way"];
/// Names of a step's fields, for one that was cut off.
const FIELDS: [&str; 3] = ["\"tool\"", "\"call\"", "\"arguments\""];

/// The words of a summary, or why an answer is none.
pub fn summary(completion: &Completion) -> Result<String, &'static str> {
    // The words of a refusal tell nothing of what was done.
    if completion.stop == Stop::Refusal {
        return Err("it refused to");
    }
    let text: Vec<&str> = completion.parts.iter().filter_map(answer::text).collect();
    let text = text.join("\n");
    let words = beside_thoughts(&text);
    let called = completion.parts.iter().any(|part| matches!(part, Part::Call(_)));
    match words {
        Some(words) if sums_up(words) => Ok(words.to_owned()),
        Some(words) if !called && !is_call(words) => Ok(words.to_owned()),
        None if !called => Err("its answer has no words in it"),
        Some(_) | None => Err("it called a tool instead"),
    }
}

fn sums_up(words: &str) -> bool {
    let heading = |line: &str| {
        let line = line.trim_matches(|letter: char| !letter.is_alphabetic()).to_lowercase();
        HEADINGS.iter().any(|heading| line.starts_with(heading))
    };
    words.lines().any(heading)
}

fn is_call(words: &str) -> bool {
    let bare = words.trim_start_matches("```json").trim_start_matches("```").trim_start();
    let begins_one = bare.starts_with('{') && FIELDS.iter().any(|field| bare.contains(field));
    begins_one || is_step(words) || !salvage::calls(words, 1).is_empty() || salvage::seems_to_call(words)
}

#[cfg(test)]
mod tests {
    use protocol::Usage;
    use protocol::chat::Call;

    use super::*;

    fn of(parts: Vec<Part>) -> Result<String, &'static str> {
        summary(&Completion { parts, stop: Stop::End, usage: Usage::default() })
    }

    fn said(text: &str) -> Result<String, &'static str> {
        of(vec![Part::Text { text: text.to_owned() }])
    }

    #[test]
    fn a_call_is_no_summary_however_it_is_written() {
        for call in [
            r#"{"tool": "shell", "command": "cargo test"}"#,
            r#"{"thought": "I look.", "call": {"tool": "read", "path": "a.rs"}}"#,
            "```json\n{\"thought\": \"I look.\", \"call\": {\"tool\": \"read\", \"path\": \"a.rs\"}}\n```",
            r#"{"thought": "It is cut off.", "call": {"tool": "wri"#,
            r#"{"thought": "It is over.", "call": {"tool": "finish", "summary": "Mended."}}"#,
            r#"<think>Well.</think>{"name": "shell", "arguments": {"command": "ls"}}"#,
            "I will look first.\n<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
            "<function=shell><parameter=command>ls</parameter></function>",
        ] {
            assert_eq!(said(call), Err("it called a tool instead"), "{call}");
        }
        let call = Call { id: "1".into(), tool: "shell".into(), arguments: "{}".into() };
        let parts = vec![Part::Text { text: "Let me look.".into() }, Part::Call(call)];
        assert_eq!(of(parts), Err("it called a tool instead"));
        assert_eq!(said("<think>Well.</think>"), Err("its answer has no words in it"));
    }

    #[test]
    fn a_summary_may_speak_of_calls() {
        for summary in [
            "Objective\nMend the cart.\nCommands that work here\n{\"tool\": \"shell\", \"command\": \"cargo test\"}",
            "## Objective: mend the cart\nNext\n<tool_call>{\"name\": \"shell\", \"arguments\": {}}</tool_call>",
            "The cart was mended with the shell tool, and `{\"tool\": \"read\"}` failed.",
            r#"{"objective": "mend the cart", "next": "run the tests"}"#,
        ] {
            assert_eq!(said(summary).as_deref(), Ok(summary));
        }
    }
}
