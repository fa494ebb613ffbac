//! `check`: runs the environment's checks, the same that run before the work may finish.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, typed};

pub(super) const TOOL: Tool = Tool {
    name: "check",
    about: "Runs the environment's checks and gives back what failed, where and why. The same checks run before the work may finish.",
    fields: &[Field {
        name: "name",
        kind: Kind::String,
        need: Need::Optional,
        about: "Which check to run; all of them unless given.",
    }],
    aliases: &[("check", "name")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    name: Option<String>,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Check { name: args.name.filter(|name| !name.trim().is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    #[test]
    fn all_checks_run_unless_one_is_named() {
        assert_eq!(parse("check", "").unwrap(), Invocation::Check { name: None });
        assert_eq!(
            parse("check", r#"{"name": "test"}"#).unwrap(),
            Invocation::Check { name: Some("test".into()) }
        );
    }
}
