//! `slipway rebase`: a session's branch with what its base has become.

use protocol::SessionId;

use super::Context;
use crate::connect::Link;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{live, print, style};

/// Bring a session's branch up to date with the branch that it began from, and watch it. The base is merged, so that nothing which
/// reviewers have seen is rewritten; conflicts are the agent's to resolve, and the checks run again.
#[derive(Debug, clap::Args)]
pub(crate) struct Rebase {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Do not wait, when a server runs that can go on with it
    #[arg(long)]
    detach: bool,
}

impl Rebase {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let result = self.queue(&link, &mut interrupts, context.json).await;
        let closed = link.close(&mut interrupts).await;
        let exit = result?;
        closed?;
        Ok(exit)
    }

    async fn queue(&self, link: &Link, interrupts: &mut Interrupts, json: bool) -> anyhow::Result<Exit> {
        let before = link.api.session(self.session).await?;
        let prompt = link.api.rebase(self.session).await?;
        if self.detach && !link.is_own() {
            if json {
                print::json(&prompt)?;
            } else {
                print::line(&prompt.id.to_string())?;
                style::note(&format!("watch it with: slipway attach {}", self.session));
            }
            return Ok(Exit::Done);
        }
        let on_interrupt = if link.is_own() { live::OnInterrupt::Stop } else { live::OnInterrupt::Leave };
        let (after, lineage) = (before.seq, before.lineage);
        live::Watch { api: &link.api, session: self.session, after, lineage, on_interrupt, json }
            .run(interrupts)
            .await
    }
}
