//! `slipway attach`: watch a session.

use protocol::{LineageId, SessionId};

use super::Context;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::live;

/// Watch a session from its beginning, or after an event, until its turn is over. Interrupting leaves it alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Begin after this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// The lineage of the events up to there, as `slipway show --json` told it: if the session was restored from a backup
    /// since then, it is shown from its beginning
    #[arg(long, requires = "after")]
    lineage: Option<LineageId>,
}

impl Attach {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let watch = live::Watch {
            api: &link.api,
            session: self.session,
            after: self.after,
            lineage: self.lineage,
            on_interrupt: live::OnInterrupt::Leave,
            json: context.json,
        };
        let result = watch.run(&mut interrupts).await;
        let closed = link.close(&mut interrupts).await;
        let exit = result?;
        closed?;
        Ok(exit)
    }
}
