//! `recall`: looks for notes of earlier sessions.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

pub(super) const TOOL: Tool = Tool {
    name: "recall",
    about: "Looks for notes of earlier sessions about this repository, this environment and the author of the prompt: facts, decisions, errors and their cures. Use it when something seems odd, or when an error may have come before.",
    fields: &[Field {
        name: "query",
        kind: Kind::String,
        need: Need::Required,
        about: "What you want to know, as a question or in a few words, or the message of an error.",
    }],
    aliases: &[("text", "query"), ("question", "query"), ("search", "query"), ("limit", "")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    query: String,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Recall { query: said("query", args.query)?.trim().to_owned() })
}

/// Whether the results of this tool are notes of the memory.
pub(crate) fn gives_notes(tool: &str) -> bool {
    tool == TOOL.name
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    #[test]
    fn a_question_is_all_it_needs() {
        let call = parse("recall", r#"{"text": " which port? ", "limit": 3}"#).unwrap();
        assert_eq!(call, Invocation::Recall { query: "which port?".into() });
        assert!(parse("recall", r#"{"query": " "}"#).unwrap_err().contains("`query` is empty"));
    }
}
