//! The one way into a session's log: append, fold, publish, in that order and under one lock. Nothing is seen before
//! it is durable, and readers see events in the order of the log.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use protocol::event::{Reply, ReplyState};
use protocol::{Actor, Event, EventBody, Notification, NotificationState, SessionId};
use store::{Draft, Log, Store};

use crate::feed::Stream;
use crate::history::Remembered;
use crate::kept_fold;
use crate::outbox::{self, Sender, Voice};
use crate::state::State;

/// How long a row of the index may be behind the log. What was appended has others waiting for the disk and the processor.
const INDEX_DELAY: Duration = Duration::from_millis(50);

/// Appends to one session's log.
pub(crate) struct Recorder {
    log: Arc<Log>,
    store: Store,
    stream: Arc<Stream>,
    order: tokio::sync::Mutex<()>,
    /// Whether a row of the index is about to be written; and who writes one.
    index_due: AtomicBool,
    indexing: tokio::sync::Mutex<()>,
    /// Who sends the notifications, once it is known that there are to be some.
    notifies: OnceLock<Arc<Sender>>,
    /// Who says what is said below pull requests.
    replies: OnceLock<Arc<Voice>>,
    remembered: Remembered,
}

impl Recorder {
    /// For a log whose state was folded into the stream.
    pub(crate) fn new(log: Arc<Log>, store: Store, stream: Arc<Stream>) -> Arc<Self> {
        Arc::new(Self {
            log,
            store,
            stream,
            order: tokio::sync::Mutex::default(),
            index_due: AtomicBool::new(false),
            indexing: tokio::sync::Mutex::default(),
            notifies: OnceLock::new(),
            replies: OnceLock::new(),
            remembered: Remembered::default(),
        })
    }

    /// From now on, what is appended is told to others where they are to know of it.
    pub(crate) fn notify(&self, sender: Arc<Sender>) {
        // Whoever was first sends.
        self.notifies.get_or_init(|| sender);
    }

    /// From now on, what is to be said below pull requests is said.
    pub(crate) fn reply(&self, voice: Arc<Voice>) {
        self.replies.get_or_init(|| voice);
    }

    /// The conversation so far, where it is in memory.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// Has said what could not be said below pull requests so far.
    pub(crate) fn reply_again(self: &Arc<Self>) {
        if let Some(voice) = self.replies.get() {
            voice.say_again(self);
        }
    }

    /// The session.
    pub(crate) fn session(&self) -> SessionId {
        self.stream.session()
    }

    /// What readers follow.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Appends all of them or none.
    ///
    /// The work is done in a task of its own: a turn that is dropped in the middle must not leave an event in the log
    /// that the folded state does not know.
    pub(crate) async fn append(
        self: &Arc<Self>,
        actor: &Actor,
        bodies: Vec<EventBody>,
    ) -> Result<Vec<Event>, store::Error> {
        if bodies.is_empty() {
            return Ok(Vec::new());
        }
        self.append_if(actor, |_| (bodies, ())).await.map(|(events, ())| events)
    }

