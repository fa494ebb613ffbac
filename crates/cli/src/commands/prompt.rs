//! `slipway prompt`: a follow-up in a session.

use protocol::{CreatePrompt, ImageData, SessionId};

use super::Context;
use crate::connect::Link;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{live, print, style, text};

/// Queue a follow-up in a session and watch it being worked on.
#[derive(Debug, clap::Args)]
pub(crate) struct Prompt {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// What is to be done
    prompt: String,
    #[command(flatten)]
    images: super::images::Attached,
    /// Stop what is being worked on and do this next
    #[arg(long)]
    now: bool,
    /// Do not wait, when a server runs that can go on with it
    #[arg(long)]
    detach: bool,
}

impl Prompt {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let images = self.images.read()?;
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let result = self.queue(&link, images, &mut interrupts, context.json).await;
        let closed = link.close(&mut interrupts).await;
        let exit = result?;
        closed?;
        Ok(exit)
    }

    async fn queue(
        &self,
        link: &Link,
        images: Vec<ImageData>,
        interrupts: &mut Interrupts,
        json: bool,
    ) -> anyhow::Result<Exit> {
        let before = link.api.session(self.session).await?;
        let request = CreatePrompt { prompt: self.prompt.clone(), now: self.now, images };
        let prompt = link.api.prompt(self.session, &request).await?;
        if self.detach && !link.is_own() {
            if json {
                print::json(&prompt)?;
            } else {
                print::line(&prompt.id.to_string())?;
                match &prompt.waits {
                    Some(why) => style::note(&format!("it waits: {}", text::harmless(why))),
                    None => style::note(&format!("watch it with: slipway attach {}", self.session)),
                }
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
