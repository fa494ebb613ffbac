//! `[budget.turn]` and `[budget.session]`: what sessions may use where nobody says otherwise.

use anyhow::{Context, bail};
use protocol::Budgets;
use serde::{Deserialize, Serialize};

/// Both of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Budget {
    turn: Turn,
    session: Session,
}

/// What each turn may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Turn {
    usd: Option<f64>,
    tokens: Option<u64>,
    minutes: Option<f64>,
    seconds: Option<u64>,
    steps: Option<u32>,
}

impl Default for Turn {
    fn default() -> Self {
        Self { usd: None, tokens: None, minutes: None, seconds: None, steps: Some(1000) }
    }
}

/// What all turns of a session may use together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Session {
    usd: Option<f64>,
    tokens: Option<u64>,
    minutes: Option<f64>,
    seconds: Option<u64>,
    steps: Option<u32>,
}

impl Budget {
    /// As sessions take it.
    pub(crate) fn budgets(&self) -> anyhow::Result<Budgets> {
        let Self { turn, session } = self;
        let budgets = Budgets {
            turn: protocol::Budget {
                usd: turn.usd,
                tokens: turn.tokens,
                seconds: seconds(turn.minutes, turn.seconds).context("[budget.turn]")?,
                steps: turn.steps,
            },
            session: protocol::Budget {
                usd: session.usd,
                tokens: session.tokens,
                seconds: seconds(session.minutes, session.seconds).context("[budget.session]")?,
                steps: session.steps,
            },
        };
        session::validate_budgets(&budgets).map_err(|problem| anyhow::anyhow!("[budget]: {problem}"))?;
        Ok(budgets)
    }
}

fn seconds(minutes: Option<f64>, seconds: Option<u64>) -> anyhow::Result<Option<u64>> {
    match (minutes, seconds) {
        (Some(_), Some(_)) => bail!("minutes and seconds are both set: set one of them"),
        (Some(minutes), None) => Ok(Some(of_minutes(minutes)?)),
        (None, seconds) => Ok(seconds),
    }
}

/// Whole seconds, at least one.
pub(crate) fn of_minutes(minutes: f64) -> anyhow::Result<u64> {
    // A thousand years are as good as no limit, and can still be told in seconds.
    const MOST: f64 = 525_960_000.0;
    if !(minutes > 0.0 && minutes <= MOST) {
        bail!("minutes must be more than 0, and at most {MOST}; leave it out for no limit");
    }
    Ok((minutes * 60.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn read(text: &str) -> anyhow::Result<protocol::Budgets> {
        Config::parse(text)?.budget.budgets()
    }

    #[test]
    fn a_turn_has_a_hundred_steps_and_nothing_else_is_limited() {
        let budgets = read("").unwrap();
        assert_eq!(budgets.turn, protocol::Budget { steps: Some(1000), ..protocol::Budget::default() });
        assert_eq!(budgets.session, protocol::Budget::default());
        let budgets = read("[budget.turn]\nusd = 2\n").unwrap();
        assert_eq!((budgets.turn.usd, budgets.turn.steps), (Some(2.0), Some(1000)));
    }

    #[test]
    fn every_limit_can_be_set() {
        let text = "[budget.turn]\nminutes = 1.5\nsteps = 7\n[budget.session]\nusd = 0.5\ntokens = 9\nseconds = 8\nsteps = 6\n";
        let budgets = read(text).unwrap();
        assert_eq!((budgets.turn.seconds, budgets.turn.steps), (Some(90), Some(7)));
        let want = protocol::Budget { usd: Some(0.5), tokens: Some(9), seconds: Some(8), steps: Some(6) };
        assert_eq!(budgets.session, want);
    }

    #[test]
    fn a_limit_that_cannot_be_meant_is_told() {
        for (text, words) in [
            ("[budget.turn]\nusd = 0\n", "turn.usd must be more than 0"),
            ("[budget.session]\nusd = -1.5\n", "session.usd must be more than 0"),
            ("[budget.turn]\nusd = nan\n", "turn.usd must be more than 0"),
            ("[budget.turn]\nusd = inf\n", "turn.usd must be more than 0"),
            ("[budget.turn]\nusd = 1e300\n", "no more than a trillion dollars"),
            ("[budget.session]\ntokens = 0\n", "session.tokens must be more than 0"),
            ("[budget.turn]\nminutes = 0\n", "minutes must be more than 0"),
            ("[budget.turn]\nminutes = nan\n", "minutes must be more than 0"),
            ("[budget.turn]\nminutes = 1e300\n", "minutes must be more than 0"),
            ("[budget.turn]\nminutes = 1\nseconds = 60\n", "set one of them"),
            ("[budget.turn]\nsteps = -3\n", "steps"),
            ("[budget.turn]\nhours = 3\n", "hours"),
            ("[agent]\nmax_steps = 3\n", "[budget.turn]"),
        ] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
