//! `slipway ls`: the sessions, newest first.

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, table, text};

/// List sessions, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Ls {}

impl Ls {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let sessions = link.api.sessions().await;
        link.close_now().await?;
        let list = sessions?;
        if context.json {
            print::json(&list)?;
        } else if list.sessions.is_empty() {
            style::note("no sessions yet; begin one with: slipway run --repo PATH \"what is to be done\"");
        } else {
            let rows = list.sessions.iter().map(|session| {
                vec![
                    session.id.to_string(),
                    session.status.as_str().to_owned(),
                    session.environment.clone(),
                    text::age(session.created_at),
                    text::cost(&session.spend),
                    text::harmless(&session.title),
                ]
            });
            print::line(&table::format(&["session", "status", "environment", "age", "cost", "title"], rows))?;
        }
        Ok(Exit::Done)
    }
}
