//! `apply_patch`: several files at once. Nothing is written before every change is known to fit, and what is written is what
//! the sections give one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::tools::{Change, ChangeKind, Overwrite, patched};
use bytes::Bytes;
use guest::FileKind;
use sandbox::WORKSPACE;

use super::preview::{Becomes, is_there};
use super::{Done, Scope, absolute, read, refused};
use crate::failure::Failure;
use crate::process::Command;
use crate::runner::Runner;

/// Removes a file; with `$3` only where no directory in its path is a link. What it became is executable if it was.
const REMOVE: &str = r#"
if [ -n "$2" ] && [ -x "$1" ]; then chmod +x -- "$2" || exit; fi
cd -P -- "${1%/*}/" || exit
if [ -n "$3" ] && [ "$(pwd -P)" != "${1%/*}" ]; then echo "a directory in its path became a link" >&2; exit 1; fi
rm -- "./${1##*/}"
"#;

pub(super) async fn run(runner: &Runner, scope: &Scope, changes: &[Change]) -> Result<Done, Failure> {
    let mut files = Files { runner, scope, after: BTreeMap::new(), moved: BTreeMap::new() };
    let mut lines = Vec::new();
    for change in changes {
        match files.apply(change).await? {
            Ok(line) => lines.push(line),
            Err(done) => return Ok(done),
        }
    }
    files.write(lines).await
}

/// What a patch makes of the files, without writing any; nothing where it does not fit.
pub(super) async fn becomes(
    runner: &Runner,
    scope: &Scope,
    changes: &[Change],
) -> Result<Vec<Becomes>, Failure> {
    let mut files = Files { runner, scope, after: BTreeMap::new(), moved: BTreeMap::new() };
    for change in changes {
        if files.apply(change).await?.is_err() {
            return Ok(Vec::new());
        }
    }
    let Files { mut after, moved, .. } = files;
    // A file that moved is told of once, and what it became is no new file.
    let mut told: Vec<(String, Option<String>, Option<String>)> = Vec::new();
    for (from, to) in moved {
        if let Some(Some(text)) = after.remove(&to) {
            after.remove(&from);
            told.push((from, Some(to), Some(text)));
        }
    }
    told.extend(after.into_iter().map(|(path, text)| (path, None, text)));
    told.sort();
    let mut becomes = Vec::new();
    for (path, to, after) in told {
        let before = read::text(scope, &path).await?.ok();
        // What is no text has no lines to show; what came and went again in this patch was never there.
        if before.is_some() || after.is_some() && !is_there(scope, &path).await {
            becomes.push(Becomes { path, to, before, after });
        }
    }
    Ok(becomes)
}

/// Files as the sections so far leave them.
struct Files<'a> {
    runner: &'a Runner,
    scope: &'a Scope,
    /// By path inside the sandbox; no text where the file is to go.
    after: BTreeMap<String, Option<String>>,
    /// What those became that went because they have another name now.
    moved: BTreeMap<String, String>,
}

/// What is done next, or what the model reads instead.
type Applied<T> = Result<Result<T, Done>, Failure>;

