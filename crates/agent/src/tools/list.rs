//! `list`: shows what is in a directory.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, typed};

pub(super) const TOOL: Tool = Tool {
    name: "list",
    about: "Lists a directory; directories end with a slash.",
    fields: &[Field {
        name: "path",
        kind: Kind::String,
        need: Need::Optional,
        about: "The directory, relative to /workspace or absolute; /workspace unless given.",
    }],
    aliases: &[("directory", "path"), ("dir", "path"), ("file_path", "path")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: Option<String>,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let path = args.path.filter(|path| !path.trim().is_empty()).unwrap_or_else(|| ".".to_owned());
    Ok(Invocation::List { path })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    #[test]
    fn the_workspace_is_listed_unless_another_place_is_named() {
        assert_eq!(parse("list", r#"{"path": ""}"#).unwrap(), Invocation::List { path: ".".into() });
        assert_eq!(parse("list", r#"{"dir": "src"}"#).unwrap(), Invocation::List { path: "src".into() });
    }
}
