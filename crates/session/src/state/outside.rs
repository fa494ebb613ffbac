//! What the log says of the world outside: the delivery with what people made of it, and what is still to be told.

use protocol::event::{Delivery, DeliveryState, Reply, ReplyState, Review, ReviewState};
use protocol::{Notification, NotificationState, SessionAuthor, Spend};

use super::State;

/// A reply that was tried so often is given up for good.
const ATTEMPTS: u32 = 60;

impl State {
    /// Takes in how far a delivery is. What people made of a pull request can come at any time, also in the middle of a turn,
    /// and is no delivery of that turn; and it is kept when the forge's answer to the opening comes after it.
    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        let place = self.deliveries.iter().position(|known| known.repository == delivery.repository);
        let known = match delivery.repository {
            Some(_) => place.map(|place| self.deliveries[place].clone()),
            None => self.delivery.take(),
        };
        let is_review = known.as_ref().is_some_and(|known| known.differs_in_review_only(delivery))
            && known.as_ref().and_then(|known| known.review) != delivery.review;
        let kept = known.filter(|known| {
            let same = known.number.is_some() && known.number == delivery.number;
            known.branch == delivery.branch && (same || (known.state.is_pending() && known.number.is_none()))
        });
        let review = last(kept.and_then(|kept| kept.review), delivery.review);
        let mut delivery = Delivery { review, ..delivery.clone() };
        if delivery.repository.is_some() {
            match place {
                Some(place) => self.deliveries[place] = delivery.clone(),
                None => self.deliveries.push(delivery.clone()),
            }
            self.facts.note_reviews(&self.deliveries);
            delivery = overall(&self.deliveries).unwrap_or(delivery);
        }
        if let Some(open) = &mut self.turn
            && (!is_review || open.delivery.is_some())
        {
            open.delivery = Some(delivery.clone());
        }
        self.delivery = Some(delivery);
    }

    /// The last delivery; of several repositories the one that matters most.
    pub(crate) fn delivery(&self) -> Option<&Delivery> {
        self.delivery.as_ref()
    }

    /// The last delivery of each of several repositories; none where there is only one.
    pub(crate) fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// The last delivery of each repository, however many there are.
    pub(crate) fn all_deliveries(&self) -> &[Delivery] {
        if self.deliveries.is_empty() { self.delivery.as_slice() } else { &self.deliveries }
    }

    pub(super) fn notified(&mut self, notification: &Notification) {
        let place = self.notifications.iter().position(|pending| pending.key == notification.key);
        match (place, notification.state) {
            (Some(place), NotificationState::Intended) => self.notifications[place] = notification.clone(),
            (None, NotificationState::Intended) => self.notifications.push(notification.clone()),
            (Some(place), NotificationState::Sent | NotificationState::Failed) => {
                self.notifications.remove(place);
            }
            (None, NotificationState::Sent | NotificationState::Failed) => {}
        }
    }

    pub(super) fn replied(&mut self, reply: &Reply) {
        let place = self.replies.iter().position(|pending| pending.key == reply.key);
        // What was refused can be cured, with another token for instance, and is tried again then.
        let pending = match reply.state {
            ReplyState::Awaited | ReplyState::Intended => true,
            ReplyState::Failed => reply.attempts < ATTEMPTS,
            ReplyState::Sent => false,
        };
        match (place, pending) {
            (Some(place), true) => self.replies[place] = reply.clone(),
            (None, true) => self.replies.push(reply.clone()),
            (Some(place), false) => drop(self.replies.remove(place)),
            (None, false) => {}
        }
    }

    /// What is still to be said below pull requests, also what could not be said so far.
    pub(crate) fn replies(&self) -> &[Reply] {
        &self.replies
    }

    /// Notifications that are still to be sent.
    pub(crate) fn notifications(&self) -> &[Notification] {
        &self.notifications
    }

    /// What all of its calls used.
    pub(crate) fn spend(&self) -> Spend {
        self.ledger.spend
    }

    /// Who asked last.
    pub(crate) fn last_author(&self) -> Option<&SessionAuthor> {
        self.facts.authors().iter().max_by_key(|author| author.last_prompt_at)
    }

    /// Whether a pull request lacks labels or reviewers that could not be put on it when it was opened.
    pub(crate) fn is_unmarked(&self, repository: Option<&str>, number: u64) -> bool {
        self.facts.is_unmarked(repository, number)
    }

    /// Whether a pull request of the session was merged and there is none after it, so that work goes on from its base.
    pub(crate) fn was_merged(&self) -> bool {
        let merged = |one: &Delivery| one.review.is_some_and(|review| review.state == ReviewState::Merged);
        self.all_deliveries().iter().any(merged)
    }
}

/// How far the delivery of several repositories is as a whole: the first that is under way; else what went wrong; else the first
/// with a pull request.
pub(crate) fn overall(deliveries: &[Delivery]) -> Option<Delivery> {
    if let Some(pending) = deliveries.iter().find(|one| one.state.is_pending()) {
        return Some(pending.clone());
    }
    // One that is open and lacks labels is not what matters most.
    let is_wrong = |one: &&Delivery| one.error.is_some() && one.state != DeliveryState::Opened;
    let wrong: Vec<&Delivery> = deliveries.iter().filter(is_wrong).collect();
    if let Some(first) = wrong.first() {
        let named = |one: &&Delivery| {
            let name = one.repository.as_deref().unwrap_or_default();
            format!("{name}: {}", one.error.as_deref().unwrap_or_default())
        };
        let error = wrong.iter().map(named).collect::<Vec<_>>().join("; ");
        return Some(Delivery { error: Some(error), ..(*first).clone() });
    }
    deliveries.iter().find(|one| one.url.is_some()).or(deliveries.first()).cloned()
}

/// What is known of a pull request after something is said of it. A delivery says again what was known when it began, and the
/// forge may have told more since.
fn last(known: Option<Review>, said: Option<Review>) -> Option<Review> {
    match (known, said) {
        (Some(known), Some(said)) if said.state != ReviewState::Merged => {
            let stays = known.state == ReviewState::Merged || known.at > said.at;
            Some(if stays { known } else { said })
        }
        (known, said) => said.or(known),
    }
}

#[cfg(test)]
mod tests {
    use protocol::event::DeliveryState;
    use protocol::{SessionId, Timestamp};

    use super::*;

    fn delivery(state: DeliveryState, number: Option<u64>) -> Delivery {
        Delivery {
            repository: None,
            state,
            branch: "b".to_owned(),
            commit: Some("c".to_owned()),
            remote: "r".to_owned(),
            url: None,
            number,
            error: None,
            command: None,
            review: None,
        }
    }

    #[test]
    fn what_people_made_of_it_is_kept_for_the_same_pull_request_only() {
        let merged = Review { state: ReviewState::Merged, at: Timestamp::UNIX_EPOCH, draft: false };
        let mut state = State::new(SessionId::from_u128(1));
        state.delivered(&delivery(DeliveryState::Opening, None));
        state.delivered(&Delivery { review: Some(merged), ..delivery(DeliveryState::Opening, None) });
        state.delivered(&delivery(DeliveryState::Opened, Some(1)));
        assert_eq!(state.delivery().unwrap().review, Some(merged), "the forge told it before it answered");
        state.delivered(&delivery(DeliveryState::Intended, None));
        assert_eq!(state.delivery().unwrap().review, None, "what is on its way is another one");
        state.delivered(&delivery(DeliveryState::Opened, Some(2)));
        assert_eq!(state.delivery().unwrap().review, None);
    }
}