impl Files<'_> {
    async fn apply(&mut self, Change { path, kind }: &Change) -> Applied<String> {
        let inside = normal(path);
        Ok(match kind {
            ChangeKind::Add(text) => match self.add(path, &inside, text).await? {
                Ok(line) => {
                    self.after.insert(inside, Some(text.clone()));
                    Ok(line)
                }
                Err(done) => Err(done),
            },
            ChangeKind::Delete => match self.delete(path, &inside).await? {
                Ok(()) => {
                    self.after.insert(inside, None);
                    Ok(format!("Deleted {path}."))
                }
                Err(done) => Err(done),
            },
            ChangeKind::Update { to, hunks } => {
                let text = match self.text(path, &inside).await? {
                    Ok(text) => text,
                    Err(done) => return Ok(Err(done)),
                };
                let text = match (hunks.is_empty(), to) {
                    (true, Some(_)) => text,
                    _ => match patched(&text, hunks) {
                        Ok(text) => text,
                        Err(text) => return Ok(Err(Done::error(format!("{path}: {text}")))),
                    },
                };
                let Some((to, target)) =
                    to.as_ref().map(|to| (to, normal(to))).filter(|(_, target)| *target != inside)
                else {
                    self.after.insert(inside, Some(text));
                    return Ok(Ok(format!("Changed {path}.")));
                };
                if self.exists(&target).await? {
                    return Ok(Err(Done::error(format!(
                        "{path} cannot be moved to {to}, which exists. If {to} should go, delete it in a section before this one."
                    ))));
                }
                self.after.insert(inside.clone(), None);
                self.after.insert(target.clone(), Some(text));
                self.moved.insert(inside, target);
                Ok(format!("Changed {path}, which is now {to}."))
            }
        })
    }

    /// Whether a file may be made, or made anew. Code that the text leaves out does not go in silence.
    async fn add(&self, path: &str, inside: &str, text: &str) -> Applied<String> {
        let there = match self.after.get(inside) {
            Some(Some(_)) => return Ok(Ok(format!("Replaced {path}."))),
            Some(None) => true,
            None => self.exists(inside).await?,
        };
        if !there {
            return Ok(Ok(format!("Added {path}.")));
        }
        // What is no text cannot lose code.
        let old = read::text(self.scope, inside).await?.ok();
        match old.map(|old| self.runner.decide(path, &old, text)) {
            None | Some(Overwrite::Write | Overwrite::Remove { .. }) => Ok(Ok(format!("Replaced {path}."))),
            Some(Overwrite::Merge { kept: lost, .. }) => {
                self.runner.removals().tell(path, text, &lost);
                let why = format!(
                    "{path} exists, and your text leaves out {lost}. Nothing was changed. Use `*** Update File` to change a part of it."
                );
                Ok(Err(Done::error(why)))
            }
            Some(Overwrite::Refuse { lost, why }) => {
                self.runner.removals().tell(path, text, &lost);
                Ok(Err(Done::error(format!("{path} exists: {why} Nothing was changed."))))
            }
        }
    }

    async fn delete(&self, path: &str, inside: &str) -> Applied<()> {
        match self.after.get(inside) {
            Some(Some(_)) => Ok(Ok(())),
            Some(None) => Ok(Err(gone(path))),
            None => match self.stat(inside).await {
                Ok(stat) if stat.kind == FileKind::Directory => Ok(Err(Done::error(format!(
                    "{path} is a directory, which a patch cannot delete: use the shell tool. Nothing was changed."
                )))),
                Ok(_) => Ok(Ok(())),
                Err(error) => Ok(Err(refused(error, path)?)),
            },
        }
    }

    async fn text(&self, path: &str, inside: &str) -> Applied<String> {
        match self.after.get(inside) {
            Some(Some(text)) => Ok(Ok(text.clone())),
            Some(None) => Ok(Err(gone(path))),
            None => read::text(self.scope, path).await,
        }
    }

    async fn stat(&self, inside: &str) -> Result<guest::Stat, guest::Error> {
        let (guest, place) = self.scope.place(inside);
        guest.stat(&place).await
    }

    async fn exists(&self, inside: &str) -> Result<bool, Failure> {
        if let Some(after) = self.after.get(inside) {
            return Ok(after.is_some());
        }
        match self.stat(inside).await {
            Ok(_) => Ok(true),
            // What cannot be looked at is told when it is written.
            Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => Ok(false),
            Err(error @ guest::Error::Unavailable(_)) => Err(error.into()),
        }
    }

    /// Writes what there is to be, then removes what is to go.
    async fn write(self, mut lines: Vec<String>) -> Result<Done, Failure> {
        let Self { scope, after, moved, .. } = self;
        let (stay, go): (Vec<_>, Vec<_>) = after.into_iter().partition(|(_, text)| text.is_some());
        for (inside, text) in stay {
            let text = Bytes::from(text.unwrap_or_default());
            let (guest, place) = scope.place(&inside);
            if let Err(error) = guest.write_file(&place, text).await {
                return refused(error, &inside);
            }
        }
        for (inside, _) in go {
            // One that was added in this patch and deleted again was never there.
            let (guest, place) = scope.place(&inside);
            if let Err(guest::Error::NotFound(_)) = guest.stat(&place).await {
                continue;
            }
            let became = moved.get(&inside).map(|target| scope.place(target).1).unwrap_or_default();
            let command = Command {
                script: REMOVE,
                args: &[&place, &became, if scope.is_decided(&inside) { "exact" } else { "" }],
                env: BTreeMap::new(),
                cwd: WORKSPACE,
                timeout: Duration::from_secs(20),
                limit: 1024,
            };
            let captured = command.run(&*scope.sandbox, Some(&scope.stop)).await?;
            if captured.code != 0 {
                lines.push(format!("{inside} could not be deleted: {}", captured.stderr.trim()));
                return Ok(Done::error(lines.join("\n")));
            }
        }
        Ok(Done::ok(lines.join("\n")))
    }
}

fn gone(path: &str) -> Done {
    Done::error(format!("{path} is deleted by a section before this one. Nothing was changed."))
}

/// A path inside the sandbox by which a file is known again, however it was written.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let inside = absolute(path);
    for part in inside.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn a_file_is_known_again_however_its_path_is_written() {
        for path in ["a/b", "./a/b", "a//b", "a/./b", "c/../a/b", "/workspace/a/b", "././a/b"] {
            assert_eq!(normal(path), "/workspace/a/b", "{path}");
        }
        assert_eq!(normal("../../etc/x"), "/etc/x");
    }
}
