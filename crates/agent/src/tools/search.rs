//! `search`: finds lines by regular expression.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

pub(super) const TOOL: Tool = Tool {
    name: "search",
    about: "Finds the lines of files that match a regular expression, as path:line:text. Ignored files are left out.",
    fields: &[
        Field {
            name: "pattern",
            kind: Kind::String,
            need: Need::Required,
            about: "The regular expression, as Perl and ripgrep write them: \\d, \\b, (?i).",
        },
        Field {
            name: "path",
            kind: Kind::String,
            need: Need::Optional,
            about: "File or directory to look in; /workspace unless given.",
        },
        Field {
            name: "glob",
            kind: Kind::String,
            need: Need::Optional,
            about: "Only files whose name fits, such as *.rs or *.{ts,tsx}; with ! before it, all others.",
        },
    ],
    aliases: &[
        ("query", "pattern"),
        ("regex", "pattern"),
        ("include", "glob"),
        ("directory", "path"),
        ("file_path", "path"),
    ],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    // A pattern of white space is a pattern; an empty one would match every line.
    if args.pattern.is_empty() {
        return Err("`pattern` is empty".to_owned());
    }
    let given = |value: Option<String>, name| value.map(|value| said(name, value).ok()).unwrap_or_default();
    Ok(Invocation::Search {
        path: given(args.path, "path"),
        glob: given(args.glob, "glob"),
        pattern: args.pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse_any as parse};

    #[test]
    fn empty_optional_fields_count_as_absent() {
        let call = parse("search", r#"{"pattern": "fn main", "path": "", "include": "*.rs"}"#).unwrap();
        let expected =
            Invocation::Search { pattern: "fn main".into(), path: None, glob: Some("*.rs".into()) };
        assert_eq!(call, expected);
        assert!(parse("search", r#"{"pattern": ""}"#).is_err());
    }
}
