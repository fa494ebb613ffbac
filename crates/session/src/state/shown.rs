//! A session as lists and pages show it.

use protocol::event::ReplyState;
use protocol::{Outcome, Session, Status};

use super::State;

/// A row of the index: the session, and what it can be found by.
pub(crate) struct Row {
    pub(crate) session: Session,
    pub(crate) words: String,
}

impl State {
    /// The skills, once it is settled which there are.
    pub(crate) fn skills(&self) -> Option<&[protocol::PinnedSkill]> {
        self.skills.as_deref()
    }

    /// Whether the last turn is all there is to tell: nothing waits, or what waits stays because that turn failed.
    fn rests(&self) -> bool {
        let failed = matches!(self.last, Some((Outcome::Failed, _)));
        self.turn.is_none() && (self.queue.is_empty() || (self.paused && failed))
    }

    fn status(&self) -> Status {
        match (&self.turn, &self.last) {
            (Some(turn), _) if turn.approval.is_some() => Status::Waiting,
            (Some(_), _) => Status::Working,
            (None, _) if self.out_of_budget().is_some() => Status::OutOfBudget,
            (None, _) if !self.rests() => Status::Queued,
            (None, None) => Status::Queued,
            (None, Some((outcome, _))) => match outcome {
                Outcome::Done => Status::Done,
                Outcome::Escalated => Status::Escalated,
                Outcome::Cancelled => Status::Cancelled,
                Outcome::Failed => Status::Failed,
                Outcome::OutOfBudget => Status::OutOfBudget,
            },
        }
    }

    /// The session as the index has it; None before `session.created`, and of a fork that is not whole.
    pub(crate) fn to_row(&self) -> Option<Row> {
        self.to_session().map(|session| Row { session, words: self.words().to_owned() })
    }

    /// The session as lists and pages show it; None before `session.created`, and of a fork that is not whole.
    pub(crate) fn to_session(&self) -> Option<Session> {
        let created = self.created.as_ref().filter(|_| self.is_whole())?;
        let status = self.status();
        let last = || self.last.as_ref().filter(|_| self.rests()).and_then(|(_, reason)| reason.clone());
        let reason = self.out_of_budget().or_else(last);
        Some(Session {
            id: self.id,
            title: created.title.clone(),
            environment: created.environment.clone(),
            model: created.model.clone(),
            status,
            reason,
            created_at: created.at,
            updated_at: self.updated_at,
            seq: self.seq,
            lineage: self.lineage(),
            spend: self.ledger.spend,
            spent: self.ledger.spent.clone(),
            turn_spend: self.turn.as_ref().map_or(self.ledger.last_spend, |turn| turn.spend),
            budgets: created.budgets,
            used: self.budget_use(0),
            queued: self.queue.clone(),
            paused: self.stays(),
            approval: self.turn.as_ref().and_then(|turn| turn.approval.clone()),
            policy: self.permits.policy.clone(),
            granted: self.permits.granted.clone(),
            turn: self.turn.as_ref().map(|turn| turn.id),
            delivery: self.delivery.clone(),
            deliveries: self.deliveries.clone(),
            notifying: !self.notifications.is_empty()
                || self.replies.iter().any(|reply| reply.state == ReplyState::Intended),
            sandbox: self.sandbox.map(|(id, _)| id),
            forked_from: created.forked_from,
            skills: self.skills.clone().unwrap_or_default(),
            listing: self.listing(status),
        })
    }
}
