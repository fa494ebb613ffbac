//! What a session may use, and how much of it is used. All of it follows from the log; only the time that has passed since
//! the last event is told by a stopwatch.

use std::time::Duration;

use protocol::{
    Budget, BudgetKind, BudgetScope, BudgetWarning, Budgets, Code, CommandId, EventBody, Problem, PromptId,
    SessionId, Spend, TurnId, Usd,
};
use serde::{Deserialize, Serialize};

use crate::Sessions;
use crate::state::State;

/// What goes into the queue when a budget was raised for work that it had ended.
pub(crate) const GO_ON: &str = "The budget was raised. Go on with what it interrupted.";

/// What the reason of a turn goes on with that ended for lack of a budget while checks failed.
pub(crate) const STILL_FAIL: &str = "; checks still fail: ";

/// How much was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Used {
    /// Dollars, of calls whose price is known.
    pub(crate) usd: Usd,
    /// Tokens of all kinds.
    pub(crate) tokens: u64,
    /// Time in which a turn was under way and waited for nobody.
    pub(crate) millis: u64,
    /// Steps.
    pub(crate) steps: u32,
}

impl Used {
    /// As people are shown it.
    pub(crate) fn shown(self) -> protocol::Used {
        let Self { usd, tokens, millis, steps } = self;
        protocol::Used { usd: usd.dollars(), tokens, seconds: millis as f64 / 1000.0, steps }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        let mut usd = self.usd;
        usd += other.usd;
        Self {
            usd,
            tokens: self.tokens.saturating_add(other.tokens),
            millis: self.millis.saturating_add(other.millis),
            steps: self.steps.saturating_add(other.steps),
        }
    }

    /// Money and tokens, with steps and time.
    pub(crate) fn new(spend: &Spend, steps: u32, millis: u64) -> Self {
        Self { usd: spend.cost_usd, tokens: spend.usage.total(), millis, steps }
    }
}

/// One limit, and what is used of it, as the whole numbers in which it is counted: millionths of a millionth of a dollar,
/// tokens, milliseconds or steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    pub(crate) scope: BudgetScope,
    pub(crate) kind: BudgetKind,
    used: i128,
    limit: i128,
}

impl Line {
    /// Whether nothing is left.
    fn is_reached(&self) -> bool {
        self.used >= self.limit
    }

    /// Whether little is left, or nothing: one step can use all the rest.
    fn is_neared(&self) -> bool {
        self.used.saturating_mul(5) >= self.limit.saturating_mul(4)
    }

    /// How much there is, as people are shown it.
    pub(crate) fn limit(&self) -> f64 {
        self.shown(self.limit)
    }

    /// So much, in dollars, tokens, seconds or steps.
    fn shown(&self, count: i128) -> f64 {
        match self.kind {
            BudgetKind::Usd => Usd::from_pico(count).dollars(),
            BudgetKind::Seconds => count as f64 / 1000.0,
            BudgetKind::Tokens | BudgetKind::Steps => count as f64,
        }
    }

    /// How much more of it there is, in words, and the option that raises it.
    fn words(&self) -> String {
        let whose = match self.scope {
            BudgetScope::Turn => "the turn",
            BudgetScope::Session => "the session",
        };
        let (used, limit) = (self.shown(self.used), self.limit());
        match self.kind {
            BudgetKind::Usd if used < 0.01 => format!("{whose} used ${} of ${}", short(used), short(limit)),
            BudgetKind::Usd => format!("{whose} used ${used:.4} of ${}", short(limit)),
            BudgetKind::Tokens => format!("{whose} used {used:.0} of {limit:.0} tokens"),
            BudgetKind::Seconds => format!("{whose} took {used:.0} of {limit:.0} seconds"),
            BudgetKind::Steps => format!("{whose} took {used:.0} of {limit:.0} steps"),
        }
    }

    /// The option of `slipway budget` for it, with twice as much.
    fn option(&self) -> String {
        let prefix = match self.scope {
            BudgetScope::Turn => "turn-",
            BudgetScope::Session => "",
        };
        let more = self.shown(self.limit.max(self.used).saturating_mul(2));
        match self.kind {
            BudgetKind::Usd => format!("--{prefix}usd {}", short(more)),
            BudgetKind::Tokens => format!("--{prefix}tokens {more:.0}"),
            BudgetKind::Seconds => format!("--{prefix}minutes {}", short((more / 60.0).ceil())),
            BudgetKind::Steps => format!("--{prefix}steps {more:.0}"),
        }
    }

    fn warning(self, turn: TurnId) -> EventBody {
        let Self { scope, kind, .. } = self;
        let (used, limit) = (self.shown(self.used), self.limit());
        EventBody::BudgetWarned(BudgetWarning { turn, scope, kind, used, limit })
    }
}

