//! What a restarted server does with the items that the one before it left open. A command still runs in the sandbox
//! under the item's id, so it is followed again from its first byte that is still held. One that the sandbox in which it was to
//! run has never seen is run now: a guest forgets a process only after its result is in the log, and never starts one twice.
//! Anything else is closed as interrupted. Calls that waited for a person, or for hooks, have not begun, and go on as is
//! decided.

use std::time::Instant;

use agent::history::{CANCELLED, INTERRUPTED, NOT_BEGUN};
use agent::tools::Invocation;
use protocol::item::ToolCall;
use protocol::{EditFormat, Item, ItemKind, ItemStatus};

use super::Runner;
use super::permission::Permit;
use super::tools::{ToolEnd, background, shell};
use crate::failure::Failure;
use crate::state::{TurnState, broken_off};

/// Whether a call waits for a person, or did until the turn was stopped, so that it has not begun: one that begins is not held any more.
pub(super) fn waits(turn: &TurnState, item: &Item) -> bool {
    turn.held.contains(&item.id)
}

impl Runner {
    /// Closes the items that a resumed turn finds open, in their order. In a turn that is being stopped nothing is waited
    /// for: what still runs is ended.
    pub(super) async fn settle_open(&mut self, turn: &TurnState) -> Result<(), Failure> {
        let mut stopped = false;
        for item in &turn.open {
            if turn.held.contains(&item.id) && !self.stop.is_given() {
                match self.run_held(turn, item).await {
                    Err(Failure::Stopped) => stopped = true,
                    other => other?,
                }
                continue;
            }
            let is_shell = matches!(&item.kind, ItemKind::ToolCall(call) if call.tool == "shell");
            let ended = if is_shell && turn.had_sandbox { self.reattach(item).await } else { None };
            // Known since it was looked for: `turn` is from before.
            let displaced = self.context.turn().is_none_or(|now| now.displaced.contains(&item.id));
            let unseen = is_shell && turn.had_sandbox && !displaced;
            let closed = match (ended, &item.kind) {
                (Some((began, ended)), _) => self.close_call(item.clone(), began, ended).await.map(drop),
                // There was no place for it yet, so it has not begun; or to do it again does no harm.
                (None, ItemKind::ToolCall(call))
                    if (!turn.had_sandbox || only_looks(call) || self.was_not_decided(call))
                        && !self.stop.is_given() =>
                {
                    self.run_late(item, call).await
                }
                (None, ItemKind::ToolCall(call)) if unseen && !self.stop.is_given() => {
                    self.run_unseen(turn, item, call).await
                }
                (None, _) => self.give_up(turn, item).await,
            };
            match closed {
                Err(Failure::Stopped) => stopped = true,
                other => other?,
            }
        }
        if stopped { Err(Failure::Stopped) } else { Ok(()) }
    }

    /// Whether hooks were being asked for a call, so that it has not begun.
    fn was_not_decided(&self, call: &ToolCall) -> bool {
        self.is_undecided(call, self.read_again(call).as_ref())
    }

    /// What a call does, as the model wrote it, also one of an MCP server's tool.
    pub(super) fn read_again(&self, call: &ToolCall) -> Option<Invocation> {
        let arguments = agent::tools::replayed_arguments(&call.input);
        agent::tools::parse_with(&self.mcp.tools(), EditFormat::default(), &call.tool, &arguments).ok()
    }

    /// Runs a command that was about to begin when the server ended, and never did. What hooks and people decided on it holds;
    /// what is forbidden by now does not run.
    async fn run_unseen(&mut self, turn: &TurnState, item: &Item, call: &ToolCall) -> Result<(), Failure> {
        let approved = turn.decision.as_ref().filter(|said| said.approved && turn.decided == Some(item.id));
        if approved.is_none() && call.hooks.is_empty() {
            return self.run_late(item, call).await;
        }
        let permit = match (self.reread(call, &call.input)?, approved) {
            (Err(text), _) => Permit::Refused { item: Box::new(item.clone()), text },
            (Ok(tool), Some(decision)) => self.allowed(item, tool, decision).await?,
            (Ok(tool), None) => self.permit(item.clone(), tool).await?,
        };
        self.run_if(permit).await
    }

    /// Runs a call that waited for a sandbox when the server ended.
    async fn run_late(&mut self, item: &Item, call: &ToolCall) -> Result<(), Failure> {
        let format = self.find_model()?.profile().edit_format;
        match agent::tools::parse_with(&self.mcp.tools(), format, &call.tool, &call.input.to_string()) {
            Ok(tool) => {
                self.calls.push(item.clone());
                self.run_tool(call.call_id.clone(), tool).await.map(drop)
            }
            Err(text) => Ok(self.complete(broken_off(item, ItemStatus::Failed, &text)).await?),
        }
    }

    /// Closes an item whose work cannot be followed any more.
    async fn give_up(&self, turn: &TurnState, item: &Item) -> Result<(), Failure> {
        // A check is run anew; the one that is under way would be in its way.
        if matches!(item.kind, ItemKind::Report(_))
            && let Some(sandbox) = &self.sandbox
        {
            crate::process::kill(&**sandbox, &item.id.to_string()).await;
        }
        let (status, text) = if self.stop.is_given() {
            (ItemStatus::Cancelled, if waits(turn, item) { NOT_BEGUN } else { CANCELLED })
        } else {
            (ItemStatus::Interrupted, INTERRUPTED)
        };
        Ok(self.complete(broken_off(item, status, text)).await?)
    }

    /// Follows a command that is still there, or looks at it, if it is one for the background; None when it never started,
    /// or went with its sandbox.
    async fn reattach(&self, item: &Item) -> Option<(Instant, Result<ToolEnd, Failure>)> {
        let mut began = Instant::now();
        let ended = match self.scope(item.id) {
            Ok(scope) => match scope.sandbox.guest().attach(&item.id.to_string(), 0).await {
                Ok(process) => {
                    let ran = crate::process::ran(&*scope.sandbox, &item.id.to_string()).await;
                    began = began.checked_sub(ran).unwrap_or(began);
                    match in_background(item) {
                        true => background::look(&scope, process).await,
                        false => shell::follow_again(&scope, process).await,
                    }
                }
                Err(guest::Error::NotFound(_)) => return None,
                Err(error) => Err(error.into()),
            },
            Err(failure) => Err(failure),
        };
        Some((began, ended))
    }
}

/// What a call of one of the agent's own tools does, as the model wrote it.
fn invocation(call: &ToolCall) -> Option<Invocation> {
    agent::tools::parse(EditFormat::default(), &call.tool, &agent::tools::replayed_arguments(&call.input))
        .ok()
}

/// Whether a command is one that goes on when its call has ended.
fn in_background(item: &Item) -> bool {
    let ItemKind::ToolCall(call) = &item.kind else { return false };
    matches!(invocation(call), Some(Invocation::Shell { background: true, .. }))
}

/// Whether a call looks at what runs, or ends it: both can be done twice, but not writing to it. And so can all that is done
/// with the memory, which knows by the item what it did.
fn only_looks(call: &ToolCall) -> bool {
    matches!(
        invocation(call),
        Some(
            Invocation::Process { stdin: None, .. } | Invocation::Remember { .. } | Invocation::Recall { .. }
        )
    )
}
