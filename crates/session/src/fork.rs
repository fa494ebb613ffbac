//! Forks: a new session that goes on from a snapshot of another. Its log begins with what the other's says up to that
//! snapshot, and its workspace is the snapshot.

use std::collections::HashSet;
use std::path::Path;

use protocol::{
    Actor, Code, EventBody, ForkSession, ForkedFrom, ItemKind, Outcome, Problem, PromptId, Receipt, Session,
    SessionId, SnapshotId, SnapshotInfo, SnapshotList,
};
use sandbox::snapshot::Snapshot;
use store::Draft;

use crate::feed::Stream;
use crate::recorder::Recorder;
use crate::registry::{Registry, check_prompt};
use crate::workspace::{Frozen, Saved, address, begin_with, branch_name, known_with};
use crate::{environments, kept_fold, problem};

impl Registry {
    /// The snapshots that the session's log tells of and that are still there, oldest first.
    pub(crate) async fn snapshots(&self, id: SessionId) -> Result<SnapshotList, Problem> {
        let events = self.open(id).await?.recorder().events().await.map_err(problem::store)?;
        let taken = events.iter().filter_map(|event| match event.body {
            EventBody::SnapshotTaken { snapshot, .. } => self.options.snapshots.get(snapshot),
            _ => None,
        });
        Ok(SnapshotList { snapshots: taken.map(|snapshot| info(&snapshot)).collect() })
    }

    /// A new session from a snapshot.
    pub(crate) async fn fork(
        &self,
        id: SessionId,
        source: SessionId,
        actor: Actor,
        request: ForkSession,
    ) -> Result<Session, Problem> {
        let open = self.refuse_when_closing().await?;
        check_prompt(&request.prompt)?;
        drop(open);
        let options = &self.options;
        let recorder = std::sync::Arc::clone(self.open(source).await?.recorder());
        let created = recorder.stream().with_state(|state| state.created().cloned());
        let created = created.ok_or_else(|| problem::no_session(source))?;
        let model = request.model.as_deref().unwrap_or(&created.model);
        let model = environments::choose_model(options, Some(model), &created.recipe)?;
        let (snapshot, known) = self.choose(source, request.snapshot).await?;

        let _open = self.refuse_when_closing().await?;
        let log = self.begin_log(id).await?;
        let title = crate::title(&request.prompt);
        let saved = Saved {
            branch: branch_name(&title, id),
            frozen: Some(Frozen { snapshot: snapshot.id, kept: known.kept.clone() }),
            found: None,
            ..known
        };
        let dir = options.store.session_dir(id);
        begin_with(&dir, &saved)?;
        address::copy(&options.store.session_dir(source), &dir)?;
        let first = EventBody::SessionCreated {
            environment: created.environment,
            recipe: Box::new(created.recipe),
            title,
            model,
            forked_from: Some(ForkedFrom { session: source, snapshot: snapshot.id }),
        };
        let events = recorder.events().await.map_err(problem::store)?;
        let inherited = inherited(&events, snapshot.id);
        copy_outputs(&inherited, &options.store.session_dir(source), &dir).await?;
        let mut drafts = vec![Draft { actor: actor.clone(), body: first }];
        drafts.extend(inherited);
        let prompt = EventBody::PromptQueued { prompt: PromptId::new(), text: request.prompt, now: false };
        drafts.push(Draft { actor, body: prompt });
        log.append(drafts).await.map_err(problem::store)?;
        let state = kept_fold::fold(&log).await.map_err(problem::store)?;
        let recorder = Recorder::new(log, options.store.clone(), Stream::new(id, state));
        recorder.index().await;
        self.begin(recorder)
    }

