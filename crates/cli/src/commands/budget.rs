//! `slipway budget`: what a session may use, and how much of it is used.

use anyhow::anyhow;
use protocol::{Budget as Limits, Budgets, EditSession, Model, Session, SessionId, Status};

use super::Context;
use crate::api::Api;
use crate::config::budget::of_minutes;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{budget, print, style};

/// Show what a session may use, or change it. It takes effect at once; work that a used-up budget ended goes on when there
/// is enough again.
#[derive(Debug, clap::Args)]
pub(crate) struct Budget {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    #[command(flatten)]
    limits: Given,
    /// No limit on the session's dollars
    #[arg(long, conflicts_with = "usd")]
    no_usd: bool,
    /// No limit on the session's tokens
    #[arg(long, conflicts_with = "tokens")]
    no_tokens: bool,
    /// No limit on the session's time
    #[arg(long, conflicts_with = "minutes")]
    no_minutes: bool,
    /// No limit on the session's steps
    #[arg(long, conflicts_with = "steps")]
    no_steps: bool,
    /// No limit on a turn's dollars
    #[arg(long, conflicts_with = "turn_usd")]
    no_turn_usd: bool,
    /// No limit on a turn's tokens
    #[arg(long, conflicts_with = "turn_tokens")]
    no_turn_tokens: bool,
    /// No limit on a turn's time
    #[arg(long, conflicts_with = "turn_minutes")]
    no_turn_minutes: bool,
    /// No limit on a turn's steps
    #[arg(long, conflicts_with = "turn_steps")]
    no_turn_steps: bool,
}

/// Limits as options.
#[derive(Debug, clap::Args)]
pub(super) struct Given {
    /// Dollars that the session may cost
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    usd: Option<f64>,
    /// Tokens that the session may use
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tokens: Option<u64>,
    /// Minutes that its turns may take together
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    minutes: Option<f64>,
    /// Steps that its turns may take together
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    steps: Option<u32>,
    /// Dollars that each turn may cost
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turn_usd: Option<f64>,
    /// Tokens that each turn may use
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turn_tokens: Option<u64>,
    /// Minutes that each turn may take
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turn_minutes: Option<f64>,
    /// Steps that each turn may take
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turn_steps: Option<u32>,
}

impl Given {
    /// The limits that were given; None when none was.
    pub(super) fn budgets(&self) -> anyhow::Result<Option<Budgets>> {
        let seconds = |minutes: Option<f64>| minutes.map(of_minutes).transpose();
        let session = Limits {
            usd: self.usd,
            tokens: self.tokens,
            seconds: seconds(self.minutes).map_err(Usage)?,
            steps: self.steps,
        };
        let turn = Limits {
            usd: self.turn_usd,
            tokens: self.turn_tokens,
            seconds: seconds(self.turn_minutes).map_err(Usage)?,
            steps: self.turn_steps,
        };
        let budgets = Budgets { turn, session };
        session::validate_budgets(&budgets).map_err(|problem| Usage(anyhow!("{problem}")))?;
        Ok((!budgets.is_unlimited()).then_some(budgets))
    }
}

impl Budget {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let session = match self.is_change()? {
            false => {
                let link = context.look().await?;
                let session = link.api.session(self.session).await;
                link.close_now().await?;
                session?
            }
            true => {
                let mut interrupts = Interrupts::catch()?;
                let link = context.link().await?;
                let session = async {
                    let before = link.api.session(self.session).await?;
                    let edit = EditSession { budgets: Some(self.over(&before)?), ..EditSession::default() };
                    let session = link.api.edit_session(self.session, &edit).await?;
                    note_unpriced(&link.api, &session).await?;
                    anyhow::Ok(session)
                }
                .await;
                link.close(&mut interrupts).await?;
                let session = session?;
                style::note("the budget is changed");
                if let Some(reason) =
                    session.reason.as_ref().filter(|_| session.status == Status::OutOfBudget)
                {
                    style::note(&format!("it is still used up: {reason}"));
                }
                session
            }
        };
        if context.json {
            print::json(&session)?;
        } else {
            print::line(&budget::table(&session))?;
        }
        Ok(Exit::Done)
    }

    fn is_change(&self) -> anyhow::Result<bool> {
        let lifted = [
            self.no_usd,
            self.no_tokens,
            self.no_minutes,
            self.no_steps,
            self.no_turn_usd,
            self.no_turn_tokens,
            self.no_turn_minutes,
            self.no_turn_steps,
        ];
        Ok(lifted.contains(&true) || self.limits.budgets()?.is_some())
    }

    /// What the session may use after this.
    fn over(&self, before: &Session) -> anyhow::Result<Budgets> {
        let given = self.limits.budgets()?.unwrap_or_default();
        let known = &before.budgets;
        Ok(Budgets {
            turn: Limits {
                usd: set(given.turn.usd, self.no_turn_usd, known.turn.usd),
                tokens: set(given.turn.tokens, self.no_turn_tokens, known.turn.tokens),
                seconds: set(given.turn.seconds, self.no_turn_minutes, known.turn.seconds),
                steps: set(given.turn.steps, self.no_turn_steps, known.turn.steps),
            },
            session: Limits {
                usd: set(given.session.usd, self.no_usd, known.session.usd),
                tokens: set(given.session.tokens, self.no_tokens, known.session.tokens),
                seconds: set(given.session.seconds, self.no_minutes, known.session.seconds),
                steps: set(given.session.steps, self.no_steps, known.session.steps),
            },
        })
    }
}

/// Says so where a limit on money cannot hold.
pub(super) async fn note_unpriced(api: &Api, session: &Session) -> anyhow::Result<()> {
    if session.budgets.session.usd.is_some() || session.budgets.turn.usd.is_some() {
        unpriced(&session.model, &api.models().await?.models).iter().for_each(|note| style::note(note));
    }
    Ok(())
}

/// That nobody knows what a model costs. OpenRouter tells it with each call.
fn unpriced(name: &str, models: &[Model]) -> Option<String> {
    let model = models.iter().find(|model| model.name == name)?;
    (model.price.is_none() && model.provider != llm::Provider::OpenRouter.name()).then(|| {
        format!(
            "the limit on money does not hold, because no price is known of model {name}: set price in [models.{name}] of \
             slipway.toml, or a limit on tokens"
        )
    })
}

/// A limit that was given, lifted, or left as it is.
fn set<T>(given: Option<T>, lifted: bool, known: Option<T>) -> Option<T> {
    if lifted { None } else { given.or(known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_money_that_cannot_hold_is_told() {
        let model = |name: &str, provider: &str, price: bool| {
            let price = price.then(|| serde_json::json!({"input": 1.0, "output": 2.0}));
            let model = serde_json::json!({
                "name": name, "provider": provider, "model": "m", "default": false, "key": true, "context": 16384,
                "context_assumed": false, "max_output": 4096, "tool_mode": "native", "edit_format": "replace",
                "images": true, "price": price, "fallback": [], "tasks": []
            });
            serde_json::from_value::<Model>(model).unwrap()
        };
        let models = [
            model("free", "openai-compatible", false),
            model("paid", "openai", true),
            model("router", "openrouter", false),
        ];
        assert!(unpriced("free", &models).unwrap().contains("set price in [models.free]"));
        for name in ["paid", "router", "gone"] {
            assert_eq!(unpriced(name, &models), None);
        }
    }
}
