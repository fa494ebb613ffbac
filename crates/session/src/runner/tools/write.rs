//! `write`: a whole file. Code that the text leaves out does not go in silence; `agent::tools::overwrite` decides.

use agent::tools::Overwrite;
use bytes::Bytes;
use protocol::item::{Item, ItemKind};

use super::{Done, Scope, absolute, read, refused};
use crate::failure::Failure;
use crate::runner::Runner;
use crate::runner::removals::Removed;

/// Writes a file, or says why not.
pub(super) async fn run(
    runner: &Runner,
    scope: &Scope,
    path: &str,
    content: String,
) -> Result<Done, Failure> {
    let (guest, inside) = scope.place(path);
    let old = match guest.stat(&inside).await {
        Ok(_) => read::text(scope, path).await?.ok(),
        Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => None,
        Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
    };
    let decided = match &old {
        Some(old) => runner.decide(path, old, &content),
        None => Overwrite::Write,
    };
    let (content, note) = match decided {
        Overwrite::Write => (content, String::new()),
        Overwrite::Remove { lost, asked: true } => {
            (content, format!(" Gone, as the task asks or to another file: {lost}."))
        }
        Overwrite::Remove { lost, asked: false } => {
            let before = old.unwrap_or_default();
            runner.removals().on_trial(Removed {
                path: path.to_owned(),
                inside: absolute(path),
                lost: lost.clone(),
                before,
                after: content.clone(),
            });
            (content, format!(" Gone: {lost}. It comes back if the checks fail."))
        }
        Overwrite::Merge { text, kept } => {
            runner.removals().tell(path, &content, &kept);
            let note = format!(
                " Your text leaves out {kept}, and that stayed as it was. Only if it should go, write the same again."
            );
            (text, note)
        }
        Overwrite::Refuse { lost, why } => {
            runner.removals().tell(path, &content, &lost);
            return Ok(Done::error(format!("{path}: {why}")));
        }
    };
    let (bytes, lines) = (content.len(), content.lines().count());
    match guest.write_file(&inside, Bytes::from(content.clone())).await {
        Ok(()) => {
            runner.removals().wrote(path, &content);
            Ok(Done::ok(format!("Wrote {path} ({lines} lines, {bytes} bytes).{note}")))
        }
        Err(error) => refused(error, path),
    }
}

impl Runner {
    pub(super) fn decide(&self, path: &str, old: &str, content: &str) -> Overwrite {
        let elsewhere = self.elsewhere(path);
        let writer = |same_text: bool, same_loss: bool| agent::tools::Writer {
            task: &self.task,
            path,
            elsewhere: &elsewhere,
            means_it: self.may_insist,
            same_text,
            same_loss,
        };
        let decided = agent::tools::overwrite(old, content, writer(false, false));
        let (Overwrite::Merge { kept: lost, .. } | Overwrite::Refuse { lost, .. }) = &decided else {
            return decided;
        };
        let (same_text, same_loss) = self.removals().known(path, content, lost);
        agent::tools::overwrite(old, content, writer(same_text, same_loss))
    }

    /// What other files were given in this turn, and what the answer that is being worked on writes to them next.
    fn elsewhere(&self, path: &str) -> Vec<String> {
        let said = |item: &Item, name: &str| match &item.kind {
            ItemKind::ToolCall(call) if call.tool == "write" => {
                call.input.get(name)?.as_str().map(str::to_owned)
            }
            _ => None,
        };
        let mut texts = self.removals().elsewhere(path);
        let own = agent::policy::absolute(path);
        let is_other = |path: String| agent::policy::absolute(&path) != own;
        let others = self.calls.iter().filter(|item| said(item, "path").is_some_and(is_other));
        texts.extend(others.filter_map(|item| said(item, "content")));
        texts
    }
}