/// A number with at most four places after the point, or all of them where there is little else, and none that say nothing.
fn short(number: f64) -> String {
    let text = if number < 0.01 { format!("{number:.12}") } else { format!("{number:.4}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The limits of one scope.
fn lines(scope: BudgetScope, budget: &Budget, used: Used) -> impl Iterator<Item = Line> {
    let line = move |kind, used, limit: Option<i128>| limit.map(|limit| Line { scope, kind, used, limit });
    [
        line(BudgetKind::Usd, used.usd.pico(), budget.usd.map(|usd| Usd::from(usd).pico())),
        line(BudgetKind::Tokens, used.tokens.into(), budget.tokens.map(i128::from)),
        line(
            BudgetKind::Seconds,
            used.millis.into(),
            budget.seconds.map(|seconds| i128::from(seconds) * 1000),
        ),
        line(BudgetKind::Steps, used.steps.into(), budget.steps.map(i128::from)),
    ]
    .into_iter()
    .flatten()
}

/// Every limit of a session: its own, and those of the turn under way or of the last one.
fn all(budgets: &Budgets, turn: Used, session: Used) -> impl Iterator<Item = Line> {
    lines(BudgetScope::Session, &budgets.session, session).chain(lines(
        BudgetScope::Turn,
        &budgets.turn,
        turn,
    ))
}

/// The limits of which nothing is left; the session's come first.
pub(crate) fn reached(budgets: &Budgets, turn: Used, session: Used) -> Vec<Line> {
    all(budgets, turn, session).filter(Line::is_reached).collect()
}

/// The session's own limits of which nothing is left.
pub(crate) fn session_reached(budgets: &Budgets, session: Used) -> Vec<Line> {
    lines(BudgetScope::Session, &budgets.session, session).filter(Line::is_reached).collect()
}

/// Why nothing more is done, and what to do.
pub(crate) fn reason(reached: &[Line], session: SessionId) -> String {
    let words: Vec<String> = reached.iter().map(Line::words).collect();
    let options: Vec<String> = reached.iter().map(Line::option).collect();
    format!("{}; to go on: slipway budget {session} {}", words.join(", and "), options.join(" "))
}

/// The limits of which little is left and nobody was told yet, as events. `millis` is what the turn under way took.
pub(crate) fn warnings(state: &State, millis: u64) -> Vec<EventBody> {
    let Some((turn, budgets)) = state.turn().zip(state.budgets()) else { return Vec::new() };
    let (of_turn, of_session) = state.used(millis);
    let near = all(budgets, of_turn, of_session).filter(Line::is_neared);
    near.filter(|line| !state.was_warned(turn.id, line)).map(|line| line.warning(turn.id)).collect()
}

/// How long until a limit on time is neared that nobody was warned of, or is reached. `millis` is what the turn under way
/// took.
pub(crate) fn until_next(state: &State, millis: u64) -> Option<Duration> {
    let (turn, budgets) = state.turn().zip(state.budgets())?;
    let (of_turn, of_session) = state.used(millis);
    let times = all(budgets, of_turn, of_session).filter(|line| line.kind == BudgetKind::Seconds);
    let left = times.map(|line| {
        let warn = !line.is_neared() && !state.was_warned(turn.id, &line);
        // Whole seconds in milliseconds, so this leaves no rest.
        let next = if warn { line.limit / 5 * 4 } else { line.limit };
        // What is further away than anybody waits is looked at again then.
        Duration::from_millis(u64::try_from((next - line.used).clamp(0, 86_400_000)).unwrap_or_default())
    });
    left.min()
}

/// What follows when a person sets a session's budgets: the change, and if work had ended for lack of it that can go on now,
/// a prompt for that, before all that waits. Nothing follows where nothing changes.
pub(crate) fn changed(state: &State, budgets: Budgets, command: Option<CommandId>) -> Vec<EventBody> {
    if state.budgets().is_none_or(|known| *known == budgets) {
        return Vec::new();
    }
    let mut bodies = vec![EventBody::BudgetChanged { budgets, command }];
    let (of_turn, of_session) = state.used(0);
    if state.is_held() && reached(&budgets, of_turn, of_session).is_empty() {
        bodies.push(go_on());
    }
    bodies
}

fn go_on() -> EventBody {
    EventBody::PromptQueued { prompt: PromptId::new(), text: GO_ON.to_owned(), now: true, images: Vec::new() }
}

/// What follows when a turn ended for lack of a budget that was raised while it ended.
pub(crate) fn raised_late(state: &State) -> Vec<EventBody> {
    state.raised_late_by().map(|_| go_on()).into_iter().collect()
}

/// What a new session may use: what was asked for, and else what the configuration says.
pub(crate) fn overlaid(default: &Budgets, asked: &Budgets) -> Budgets {
    let overlay = |default: &Budget, asked: &Budget| Budget {
        usd: asked.usd.or(default.usd),
        tokens: asked.tokens.or(default.tokens),
        seconds: asked.seconds.or(default.seconds),
        steps: asked.steps.or(default.steps),
    };
    Budgets { turn: overlay(&default.turn, &asked.turn), session: overlay(&default.session, &asked.session) }
}

/// More dollars than this are no limit, and are hard to read.
const MOST_USD: f64 = 1e12;

/// Refuses limits that nothing could be done within, or that are no numbers.
pub fn validate(budgets: &Budgets) -> Result<(), Problem> {
    for (name, budget) in [("turn", &budgets.turn), ("session", &budgets.session)] {
        let usd = |usd: f64| usd <= MOST_USD && Usd::from(usd) > Usd::default();
        let wrong = if budget.usd.is_some_and(|dollars| !usd(dollars)) {
            Some("usd")
        } else if budget.tokens == Some(0) {
            Some("tokens")
        } else if budget.seconds == Some(0) {
            Some("seconds")
        } else if budget.steps == Some(0) {
            Some("steps")
        } else {
            None
        };
        if let Some(field) = wrong {
            return Err(Problem::new(
                Code::BadRequest,
                format!(
                    "the budget's {name}.{field} must be more than 0{}",
                    if field == "usd" { ", and no more than a trillion dollars" } else { "" }
                ),
            )
            .hint("leave it out for no limit; to stop a session, use `slipway stop`"));
        }
    }
    Ok(())
}

impl Sessions {
    /// Why no turn of a session begins by itself, where that is for lack of a budget, and what to do.
    pub async fn out_of_budget(&self, id: SessionId) -> Result<Option<String>, Problem> {
        let handle = self.registry.open(id).await?;
        Ok(handle.recorder().stream().with_state(|state| state.out_of_budget()))
    }
}

#[cfg(test)]
mod tests;
