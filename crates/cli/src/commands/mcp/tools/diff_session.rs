//! `diff_session`: what a session changed.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::answer::{Answer, wrong};
use super::super::call::Call;
use super::super::schema::{self, Field, Kind};
use super::{Effect, Tool};

/// Longest patch.
const PATCH: usize = 40_000;
/// Most files that are listed.
const FILES: usize = 200;

pub(super) const TOOL: Tool = Tool {
    name: "diff_session",
    title: "Show the changes",
    description: "Shows what a session changed, as a unified diff from the commit that it began with. A long one is cut, and says so: \
                  ask for one file with path.",
    effect: Effect::Looks,
    fields: &[
        Field::session(),
        Field::optional("path", Kind::Text, "Only this file, by its path in the repository"),
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    path: Option<String>,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session, path } = schema::read(arguments)?;
    let session = call.session(&session).await?;
    let diff = call.api().await?.diff(session.id).await?;
    let mut files = files(&diff.patch);
    if let Some(path) = &path {
        files.retain(|file| file.path == path.trim());
        if files.is_empty() {
            return Err(wrong(
                format!("{} did not change {path}", session.id),
                "without path, all changed files are listed",
            ));
        }
    }
    let whole: String = files.iter().map(|file| file.patch).collect();
    let (patch, rest) = head(&whole, PATCH);
    let mut lines: Vec<String> = files
        .iter()
        .take(FILES)
        .map(|file| format!("+{} −{} {}", file.insertions, file.deletions, file.path))
        .collect();
    let unlisted = files.len().saturating_sub(FILES);
    if unlisted > 0 {
        lines.push(format!("… {unlisted} more files cut"));
    }
    if files.is_empty() {
        lines.push("nothing changed".to_owned());
    }
    lines.push(String::new());
    lines.push(patch.to_owned());
    if rest > 0 {
        lines.push(format!("… {rest} of {} bytes cut; ask for one file with path", whole.len()));
    }
    let data = json!({
        "session": session.id,
        "base": diff.base,
        "files": files.iter().take(FILES).map(File::data).collect::<Vec<Value>>(),
        "files_cut": unlisted,
        "patch": patch,
        "patch_cut": rest,
    });
    Ok(Answer::new(lines.join("\n").trim_end().to_owned(), data))
}

/// The changes of one file.
#[derive(Debug, PartialEq)]
struct File<'a> {
    path: &'a str,
    insertions: u32,
    deletions: u32,
    patch: &'a str,
}

impl File<'_> {
    fn data(&self) -> Value {
        json!({"path": self.path, "insertions": self.insertions, "deletions": self.deletions})
    }
}

/// Takes a patch apart. The line that begins a file cannot be one of its content, which begins with a sign.
fn files(patch: &str) -> Vec<File<'_>> {
    const BEGIN: &str = "diff --git ";
    let mut starts: Vec<usize> = patch.match_indices(BEGIN).map(|(at, _)| at).collect();
    starts.retain(|&at| at == 0 || patch.as_bytes()[at - 1] == b'\n');
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| file(&patch[start..end])).collect()
}

fn file(patch: &str) -> File<'_> {
    let head_end = patch.find("\n@@").map_or(patch.len(), |at| at + 1);
    let (head, body) = patch.split_at(head_end);
    let named = |prefix: &str| {
        head.lines().find_map(|line| line.strip_prefix(prefix)).map(|path| path.trim_end_matches('\t'))
    };
    let first = head.lines().next().unwrap_or_default();
    let path = named("+++ b/")
        .or_else(|| named("--- a/"))
        .or_else(|| named("rename to "))
        .unwrap_or_else(|| first.rsplit_once(" b/").map_or(first, |(_, path)| path));
    let count = |sign| body.lines().filter(|line| line.starts_with(sign)).count();
    let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
    File { path, insertions: number(count('+')), deletions: number(count('-')), patch }
}

/// The whole lines at the beginning of a text that are no longer than so many bytes, and how many bytes are left.
fn head(text: &str, most: usize) -> (&str, usize) {
    if text.len() <= most {
        return (text, 0);
    }
    let end = text.as_bytes()[..most].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    // A line that is too long by itself is cut where a letter ends.
    let end = if end > 0 { end } else { text.floor_char_boundary(most) };
    (&text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "diff --git a/a b.txt b/a b.txt\nindex 1..2 100644\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -1 +1,2 @@\n-x\n+diff --git y\n+z\ndiff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n";

    #[test]
    fn a_patch_is_taken_apart_by_file() {
        let found = files(TWO);
        let told: Vec<(&str, u32, u32)> =
            found.iter().map(|file| (file.path, file.insertions, file.deletions)).collect();
        assert_eq!(told, [("a b.txt", 2, 1), ("bin", 0, 0)]);
        assert_eq!(found.iter().map(|file| file.patch).collect::<String>(), TWO);
        assert!(files("").is_empty());
    }

    #[test]
    fn a_long_patch_is_cut_after_a_line() {
        assert_eq!(head("abc\ndef\n", 100), ("abc\ndef\n", 0));
        assert_eq!(head("abc\ndef\n", 6), ("abc\n", 4));
        assert_eq!(head("éé", 3), ("é", 2));
    }
}
