//! What a fork takes over of the log before it, in pages, so that a long log takes no more memory than a short one. A
//! server that dies on the way leaves a log that is not whole; whoever asks again goes on where it ended.

use std::collections::HashSet;
use std::path::Path;

use protocol::{
    Actor, Event, EventBody, ImageFile, ItemKind, Outcome, Problem, PromptId, Receipt, SnapshotId, TurnId,
};
use store::{Draft, Log};

use crate::problem;
use crate::recorder::Recorder;

/// Events that are read, and written, at once.
const PAGE: usize = 500;

/// What must be known of a log up to a snapshot before its events can be taken over one by one.
#[derive(Default)]
pub(super) struct Past {
    /// Number of the event that tells of the snapshot; 0 when there is none.
    end: u64,
    /// Prompts whose turn had come.
    begun: HashSet<PromptId>,
    /// The turn that had not finished.
    open: Option<TurnId>,
}

impl Past {
    /// Reads the log up to the snapshot.
    pub(super) async fn read(recorder: &Recorder, until: SnapshotId) -> Result<Self, store::Error> {
        let (mut past, mut after) = (Self::default(), 0);
        while past.end == 0 {
            let page = recorder.read(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.iter().for_each(|event| past.note(event, until));
        }
        Ok(past)
    }

    fn note(&mut self, event: &Event, until: SnapshotId) {
        if self.end > 0 {
            return;
        }
        match event.body {
            EventBody::TurnStarted { turn, prompt } => {
                self.begun.insert(prompt);
                self.open = Some(turn);
            }
            EventBody::TurnFinished { .. } => self.open = None,
            EventBody::SnapshotTaken { snapshot, .. } if snapshot == until => self.end = event.seq,
            _ => {}
        }
    }

    /// Everything but the session's beginning, its sandboxes, what it delivered, and prompts whose turn had not come.
    fn takes(&self, body: &EventBody) -> bool {
        match body {
            EventBody::SessionCreated { .. }
            | EventBody::SessionRenamed { .. }
            | EventBody::SessionRestored { .. }
            | EventBody::SessionArchived { .. }
            | EventBody::SessionUnarchived { .. }
            | EventBody::ModelChanged { turn: None, .. }
            | EventBody::BudgetChanged { .. }
            | EventBody::BudgetWarned(_)
            | EventBody::PolicyChanged { .. }
            | EventBody::SandboxChanged { .. }
            | EventBody::QueuePaused { .. }
            | EventBody::QueueResumed { .. }
            | EventBody::DeliveryUpdated(_)
            | EventBody::NotificationUpdated(_)
            | EventBody::ReplyUpdated(_) => false,
            EventBody::PromptQueued { prompt, .. }
            | EventBody::PromptEdited { prompt, .. }
            | EventBody::PromptMoved { prompt, .. }
            | EventBody::PromptRemoved { prompt, .. } => self.begun.contains(prompt),
            _ => true,
        }
    }

    /// The end of a turn that waited for a person when the snapshot was taken: the other session's to decide, not this
    /// one's.
    fn finish(&self) -> Option<Draft> {
        let body = EventBody::TurnFinished {
            turn: self.open?,
            outcome: Outcome::Cancelled,
            reason: Some("the session was forked while this turn waited for a decision".to_owned()),
            receipt: Receipt::default(),
        };
        Some(Draft { actor: Actor::system(), body })
    }
}

/// Where a fork's log comes from, and where it goes.
pub(super) struct Heir<'a> {
    pub(super) past: &'a Past,
    pub(super) recorder: &'a Recorder,
    /// The directory of the other session.
    pub(super) from: &'a Path,
    /// The fork's own log and directory.
    pub(super) log: &'a Log,
    pub(super) to: &'a Path,
}

impl Heir<'_> {
    /// Writes the fork's log: its first events, what it takes over, and its last ones. What is there already stays. The
    /// snapshot comes with everything after it, in one append, so that a log which has it is whole.
    pub(super) async fn write(&self, first: Vec<Draft>, prompt: Draft) -> Result<(), Problem> {
        let (mut drafts, mut there, mut after) = (first, self.log.last_seq(), 0);
        while after < self.past.end {
            let page = self.recorder.read(after, PAGE).await.map_err(problem::store)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let taken = page.into_iter().filter(|event| event.seq <= self.past.end);
            let taken = taken.filter(|event| self.past.takes(&event.body));
            drafts.extend(taken.map(|Event { actor, body, .. }| Draft { actor, body }));
            if after < self.past.end {
                self.append(&mut drafts, &mut there).await?;
            }
        }
        drafts.extend(self.past.finish());
        drafts.push(prompt);
        self.append(&mut drafts, &mut there).await
    }

    /// Appends what is not there yet.
    async fn append(&self, drafts: &mut Vec<Draft>, there: &mut u64) -> Result<(), Problem> {
        let known = usize::try_from(*there).unwrap_or(usize::MAX).min(drafts.len());
        *there -= known as u64;
        let new = drafts.split_off(known);
        drafts.clear();
        self.copy_files(&new).await?;
        self.log.append(new).await.map(drop).map_err(problem::store)
    }

    /// Copies the outputs and images that are kept in files.
    async fn copy_files(&self, drafts: &[Draft]) -> Result<(), Problem> {
        for name in drafts.iter().flat_map(|draft| files(&draft.body)) {
            let (source, target) = (self.from.join(name), self.to.join(name));
            let copied = match tokio::fs::copy(&source, &target).await {
                Ok(_) => tokio::fs::File::open(&target).await,
                // The beginning and the end of an output are in the log; a model is told of an image that is gone.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => Err(error),
            };
            let synced = match copied {
                Ok(file) => file.sync_all().await,
                Err(error) => Err(error),
            };
            synced.map_err(|error| problem::file(&source, &error))?;
        }
        Ok(())
    }
}

