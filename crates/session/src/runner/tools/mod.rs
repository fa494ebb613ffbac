//! The tools' hands: what `agent::tools` decides without IO is done here, in the sandbox. One file each.

pub(super) mod background;
mod check;
mod edit;
mod list;
mod mcp;
mod patch;
mod plan;
mod preview;
mod process;
mod read;
mod recall;
mod remember;
pub(super) mod search;
pub(super) mod shell;
pub(super) mod skill;
mod web_fetch;
mod write;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent::tools::{Extent, Invocation};
use protocol::item::{BackgroundProcess, Output};
use protocol::{EventBody, ItemId};
use sandbox::{Sandbox, WORKSPACE};

use super::output::BLOB_LIMIT;
use super::{Runner, whole};
use crate::failure::Failure;
use crate::feed::Stream;
use crate::stop::Stop;

/// What a tool gave.
pub(super) struct Done {
    /// With the text as the model reads it.
    pub(super) output: Output,
    pub(super) is_error: bool,
    pub(super) exit_code: Option<i32>,
    /// The command in the background that it is about.
    pub(super) process: Option<Box<BackgroundProcess>>,
    /// What is recorded with its end.
    pub(super) also: Option<Box<EventBody>>,
}

impl Done {
    fn of(output: Output) -> Self {
        Self { output, is_error: false, exit_code: None, process: None, also: None }
    }

    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self::of(whole(&text.into()))
    }

    pub(super) fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::ok(text) }
    }

    /// Without what it says of a file that may not be read.
    fn without_words_of(self, path: &str) -> Self {
        let text = if self.is_error {
            format!(
                "Nothing was changed, or not everything: the change does not fit {path} as it is. Why is not told, since reading \
                 that file takes an approval or is denied."
            )
        } else {
            format!(
                "Changed. What is in {path} is not told, since reading it takes an approval or is denied."
            )
        };
        Self { output: whole(&text), ..self }
    }
}

/// How a tool ended.
pub(super) enum ToolEnd {
    /// It came to its end.
    Ended(Done),
    /// A person stopped it; this is what it gave until then.
    Stopped(Output),
}

impl ToolEnd {
    /// With a note before what it gave.
    pub(super) fn after(mut self, note: Option<String>) -> Self {
        if let Some(note) = note {
            let (Self::Ended(Done { output, .. }) | Self::Stopped(output)) = &mut self;
            output.text = format!("({note})\n{}", output.text);
        }
        self
    }
}

/// What a tool works with.
pub(super) struct Scope {
    pub(super) sandbox: Arc<dyn Sandbox>,
    pub(super) stream: Arc<Stream>,
    pub(super) item: ItemId,
    pub(super) stop: Stop,
    /// Where long outputs are kept.
    pub(super) dir: PathBuf,
    /// The longest time a command may take.
    pub(super) timeout: Duration,
    /// Bytes of an output that the model's window bears.
    pub(super) most: usize,
    /// Where links led when it was decided on the call, by the path that it names.
    pub(super) leads: Vec<(String, String)>,
}

impl Scope {
    /// Whether a policy decided on the file, and where its links led then.
    fn is_decided(&self, path: &str) -> bool {
        let named = agent::policy::absolute(path);
        self.leads.iter().any(|(known, _)| *known == named)
    }

    /// Whom to ask for a file, and by which path. What a policy decided on is that file and no other: links that were made since
    /// then are refused.
    fn place(&self, path: &str) -> (guest::Client, String) {
        let guest = self.sandbox.guest();
        let named = agent::policy::absolute(path);
        match self.leads.iter().find(|(known, _)| *known == named) {
            Some((_, real)) => (guest.exact(), real.clone()),
            None => (guest.clone(), absolute(path)),
        }
    }
}

