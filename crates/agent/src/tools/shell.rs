//! `shell`: runs a command in the workspace.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

/// When a command is killed unless the call says otherwise.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The longest a call may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;
/// The same of a command in the background, which nobody waits for.
const MAX_BACKGROUND_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) const TOOL: Tool = Tool {
    name: "shell",
    about: "Runs a shell command in /workspace and gives back its output and exit code. Each call starts a fresh shell, so `cd` and variables do not last. There is no terminal and no input: use flags such as -y. For a server, or what takes longer than the limit, set background and follow it with process.",
    fields: &[
        Field { name: "command", kind: Kind::String, need: Need::Required, about: "The command." },
        Field {
            name: "timeout_ms",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Kill it after this many milliseconds; 120000 unless given, at most 600000.",
        },
        Field {
            name: "background",
            kind: Kind::Boolean,
            need: Need::Optional,
            about: "Leave it running, also after your work, and give back an id for process; then it has no time limit unless timeout_ms is given.",
        },
    ],
    aliases: &[
        ("cmd", "command"),
        ("description", ""),
        ("run_in_background", "background"),
        ("is_background", "background"),
    ],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    timeout_ms: Option<u64>,
    #[serde(default)]
    background: bool,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let timeout_ms = match (args.background, args.timeout_ms) {
        (false, None | Some(0)) => DEFAULT_TIMEOUT_MS,
        (false, Some(asked)) => asked.min(MAX_TIMEOUT_MS),
        (true, None) => 0,
        (true, Some(asked)) => asked.min(MAX_BACKGROUND_MS),
    };
    let command = said("command", args.command)?;
    Ok(Invocation::Shell { command, timeout_ms, background: args.background })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    fn timeout(arguments: &str) -> u64 {
        match parse("shell", arguments) {
            Ok(Invocation::Shell { timeout_ms, .. }) => timeout_ms,
            other => panic!("not a shell call: {other:?}"),
        }
    }

    #[test]
    fn the_time_limit_has_a_default_and_a_cap() {
        assert_eq!(timeout(r#"{"command": "make"}"#), 120_000);
        assert_eq!(timeout(r#"{"command": "make", "timeout_ms": "5000"}"#), 5_000);
        assert_eq!(timeout(r#"{"command": "make", "timeout_ms": 99999999}"#), 600_000);
        // What is left running has none, unless it is wanted.
        assert_eq!(timeout(r#"{"command": "make", "background": true}"#), 0);
        assert_eq!(timeout(r#"{"command": "make", "run_in_background": "true", "timeout_ms": 5}"#), 5);
    }

    #[test]
    fn names_of_other_harnesses_are_understood() {
        let call = parse("shell", r#"{"cmd": "ls", "description": "look around"}"#).unwrap();
        assert_eq!(call, Invocation::Shell { command: "ls".into(), timeout_ms: 120_000, background: false });
    }

    #[test]
    fn an_empty_command_is_refused() {
        assert!(parse("shell", r#"{"command": " "}"#).unwrap_err().contains("`command` is empty"));
    }
}
