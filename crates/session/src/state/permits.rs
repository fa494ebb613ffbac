//! What a session's policy is, what people allowed for the rest of it, and the calls of a turn that wait for them.

use protocol::{Decision, Gate, Item, ItemKind, PendingApproval, Policy, PolicyRule};
use serde::{Deserialize, Serialize};

use super::{State, TurnState};

/// What the calls of a session's model need, beside what its environment says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Permits {
    /// The session's own policy.
    pub(super) policy: Policy,
    /// What people allowed for the rest of the session.
    pub(super) granted: Vec<PolicyRule>,
    /// Whether nobody wants to be asked any more after so many actions.
    unwatched: bool,
}

impl Permits {
    /// Takes in another policy. Whoever gives one wants to be asked as it says.
    pub(super) fn change(&mut self, policy: &Policy) {
        self.policy.clone_from(policy);
        self.unwatched = false;
    }
}

impl State {
    /// The session's own policy.
    pub(crate) fn policy(&self) -> &Policy {
        &self.permits.policy
    }

    /// What people allowed for the rest of the session.
    pub(crate) fn granted(&self) -> &[PolicyRule] {
        &self.permits.granted
    }

    /// Actions of the turn under way since a person last decided; None where nobody wants to be asked for that any more.
    pub(crate) fn actions(&self) -> Option<u32> {
        let turn = self.turn.as_ref().filter(|_| !self.permits.unwatched)?;
        Some(turn.actions)
    }

    /// Takes in how an approval was decided for the first time.
    pub(super) fn decide(&mut self, mut decision: Decision) {
        let waits = |pending: &mut PendingApproval| pending.id == decision.approval;
        if let Some(open) = &mut self.turn
            && let Some(pending) = open.approval.take_if(waits)
        {
            decision.gate = pending.gate;
            // Who answers a question has not looked at what was done.
            if pending.gate != Gate::Question {
                open.actions = 0;
            }
            open.decided = pending.call.as_ref().map(|call| call.item);
            open.decision = Some(decision.clone());
            // What people allow in one session they allow in that one.
            let lasts = decision.all || (decision.approved && pending.gate == Gate::Host);
            if let Some(call) = pending.call.filter(|_| lasts && self.inherits_until.is_none()) {
                self.permits.unwatched |= call.after_every;
                for rule in call.kind {
                    if !self.permits.granted.contains(&rule) {
                        self.permits.granted.push(rule);
                    }
                }
            }
        }
        self.decisions.push(decision);
    }
}

impl TurnState {
    /// Takes in an item that is new, or a call that begins after it waited.
    pub(super) fn begin(&mut self, item: &Item) {
        self.held.retain(|held| *held != item.id);
        match self.open.iter_mut().find(|open| open.id == item.id) {
            Some(open) => open.clone_from(item),
            None => self.open.push(item.clone()),
        }
    }

    /// Waits for a person. With a call those after it wait, too: they were written to come after it.
    pub(super) fn wait(&mut self, pending: PendingApproval) {
        (self.decision, self.decided) = (None, None);
        let calls = self.open.iter().filter(|item| matches!(item.kind, ItemKind::ToolCall(_)));
        let calls = calls.map(|item| item.id);
        match (pending.gate, &pending.call) {
            (Gate::Call | Gate::Question, Some(call)) => {
                self.held = calls.skip_while(|id| *id != call.item).collect();
            }
            // The call that wanted them has ended.
            (Gate::Host, _) => self.held = calls.collect(),
            (Gate::Call | Gate::Question | Gate::Delivery, _) => {}
        }
        self.approval = Some(pending);
    }
}
