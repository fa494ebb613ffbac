//! What a restarted server does with the items that the one before it left open. A command still runs in the sandbox
//! under the item's id, so it is followed again from its first byte; anything else is closed as interrupted.

use std::time::Instant;

use agent::history::INTERRUPTED;
use protocol::{Item, ItemKind, ItemStatus};

use super::Runner;
use super::tools::{ToolEnd, shell};
use crate::failure::Failure;
use crate::state::broken_off;

impl Runner {
    /// Closes the items that a resumed turn finds open, in their order.
    pub(super) async fn settle_open(&mut self, open: &[Item]) -> Result<(), Failure> {
        for item in open {
            let is_shell = matches!(&item.kind, ItemKind::ToolCall(call) if call.tool == "shell");
            let ended = if is_shell { self.reattach(item).await } else { None };
            match ended {
                Some((began, ended)) => drop(self.close_call(item.clone(), began, ended).await?),
                None => {
                    // A check is run anew; the one that is under way would be in its way.
                    if matches!(item.kind, ItemKind::Report(_))
                        && let Some(sandbox) = &self.sandbox
                    {
                        crate::process::kill(&**sandbox, &item.id.to_string()).await;
                    }
                    self.complete(broken_off(item, ItemStatus::Interrupted, INTERRUPTED)).await?;
                }
            }
        }
        Ok(())
    }

    /// Follows a command that is still there; None when it never started, or went with its sandbox.
    async fn reattach(&self, item: &Item) -> Option<(Instant, Result<ToolEnd, Failure>)> {
        let began = Instant::now();
        let ended = match self.scope(item.id) {
            Ok(scope) => match scope.sandbox.guest().attach(&item.id.to_string(), 0).await {
                Ok(process) => shell::follow(&scope, process).await,
                Err(guest::Error::NotFound(_)) => return None,
                Err(error) => Err(error.into()),
            },
            Err(failure) => Err(failure),
        };
        Some((began, ended))
    }
}
