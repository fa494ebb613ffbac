//! `apply_patch`: several files at once. Nothing is written before every change is known to fit.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::tools::{Change, ChangeKind, patched};
use bytes::Bytes;
use sandbox::WORKSPACE;

use super::{Done, Scope, absolute, read, refused};
use crate::failure::Failure;
use crate::process::Command;

pub(super) async fn run(scope: &Scope, changes: &[Change]) -> Result<Done, Failure> {
    let mut writes: Vec<(String, String)> = Vec::new();
    let mut removals: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for Change { path, kind } in changes {
        match kind {
            ChangeKind::Add(text) => {
                writes.push((path.clone(), text.clone()));
                lines.push(format!("Added {path}."));
            }
            ChangeKind::Delete => {
                removals.push(path.clone());
                lines.push(format!("Deleted {path}."));
            }
            ChangeKind::Update { to, hunks } => {
                // A file may have two sections.
                let known =
                    writes.iter().rev().find(|(known, _)| known == path).map(|(_, text)| text.clone());
                let content = match known {
                    Some(content) => content,
                    None => match read::text(scope, path).await? {
                        Ok(content) => content,
                        Err(done) => return Ok(done),
                    },
                };
                let text = match (hunks.is_empty(), to) {
                    (true, Some(_)) => content,
                    _ => match patched(&content, hunks) {
                        Ok(text) => text,
                        Err(text) => return Ok(Done::error(format!("{path}: {text}"))),
                    },
                };
                match to {
                    Some(to) => {
                        removals.push(path.clone());
                        writes.push((to.clone(), text));
                        lines.push(format!("Changed {path}, which is now {to}."));
                    }
                    None => {
                        writes.push((path.clone(), text));
                        lines.push(format!("Changed {path}."));
                    }
                }
            }
        }
    }
    for (path, text) in writes {
        if let Err(error) = scope.sandbox.guest().write_file(&absolute(&path), Bytes::from(text)).await {
            return refused(error, &path);
        }
    }
    for path in removals {
        let inside = absolute(&path);
        let command = Command {
            script: r#"rm -- "$1""#,
            args: &[&inside],
            env: BTreeMap::new(),
            cwd: WORKSPACE,
            timeout: Duration::from_secs(20),
            limit: 1024,
        };
        let captured = command.run(&*scope.sandbox, Some(&scope.stop)).await?;
        if captured.code != 0 {
            lines.push(format!("{path} could not be deleted: {}", captured.stderr.trim()));
            return Ok(Done::error(lines.join("\n")));
        }
    }
    Ok(Done::ok(lines.join("\n")))
}
