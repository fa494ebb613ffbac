//! `slipway approve`: decide what a session waits for.

use anyhow::anyhow;
use protocol::{Decide, SessionId};

use super::Context;
use crate::connect::Link;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{live, print, style};

/// Approve what a session waits for, such as the push of its work, or reject it. A rejection with a comment lets the
/// agent go on with what the comment says; without one the turn ends as escalated. Whoever is first decides.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Reject it
    #[arg(long)]
    reject: bool,
    /// What the agent is told
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

impl Approve {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let result = self.decide(&link, &mut interrupts, context.json).await;
        let closed = link.close(&mut interrupts).await;
        let exit = result?;
        closed?;
        Ok(exit)
    }

    async fn decide(&self, link: &Link, interrupts: &mut Interrupts, json: bool) -> anyhow::Result<Exit> {
        let before = link.api.session(self.session).await?;
        let Some(approval) = before.approval else {
            return Err(Usage(anyhow!(
                "{} does not wait for approval: it is {}",
                self.session,
                before.status.as_str()
            ))
            .into());
        };
        let decide = Decide { approved: !self.reject, comment: self.comment.clone() };
        let decision = link.api.decide(self.session, approval.id, &decide).await?;
        if json {
            print::json(&decision)?;
        } else {
            style::note(if decision.approved { "approved" } else { "rejected" });
        }
        if !link.is_own() {
            if !json {
                style::note(&format!("watch it with: slipway attach {}", self.session));
            }
            return Ok(Exit::Done);
        }
        // Nobody else is there to go on with it.
        let on_interrupt = live::OnInterrupt::Stop;
        let (after, lineage) = (before.seq, before.lineage);
        live::Watch { api: &link.api, session: self.session, after, lineage, on_interrupt, json }
            .run(interrupts)
            .await
    }
}