    /// Appends what follows from the state as it is then: nothing comes between the look and the append. Nothing is
    /// appended when nothing follows; the answer is given back either way.
    pub(crate) async fn append_if<T: Send + 'static>(
        self: &Arc<Self>,
        actor: &Actor,
        decide: impl FnOnce(&State) -> (Vec<EventBody>, T) + Send + 'static,
    ) -> Result<(Vec<Event>, T), store::Error> {
        let this = Arc::clone(self);
        let actor = actor.clone();
        let task = tokio::spawn(async move {
            let turn = this.order.lock().await;
            let ((bodies, answer), intents) = this.stream.with_state(|state| {
                let decided = decide(state);
                // In the same append: what is to be told cannot be lost, nor what is lost be told.
                let mut intents =
                    this.notifies.get().map(|_| outbox::intents(state, &decided.0)).unwrap_or_default();
                intents.extend(outbox::answers(state, &decided.0));
                (decided, intents)
            });
            let drafts = bodies.into_iter().map(|body| Draft { actor: actor.clone(), body });
            let intents = intents.into_iter().map(|body| Draft { actor: Actor::system(), body });
            let events = this.append_now(drafts.chain(intents).collect()).await?;
            drop(turn);
            this.send(&events);
            if kept_fold::is_due(&events) {
                kept_fold::keep(&this.log, this.stream.with_state(kept_fold::write)).await;
            }
            Ok((events, answer))
        });
        match task.await {
            Ok(result) => result,
            Err(error) => Err(store::Error::Io {
                path: self.store.session_dir(self.session()),
                detail: format!("the append did not come to its end: {error}"),
            }),
        }
    }

    /// Sends the notifications and replies that were intended just now.
    fn send(self: &Arc<Self>, events: &[Event]) {
        for event in events {
            match (&event.body, self.notifies.get(), self.replies.get()) {
                (
                    EventBody::NotificationUpdated(
                        new @ Notification { state: NotificationState::Intended, attempts: 0, .. },
                    ),
                    Some(sender),
                    _,
                ) => sender.send(self, new.clone()),
                (
                    EventBody::ReplyUpdated(new @ Reply { state: ReplyState::Intended, attempts: 0, .. }),
                    _,
                    Some(voice),
                ) => voice.say(self, new.clone()),
                _ => {}
            }
        }
    }

    async fn append_now(self: &Arc<Self>, drafts: Vec<Draft>) -> Result<Vec<Event>, store::Error> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let events = self.log.append(drafts).await?;
        self.stream.publish(&events);
        self.remembered.add(&events);
        // Who made a session finds it in the list; later, lists take it from memory.
        if events.iter().any(|event| matches!(event.body, EventBody::SessionCreated { .. })) {
            self.index().await;
        } else if events.iter().any(|event| shows_in_lists(&event.body)) {
            self.index_soon();
        }
        Ok(events)
    }

    /// Writes the row of the index without keeping anybody waiting. However many changes come before it is written, it is
    /// written once for all of them.
    fn index_soon(self: &Arc<Self>) {
        if self.index_due.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        drop(tokio::spawn(async move {
            tokio::time::sleep(INDEX_DELAY).await;
            this.index().await;
        }));
    }

    /// Writes the row of the index. The log is the truth, so a failure here is told and not passed on: the next
    /// server folds the log again.
    pub(crate) async fn index(&self) {
        // In order: an older row must not be written over a newer one.
        let _order = self.indexing.lock().await;
        self.index_due.store(false, Ordering::Release);
        let Some(row) = self.stream.with_state(|state| state.to_row()) else { return };
        if let Err(error) = self.store.index(&row.session, &row.words).await {
            tracing::warn!(session = %row.session.id, %error, "the index of sessions could not be written");
        }
    }

    /// Since when the last event is on disk.
    #[cfg(feature = "load")]
    pub(crate) fn confirmed_at(&self) -> Option<std::time::Instant> {
        self.log.confirmed_at()
    }

    /// The session's directory, in which its log is.
    pub(crate) fn dir(&self) -> PathBuf {
        self.store.session_dir(self.session())
    }

    /// Shows every event so far to a visitor, in order, without holding more than a few of them at a time.
    pub(crate) async fn visit(&self, mut visitor: impl FnMut(&Event)) -> Result<(), store::Error> {
        const PAGE: usize = 500;
        let mut after = 0;
        loop {
            let page = self.log.read(after, PAGE).await?;
            page.iter().for_each(&mut visitor);
            match page.last() {
                Some(last) if page.len() == PAGE => after = last.seq,
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Every event so far, all at once.
    #[cfg(test)]
    pub(crate) async fn events(&self) -> Result<Vec<Event>, store::Error> {
        // The store reads it in pieces, with others' work between them.
        self.log.read(0, usize::MAX).await
    }

    /// A page of the log.
    pub(crate) async fn read(&self, after: u64, limit: usize) -> Result<Vec<Event>, store::Error> {
        self.log.read(after, limit).await
    }

    /// A page of the log; before damage, what is sound, and the damage.
    pub(crate) async fn read_sound(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<Event>, Option<store::Error>), store::Error> {
        self.store.read_sound(self.session(), after, limit).await
    }
}

/// Events after which a row of the list looks different. Items and usage come too often for a write each; while a
/// session is loaded, lists take it from memory.
fn shows_in_lists(body: &EventBody) -> bool {
    match body {
        EventBody::SessionCreated { .. }
        | EventBody::SessionRenamed { .. }
        | EventBody::SessionRestored { .. }
        | EventBody::SessionArchived { .. }
        | EventBody::SessionUnarchived { .. }
        | EventBody::ModelChanged { .. }
        | EventBody::BudgetChanged { .. }
        | EventBody::PromptQueued { .. }
        | EventBody::PromptEdited { .. }
        | EventBody::PromptRemoved { .. }
        | EventBody::PromptMoved { .. }
        | EventBody::QueuePaused { .. }
        | EventBody::QueueResumed { .. }
        | EventBody::TurnStarted { .. }
        | EventBody::TurnStopping { .. }
        | EventBody::TurnFinished { .. }
        | EventBody::ApprovalRequested { .. }
        | EventBody::ApprovalResolved { .. }
        | EventBody::PolicyChanged { .. }
        | EventBody::SandboxChanged { .. }
        | EventBody::SkillsPinned { .. }
        | EventBody::DeliveryUpdated(_)
        | EventBody::NotificationUpdated(_)
        | EventBody::ErrorRaised { .. } => true,
        EventBody::ItemStarted { .. }
        | EventBody::ItemCompleted { .. }
        | EventBody::PlanUpdated { .. }
        | EventBody::UsageRecorded { .. }
        | EventBody::BudgetWarned(_)
        | EventBody::ContextCompacted(_)
        | EventBody::RetryScheduled { .. }
        | EventBody::MistakeMade { .. }
        | EventBody::ChecksPassed { .. }
        | EventBody::WorkJudged { .. }
        | EventBody::ChecksKnown { .. }
        | EventBody::SnapshotTaken { .. }
        | EventBody::EgressDecided(_)
        | EventBody::LimitExceeded { .. }
        | EventBody::ServiceChanged { .. }
        | EventBody::ToolsListed { .. }
        | EventBody::ReplyUpdated(_)
        | EventBody::MemoryChanged { .. } => false,
    }
}

#[cfg(test)]
mod tests;
