//! `shell`: runs a command in the workspace.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

/// When a command is killed unless the call says otherwise.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The longest a call may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;

pub(super) const TOOL: Tool = Tool {
    name: "shell",
    about: "Runs a shell command in /workspace and gives back its output and exit code. Each call starts a fresh shell, so `cd` and variables do not last. There is no terminal and no input: use flags such as -y.",
    fields: &[
        Field { name: "command", kind: Kind::String, need: Need::Required, about: "The command." },
        Field {
            name: "timeout_ms",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Kill it after this many milliseconds; 120000 unless given, at most 600000.",
        },
    ],
    aliases: &[("cmd", "command"), ("description", "")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    command: String,
    timeout_ms: Option<u64>,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let timeout_ms = match args.timeout_ms {
        None | Some(0) => DEFAULT_TIMEOUT_MS,
        Some(asked) => asked.min(MAX_TIMEOUT_MS),
    };
    Ok(Invocation::Shell { command: said("command", args.command)?, timeout_ms })
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
    }

    #[test]
    fn names_of_other_harnesses_are_understood() {
        let call = parse("shell", r#"{"cmd": "ls", "description": "look around"}"#).unwrap();
        assert_eq!(call, Invocation::Shell { command: "ls".into(), timeout_ms: 120_000 });
    }

    #[test]
    fn an_empty_command_is_refused() {
        assert!(parse("shell", r#"{"command": " "}"#).unwrap_err().contains("`command` is empty"));
    }
}
