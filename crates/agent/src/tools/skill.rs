//! `skill`: loads how some kind of work is done.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

pub(super) const TOOL: Tool = Tool {
    name: "skill",
    about: "Loads one of the skills that your instructions list: what it says, and where its other files are.",
    fields: &[Field { name: "name", kind: Kind::String, need: Need::Required, about: "The skill's name." }],
    aliases: &[("skill", "name"), ("skill_name", "name"), ("command", "name"), ("args", "")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    name: String,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Skill { name: said("name", args.name)?.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    #[test]
    fn a_skill_is_named() {
        let skill = Invocation::Skill { name: "deploy".into() };
        assert_eq!(parse("skill", r#"{"name": " deploy "}"#).unwrap(), skill);
        assert_eq!(parse("skill", r#"{"skill": "deploy"}"#).unwrap(), skill);
        assert!(parse("skill", r#"{"name": " "}"#).unwrap_err().contains("empty"));
    }
}
