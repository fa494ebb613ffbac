//! When the workspace may be written to: a turn on a workspace that is still brought to its branch's tip can read at once,
//! and waits here before anything else.

use std::sync::Arc;

use agent::tools::Invocation;
use protocol::{Code, Problem};
use tokio_util::task::AbortOnDropHandle;

use super::{Context, Runner};
use crate::failure::Failure;
use crate::stop::Stop;
use crate::workspace::{Came, Ready, Synced};

/// A workspace that can be read, and on its way to the tip of its branch.
pub(super) struct Taken {
    pub(super) ready: Ready,
    sync: Option<AbortOnDropHandle<Result<Came, Failure>>>,
}

impl Taken {
    /// Brings the workspace to the tip from now on, if it is not there.
    pub(super) fn new(mut ready: Ready, context: &Arc<Context>, stop: &Stop) -> Self {
        let sync = ready.sync.take().map(|sync| {
            let (context, stop) = (Arc::clone(context), stop.clone());
            let task =
                tokio::spawn(async move { context.workspace.sync(&context.recorder, sync, &stop).await });
            AbortOnDropHandle::new(task)
        });
        Self { ready, sync }
    }
}

impl Runner {
    /// Takes up a workspace; gives what a person should know of.
    pub(super) async fn take_up(&mut self, taken: Taken) -> Result<Vec<String>, Failure> {
        let Taken { ready: Ready { held, saved, mut notices, .. }, sync } = taken;
        self.sandbox = Some(Arc::clone(&held.sandbox));
        self.exit = held.exit;
        self.checks = saved.checks;
        self.hooks = self.context.workspace.hooks_with(saved.hooks);
        // What the repository's own policy says is known from here on.
        self.context.workspace.policy_changed(&self.context.recorder)?;
        match sync {
            Some(sync) => self.sync = Some(sync),
            None => notices.extend(self.begin().await?),
        }
        Ok(notices)
    }

    /// Waits until the workspace takes writes. Gives what the model should know when it is there: that files changed.
    pub(super) async fn settled(&mut self) -> Result<Option<String>, Failure> {
        let Some(task) = self.sync.take() else { return Ok(None) };
        let synced = match task.await {
            Ok(synced) => synced,
            Err(error) => Err(Problem::new(Code::Internal, format!("the workspace was not synced: {error}"))
                .hint("this is a fault of slipway: report it with the server's log")
                .into()),
        };
        let there = match synced {
            Ok(Came::There(synced)) => Ok(*synced),
            Ok(Came::NotSetUp(problem)) => self.start_over(problem).await,
            Err(failure) => Err(failure),
        };
        match there {
            Ok(synced) => {
                self.checks = synced.saved.checks;
                self.hooks = self.context.workspace.hooks_with(synced.saved.hooks);
                let unread = self.begin().await?;
                let notes: Vec<String> = synced.note.into_iter().chain(unread).collect();
                Ok((!notes.is_empty()).then(|| notes.join("\n")))
            }
            Err(failure @ (Failure::Store(_) | Failure::Lost(_))) => Err(failure),
            Err(failure) => {
                // Nobody knows how far it is.
                self.sandbox = None;
                self.context
                    .workspace
                    .remove(&self.context.recorder, "its preparation was broken off")
                    .await?;
                Err(failure)
            }
        }
    }

    /// Takes another sandbox after the set-up failed in this one. No tool runs in it now.
    async fn start_over(&mut self, failed: Problem) -> Result<Synced, Failure> {
        (self.sandbox, self.exit) = (None, None);
        let Context { workspace, recorder, .. } = &*self.context;
        let (held, synced) = workspace.start_over(recorder, failed, &self.stop).await?;
        (self.sandbox, self.exit) = (Some(held.sandbox), held.exit);
        Ok(synced)
    }
}

/// Whether a tool may change the workspace.
pub(super) fn writes(tool: &Invocation) -> bool {
    match tool {
        Invocation::Read { .. }
        | Invocation::Search { .. }
        | Invocation::List { .. }
        | Invocation::Process { stdin: None, .. }
        | Invocation::Plan { .. }
        | Invocation::Ask { .. }
        | Invocation::Skill { .. }
        | Invocation::WebFetch { .. }
        | Invocation::Remember { .. }
        | Invocation::Recall { .. }
        | Invocation::McpTools { .. } => false,
        Invocation::Shell { .. }
        | Invocation::Process { stdin: Some(_), .. }
        | Invocation::Write { .. }
        | Invocation::Edit { .. }
        | Invocation::Patch { .. }
        | Invocation::Check { .. }
        | Invocation::Mcp { .. } => true,
    }
}
