//! `slipway edit`: another model, title or policy for a session.

use protocol::{EditSession, Session, SessionId, Status};

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, text};

/// Give a session another model, title or policy. The model works from its next step on, also while a turn runs; the policy
/// holds from the next call on.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["model", "title", "policy", "after_every"])))]
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
    #[command(flatten)]
    policy: super::policy::Given,
}

impl Edit {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let policy = self.policy.read()?;
        let link = context.look().await?;
        let edit =
            EditSession { title: self.title, model: self.model, budgets: None, policy, archived: None };
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
            style::note(&format!("{} works on it {}", session.model, from_when(&session)));
        }
        if edit.policy.is_some() {
            style::note("the policy holds from the next call on");
        }
        Ok(Exit::Done)
    }
}

/// From when on another model works, and what to do where nothing does.
fn from_when(session: &Session) -> String {
    let id = session.id;
    match session.status {
        Status::Working | Status::Waiting => "from its next step on".to_owned(),
        _ if !session.queued.is_empty() && session.paused => {
            format!("when what waits goes on: slipway queue {id} resume")
        }
        _ if !session.queued.is_empty() => "from its next turn on".to_owned(),
        Status::Failed => format!("from the next prompt on; send the last one again: slipway prompt {id} …"),
        Status::Queued | Status::Done | Status::Escalated | Status::Cancelled | Status::OutOfBudget => {
            "from the next prompt on".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_step_that_does_not_come() {
        let said = |status: &str, queued: bool, paused: bool| {
            let queued = match queued {
                true => serde_json::json!([{"id": protocol::PromptId::new(), "text": "x", "author": "ann"}]),
                false => serde_json::json!([]),
            };
            let session = serde_json::json!({
                "id": SessionId::new(), "title": "t", "environment": "e", "model": "m", "status": status, "seq": 1,
                "created_at": "2026-11-16T00:00:00Z", "updated_at": "2026-11-16T00:00:00Z",
                "spend": protocol::Spend::default(), "queued": queued, "paused": paused
            });
            from_when(&serde_json::from_value(session).unwrap())
        };
        assert_eq!(said("working", true, false), "from its next step on");
        assert!(said("failed", true, true).ends_with("resume"));
        assert!(said("failed", false, false).contains("send the last one again: slipway prompt "));
        assert_eq!(said("done", false, false), "from the next prompt on");
    }
}
