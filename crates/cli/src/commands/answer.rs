//! `slipway answer`: answer a question of the agent.

use anyhow::anyhow;
use protocol::{Decide, Gate, PendingApproval, SessionId};

use super::Context;
use super::approve::settle;
use crate::exit::{Exit, Usage};

/// Answer the question that a session waits with. What is said is given to the agent, which goes on. Whoever is first
/// answers; `slipway reject` lets the agent decide by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// The answer; the number of an option stands for it
    text: String,
}

impl Answer {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let Self { session, text } = self;
        settle(session, context, |waits| match waits.gate {
            Gate::Question => {
                Ok(Decide { approved: true, comment: Some(meant(&text, waits)), ..Decide::default() })
            }
            Gate::Delivery | Gate::Call | Gate::Host => Err(Usage(anyhow!(
                "{session} waits for approval and not for an answer: look with slipway approve {session} --show"
            ))
            .into()),
        })
        .await
    }
}

/// An option by its number, or the text as it is.
pub(super) fn meant(text: &str, waits: &PendingApproval) -> String {
    let options = waits.call.as_ref().map(|call| call.options.as_slice()).unwrap_or_default();
    let number = text.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|number| options.get(number)).cloned().unwrap_or_else(|| text.to_owned())
}
