//! What a call would change in the files as they are, for the person who decides on it: the same as when it runs, only that
//! nothing is written.

use agent::tools::{Difference, Invocation, Overwrite};
use protocol::ItemId;

use super::{Scope, patch, read};
use crate::failure::Failure;
use crate::runner::Runner;

/// Most bytes of a difference. It is in the log and goes to everybody who looks.
const MOST: usize = 128 * 1024;

/// What becomes of a file, by its name in the workspace.
pub(super) struct Becomes {
    pub(super) path: String,
    pub(super) to: Option<String>,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Runner {
    /// What a call would change, as git writes it. None where it changes no file, or where it cannot be told: then the call says
    /// so itself when it runs.
    pub(in crate::runner) async fn preview(&self, item: ItemId, tool: &Invocation) -> Option<String> {
        let scope = self.scope(item).ok()?;
        let files = match self.becomes(&scope, tool).await {
            Ok(files) => files,
            Err(failure) => {
                let problem = failure.into_problem();
                tracing::debug!(error = %problem, "what a call would change cannot be told");
                return None;
            }
        };
        let mut text = String::new();
        for Becomes { path, to, before, after } in &files {
            let (path, to) = (shown(path), to.as_deref().map(shown));
            let (before, after) = (before.as_deref(), after.as_deref());
            text.push_str(&Difference { path, to, before, after }.patch());
        }
        if text.len() > MOST {
            let end = text.floor_char_boundary(MOST);
            text.truncate(text[..end].rfind('\n').map_or(0, |at| at + 1));
            text.push_str(&format!("[the rest is left out: the diff is longer than {MOST} bytes]\n"));
        }
        (!text.is_empty()).then_some(text)
    }

    async fn becomes(&self, scope: &Scope, tool: &Invocation) -> Result<Vec<Becomes>, Failure> {
        let one = |path: &str, before: Option<String>, after: String| {
            vec![Becomes { path: patch::normal(path), to: None, before, after: Some(after) }]
        };
        match tool {
            Invocation::Write { path, content } => {
                let before = match read::text(scope, path).await? {
                    Ok(before) => Some(before),
                    // What is there and is no text has no lines to show.
                    Err(_) if is_there(scope, path).await => return Ok(Vec::new()),
                    Err(_) => None,
                };
                let after = match before.as_ref().map(|before| self.decide(path, before, content)) {
                    Some(Overwrite::Merge { text, .. }) => text,
                    Some(Overwrite::Refuse { .. }) => return Ok(Vec::new()),
                    Some(Overwrite::Write | Overwrite::Remove { .. }) | None => content.clone(),
                };
                Ok(one(path, before, after))
            }
            Invocation::Edit { path, old, new, all } => {
                let Ok(before) = read::text(scope, path).await? else { return Ok(Vec::new()) };
                let Ok(after) = agent::tools::edit(&before, old, new, *all) else { return Ok(Vec::new()) };
                Ok(one(path, Some(before), after))
            }
            Invocation::Patch { changes } => patch::becomes(self, scope, changes).await,
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether there is something by this name.
pub(super) async fn is_there(scope: &Scope, path: &str) -> bool {
    let (guest, inside) = scope.place(path);
    guest.stat(&inside).await.is_ok()
}

/// A path inside the sandbox as people call it.
fn shown(path: &str) -> &str {
    path.strip_prefix(sandbox::WORKSPACE).and_then(|path| path.strip_prefix('/')).unwrap_or(path)
}