    /// The snapshot that was asked for, or the last one, and what was known of the workspace then.
    async fn choose(
        &self,
        session: SessionId,
        wanted: Option<SnapshotId>,
    ) -> Result<(Snapshot, Saved), Problem> {
        let list = self.snapshots(session).await?.snapshots;
        let Some(last) = list.last() else {
            return Err(Problem::new(Code::NotFound, "the session has no snapshot")
                .hint("one is taken at the end of each turn: wait for the turn, or send a prompt"));
        };
        let wanted = wanted.unwrap_or(last.id);
        let missing = || {
            let known: Vec<String> = list.iter().rev().take(10).map(|info| info.id.to_string()).collect();
            Problem::new(Code::NotFound, format!("the session has no snapshot {wanted}"))
                .hint(format!("its snapshots are, latest first: {}", known.join(", ")))
        };
        let info = list.iter().find(|info| info.id == wanted).ok_or_else(missing)?;
        let snapshot = self.options.snapshots.get(info.id).ok_or_else(missing)?;
        let dir = self.options.store.session_dir(snapshot.session);
        let known = known_with(&dir, snapshot.id).ok_or_else(missing)?;
        Ok((snapshot, known))
    }
}

fn info(snapshot: &Snapshot) -> SnapshotInfo {
    SnapshotInfo {
        id: snapshot.id,
        session: snapshot.session,
        turn: snapshot.turn,
        taken_at: snapshot.taken_at,
        bytes: snapshot.bytes,
        blurred: snapshot.blurred,
    }
}

/// What a fork takes over of the log: everything up to the snapshot but the session's beginning, its sandboxes, what it
/// delivered, and prompts whose turn had not come.
fn inherited(events: &[protocol::Event], until: SnapshotId) -> Vec<Draft> {
    let is_last =
        |body: &EventBody| matches!(body, EventBody::SnapshotTaken { snapshot, .. } if *snapshot == until);
    let end = events.iter().position(|event| is_last(&event.body)).map_or(0, |place| place + 1);
    let events = &events[..end];
    let begun: HashSet<PromptId> = events
        .iter()
        .filter_map(|event| match event.body {
            EventBody::TurnStarted { prompt, .. } => Some(prompt),
            _ => None,
        })
        .collect();
    let taken = events.iter().filter(|event| match &event.body {
        EventBody::SessionCreated { .. }
        | EventBody::SessionRenamed { .. }
        | EventBody::SandboxChanged { .. }
        | EventBody::QueuePaused { .. }
        | EventBody::QueueResumed {}
        | EventBody::DeliveryUpdated(_)
        | EventBody::NotificationUpdated(_) => false,
        EventBody::PromptQueued { prompt, .. }
        | EventBody::PromptEdited { prompt, .. }
        | EventBody::PromptMoved { prompt, .. }
        | EventBody::PromptRemoved { prompt } => begun.contains(prompt),
        _ => true,
    });
    let mut drafts: Vec<Draft> =
        taken.map(|event| Draft { actor: event.actor.clone(), body: event.body.clone() }).collect();
    drafts.extend(unfinished(events));
    drafts
}

/// The end of a turn that waited for a person when the snapshot was taken: the other session's to decide, not this one's.
fn unfinished(events: &[protocol::Event]) -> Option<Draft> {
    let turn = events.iter().rev().find_map(|event| match event.body {
        EventBody::TurnStarted { turn, .. } => Some(Some(turn)),
        EventBody::TurnFinished { .. } => Some(None),
        _ => None,
    })??;
    let body = EventBody::TurnFinished {
        turn,
        outcome: Outcome::Cancelled,
        reason: Some("the session was forked while this turn waited for a decision".to_owned()),
        receipt: Receipt::default(),
    };
    Some(Draft { actor: Actor::system(), body })
}

/// Copies the outputs that are kept in files.
async fn copy_outputs(events: &[Draft], from: &Path, to: &Path) -> Result<(), Problem> {
    for draft in events {
        if let EventBody::ItemCompleted { item, .. } = &draft.body
            && let ItemKind::ToolCall(call) = &item.kind
            && let Some(name) = call.output.as_ref().and_then(|output| output.blob.as_deref())
            && name == format!("{}.out", item.id)
        {
            let source = from.join(name);
            match tokio::fs::copy(&source, to.join(name)).await {
                Ok(_) => {}
                // Its beginning and its end are in the log.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(problem::file(&source, &error)),
            }
        }
    }
    Ok(())
}