/// The names of the files that an event tells of.
fn files(body: &EventBody) -> Vec<&str> {
    let (images, output) = match body {
        EventBody::PromptQueued { images, .. } => (images.as_slice(), None),
        EventBody::SkillsPinned { .. } => (&[][..], Some(crate::skills::FILE)),
        EventBody::ItemCompleted { item, .. } => match &item.kind {
            ItemKind::Prompt { images, .. } => (images.as_slice(), None),
            ItemKind::ToolCall(call) => {
                let images = call.output.as_ref().map(|output| output.images.as_slice());
                let output = call.output.as_ref().and_then(|output| output.blob.as_deref());
                (images.unwrap_or_default(), output.filter(|name| *name == format!("{}.out", item.id)))
            }
            ItemKind::Message { .. }
            | ItemKind::Reasoning { .. }
            | ItemKind::Report(_)
            | ItemKind::Notice { .. } => (&[][..], None),
        },
        _ => (&[][..], None),
    };
    let images = images.iter().map(|image| image.name.as_str()).filter(|name| ImageFile::is_name(name));
    images.chain(output).collect()
}

#[cfg(test)]
mod tests {
    use protocol::{ForkedFrom, SessionId};
    use store::Store;

    use super::*;
    use crate::feed::Stream;
    use crate::kept_fold;
    use crate::state::State;

    fn draft(body: EventBody) -> Draft {
        Draft { actor: Actor::user("ann"), body }
    }

    fn created(forked_from: Option<ForkedFrom>) -> EventBody {
        let (environment, title, model) = ("shop".to_owned(), "A title".to_owned(), "main".to_owned());
        let budgets = protocol::Budgets::default();
        let origin = protocol::SessionOrigin::Api;
        let recipe = Box::default();
        EventBody::SessionCreated { environment, recipe, title, model, forked_from, budgets, origin }
    }

    fn queued(prompt: PromptId) -> EventBody {
        EventBody::PromptQueued { prompt, text: "Do it".to_owned(), now: false, images: Vec::new() }
    }

    /// A log of several pages whose turn waits at its last snapshot, and goes on after it.
    async fn source(store: &Store, snapshot: SnapshotId) -> std::sync::Arc<Recorder> {
        let (id, turn) = (SessionId::new(), TurnId::new());
        let [begun, waits] = [PromptId::new(), PromptId::new()];
        let log = store.create_log(id).await.unwrap();
        let mut bodies =
            vec![created(None), queued(begun), queued(waits), EventBody::TurnStarted { turn, prompt: begun }];
        bodies.extend(
            (0..3 * PAGE).map(|n| EventBody::MemoryChanged { text: n.to_string(), remembered: None }),
        );
        bodies.push(EventBody::SnapshotTaken { snapshot, turn, bytes: 1, duration_ms: 1, blurred: false });
        bodies.push(EventBody::MemoryChanged { text: "after it".to_owned(), remembered: None });
        log.append(bodies.into_iter().map(draft).collect()).await.unwrap();
        Recorder::new(log, store.clone(), Stream::new(id, State::new(id)))
    }

    #[tokio::test]
    async fn a_fork_that_a_server_died_on_is_no_session_and_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (snapshot, prompt) = (SnapshotId::new(), PromptId::new());
        let recorder = source(&store, snapshot).await;
        let past = Past::read(&recorder, snapshot).await.unwrap();
        let session = recorder.session();
        let first = created(Some(ForkedFrom { session, snapshot }));
        let mut whole = Vec::new();
        // Nothing, the first event, a part of a page, some pages, everything but the last append.
        for there in [0, 1, 100, PAGE as u64 + 3, 3 * PAGE as u64 - 2] {
            let id = SessionId::new();
            let log = store.create_log(id).await.unwrap();
            let (from, to) = (store.session_dir(session), store.session_dir(id));
            let heir = Heir { past: &past, recorder: &recorder, from: &from, log: &log, to: &to };
            if there > 0 {
                let left: Vec<Event> = whole[..there as usize].to_vec();
                log.append(left.into_iter().map(|event| draft(event.body)).collect()).await.unwrap();
                let state = kept_fold::fold(&log).await.unwrap();
                assert!(!state.is_whole() && state.to_session().is_none(), "after {there}");
            }
            heir.write(vec![draft(first.clone())], draft(queued(prompt))).await.unwrap();
            let events = log.read(0, usize::MAX).await.unwrap();
            if whole.is_empty() {
                whole.clone_from(&events);
            }
            let bodies = |events: &[Event]| events.iter().map(|event| event.body.clone()).collect::<Vec<_>>();
            assert_eq!(bodies(&events), bodies(&whole), "after {there}");
            let session = kept_fold::fold(&log).await.unwrap().to_session().unwrap();
            assert_eq!(
                (session.turn, session.queued.len()),
                (None, 1),
                "its turn is over, and its prompt waits"
            );
        }
        // The beginning, the prompt and its turn, the pages, the snapshot, the turn's end, the fork's own prompt.
        assert_eq!(whole.len(), 1 + 2 + 3 * PAGE + 3);
        assert!(whole.iter().all(|event| !format!("{event:?}").contains("after it")));
    }
}
