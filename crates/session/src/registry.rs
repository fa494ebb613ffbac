//! The sessions of one server by id. An actor is made when its session is first needed; those with unfinished work,
//! or with a sandbox, are made when the server starts.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::{
    Actor, Code, CreateSession, EgressStatus, Environment, EventBody, Problem, PromptId, SandboxId, Session,
    SessionId,
};
use sandbox::egress::Rules;
use store::Log;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{Handle, Service};
use crate::builds::Builds;
use crate::exits::Exits;
use crate::feed::Stream;
use crate::recorder::{Recorder, read_all};
use crate::runner::Context;
use crate::state::State;
use crate::workspace::{Platform, Workspace};
use crate::{Duty, Options, ShutDown, environments, problem};

/// Longest prompt.
const PROMPT_LIMIT: usize = 256 * 1024;
/// Most sessions in a list.
const LIST_LIMIT: usize = 1000;

/// The sessions of one server.
pub(crate) struct Registry {
    pub(crate) options: Arc<Options>,
    pub(crate) exits: Arc<Exits>,
    pub(crate) builds: Arc<Builds>,
    client: llm::Client,
    handles: Mutex<HashMap<SessionId, Arc<OnceCell<Handle>>>>,
    /// No new work is taken. Whoever makes an actor holds this open meanwhile, so that shutting down misses none.
    closing: RwLock<bool>,
    /// Every actor has ended.
    pub(crate) closed: CancellationToken,
    actors: TaskTracker,
}

impl Registry {
    /// Opens the sessions, takes up unfinished work, and removes sandboxes that belong to nobody.
    pub(crate) async fn start(options: Options) -> Result<Self, Problem> {
        let client = llm::Client::new().map_err(|error| Problem::new(Code::Internal, error.message))?;
        let options = Arc::new(options);
        let exits = Exits::new(Arc::clone(&options.outside));
        let this = Self {
            builds: Builds::new(Arc::clone(&options), Arc::clone(&exits)),
            options,
            exits,
            client,
            handles: Mutex::new(HashMap::new()),
            closing: RwLock::new(false),
            closed: CancellationToken::new(),
            actors: TaskTracker::new(),
        };
        let mut sandboxes = HashSet::new();
        let mut wanted = Vec::new();
        for id in this.options.store.sessions().await.map_err(problem::store)? {
            match this.needed(id).await {
                Ok((needed, sandbox)) => {
                    sandboxes.extend(sandbox);
                    wanted.extend(needed.then_some(id));
                }
                // One damaged log must not keep the others from starting.
                Err(error) => tracing::error!(session = %id, %error, "a session cannot be opened"),
            }
        }
        if this.options.duty == Duty::Look {
            return Ok(this);
        }
        this.remove_strangers(&sandboxes).await;
        for id in wanted {
            if let Err(error) = this.open(id).await {
                tracing::error!(session = %id, %error, "a session cannot be taken up");
            }
        }
        if this.options.prebuild {
            this.builds.look_after();
        }
        Ok(this)
    }

    /// Whether a session has something to do without being asked, and its sandbox. The index is believed only when
    /// it is as new as the log.
    async fn needed(&self, id: SessionId) -> Result<(bool, Option<SandboxId>), store::Error> {
        let log = self.options.store.open_log(id).await?;
        let row = self.options.store.indexed_one(id).await?;
        let row = match row.filter(|row| row.seq == log.last_seq()) {
            Some(row) => Some(row),
            None => {
                let state = fold(&log).await?;
                let row = state.to_session();
                if let Some(row) = &row {
                    self.options.store.index(row).await?;
                }
                row
            }
        };
        let Some(row) = row else { return Ok((false, None)) };
        let busy = row.turn.is_some() || !row.queued.is_empty();
        Ok((busy || row.sandbox.is_some(), row.sandbox))
    }

