//! What lists and statistics say of a session beside its state: who asked, when it came how far, what it changed, where its sandboxes
//! connected to.

use protocol::event::{CheckOutcome, Delivery, DeliveryState, ReviewState};
use protocol::{
    ChangeCounts, EgressDecision, EgressHost, EgressLog, Event, EventBody, Listing, Outcome, SessionAuthor,
    SessionGroup, SessionOrigin, Status, Timestamp, TurnId,
};
use serde::{Deserialize, Serialize};

use super::State;

/// Most bytes of prompts that are searched.
const WORDS: usize = 32 * 1024;
/// Most bytes of one of them.
const WORDS_OF_ONE: usize = 8 * 1024;
/// Most hosts that are remembered.
const HOSTS: usize = 300;
/// Most people that are remembered.
const AUTHORS: usize = 100;

/// The facts. Events that were copied from another session are that one's, but for what they left in the workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Facts {
    origin: SessionOrigin,
    authors: Vec<SessionAuthor>,
    archived: bool,
    finished_at: Option<Timestamp>,
    turn_ms: Option<u64>,
    done_at: Option<Timestamp>,
    changes: Option<ChangeCounts>,
    checks: Vec<CheckOutcome>,
    branch: Option<String>,
    delivered_at: Option<Timestamp>,
    opened_at: Option<Timestamp>,
    merged_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    /// Pull requests that lack labels or reviewers, by repository and number.
    #[serde(default)]
    unmarked: Vec<(Option<String>, u64)>,
    /// What was asked, for those who search.
    words: String,
    /// The commit that each turn left the work in, where that is another than before.
    commits: Vec<(TurnId, String)>,
    hosts: Vec<EgressHost>,
    more_hosts: bool,
}

/// Whose event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The session's own.
    Own,
    /// That of the session it was forked from.
    Inherited,
}

impl Facts {
    /// Takes in the next event.
    pub(super) fn apply(&mut self, event: &Event, whose: Whose) {
        let own = whose == Whose::Own;
        match &event.body {
            EventBody::SessionCreated { origin, .. } => self.origin = *origin,
            EventBody::SessionArchived { .. } => self.archived = true,
            EventBody::SessionUnarchived { .. } => self.archived = false,
            EventBody::PromptQueued { text, .. } if own => {
                self.archived = false;
                self.note_author(&event.actor.id, event.at);
                self.note_words(text);
            }
            EventBody::PromptEdited { text, .. } if own => self.note_words(text),
            EventBody::TurnFinished { turn, outcome, receipt, .. } => {
                self.changes = Some(ChangeCounts {
                    files: receipt.files_changed,
                    insertions: receipt.insertions,
                    deletions: receipt.deletions,
                });
                if !receipt.checks.is_empty() {
                    self.checks.clone_from(&receipt.checks);
                }
                if let Some(commit) = &receipt.commit
                    && self.commits.last().is_none_or(|(_, last)| last != commit)
                {
                    self.commits.push((*turn, commit.clone()));
                }
                if own {
                    self.finished_at = Some(event.at);
                    self.turn_ms = Some(receipt.duration_ms);
                    if *outcome == Outcome::Done {
                        self.done_at.get_or_insert(event.at);
                    }
                }
            }
            EventBody::DeliveryUpdated(delivery) if own => self.note_delivery(delivery, event.at),
            EventBody::EgressDecided(decision) if own => self.note_host(decision, event.at),
            _ => {}
        }
    }

    fn note_author(&mut self, name: &str, at: Timestamp) {
        let room = self.authors.len() < AUTHORS;
        match self.authors.iter_mut().find(|author| author.name == name) {
            Some(author) => {
                author.prompts = author.prompts.saturating_add(1);
                author.last_prompt_at = at;
            }
            None if room => {
                self.authors.push(SessionAuthor { name: name.to_owned(), prompts: 1, last_prompt_at: at });
            }
            None => {}
        }
    }

    fn note_words(&mut self, text: &str) {
        let room = WORDS.saturating_sub(self.words.len()).min(WORDS_OF_ONE);
        if room == 0 {
            return;
        }
        self.words.push_str(crate::workspace::prefix(text, room));
        self.words.push('\n');
    }

    fn note_delivery(&mut self, delivery: &Delivery, at: Timestamp) {
        self.branch = Some(delivery.branch.clone());
        match delivery.state {
            DeliveryState::Pushed | DeliveryState::Opening => {
                self.delivered_at.get_or_insert(at);
            }
            DeliveryState::Opened => {
                self.delivered_at.get_or_insert(at);
                self.opened_at.get_or_insert(at);
            }
            DeliveryState::Intended | DeliveryState::Failed | DeliveryState::Unknown => {}
        }
        if let Some(number) = delivery.number
            && matches!(delivery.state, DeliveryState::Opening | DeliveryState::Opened)
        {
            let its = |known: &(Option<String>, u64)| known.0 == delivery.repository && known.1 == number;
            match (&delivery.error, self.unmarked.iter().position(its)) {
                (Some(_), None) => self.unmarked.push((delivery.repository.clone(), number)),
                (None, Some(place)) if delivery.state == DeliveryState::Opened => {
                    self.unmarked.remove(place);
                }
                (Some(_), Some(_)) | (None, _) => {}
            }
        }
        // Of several repositories all count together.
        let review = delivery.review.filter(|_| delivery.repository.is_none());
        match review.map(|review| (review.state, review.at)) {
            Some((ReviewState::Merged, at)) => {
                self.merged_at.get_or_insert(at);
                self.closed_at = None;
            }
            Some((ReviewState::Closed, at)) => {
                self.closed_at.get_or_insert(at);
            }
            Some((ReviewState::Open, _)) => self.closed_at = None,
            None => {}
        }
    }

