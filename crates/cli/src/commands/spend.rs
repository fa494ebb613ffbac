//! `slipway spend`: what sessions spent, by day and model.

use protocol::SessionId;

use super::Context;
use crate::exit::Exit;
use crate::render::{budget, print, style};

/// Show what sessions spent, by day and model. Days are in UTC.
#[derive(Debug, clap::Args)]
pub(crate) struct Spend {
    /// The first day, such as 2026-11-16
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// Only this session
    #[arg(long, value_parser = super::session_id)]
    session: Option<SessionId>,
    /// Only this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

impl Spend {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let parameters = [
            ("from", self.from),
            ("to", self.to),
            ("session", self.session.map(|id| id.to_string())),
            ("model", self.model),
        ];
        let link = context.look().await?;
        let report = link.api.spend(&parameters).await;
        link.close_now().await?;
        let report = report?;
        if context.json {
            print::json(&report)?;
        } else if report.spent.is_empty() {
            style::note("nothing was spent");
        } else {
            print::line(&budget::spent(&report.spent, Some(&report.total)))?;
        }
        Ok(Exit::Done)
    }
}
