//! What one turn leaves to the next, and what is known of the checks before a turn changed anything.

use protocol::event::{Judgement, PlanItem, Verdict};
use protocol::item::CheckReport;
use protocol::{Gate, Item, ItemKind, KnownCheck, Outcome, Report};
use serde::{Deserialize, Serialize};

use super::TurnState;

/// Tools that change no file. `check` runs the environment's own commands.
const READING: [&str; 10] =
    ["read", "search", "list", "plan", "check", "remember", "recall", "ask", "web_fetch", "mcp_tools"];

/// A tree that passed its checks, and the one with what they left behind where that is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Passed {
    pub(crate) tree: String,
    #[serde(default)]
    pub(crate) left: Option<String>,
}

impl Passed {
    /// Whether a tree is what passed, with or without what the checks wrote.
    pub(crate) fn is(&self, tree: &str) -> bool {
        self.tree == tree || self.left.as_deref() == Some(tree)
    }
}

/// What a turn leaves to the next one: what it did not get done, and how it found the checks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) plan: Vec<PlanItem>,
    pub(super) failing: Vec<(String, Report)>,
    /// What is known of the checks as the next turn finds the work, those that passed with an empty report.
    #[serde(default)]
    pub(super) known: Vec<(String, Report)>,
}

impl Left {
    pub(super) fn of(turn: TurnState, outcome: Outcome) -> Self {
        let passed = turn.checks.iter().filter(|check| check.passed);
        let mut known: Vec<(String, Report)> =
            passed.map(|check| (check.name.clone(), Report::default())).collect();
        match outcome {
            Outcome::Done => Self { known, ..Self::default() },
            Outcome::Escalated | Outcome::Cancelled | Outcome::Failed | Outcome::OutOfBudget => {
                known.extend(turn.failing.iter().cloned());
                Self { plan: turn.plan, failing: turn.failing, known }
            }
        }
    }
}

impl TurnState {
    /// The tree that passed its checks, once nothing more is to be done with it by itself: it was delivered, that was tried,
    /// or a person did not want it.
    pub(super) fn handed_over(&self, outcome: Outcome) -> Option<&Passed> {
        let refused =
            self.decision.as_ref().is_some_and(|said| said.gate == Gate::Delivery && !said.approved);
        let settled = outcome == Outcome::Done || self.delivery.is_some() || refused;
        self.passed.as_ref().filter(|_| settled)
    }

    /// Takes in what was said of the work, which ends what was waited for to have it said.
    pub(super) fn judge(&mut self, judgement: &Judgement) {
        self.retry = None;
        if judgement.verdict == Verdict::Doubtful {
            self.doubted_after.get_or_insert(self.steps);
        }
        self.judgement = Some(judgement.clone());
    }

    /// Whether the model that works was told of a doubt. A server that dies before that is in no request has not told it; whoever
    /// made a step since then has read it.
    pub(crate) fn doubt_was_told(&self) -> bool {
        self.doubted_after.is_some_and(|steps| self.steps > steps)
    }

    /// From the first call on that can change files, checks tell nothing of how the turn found them.
    pub(super) fn note_call(&mut self, item: &Item) {
        if let ItemKind::ToolCall(call) = &item.kind {
            self.may_have_changed |= !READING.contains(&call.tool.as_str());
        }
    }

    /// Takes in what is known of checks from where the session began. What was seen in the turn itself is known better.
    pub(super) fn know(&mut self, checks: &[KnownCheck]) {
        for KnownCheck { name, passed, report } in checks {
            if !self.before.iter().any(|(known, _)| known == name) {
                let said = report.clone().filter(|_| !passed).unwrap_or_default();
                self.before.push((name.clone(), said));
            }
        }
    }

    /// Keeps what a check said on files that the turn has not touched.
    pub(super) fn remember_before(&mut self, check: &str, passed: bool, report: &CheckReport) {
        if !self.may_have_changed && !report.partial {
            let said = if passed { None } else { report.report.clone() };
            self.before.retain(|(name, _)| name != check);
            self.before.push((check.to_owned(), said.unwrap_or_default()));
        }
    }
}
