//! `read`: shows a text file with line numbers, or an image.

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};

/// Most lines unless the call says otherwise.
const DEFAULT_LIMIT: u64 = 2000;

pub(super) const TOOL: Tool = Tool {
    name: "read",
    about: "Shows a text file with line numbers. The numbers and the tab after them are not part of the file. Shows a PNG, JPEG, GIF or WebP as an image.",
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
        Field {
            name: "column",
            kind: Kind::Integer,
            need: Need::Optional,
            about: "First byte to show of the first line, from 1; for lines too long to show whole.",
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
    column: Option<u64>,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    Ok(Invocation::Read {
        path: said("path", args.path)?,
        offset: args.offset.unwrap_or(1).max(1),
        limit: args.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT),
        column: args.column.unwrap_or(1).max(1),
    })
}

/// What of a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First line, from 1.
    pub offset: u64,
    /// Most lines.
    pub limit: u64,
    /// First byte of the first line, from 1.
    pub column: u64,
    /// Bytes that the model is shown of one output.
    pub most: usize,
}

/// A line of more bytes than this is data rather than code: where it does not fit, it is shown in pieces.
const LONG: usize = 2000;
/// Room for what is said of a text that is shown in pieces.
const NOTES: usize = 400;

/// A file's text with line numbers, saying what was cut. Where long lines make it more than is shown at once it ends early and
/// says where to go on, so that every byte can be come to; all else is cut by whoever shows it.
pub fn numbered(content: &str, extent: Extent) -> String {
    let total = content.lines().count();
    if total == 0 {
        return "(the file is empty)".to_owned();
    }
    let first = usize::try_from(extent.offset.max(1)).unwrap_or(usize::MAX);
    if first > total {
        return format!("(file has {}; there is no line {first})", lines(total));
    }
    let limit = usize::try_from(extent.limit).unwrap_or(usize::MAX);
    let skipped = usize::try_from(extent.column.saturating_sub(1)).unwrap_or(usize::MAX);
    let chosen = || content.lines().enumerate().skip(first - 1).take(limit);
    let whole: usize = chosen().map(|(_, line)| line.len() + 8).sum();
    let long = LONG.min(extent.most / 4);
    let in_pieces = skipped > 0 || whole + NOTES > extent.most && chosen().any(|(_, line)| line.len() > long);
    let room = if in_pieces { extent.most.saturating_sub(NOTES).max(long) } else { usize::MAX };
    let mut text = String::new();
    for (index, line) in chosen() {
        let start = if index + 1 == first { line.floor_char_boundary(skipped) } else { 0 };
        if start > 0 && start == line.len() {
            text.push_str(&format!(
                "(line {first} has {} bytes; there is no column {})\n",
                line.len(),
                extent.column
            ));
            continue;
        }
        let left = room.saturating_sub(text.len() + 8);
        let rest = &line[start..];
        if rest.len() <= left {
            push_numbered(&mut text, index + 1, rest);
            continue;
        }
        // A line is begun only where much of it can be shown.
        let piece = if rest.len() > long && (left >= long || text.is_empty()) {
            &rest[..rest.floor_char_boundary(left.max(4))]
        } else {
            ""
        };
        let mut on = format!("offset {}", index + 1);
        if !piece.is_empty() {
            push_numbered(&mut text, index + 1, piece);
            let end = start + piece.len();
            text.push_str(&format!(
                "(line {} has {} bytes; these are {} to {end})\n",
                index + 1,
                line.len(),
                start + 1
            ));
            on.push_str(&format!(" and column {}", end + 1));
        }
        text.push_str(&format!("(file has {}; there is more: go on with {on})\n", lines(total)));
        return text;
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

    const MOST: usize = 30 * 1024;

    fn numbered(content: &str, offset: u64, limit: u64) -> String {
        super::numbered(content, Extent { offset, limit, column: 1, most: MOST })
    }

    #[test]
    fn the_whole_file_is_read_unless_asked_otherwise() {
        let call = parse("read", r#"{"file_path": "src/lib.rs"}"#).unwrap();
        assert_eq!(call, Invocation::Read { path: "src/lib.rs".into(), offset: 1, limit: 2000, column: 1 });
        let call = parse("read", r#"{"path": "a", "offset": 0, "limit": 0}"#).unwrap();
        assert_eq!(call, Invocation::Read { path: "a".into(), offset: 1, limit: 2000, column: 1 });
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

    /// Reads to the end as the answers say how.
    fn pieces(content: &str, most: usize) -> Vec<String> {
        let after = |text: &str, word: &str| -> Option<u64> {
            let rest = text.rsplit_once("go on with")?.1.split_once(word)?.1;
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        };
        let (mut offset, mut column) = (1, 1);
        let mut found = Vec::new();
        loop {
            let text = super::numbered(content, Extent { offset, limit: 2000, column, most });
            let next = after(&text, "offset ").map(|next| (next, after(&text, "column ").unwrap_or(1)));
            found.push(text);
            let Some(next) = next else { return found };
            assert!(next > (offset, column), "it goes on: {next:?}");
            (offset, column) = next;
        }
    }

    /// What the answers show, without numbers and notes.
    fn shown(answers: &[String]) -> String {
        let lines = answers.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('('));
        lines.map(|line| line.split_once('\t').unwrap().1).collect()
    }

    #[test]
    fn every_byte_of_a_long_line_can_be_read() {
        let line: String = (0..60_000).map(|n| format!("{n:06}é")).collect();
        let answers = pieces(&line, MOST);
        assert_eq!(shown(&answers), line);
        assert!(answers.iter().all(|text| text.len() <= MOST) && answers.len() < 20, "{}", answers.len());
        assert!(
            answers[0].ends_with("go on with offset 1 and column 30313)\n"),
            "{}",
            &answers[0][answers[0].len() - 200..]
        );

        let mixed = format!("one\ntwo\n{line}\nthree\n{}\nfour\n", "x".repeat(2048));
        let answers = pieces(&mixed, 2048);
        assert_eq!(shown(&answers), mixed.replace('\n', ""));
        assert!(answers.iter().all(|text| text.len() <= 2048));
        let beyond = super::numbered("one\ntwo\n", Extent { offset: 1, limit: 1, column: 9, most: MOST });
        assert_eq!(beyond, "(line 1 has 3 bytes; there is no column 9)\n(file has 2 lines; 1 more below)\n");
    }

    #[test]
    fn many_lines_are_left_to_be_cut_between_head_and_tail() {
        let content: String = (0..2000).map(|n| format!("line number {n} of many\n")).collect();
        let text = numbered(&content, 1, 2000);
        assert!(text.len() > MOST && text.lines().count() == 2000);
    }
}
