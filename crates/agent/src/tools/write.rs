//! `write`: makes a file or replaces the whole of one.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

pub(super) const TOOL: Tool = Tool {
    name: "write",
    about: "Makes a file with this content, or replaces the whole of an existing one; missing directories are made. To change a part of a file use edit.",
    fields: &[
        Field {
            name: "path",
            kind: Kind::String,
            need: Need::Required,
            about: "The file, relative to /workspace or absolute.",
        },
        Field {
            name: "content",
            kind: Kind::String,
            need: Need::Required,
            about: "The whole text of the file.",
        },
    ],
    aliases: &[
        ("file_path", "path"),
        ("file", "path"),
        ("filename", "path"),
        ("contents", "content"),
        ("file_text", "content"),
        ("text", "content"),
    ],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    content: String,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Write { path: said("path", args.path)?, content: args.content })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    #[test]
    fn an_empty_file_may_be_written_but_needs_a_name() {
        let call = parse("write", r#"{"file_path": "a", "content": ""}"#).unwrap();
        assert_eq!(call, Invocation::Write { path: "a".into(), content: String::new() });
        assert!(parse("write", r#"{"path": "", "content": "x"}"#).is_err());
        assert!(parse("write", r#"{"path": "a"}"#).unwrap_err().contains("missing field `content`"));
    }
}
