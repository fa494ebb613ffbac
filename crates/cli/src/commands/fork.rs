//! `slipway fork`: a new session that goes on from a snapshot of another; `slipway snapshots` lists them.

use protocol::{ForkSession, SessionId, SnapshotId};

use super::Context;
use crate::connect::Link;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{live, print, style, table, text};

/// Go on from a snapshot of a session in a new one: the conversation up to there, the workspace as it was, a branch of
/// its own. The first session stays as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// What is to be done; - reads it from standard input
    prompt: String,
    #[command(flatten)]
    images: super::images::Attached,
    /// Snapshot to begin at [default: the last; see: slipway snapshots]
    #[arg(long, value_name = "SNAPSHOT", value_parser = snapshot_id)]
    at: Option<SnapshotId>,
    /// Model to use [default: the session's]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Do not wait, when a server runs that can go on with it
    #[arg(long)]
    detach: bool,
}

fn snapshot_id(text: &str) -> Result<SnapshotId, String> {
    text.parse().map_err(|error| format!("{error}; list them with: slipway snapshots SESSION"))
}

impl Fork {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let prompt = super::run::read_prompt(&self.prompt)?;
        let images = self.images.read()?;
        let request = ForkSession { prompt, images, snapshot: self.at, model: self.model.clone() };
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let result = self.work(&link, &request, &mut interrupts, context.json).await;
        let closed = link.close(&mut interrupts).await;
        let exit = result?;
        closed?;
        Ok(exit)
    }

    async fn work(
        &self,
        link: &Link,
        request: &ForkSession,
        interrupts: &mut Interrupts,
        json: bool,
    ) -> anyhow::Result<Exit> {
        let forked = link.api.fork(self.session, request).await?;
        if self.detach && !link.is_own() {
            if json {
                print::json(&forked)?;
            } else {
                print::line(&forked.id.to_string())?;
                style::note(&format!("watch it with: slipway attach {}", forked.id));
            }
            return Ok(Exit::Done);
        }
        if !json {
            style::note(&format!("forked as {}", forked.id));
        }
        // What came before the fork was seen in the first session; the prompt is the last event of the answer.
        let after = forked.seq.saturating_sub(1);
        let on_interrupt = if link.is_own() { live::OnInterrupt::Stop } else { live::OnInterrupt::Leave };
        let lineage = forked.lineage;
        live::Watch { api: &link.api, session: forked.id, after, lineage, on_interrupt, json }
            .run(interrupts)
            .await
    }
}

/// List the snapshots of a session: its workspace as it was at the end of each turn.
#[derive(Debug, clap::Args)]
pub(crate) struct Snapshots {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
}

impl Snapshots {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let list = link.api.snapshots(self.session).await;
        link.close_now().await?;
        let list = list?;
        if context.json {
            print::json(&list)?;
        } else if list.snapshots.is_empty() {
            style::note("no snapshots: one is taken at the end of each turn");
        } else {
            let rows = list.snapshots.iter().map(|snapshot| {
                vec![
                    snapshot.id.to_string(),
                    text::age(snapshot.taken_at),
                    text::bytes(snapshot.bytes),
                    snapshot.turn.to_string(),
                    // Something wrote while it was taken.
                    if snapshot.blurred { "blurred" } else { "" }.to_owned(),
                ]
            });
            print::line(&table::format(&["snapshot", "age", "size", "after turn", ""], rows))?;
        }
        Ok(Exit::Done)
    }
}
