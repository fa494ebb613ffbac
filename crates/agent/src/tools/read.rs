//! `read`: shows a text file with line numbers.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

/// Most lines unless the call says otherwise.
const DEFAULT_LIMIT: u64 = 2000;

pub(super) const TOOL: Tool = Tool {
    name: "read",
    about: "Shows a text file with line numbers. The numbers and the tab after them are not part of the file.",
    fields: &[
        Field {
            name: "path",
            kind: Kind::String,
            need: Need::Required,
            about: "The file, relative to /workspace or absolute.",
        },
        Field {
            name: "offset",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "First line to show, from 1; 1 unless given.",
        },
        Field {
            name: "limit",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "Most lines to show; 2000 unless given.",
        },
    ],
    aliases: &[("file_path", "path"), ("file", "path"), ("filename", "path")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Read {
        path: said("path", args.path)?,
        offset: args.offset.unwrap_or(1).max(1),
        limit: args.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT),
    })
}

/// A file's text with line numbers, from line `offset` (1-based), at most `limit` lines, saying what was cut.
pub fn numbered(content: &str, offset: u64, limit: u64) -> String {
    let total = content.lines().count();
    if total == 0 {
        return "(the file is empty)".to_owned();
    }
    let first = usize::try_from(offset.max(1)).unwrap_or(usize::MAX);
    if first > total {
        return format!("(file has {}; there is no line {first})", lines(total));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut text = String::new();
    for (index, line) in content.lines().enumerate().skip(first - 1).take(limit) {
        push_numbered(&mut text, index + 1, line);
    }
    let below = total.saturating_sub((first - 1).saturating_add(limit));
    if below > 0 {
        text.push_str(&format!("(file has {}; {below} more below)\n", lines(total)));
    } else if first > 1 {
        text.push_str(&format!("(file has {})\n", lines(total)));
    }
    text
}

/// Adds one line in the form of `cat -n`.
pub(super) fn push_numbered(text: &mut String, number: usize, line: &str) {
    text.push_str(&format!("{number:>6}\t{line}\n"));
}

fn lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

#[cfg(test)]
mod tests {
    use super::super::parse_any as parse;
    use super::*;

    #[test]
    fn the_whole_file_is_read_unless_asked_otherwise() {
        let call = parse("read", r#"{"file_path": "src/lib.rs"}"#).unwrap();
        assert_eq!(call, Invocation::Read { path: "src/lib.rs".into(), offset: 1, limit: 2000 });
        let call = parse("read", r#"{"path": "a", "offset": 0, "limit": 0}"#).unwrap();
        assert_eq!(call, Invocation::Read { path: "a".into(), offset: 1, limit: 2000 });
    }

    #[test]
    fn lines_are_numbered_from_the_offset_and_the_rest_is_counted() {
        let content = "one\r\ntwo\nthree\nfour\nfive";
        assert_eq!(numbered(content, 2, 2), "     2\ttwo\n     3\tthree\n(file has 5 lines; 2 more below)\n");
        assert_eq!(numbered(content, 5, 2000), "     5\tfive\n(file has 5 lines)\n");
        assert_eq!(numbered("one\r\n", 1, 2000), "     1\tone\n");
        assert_eq!(numbered("one", 9, u64::MAX), "(file has 1 line; there is no line 9)");
        assert_eq!(
            numbered(content, u64::MAX, u64::MAX),
            format!("(file has 5 lines; there is no line {})", u64::MAX)
        );
        assert_eq!(numbered("", 1, 2000), "(the file is empty)");
    }
}
