//! What a session used, as its log tells it: money and tokens for each day and model, steps, and the time of its turns.

use protocol::{
    Actor, BudgetKind, BudgetScope, BudgetUse, BudgetWarning, Budgets, Outcome, PromptId, Spend, Spent,
    Timestamp, TurnId, Usage,
};
use serde::{Deserialize, Serialize};

use super::{State, TurnState};
use crate::budget::{self, Line, Used};

/// The account of one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// All model calls.
    pub(super) spend: Spend,
    /// The same for each day and model, in that order.
    pub(super) spent: Vec<Spent>,
    /// Steps of the turns that finished.
    steps: u32,
    /// Milliseconds of the turns that finished.
    millis: u64,
    /// What the last turn that finished used of the limits of a turn.
    pub(super) last: Used,
    /// Prompts that go on with work which a limit interrupted, and what that had used.
    #[serde(default)]
    going_on: Vec<(PromptId, Used)>,
    /// What of it was money and tokens.
    pub(super) last_spend: Spend,
    /// Limits of which people were told that little is left.
    warned: Vec<Warned>,
    /// The last turn ended for lack of a budget, and nobody has done anything about it since.
    pub(super) held: bool,
    /// Who changed the budgets while the turn was under way, or the last one.
    pub(super) changed_by: Option<Actor>,
}

/// A limit that people were warned of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Warned {
    turn: TurnId,
    scope: BudgetScope,
    kind: BudgetKind,
    limit: f64,
}

impl Ledger {
    /// One model call.
    pub(super) fn record(&mut self, at: Timestamp, model: &str, usage: Usage, cost_usd: Option<f64>) {
        self.spend.record(usage, cost_usd);
        let day = day(at);
        let order = |known: &Spent| (known.day.as_str(), known.model.as_str()).cmp(&(day.as_str(), model));
        let place = match self.spent.binary_search_by(order) {
            Ok(place) => place,
            Err(place) => {
                let new = Spent { day, model: model.to_owned(), spend: Spend::default() };
                self.spent.insert(place, new);
                place
            }
        };
        self.spent[place].spend.record(usage, cost_usd);
    }

    /// A turn begins. Gives what the work had used before that it goes on with.
    pub(super) fn begin(&mut self, prompt: PromptId) -> Used {
        (self.held, self.changed_by) = (false, None);
        self.warned.retain(|warned| warned.scope == BudgetScope::Session);
        let place = self.going_on.iter().position(|(going_on, _)| *going_on == prompt);
        place.map(|place| self.going_on.swap_remove(place).1).unwrap_or_default()
    }

    /// A turn came to its end.
    pub(super) fn finish(&mut self, outcome: Outcome, turn: &TurnState, millis: u64) {
        let used = turn.used(millis);
        self.steps = self.steps.saturating_add(used.steps);
        self.millis = self.millis.saturating_add(used.millis);
        (self.last, self.last_spend) = (turn.used_for_prompt(millis), turn.spend);
        self.held = outcome == Outcome::OutOfBudget;
    }

    /// People are told that little of a limit is left.
    pub(super) fn warn(&mut self, warning: &BudgetWarning) {
        let BudgetWarning { turn, scope, kind, limit, .. } = *warning;
        self.warned.push(Warned { turn, scope, kind, limit });
    }

    /// Whether people were told that little of this limit is left.
    pub(super) fn was_warned(&self, turn: TurnId, line: &Line) -> bool {
        self.warned.iter().any(|warned| {
            let same_turn = warned.turn == turn || warned.scope == BudgetScope::Session;
            same_turn && (warned.scope, warned.kind, warned.limit) == (line.scope, line.kind, line.limit())
        })
    }

    /// What the session used together with a turn that has not finished.
    pub(super) fn used(&self, under_way: Used) -> Used {
        Used {
            usd: self.spend.cost_usd,
            tokens: self.spend.usage.total(),
            millis: self.millis.saturating_add(under_way.millis),
            steps: self.steps.saturating_add(under_way.steps),
        }
    }
}

