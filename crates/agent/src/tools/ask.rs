//! `ask`: a question to a person. The turn waits for the answer, which may come much later.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

/// Most characters of a question.
const LONGEST: usize = 4_000;
/// Most answers to choose from, and most characters of one.
const OPTIONS: usize = 10;
const WORDS: usize = 300;

/// A line of text for each option, as with the plan.
pub(super) const TOOL: Tool = Tool {
    name: "ask",
    about: "Asks a person and gives back the answer; all work waits until then, maybe for hours. Only for what you can neither find out nor decide yourself, and would spoil the work if decided wrongly. Ask all you need at once.",
    fields: &[
        Field {
            name: "question",
            kind: Kind::String,
            need: Need::Required,
            about: "The question, with what is needed to answer it.",
        },
        Field {
            name: "options",
            kind: Kind::String,
            need: Need::Optional,
            about: "Answers to choose from, one on each line; the person may give another one.",
        },
    ],
    aliases: &[("text", "question"), ("prompt", "question"), ("choices", "options"), ("answers", "options")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    question: String,
    #[serde(default)]
    options: Value,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let question = said("question", args.question)?.trim().to_owned();
    let count = question.chars().count();
    if count > LONGEST {
        return Err(format!("`question` has {count} characters, and {LONGEST} is the most"));
    }
    let texts: Vec<&str> = match &args.options {
        Value::Null => Vec::new(),
        Value::String(text) => text.lines().collect(),
        Value::Array(values) => values.iter().filter_map(option).collect(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err("`options` is not a text with a line for each answer".to_owned());
        }
    };
    let mut options: Vec<String> = Vec::new();
    for text in texts {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let plain = ["- ", "* ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet)).unwrap_or(&line);
        let short: String = plain.chars().take(WORDS).collect();
        if !short.is_empty() && !options.contains(&short) {
            options.push(short);
        }
    }
    match options.len() {
        0..=OPTIONS => Ok(Invocation::Ask { question, options }),
        many => Err(format!("`options` has {many} lines, and {OPTIONS} is the most")),
    }
}

/// An answer to choose from as other harnesses have it.
fn option(value: &Value) -> Option<&str> {
    let keys = ["label", "text", "value"];
    value.as_str().or_else(|| keys.iter().find_map(|key| value.get(*key)?.as_str()))
}

/// What the model reads when nobody is there to answer.
pub const NOBODY_ANSWERS: &str = "Nobody can answer: this session runs unattended. Decide yourself, and name what you assumed in your summary.";

#[cfg(test)]
mod tests {
    use super::super::parse_any as parse;
    use super::*;
    use serde_json::json;

    fn asked(arguments: Value) -> (String, Vec<String>) {
        match parse("ask", &arguments.to_string()) {
            Ok(Invocation::Ask { question, options }) => (question, options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_question_has_its_answers_in_lines_or_as_other_harnesses_have_them() {
        let expected = ("Which?".to_owned(), vec!["this one".to_owned(), "that".to_owned()]);
        for call in [
            json!({"question": " Which? ", "options": "- this  one\n\nthat\nthat"}),
            json!({"question": "Which?", "options": ["this one", {"label": "that"}]}),
            json!({"text": "Which?", "choices": "this one\nthat"}),
        ] {
            assert_eq!(asked(call.clone()), expected, "{call}");
        }
        assert_eq!(asked(json!({"question": "Why?"})).1, Vec::<String>::new());
    }

    #[test]
    fn what_nobody_could_answer_is_refused() {
        let refused = |arguments: Value| parse("ask", &arguments.to_string()).unwrap_err();
        assert!(refused(json!({"question": "  "})).contains("`question` is empty"));
        assert!(refused(json!({"question": "é".repeat(4001)})).contains("4001 characters"));
        let many: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        assert!(refused(json!({"question": "x", "options": many})).contains("11 lines, and 10 is the most"));
        assert!(refused(json!({"question": "x", "options": 3})).contains("not a text"));
    }
}
