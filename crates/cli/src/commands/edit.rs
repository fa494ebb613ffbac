//! `slipway edit`: another model or title for a session.

use protocol::{EditSession, SessionId};

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, text};

/// Give a session another model or title. The model works from its next step on, also while a turn runs.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["model", "title"])))]
pub(crate) struct Edit {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Model that goes on with it; `slipway models` lists them
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What it is called
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

impl Edit {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let edit = EditSession { title: self.title, model: self.model, budgets: None };
        let session = link.api.edit_session(self.session, &edit).await;
        link.close_now().await?;
        let session = session?;
        if context.json {
            print::json(&session)?;
            return Ok(Exit::Done);
        }
        if edit.title.is_some() {
            style::note(&format!("it is called: {}", text::harmless(&session.title)));
        }
        if edit.model.is_some() {
            style::note(&format!("{} works on it from its next step on", session.model));
        }
        Ok(Exit::Done)
    }
}