    /// Takes in what people made of the pull requests of several repositories: the work is merged when all of it is, and closed
    /// when nothing of it is open any more.
    pub(super) fn note_reviews(&mut self, deliveries: &[Delivery]) {
        let asked = deliveries.iter().filter(|one| one.state != DeliveryState::Pushed);
        let reviews: Vec<_> = asked.map(|one| one.review.map(|review| (review.state, review.at))).collect();
        let last = reviews.iter().flatten().map(|(_, at)| *at).max();
        let all = |fits: &dyn Fn(ReviewState) -> bool| {
            !reviews.is_empty() && reviews.iter().all(|one| one.is_some_and(|(state, _)| fits(state)))
        };
        if all(&|state| state == ReviewState::Merged) {
            self.merged_at = self.merged_at.or(last);
            self.closed_at = None;
        } else if all(&|state| state != ReviewState::Open) {
            self.closed_at = self.closed_at.or(last);
        } else {
            self.closed_at = None;
        }
    }

    /// Who asked for something, the first one first.
    pub(super) fn authors(&self) -> &[SessionAuthor] {
        &self.authors
    }

    /// Whether a pull request lacks labels or reviewers.
    pub(super) fn is_unmarked(&self, repository: Option<&str>, number: u64) -> bool {
        self.unmarked.iter().any(|(known, its)| known.as_deref() == repository && *its == number)
    }

    fn note_host(&mut self, decision: &EgressDecision, at: Timestamp) {
        let same = |known: &&mut EgressHost| {
            known.host == decision.host && known.port == decision.port && known.allowed == decision.allowed
        };
        let room = self.hosts.len() < HOSTS;
        match self.hosts.iter_mut().find(same) {
            Some(known) => {
                known.connections = known.connections.saturating_add(decision.connections.into());
                known.sent = known.sent.saturating_add(decision.sent);
                known.received = known.received.saturating_add(decision.received);
                known.rule.clone_from(&decision.rule);
                known.last_at = at;
            }
            None if room => self.hosts.push(EgressHost {
                host: decision.host.clone(),
                port: decision.port,
                allowed: decision.allowed,
                rule: decision.rule.clone(),
                connections: decision.connections.into(),
                sent: decision.sent,
                received: decision.received,
                first_at: at,
                last_at: at,
            }),
            None => self.more_hosts = true,
        }
    }
}

impl State {
    /// What lists show beside what pages do.
    pub(super) fn listing(&self, status: Status) -> Listing {
        let facts = &self.facts;
        let created = self.created.as_ref();
        let turn = self.turn.as_deref();
        let under_way = turn.map(|turn| &turn.checks).filter(|checks| !checks.is_empty());
        Listing {
            group: self.group(status),
            origin: facts.origin,
            parent: created.and_then(|created| created.forked_from).map(|from| from.session),
            base: created.and_then(|created| created.recipe.repos.first()?.branch.clone()),
            branch: facts.branch.clone(),
            authors: facts.authors.clone(),
            archived: facts.archived,
            turn_started_at: turn.map(|turn| turn.started_at),
            finished_at: facts.finished_at,
            turn_ms: facts.turn_ms,
            done_at: facts.done_at,
            changes: facts.changes,
            checks: under_way.unwrap_or(&facts.checks).clone(),
            delivered_at: facts.delivered_at,
            opened_at: facts.opened_at,
            merged_at: facts.merged_at,
            closed_at: facts.closed_at,
        }
    }

    fn group(&self, status: Status) -> SessionGroup {
        let undelivered = self
            .delivery
            .as_ref()
            .is_some_and(|delivery| matches!(delivery.state, DeliveryState::Failed | DeliveryState::Unknown));
        match status {
            Status::Waiting => SessionGroup::NeedsYou,
            Status::Working => SessionGroup::Working,
            Status::Queued if self.stays() => SessionGroup::NeedsYou,
            Status::Queued => SessionGroup::Working,
            // What is in the base needs nobody any more.
            _ if self.facts.merged_at.is_some() => SessionGroup::Finished,
            Status::Escalated | Status::Failed | Status::OutOfBudget => SessionGroup::NeedsYou,
            Status::Done if undelivered => SessionGroup::NeedsYou,
            Status::Done | Status::Cancelled => SessionGroup::Finished,
        }
    }

    /// What was asked, for those who search.
    pub(crate) fn words(&self) -> &str {
        &self.facts.words
    }

    /// Whether it was put away.
    pub(crate) fn is_archived(&self) -> bool {
        self.facts.archived
    }

    /// The turns that changed something, with the commit that each left the work in, oldest first.
    pub(crate) fn commits(&self) -> &[(TurnId, String)] {
        &self.facts.commits
    }

    /// Where the sandboxes wanted to connect to, the last used first.
    pub(crate) fn egress_log(&self) -> EgressLog {
        let mut hosts = self.facts.hosts.clone();
        hosts.sort_by_key(|host| std::cmp::Reverse(host.last_at));
        EgressLog { hosts, truncated: self.facts.more_hosts }
    }
}
