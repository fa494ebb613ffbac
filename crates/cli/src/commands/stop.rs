//! `slipway stop`: stop the turn under way.

use protocol::SessionId;

use super::Context;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{print, style};

/// Stop the turn or the delivery that a session is working on. What it did so far is kept; the next queued prompt, if there
/// is one, is worked on then.
#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Pause the queue too, so that no waiting prompt begins
    #[arg(long)]
    pause: bool,
}

impl Stop {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let stopped = link.api.stop(self.session, self.pause).await;
        link.close(&mut interrupts).await?;
        let stopped = stopped?;
        if context.json {
            print::json(&stopped)?;
        } else {
            match stopped.turn {
                Some(turn) => style::note(&format!("stopping {turn}")),
                None if stopped.delivery => style::note("stopping the delivery"),
                None => style::note("nothing is being worked on"),
            }
            if self.pause {
                style::note(&format!(
                    "the queue is paused; go on with: slipway queue {} resume",
                    self.session
                ));
            }
        }
        Ok(Exit::Done)
    }
}
