//! `list`: the entries of a directory.

use guest::FileKind;

use super::{Done, Scope, refused};
use crate::failure::Failure;

/// Most entries that are shown.
const LIMIT: usize = 500;

pub(super) async fn run(scope: &Scope, path: &str) -> Result<Done, Failure> {
    let (guest, inside) = scope.place(path);
    let entries = match guest.list(&inside).await {
        Ok(entries) => entries,
        Err(error) => return refused(error, path),
    };
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|entry| match entry.kind {
            FileKind::Directory => format!("{}/", entry.name),
            FileKind::Symlink => format!("{}@", entry.name),
            FileKind::File | FileKind::Other => entry.name,
        })
        .collect();
    names.sort();
    if names.is_empty() {
        return Ok(Done::ok("(empty)"));
    }
    let more = names.len().saturating_sub(LIMIT);
    names.truncate(LIMIT);
    if more > 0 {
        names.push(format!("({more} more entries; list a directory below, or use search)"));
    }
    Ok(Done::ok(names.join("\n")))
}
