//! `slipway deliver`: push the branch.

use protocol::SessionId;

use super::Context;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{print, style, text};

/// Push a session's branch (again), and open its pull request where a forge is configured. Doing it twice is the same as doing it once.
#[derive(Debug, clap::Args)]
pub(crate) struct Deliver {
    /// The session
    #[arg(value_parser = super::session_id)]
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
            if let Some(url) = &delivery.url {
                style::note(&format!("pull request {}", text::harmless(url)));
            }
        }
        Ok(Exit::Done)
    }
}