    /// Removes sandboxes that no session has.
    async fn remove_strangers(&self, ours: &HashSet<SandboxId>) {
        let found = match self.options.driver.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the sandboxes cannot be listed");
                return;
            }
        };
        // A command's own sandbox goes with that command.
        let a_commands = |info: &sandbox::Info| {
            info.owner == Some(sandbox::Owner::OneOff) && info.state != sandbox::State::Ended
        };
        for info in found.into_iter().filter(|info| !ours.contains(&info.id) && !a_commands(info)) {
            match self.options.driver.remove(info.id).await {
                Ok(()) => tracing::info!(sandbox = %info.id, "removed a sandbox that belongs to no session"),
                Err(error) => tracing::warn!(sandbox = %info.id, %error, "a sandbox could not be removed"),
            }
        }
    }

    /// A new session with its first prompt.
    pub(crate) async fn create(&self, actor: Actor, request: CreateSession) -> Result<Session, Problem> {
        let _open = self.refuse_when_closing().await?;
        check_prompt(&request.prompt)?;
        let options = &self.options;
        let environment = environments::find(options, &request.environment).await?;
        environments::check_recipe(options, &environment.recipe)?;
        let model = environments::choose_model(options, request.model.as_deref(), &environment.recipe)?;
        let id = SessionId::new();
        let log = options.store.create_log(id).await.map_err(problem::store)?;
        let recorder = Recorder::new(log, options.store.clone(), Stream::new(id, State::new(id)));
        let created = EventBody::SessionCreated {
            environment: environment.name,
            recipe: Box::new(environment.recipe),
            title: crate::title(&request.prompt),
            model,
            forked_from: None,
        };
        let queued = EventBody::PromptQueued { prompt: PromptId::new(), text: request.prompt };
        recorder.append(&actor, vec![created, queued]).await.map_err(problem::store)?;
        let session = self.begin(recorder)?;
        self.builds.used(&session.environment);
        Ok(session)
    }

    /// Starts the actor of a session that was just made.
    pub(crate) fn begin(&self, recorder: Arc<Recorder>) -> Result<Session, Problem> {
        let id = recorder.session();
        let session = recorder.stream().with_state(|state| state.to_session());
        let handle = self.spawn(recorder)?;
        self.handles().insert(id, Arc::new(OnceCell::new_with(Some(handle))));
        session.ok_or_else(|| problem::no_session(id))
    }

    /// Allows more of the network in an environment of the catalogue, and in its sandboxes that run.
    pub(crate) async fn allow(&self, name: &str, rules: Vec<String>) -> Result<EgressStatus, Problem> {
        let environment = environments::allow(&self.options, name, rules).await?;
        self.environment_allows(name, &environment.recipe);
        Ok(self.exits.status(name, environment.recipe.egress))
    }

    /// An environment was stored anew, or removed.
    pub(crate) fn environment_changed(&self, name: &str, recipe: Option<&Environment>) {
        if let Some(recipe) = recipe {
            self.environment_allows(name, recipe);
        }
        self.builds.changed(name, recipe);
    }

    fn environment_allows(&self, name: &str, recipe: &Environment) {
        match Rules::parse(&recipe.egress) {
            Ok(rules) => self.exits.set_rules(name, &rules),
            Err(error) => {
                tracing::error!(environment = %name, %error, "rules that were stored cannot be read")
            }
        }
        self.builds.rules_changed(name);
    }

    /// Puts a prompt into a session's queue.
    pub(crate) async fn prompt(
        &self,
        id: SessionId,
        actor: Actor,
        text: String,
    ) -> Result<PromptId, Problem> {
        drop(self.refuse_when_closing().await?);
        check_prompt(&text)?;
        self.open(id).await?.prompt(actor, text).await
    }

    /// The handle of a session; its actor is made if there is none yet.
    pub(crate) async fn open(&self, id: SessionId) -> Result<Handle, Problem> {
        let known = self.handles().get(&id).and_then(|cell| cell.get().cloned());
        if let Some(handle) = known {
            return Ok(handle);
        }
        let _open = self.refuse_when_closing().await?;
        let cell = Arc::clone(self.handles().entry(id).or_default());
        let opened = cell.get_or_try_init(|| self.load(id)).await.cloned();
        if opened.is_err() {
            // What is not there takes no place.
            let mut handles = self.handles();
            if handles.get(&id).is_some_and(|cell| !cell.initialized()) {
                handles.remove(&id);
            }
        }
        opened
    }

    async fn load(&self, id: SessionId) -> Result<Handle, Problem> {
        let log = self.options.store.open_log(id).await.map_err(problem::store)?;
        let state = fold(&log).await.map_err(problem::store)?;
        let recorder = Recorder::new(log, self.options.store.clone(), Stream::new(id, state));
        self.spawn(recorder)
    }

    fn spawn(&self, recorder: Arc<Recorder>) -> Result<Handle, Problem> {
        let id = recorder.session();
        // A log without its first event is what a full disk leaves of a session that was never confirmed.
        let created = recorder.stream().with_state(|state| state.created().cloned());
        let created = created.ok_or_else(|| problem::no_session(id))?;
        let platform = Arc::new(Platform {
            options: Arc::clone(&self.options),
            exits: Arc::clone(&self.exits),
            builds: Arc::clone(&self.builds),
        });
        let workspace = Workspace::open(id, platform, created.environment, created.recipe, created.title);
        let (service, handle) = Service::new(Context {
            options: Arc::clone(&self.options),
            recorder,
            workspace,
            client: self.client.clone(),
            model: created.model,
        });
        self.actors.spawn(service.run());
        Ok(handle)
    }

    /// Every session, newest first. Those with an actor are as they are now; the others as the index has them.
    pub(crate) async fn list(&self) -> Result<Vec<Session>, Problem> {
        let mut rows = self.options.store.indexed(LIST_LIMIT).await.map_err(problem::store)?;
        let live = self.live();
        for row in &mut rows {
            if let Some(session) = live.get(&row.id).and_then(Handle::session) {
                *row = session;
            }
        }
        Ok(rows)
    }

    /// Ends every actor.
    pub(crate) async fn shut_down(&self, mode: ShutDown) {
        *self.closing.write().await = true;
        let handles: Vec<Handle> = self.live().into_values().collect();
        let ends = handles.iter().map(|handle| handle.shut_down(mode));
        for end in futures_util::future::join_all(ends).await {
            if let Err(error) = end {
                tracing::debug!(%error, "an actor had ended already");
            }
        }
        drop(handles);
        self.actors.close();
        self.actors.wait().await;
        // Sessions may have waited for a build until now. Who only looked has nothing to end, unless it was asked to build.
        if self.options.duty == Duty::Work || self.builds.is_at_work() {
            self.builds.close().await;
        }
        self.closed.cancel();
    }

    fn live(&self) -> HashMap<SessionId, Handle> {
        let handles = self.handles();
        handles.iter().filter_map(|(id, cell)| Some((*id, cell.get()?.clone()))).collect()
    }

    fn handles(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<OnceCell<Handle>>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn refuse_when_closing(&self) -> Result<RwLockReadGuard<'_, bool>, Problem> {
        let closing = self.closing.read().await;
        if *closing { Err(problem::closing()) } else { Ok(closing) }
    }
}

/// Folds a log to its end.
pub(crate) async fn fold(log: &Log) -> Result<State, store::Error> {
    let mut state = State::new(log.session());
    read_all(log, |event| state.apply(event)).await?;
    Ok(state)
}

pub(crate) fn check_prompt(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new(Code::BadRequest, "the prompt is empty").hint("say what is to be done"));
    }
    if text.len() > PROMPT_LIMIT {
        return Err(Problem::new(
            Code::TooLarge,
            format!("the prompt has {} bytes; {PROMPT_LIMIT} are allowed", text.len()),
        )
        .hint("put long material into a file of the repository and name it in the prompt"));
    }
    Ok(())
}
