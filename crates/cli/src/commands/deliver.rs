//! `slipway deliver`: push the branch.

use protocol::{DeliverSession, SessionId};

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
    /// Push also what looks like a secret: you have seen that it is none
    #[arg(long)]
    allow_secrets: bool,
}

impl Deliver {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let request = DeliverSession { allow_secrets: self.allow_secrets };
        let delivered = async {
            let delivery = link.api.deliver(self.session, request).await?;
            // The answer is about one of several repositories.
            let all = match delivery.repository {
                Some(_) if !context.json => link.api.session(self.session).await?.deliveries,
                Some(_) | None => Vec::new(),
            };
            Ok::<_, anyhow::Error>((delivery, all))
        };
        let delivered = delivered.await;
        link.close(&mut interrupts).await?;
        let (delivery, all) = delivered?;
        if context.json {
            print::json(&delivery)?;
            return Ok(Exit::Done);
        }
        print::line(&delivery.branch)?;
        for one in if all.is_empty() { std::slice::from_ref(&delivery) } else { &all } {
            style::note(&format!("pushed to {}", one.remote));
            if let Some(url) = &one.url {
                style::note(&format!("pull request {}", text::harmless(url)));
            }
        }
        Ok(Exit::Done)
    }
}
