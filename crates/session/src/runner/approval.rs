//! Work that a person must approve before it is pushed. The turn is parked meanwhile: it is in the log and nowhere else,
//! so that it costs nothing, survives a restart, and goes on when somebody has decided.

use protocol::{ApprovalId, EventBody, Gate, Outcome, Problem};

use super::{End, Runner, delivery, outgoing};
use crate::joint::of;
use crate::state::TurnState;
use crate::workspace::{Kept, Workspace};

/// Whether somebody was asked.
pub(super) enum Asked {
    /// Nobody needs to be.
    Nobody,
    /// Somebody must decide now.
    Waiting,
    /// The turn was stopped before.
    Stopped,
    /// Nobody can allow it.
    Refused(Problem),
}

impl Runner {
    /// Asks for approval of a delivery, where the environment wants that, or where something in it is for a person to see.
    pub(super) async fn ask(&self, kept: &Kept) -> Result<Asked, store::Error> {
        let workspace = &self.context.workspace;
        let concerns = outgoing::look(&self.context, &kept.commit).await;
        if let Some(problem) = concerns.denial() {
            return Ok(Asked::Refused(problem));
        }
        if !workspace.gates().contains(&Gate::Delivery) && !concerns.ask() {
            workspace.clear(&kept.commit);
            return Ok(Asked::Nobody);
        }
        let (branch, remote) =
            workspace.saved().map(|saved| (saved.branch, saved.remote)).unwrap_or_default();
        let remote = remotes_that_change(workspace, &kept.commit).unwrap_or(remote);
        let Kept { files, insertions, deletions, .. } = kept;
        let plural = if *files == 1 { "" } else { "s" };
        let body = EventBody::ApprovalRequested {
            approval: ApprovalId::new(),
            turn: self.turn,
            question: format!(
                "Push {files} changed file{plural} (+{insertions} −{deletions}) as {branch} to {remote}? {}{}",
                if self.checks.is_empty() {
                    "Nothing was checked: there are no checks."
                } else {
                    "The checks passed."
                },
                concerns.words()
            ),
            gate: Gate::Delivery,
            call: None,
            diff: None,
        };
        self.put(vec![body]).await
    }

    /// Goes on with a turn whose delivery was approved. What was put to the person is on the host, so no sandbox is needed.
    pub(super) async fn deliver_approved(mut self, turn: &TurnState) -> Result<(), store::Error> {
        self.close_left(turn).await?;
        let Some(commit) = self.context.workspace.saved().and_then(|saved| saved.tip) else {
            let reason =
                Some("the work that was approved is not there any more: send the prompt again".to_owned());
            return self.write_finish(End { outcome: Outcome::Failed, reason }, (0, 0, 0)).await;
        };
        // Whoever approved it was shown what there was to be seen.
        self.context.workspace.clear(&commit);
        let act = self.context.outside.begin();
        let cause = self.agent.clone().into();
        let delivered = delivery::deliver(&self.context, &self.stop, &cause, &commit).await?;
        let counts = self.kept_counts(Some(&commit)).await;
        self.look_for_weakened(Some(&commit)).await;
        self.write_finish(self.after_delivery(&delivered), counts).await?;
        drop(act);
        self.freeze().await
    }

    /// Ends a turn whose delivery somebody refused without saying what to do instead.
    pub(super) async fn finish_refused(self, turn: &TurnState, by: &str) -> Result<(), store::Error> {
        self.close_left(turn).await?;
        let tip = self.context.workspace.saved().and_then(|saved| saved.tip);
        let counts = self.kept_counts(tip.as_deref()).await;
        let reason = Some(format!("{by} did not approve the delivery; the work is kept"));
        self.write_finish(End { outcome: Outcome::Escalated, reason }, counts).await?;
        self.freeze().await
    }
}

/// Where the work goes, where there are several repositories: to those that it changed.
fn remotes_that_change(workspace: &Workspace, commit: &str) -> Option<String> {
    let (saved, places) = (workspace.saved()?, workspace.places());
    let changed = (0..places.len()).filter(|number| of(commit, *number) != of(&saved.base, *number));
    let named = changed.map(|number| format!("{} ({})", workspace.remote_of(number), places[number]));
    (places.len() > 1).then(|| named.collect::<Vec<_>>().join(", "))
}
