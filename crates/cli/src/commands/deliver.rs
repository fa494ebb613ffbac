//! `slipway deliver`: push the branch.

use protocol::SessionId;

use super::Context;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{print, style};

/// Push a session's branch (again). Doing it twice is the same as doing it once.
#[derive(Debug, clap::Args)]
pub(crate) struct Deliver {
    /// The session
    session: SessionId,
}

impl Deliver {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let delivery = link.api.deliver(self.session).await;
        link.close(&mut interrupts).await?;
        let delivery = delivery?;
        if context.json {
            print::json(&delivery)?;
        } else {
            print::line(&delivery.branch)?;
            style::note(&format!("pushed to {}", delivery.remote));
        }
        Ok(Exit::Done)
    }
}
