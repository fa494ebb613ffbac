//! `slipway diff`: what a session changed.

use protocol::SessionId;

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, summary};

/// Show what a session changed, from the commit it began with to the workspace as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
}

impl Diff {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let diff = link.api.diff(self.session).await;
        link.close_now().await?;
        let diff = diff?;
        if context.json {
            print::json(&diff)?;
        } else if diff.patch.is_empty() {
            style::note("nothing changed");
        } else {
            print::text(&summary::patch(&diff.patch, style::stdout()))?;
        }
        Ok(Exit::Done)
    }
}
