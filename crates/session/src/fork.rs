//! Forks: a new session that goes on from a snapshot of another. Its log begins with what the other's says up to that
//! snapshot, and its workspace is the snapshot.

mod inherit;

use protocol::{
    Actor, Code, EventBody, ForkSession, ForkedFrom, Problem, PromptId, Session, SessionId, SnapshotId,
    SnapshotInfo, SnapshotList,
};
use sandbox::snapshot::Snapshot;
use store::Draft;

use self::inherit::{Heir, Past};
use crate::feed::Stream;
use crate::recorder::Recorder;
use crate::registry::{Registry, check_prompt};
use crate::workspace::{Frozen, Saved, address, begin_with, branch_name, known_with};
use crate::{environments, kept_fold, pictures, problem};

impl Registry {
    /// The snapshots that the session's log tells of and that are still there, oldest first.
    pub(crate) async fn snapshots(&self, id: SessionId) -> Result<SnapshotList, Problem> {
        let recorder = std::sync::Arc::clone(self.open(id).await?.recorder());
        let mut taken = Vec::new();
        let look = |event: &protocol::Event| {
            if let EventBody::SnapshotTaken { snapshot, .. } = event.body {
                taken.extend(self.options.snapshots.get(snapshot).map(|snapshot| info(&snapshot)));
            }
        };
        recorder.visit(look).await.map_err(problem::store)?;
        Ok(SnapshotList { snapshots: taken })
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
        let pictures = pictures::given(request.images)?;
        drop(open);
        let options = &self.options;
        let recorder = std::sync::Arc::clone(self.open(source).await?.recorder());
        let created = recorder.stream().with_state(|state| state.created().cloned());
        let created = created.ok_or_else(|| problem::no_session(source))?;
        // What the session may not do its fork may not either; what people allowed it was for that session.
        let policy = recorder.stream().with_state(|state| state.policy().clone());
        let policy = (!policy.is_empty()).then_some(EventBody::PolicyChanged { policy, command: None });
        let model = request.model.as_deref().unwrap_or(&created.model);
        let model = environments::choose_model(options, Some(model), &created.recipe)?;
        let wanted = self.begun_from(id).await?.or(request.snapshot);
        let (snapshot, known) = self.choose(source, wanted).await?;

        let _open = self.refuse_when_closing().await?;
        let log = self.begin_log(id).await?;
        let title = crate::title(&request.prompt);
        let saved = Saved {
            branch: branch_name(options, &created.recipe.secrets, &title, id).await,
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
            budgets: created.budgets,
            origin: protocol::SessionOrigin::default(),
        };
        let past = Past::read(&recorder, snapshot.id).await.map_err(problem::store)?;
        let from = options.store.session_dir(source);
        let heir = Heir { past: &past, recorder: &recorder, from: &from, log: &log, to: &dir };
        let images = pictures::keep_all(&dir, pictures).await?;
        let prompt =
            EventBody::PromptQueued { prompt: PromptId::new(), text: request.prompt, now: false, images };
        let first = std::iter::once(first).chain(policy).map(|body| Draft { actor: actor.clone(), body });
        heir.write(first.collect(), Draft { actor, body: prompt }).await?;
        let state = kept_fold::fold(&log).await.map_err(problem::store)?;
        let recorder = Recorder::new(log, options.store.clone(), Stream::new(id, state));
        recorder.index().await;
        self.begin(recorder)
    }

    /// The snapshot of a fork that a server which died had begun to write.
    async fn begun_from(&self, id: SessionId) -> Result<Option<SnapshotId>, Problem> {
        let store = &self.options.store;
        if !store.has_session(id) {
            return Ok(None);
        }
        let first = match store.read_log(id, 0, 1).await {
            Ok(mut events) => events.pop().map(|event| event.body),
            Err(store::Error::NoSession(_)) => None,
            Err(error) => return Err(problem::store(error)),
        };
        Ok(match first {
            Some(EventBody::SessionCreated { forked_from, .. }) => forked_from.map(|from| from.snapshot),
            _ => None,
        })
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