impl Runner {
    pub(super) fn scope(&self, item: ItemId) -> Result<Scope, Failure> {
        Ok(Scope {
            sandbox: self.sandbox()?,
            stream: Arc::clone(self.context.recorder.stream()),
            item,
            stop: self.stop.clone(),
            dir: self.context.workspace.dir().to_owned(),
            timeout: self.context.options.command_timeout,
            most: self.output_bytes(),
            leads: self.leads.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    /// Runs a tool. Its item is in the log before this is called.
    pub(super) async fn perform(&self, item: ItemId, tool: Invocation) -> Result<ToolEnd, Failure> {
        let scope = self.scope(item)?;
        let secret = self.changed_unread(&scope, &tool);
        let done = match tool {
            Invocation::Shell { command, timeout_ms, background: false } => {
                return shell::run(&scope, &command, timeout_ms).await;
            }
            Invocation::Shell { command, timeout_ms, background: true } => {
                return background::run(&scope, &command, timeout_ms).await;
            }
            Invocation::Process { id, stdin, wait_ms, kill } => {
                let wait = Duration::from_millis(wait_ms);
                return process::run(&scope, id.as_deref(), process::Wanted { stdin, wait, kill }).await;
            }
            Invocation::Read { path, offset, limit, column } => {
                let extent = Extent { offset, limit, column, most: scope.most };
                read::run(&scope, &path, extent).await
            }
            Invocation::Write { path, content } => write::run(self, &scope, &path, content).await,
            Invocation::Edit { path, old, new, all } => edit::run(&scope, &path, &old, &new, all).await,
            Invocation::Patch { changes } => patch::run(self, &scope, &changes).await,
            Invocation::Search { pattern, path, glob } => {
                search::run(&scope, &pattern, path.as_deref(), glob.as_deref()).await
            }
            Invocation::List { path } => list::run(&scope, &path).await,
            Invocation::Check { name } => check::run(self, name.as_deref()).await,
            Invocation::Plan { items } => plan::run(self, items).await,
            Invocation::WebFetch { url } => web_fetch::run(&scope, self.exit.as_deref(), &url).await,
            Invocation::Remember { text, subject, kind, scope: about } => {
                remember::run(self, item, remember::Wanted { about, kind, subject, text }).await
            }
            Invocation::Recall { query } => recall::run(self, query).await,
            Invocation::Skill { name } => skill::run(self, &scope, &name).await,
            Invocation::Mcp { server, tool, arguments, .. } => {
                mcp::call(self, &scope, &server, &tool, arguments).await
            }
            Invocation::McpTools { query } => {
                Ok(Done::ok(agent::tools::mcp_found(&self.mcp.tools(), &query)))
            }
            // Who is asked is asked before anything runs.
            Invocation::Ask { .. } => Ok(Done::error(agent::tools::NOBODY_ANSWERS)),
        };
        let done = done.map(|done| match secret {
            Some(path) => done.without_words_of(&path),
            None => done,
        });
        done.map(ToolEnd::Ended)
    }

    /// A file that the call changes and that the model may not read: what is in it is not told when the change does not fit, either.
    fn changed_unread(&self, scope: &Scope, tool: &Invocation) -> Option<String> {
        if !matches!(tool, Invocation::Write { .. } | Invocation::Edit { .. } | Invocation::Patch { .. }) {
            return None;
        }
        let is_secret = |path: &String| !self.may_read(path) || !self.may_read(&scope.place(path).1);
        agent::policy::paths(tool).into_iter().find(is_secret)
    }
}

impl Runner {
    /// Most bytes of an output beside the prompts in force.
    fn output_bytes(&self) -> usize {
        self.window.output_bytes(self.task.len())
    }

    /// An output as the model reads it: no longer than its window bears, and with the way to the rest of it.
    pub(super) async fn shortened(&self, mut output: Output, item: &str) -> Output {
        let most = self.output_bytes();
        if output.text.len() > most {
            if output.blob.is_none() {
                let name = format!("{item}.out");
                match tokio::fs::write(self.context.workspace.dir().join(&name), &output.text).await {
                    Ok(()) => output.blob = Some(name),
                    Err(error) => tracing::warn!(%error, "an output could not be kept in a file"),
                }
            }
            output.text = agent::tools::cut(&output.text, most);
        }
        if let Some(blob) = &output.blob {
            let how_much =
                if output.bytes > BLOB_LIMIT { "the first 16 MiB of the output" } else { "the whole output" };
            output.text.push_str(&format!(
                "\n[{how_much} can be read with the read tool: path \"{}{blob}\", with offset and limit; search takes this path, too]",
                read::OUTPUT
            ));
        }
        output
    }
}

/// A path as the model wrote it, inside the sandbox.
fn absolute(path: &str) -> String {
    let path = path.trim();
    match path {
        "" | "." => WORKSPACE.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{WORKSPACE}/{}", path.trim_start_matches("./")),
    }
}

/// What the guest refuses is for the model to read; a guest that is gone is not.
fn refused(error: guest::Error, path: &str) -> Result<Done, Failure> {
    match error {
        guest::Error::NotFound(_) => {
            Ok(Done::error(format!("There is no {path}. Use list or search to see what there is.")))
        }
        guest::Error::Refused(detail) => Ok(Done::error(format!("{path}: {detail}"))),
        error @ guest::Error::Unavailable(_) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_the_workspace_unless_they_are_absolute() {
        assert_eq!(absolute("src/lib.rs"), "/workspace/src/lib.rs");
        assert_eq!(absolute("./a"), "/workspace/a");
        assert_eq!(absolute("."), "/workspace");
        assert_eq!(absolute("/etc/os-release"), "/etc/os-release");
    }
}
