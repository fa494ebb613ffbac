//! `process`: looks after commands that `shell` left running in the background.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, typed};

/// How long a call waits unless it says otherwise: long enough for an answer to what was written.
const DEFAULT_WAIT_MS: u64 = 1_000;
/// The longest a call may wait.
const MAX_WAIT_MS: u64 = 600_000;

pub(super) const TOOL: Tool = Tool {
    name: "process",
    about: "Follows a command that shell left running in the background: gives its new output since you last looked, and whether it still runs. Without id it lists all of them.",
    fields: &[
        Field { name: "id", kind: Kind::String, need: Need::Optional, about: "Which one, such as p1." },
        Field {
            name: "stdin",
            kind: Kind::String,
            need: Need::Optional,
            about: "Text to write to its input first; end each line with a newline.",
        },
        Field {
            name: "wait_ms",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Wait up to this many milliseconds for it to end; 1000 unless given, at most 600000.",
        },
        Field {
            name: "kill",
            kind: Kind::Boolean,
            need: Need::Optional,
            about: "End it, with all that it started; false unless given.",
        },
    ],
    aliases: &[
        ("process_id", "id"),
        ("session_id", "id"),
        ("input", "stdin"),
        ("chars", "stdin"),
        ("timeout_ms", "wait_ms"),
        ("yield_time_ms", "wait_ms"),
    ],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    id: Option<String>,
    stdin: Option<String>,
    wait_ms: Option<u64>,
    #[serde(default)]
    kill: bool,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let id = args.id.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty());
    // Nothing to write is no writing: models send empty texts to look.
    let stdin = args.stdin.filter(|text| !text.is_empty());
    if id.is_none() && (stdin.is_some() || args.kill) {
        return Err("`id` is missing: it says which process is meant".to_owned());
    }
    if stdin.is_some() && args.kill {
        return Err("`stdin` and `kill` are in one call: make two of it".to_owned());
    }
    let wait_ms = args.wait_ms.unwrap_or(DEFAULT_WAIT_MS).min(MAX_WAIT_MS);
    Ok(Invocation::Process { id, stdin, wait_ms, kill: args.kill })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    fn process(id: &str, stdin: Option<&str>, wait_ms: u64, kill: bool) -> Invocation {
        Invocation::Process { id: Some(id.into()), stdin: stdin.map(str::to_owned), wait_ms, kill }
    }

    #[test]
    fn a_call_looks_writes_or_ends_and_waits_for_no_more_than_it_may() {
        let is = |arguments: &str, expected| assert_eq!(parse("process", arguments).unwrap(), expected);
        is(r#"{"id": " p1 "}"#, process("p1", None, 1_000, false));
        is(r#"{"session_id": "p1", "chars": "", "wait_ms": 99999999}"#, process("p1", None, 600_000, false));
        is(r#"{"id": "p1", "stdin": "go\n"}"#, process("p1", Some("go\n"), 1_000, false));
        is(r#"{"id": "p1", "kill": true, "wait_ms": 0}"#, process("p1", None, 0, true));
        is(r#"{"id": ""}"#, Invocation::Process { id: None, stdin: None, wait_ms: 1_000, kill: false });
    }

    #[test]
    fn what_is_meant_for_one_says_for_which() {
        for arguments in [r#"{"kill": true}"#, r#"{"stdin": "x"}"#] {
            assert!(parse("process", arguments).unwrap_err().contains("`id` is missing"));
        }
        let both = r#"{"id": "p1", "stdin": "x", "kill": true}"#;
        assert!(parse("process", both).unwrap_err().contains("make two of it"));
    }
}
