//! What a tool answers: text for people and models, the same as data, and errors that say what happened and what to do.
//! Whatever is long is cut, and says so.

use protocol::{Code, Problem};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// The answer of a tool.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) data: Value,
}

impl Answer {
    pub(super) fn new(text: impl Into<String>, data: Value) -> Self {
        Self { text: text.into(), data }
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(self.data);
        result
    }
}

/// An error that the caller's model reads, with what the server says of it.
pub(super) fn failure(error: &anyhow::Error) -> CallToolResult {
    let unnamed = || Problem::new(Code::Internal, format!("{error:#}"));
    let (text, data) = match error.downcast_ref::<Problem>() {
        Some(problem) => {
            (problem.to_string(), json!({"code": problem.code, "title": problem.title, "hint": problem.hint}))
        }
        None => (unnamed().title, json!({"title": unnamed().title})),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({ "error": data }));
    result
}

/// A wrong use of a tool, which its caller can mend.
pub(super) fn wrong(title: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Problem::new(Code::BadRequest, title).hint(hint).into()
}

/// The beginning and the end of a text that is longer than so many characters, with a word on what is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let tail = most / 3;
    let head: String = text.chars().take(most - tail).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{head}\n… {} characters cut …\n{end}", count - most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_both_ends_and_says_what_is_missing() {
        assert_eq!(cut("short", 5), "short");
        let long = format!("{}é{}", "a".repeat(500), "z".repeat(500));
        let short = cut(&long, 90);
        assert!(short.starts_with("aaa") && short.ends_with("zzz"), "{short}");
        assert!(short.contains("… 911 characters cut …"), "{short}");
    }

    #[test]
    fn a_problem_keeps_its_title_its_hint_and_its_code() {
        let error = Problem::new(Code::Conflict, "it is decided").hint("look again").into();
        let result = serde_json::to_value(failure(&error)).unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "it is decided\n  look again");
        assert_eq!(result["structuredContent"]["error"]["code"], "conflict");
        let other = serde_json::to_value(failure(&anyhow::anyhow!("no"))).unwrap();
        assert_eq!(other["structuredContent"]["error"]["title"], "no");
    }
}
