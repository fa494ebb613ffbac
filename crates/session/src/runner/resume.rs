//! What a restarted server does with the items that the one before it left open. A command still runs in the sandbox
//! under the item's id, so it is followed again from its first byte that is still held; anything else is closed as
//! interrupted.

use std::time::Instant;

use agent::history::{CANCELLED, INTERRUPTED};
use protocol::{Item, ItemKind, ItemStatus};

use super::Runner;
use super::tools::{ToolEnd, shell};
use crate::failure::Failure;
use crate::state::{TurnState, broken_off};

/// What the model is told of a call that waited for a sandbox when the server ended.
const NOT_BEGUN: &str = "not run: the platform restarted before this began; call it again";

impl Runner {
    /// Closes the items that a resumed turn finds open, in their order. In a turn that is being stopped nothing is waited
    /// for: what still runs is ended.
    pub(super) async fn settle_open(&mut self, turn: &TurnState) -> Result<(), Failure> {
        let mut stopped = false;
        for item in &turn.open {
            let is_shell = matches!(&item.kind, ItemKind::ToolCall(call) if call.tool == "shell");
            let ended = if is_shell && turn.had_sandbox { self.reattach(item).await } else { None };
            let closed = match ended {
                Some((began, ended)) => self.close_call(item.clone(), began, ended).await.map(drop),
                None => self.give_up(item, turn.had_sandbox).await,
            };
            match closed {
                Err(Failure::Stopped) => stopped = true,
                other => other?,
            }
        }
        if stopped { Err(Failure::Stopped) } else { Ok(()) }
    }

    /// Closes an item whose work cannot be followed any more, or for which there never was a place.
    async fn give_up(&self, item: &Item, had_sandbox: bool) -> Result<(), Failure> {
        // A check is run anew; the one that is under way would be in its way.
        if matches!(item.kind, ItemKind::Report(_))
            && let Some(sandbox) = &self.sandbox
        {
            crate::process::kill(&**sandbox, &item.id.to_string()).await;
        }
        let (status, text) = if self.stop.is_given() {
            (ItemStatus::Cancelled, CANCELLED)
        } else if had_sandbox || !matches!(item.kind, ItemKind::ToolCall(_)) {
            (ItemStatus::Interrupted, INTERRUPTED)
        } else {
            (ItemStatus::Interrupted, NOT_BEGUN)
        };
        Ok(self.complete(broken_off(item, status, text)).await?)
    }

    /// Follows a command that is still there; None when it never started, or went with its sandbox.
    async fn reattach(&self, item: &Item) -> Option<(Instant, Result<ToolEnd, Failure>)> {
        let mut began = Instant::now();
        let ended = match self.scope(item.id) {
            Ok(scope) => match scope.sandbox.guest().attach(&item.id.to_string(), 0).await {
                Ok(process) => {
                    let ran = crate::process::ran(&*scope.sandbox, &item.id.to_string()).await;
                    began = began.checked_sub(ran).unwrap_or(began);
                    shell::follow_again(&scope, process).await
                }
                Err(guest::Error::NotFound(_)) => return None,
                Err(error) => Err(error.into()),
            },
            Err(failure) => Err(failure),
        };
        Some((began, ended))
    }
}