impl State {
    /// Whether what waits stays where it is until a person does something about it.
    pub(super) fn stays(&self) -> bool {
        self.paused || self.ledger.held || !self.session_limits().is_empty()
    }

    /// Notes a prompt that was put before all others because more is allowed of what had interrupted the work: the limits of a
    /// turn are limits on the work that one prompt asked for, however often they are raised.
    pub(super) fn note_going_on(&mut self, prompt: PromptId, text: &str, now: bool) {
        if self.ledger.held && now && text == budget::GO_ON {
            self.ledger.going_on.push((prompt, self.ledger.last));
        }
    }

    /// Whoever asks for more after a turn used its budget up lets the queue go on; what the session used up stays so.
    pub(super) fn lift_hold(&mut self) {
        if self.session_limits().is_empty() {
            self.ledger.held = false;
        }
    }

    /// Whether the last turn ended for lack of a budget, and nothing came of that yet.
    pub(crate) fn is_held(&self) -> bool {
        self.ledger.held
    }

    /// What its calls used, for each day and model.
    pub(crate) fn spent(&self) -> &[Spent] {
        &self.ledger.spent
    }

    /// What the session may use.
    pub(crate) fn budgets(&self) -> Option<&Budgets> {
        self.created.as_ref().map(|created| &created.budgets)
    }

    /// What was used of the limits of a turn by the one under way, or else by the last one, and what by the session. `millis` is the time that the turn
    /// under way took; the log may know of more.
    pub(crate) fn used(&self, millis: u64) -> (Used, Used) {
        let turn = self.turn.as_ref();
        let under_way = turn.map(|turn| turn.used(millis)).unwrap_or_default();
        let for_prompt = turn.map_or(self.ledger.last, |turn| turn.used_for_prompt(millis));
        (for_prompt, self.ledger.used(under_way))
    }

    /// The same as people are shown it.
    pub(crate) fn budget_use(&self, millis: u64) -> BudgetUse {
        let (turn, session) = self.used(millis);
        BudgetUse { turn: turn.shown(), session: session.shown() }
    }

    /// Whether people were told that little of this limit is left.
    pub(crate) fn was_warned(&self, turn: TurnId, line: &Line) -> bool {
        self.ledger.was_warned(turn, line)
    }

    /// The session's own limits of which nothing is left.
    pub(super) fn session_limits(&self) -> Vec<Line> {
        self.budgets().map(|budgets| budget::session_reached(budgets, self.used(0).1)).unwrap_or_default()
    }

    /// Why no turn begins, where that is for lack of a budget.
    pub(crate) fn out_of_budget(&self) -> Option<String> {
        if self.ledger.held {
            let said = self.last.as_ref().and_then(|(_, reason)| reason.clone())?;
            let (turn, session) = self.used(0);
            let reached = budget::reached(self.budgets()?, turn, session);
            if reached.is_empty() {
                return Some(said);
            }
            // The limits may be others by now; what else was said of the turn is still true.
            let rest = said.find(budget::STILL_FAIL).map_or("", |at| &said[at..]);
            return Some(budget::reason(&reached, self.id) + rest);
        }
        let limits = self.session_limits();
        let waits = self.turn.is_none() && !self.queue.is_empty() && !limits.is_empty();
        waits.then(|| budget::reason(&limits, self.id))
    }

    /// Who raised the budget too late for the turn that ended for lack of it.
    pub(crate) fn raised_late_by(&self) -> Option<&Actor> {
        let (turn, session) = self.used(0);
        let enough = self.ledger.held && budget::reached(self.budgets()?, turn, session).is_empty();
        self.ledger.changed_by.as_ref().filter(|_| enough && self.turn.is_none())
    }
}

/// The day of a moment, in UTC.
fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}
