//! The sessions of one server by id. An actor is made when its session is first needed, and goes when nobody needs it;
//! those with unfinished work, or with a sandbox, are made when the server starts.

mod sleep;
mod take_up;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::event::ReplyState;
use protocol::{
    Actor, Code, CreatePrompt, CreateSession, Egress, EgressStatus, Environment, EventBody, Problem,
    PromptId, Session, SessionFilter, SessionId, SessionList, SessionOrigin,
};
use sandbox::egress::Rules;
use store::Error;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{Asked, Handle, Service};
use crate::builds::Builds;
use crate::command::Command;
use crate::damaged::Damages;
use crate::exits::Exits;
use crate::feed::Stream;
use crate::logins::Logins;
use crate::mcp::{Inside, McpServers, Sealed};
use crate::notes::Shelf;
use crate::outbox::{self, Notifier, Outside, Replier};
use crate::recorder::Recorder;
use crate::runner::Context;
use crate::state::State;
use crate::stopwatch::Stopwatch;
use crate::workspace::{Platform, Workspace, address};
use crate::{Duty, Options, ShutDown, budget, environments, kept_fold, pictures, problem};

/// Longest prompt.
const PROMPT_LIMIT: usize = 256 * 1024;
/// Most sessions in a list.
const LIST_LIMIT: usize = 1000;

/// The sessions of one server.
pub(crate) struct Registry {
    pub(crate) options: Arc<Options>,
    pub(crate) exits: Arc<Exits>,
    pub(crate) builds: Arc<Builds>,
    pub(crate) client: llm::Client,
    servers: Arc<McpServers>,
    notifier: Option<Notifier>,
    replier: Replier,
    pub(crate) logins: Arc<Logins>,
    /// Held by whoever makes a prompt of what a forge told.
    pub(crate) hooking: tokio::sync::Mutex<()>,
    /// How much news of forges waits for pull requests that are being opened.
    pub(crate) early: std::sync::atomic::AtomicUsize,
    handles: Mutex<HashMap<SessionId, Arc<OnceCell<Handle>>>>,
    pub(crate) damages: Damages,
    pub(crate) shelf: Arc<Shelf>,
    /// No new work is taken. Whoever makes an actor holds this open meanwhile, so that shutting down misses none.
    closing: RwLock<bool>,
    /// Every actor has ended.
    pub(crate) closed: CancellationToken,
    actors: TaskTracker,
}

impl Registry {
    /// Opens the sessions. Unfinished work is taken up, and sandboxes that belong to nobody are removed, while it serves.
    pub(crate) async fn start(options: Options) -> Result<Arc<Self>, Problem> {
        let client = llm::Client::new().map_err(|error| Problem::new(Code::Internal, error.message))?;
        let options = Arc::new(options);
        let exits = Exits::new(Arc::clone(&options.outside), &options.store).await?;
        let notifier =
            options.outbox.webhook.clone().map(|webhook| Notifier::new(webhook, options.outbox.notification));
        let vault = Arc::new(Sealed::new(options.store.secrets().clone()));
        let servers = Arc::new(McpServers::new(&options.mcp, vault));
        let replier = Replier::new(Arc::clone(&options));
        let logins = Arc::new(Logins::new(options.store.secrets().clone(), options.outbox.sites.clone()));
        let this = Self {
            servers,
            shelf: Arc::new(Shelf::new(&options.store, &options.memory, client.clone())),
            builds: Builds::new(Arc::clone(&options), Arc::clone(&exits)),
            options,
            exits,
            client,
            early: Default::default(),
            notifier,
            replier,
            logins,
            hooking: tokio::sync::Mutex::default(),
            handles: Mutex::new(HashMap::new()),
            damages: Damages::default(),
            closing: RwLock::new(false),
            closed: CancellationToken::new(),
            actors: TaskTracker::new(),
        };
        let this = Arc::new(this);
        match this.options.duty {
            Duty::Look => this.refresh_index().await?,
            Duty::Work => {
                crate::outbox::tell_of_idle_forges(&this.options).await;
                this.take_up().await?;
            }
        }
        Ok(this)
    }

    /// The session with this id, if a server that died had made it. One whose log is empty is not made yet.
    pub(crate) async fn made(&self, id: SessionId) -> Result<Option<Session>, Problem> {
        if !self.options.store.is_known(id).await.map_err(problem::store)? {
            return Ok(None);
        }
        match self.open(id).await {
            Ok(handle) => Ok(handle.session()),
            Err(problem) if problem.code == Code::NotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// The log for a new session. A server that died may have made it and nothing more.
    pub(crate) async fn begin_log(&self, id: SessionId) -> Result<Arc<store::Log>, Problem> {
        let store = &self.options.store;
        let found = if store.has_session(id) { store.open_log(id).await } else { Err(Error::NoSession(id)) };
        let log = match found {
            Err(Error::NoSession(_)) => store.create_log(id).await,
            found => found,
        };
        log.map_err(problem::store)
    }

    /// A new session with its first prompt.
    pub(crate) async fn create(
        &self,
        id: SessionId,
        actor: Actor,
        origin: SessionOrigin,
        request: CreateSession,
    ) -> Result<Session, Problem> {
        let _open = self.refuse_when_closing().await?;
        check_prompt(&request.prompt)?;
        let pictures = pictures::given(request.images)?;
        request.budgets.as_ref().map_or(Ok(()), budget::validate)?;
        request.policy.as_ref().map_or(Ok(()), environments::check_policy)?;
        let options = &self.options;
        let environment = environments::find(options, &request.environment).await?;
        environments::check_recipe(options, &environment.recipe)?;
        let model = environments::choose_model(options, request.model.as_deref(), &environment.recipe)?;
        let log = self.begin_log(id).await?;
        let recorder = Recorder::new(log, options.store.clone(), Stream::new(id, State::new(id)));
        let dir = options.store.session_dir(id);
        let recipe = address::keep_apart(&dir, environment.recipe)?;
        let images = pictures::keep_all(&dir, pictures).await?;
        let created = EventBody::SessionCreated {
            environment: environment.name,
            recipe: Box::new(recipe),
            title: crate::title(&request.prompt),
            model,
            forked_from: None,
            budgets: budget::overlaid(&options.budgets, &request.budgets.unwrap_or_default()),
            origin,
        };
        let queued =
            EventBody::PromptQueued { prompt: PromptId::new(), text: request.prompt, now: false, images };
        let policy = request.policy.filter(|policy| !policy.is_empty());
        let policy = policy.map(|policy| EventBody::PolicyChanged { policy, command: None });
        let events = std::iter::once(created).chain(policy).chain([queued]).collect();
        recorder.append(&actor, events).await.map_err(problem::store)?;
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
    pub(crate) async fn allow(
        &self,
        name: &str,
        rules: Vec<String>,
        command: Option<Command>,
    ) -> Result<EgressStatus, Problem> {
        let before = environments::find(&self.options, name).await?.recipe.egress;
        let environment = environments::allow(&self.options, name, rules, command).await?;
        self.environment_allows(name, &environment.recipe);
        // There is no socket in those that a connection could arrive at, and none can be put there any more.
        let note = (before == Egress::None).then(|| {
            format!(
                "sandboxes of {name} that run were started without a network and stay without one; what is allowed holds for \
                 those that start from now on"
            )
        });
        Ok(EgressStatus { note, ..self.exits.status(name, environment.recipe.egress) })
    }

    /// An environment was stored anew, or removed.
    pub(crate) fn environment_changed(&self, name: &str, recipe: Option<&Environment>) {
        match recipe {
            Some(recipe) => self.environment_allows(name, recipe),
            None => self.exits.forget(name),
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
        prompt: PromptId,
        actor: Actor,
        request: CreatePrompt,
    ) -> Result<PromptId, Problem> {
        drop(self.refuse_when_closing().await?);
        check_prompt(&request.prompt)?;
        let pictures = pictures::given(request.images)?;
        let handle = self.open(id).await?;
        let images = pictures::keep_all(&self.options.store.session_dir(id), pictures).await?;
        handle
            .prompt(
                prompt,
                actor,
                Asked { text: request.prompt, images, now: request.now, replies: Vec::new() },
            )
            .await
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
        match &opened {
            Ok(_) => self.damages.forget(id),
            Err(problem) => self.damages.note(id, problem),
        }
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
        let state = kept_fold::fold(&log).await.map_err(problem::store)?;
        let recorder = Recorder::new(log, self.options.store.clone(), Stream::new(id, state));
        self.spawn(recorder)
    }

    fn spawn(&self, recorder: Arc<Recorder>) -> Result<Handle, Problem> {
        let id = recorder.session();
        // A log without its first event is what a full disk leaves of a session that was never confirmed.
        let created =
            recorder.stream().with_state(|state| state.created().filter(|_| state.is_whole()).cloned());
        let created = created.ok_or_else(|| problem::no_session(id))?;
        let under_way = recorder.stream().with_state(|state| state.turn().is_some());
        let kept = under_way.then(|| crate::kept_time::read(&recorder.dir())).flatten();
        let broken_off = under_way.then(|| crate::kept_call::read(&recorder.dir())).flatten();
        self.go_on_notifying(&recorder);
        self.go_on_replying(&recorder);
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
            shelf: Arc::clone(&self.shelf),
            edited: tokio::sync::Notify::new(),
            adapted: Mutex::default(),
            stopwatch: Stopwatch::new(kept),
            outside: Outside::default(),
            broken_off: Mutex::new(broken_off),
            servers: Arc::clone(&self.servers),
            inside: Inside::default(),
            logins: Arc::clone(&self.logins),
        });
        self.actors.spawn(service.run());
        Ok(handle)
    }

    /// Has notifications sent from now on, and those that the server before this one left behind.
    fn go_on_notifying(&self, recorder: &Arc<Recorder>) {
        if let Some(notifier) = &self.notifier {
            recorder.notify(Arc::clone(notifier.sender()));
        }
        let pending = recorder.stream().with_state(|state| state.notifications().to_vec());
        if pending.is_empty() || self.options.duty == Duty::Look {
            return;
        }
        match &self.notifier {
            Some(notifier) => {
                pending.into_iter().for_each(|pending| notifier.sender().send(recorder, pending));
            }
            None => {
                let recorder = Arc::clone(recorder);
                self.actors.spawn(async move { outbox::give_up(&recorder, pending).await });
            }
        }
    }

    /// Has replies said from now on, and those that the server before this one left behind.
    fn go_on_replying(&self, recorder: &Arc<Recorder>) {
        recorder.reply(Arc::clone(self.replier.voice()));
        if self.options.duty == Duty::Look {
            return;
        }
        let pending = recorder.stream().with_state(|state| state.replies().to_vec());
        for reply in pending.into_iter().filter(|reply| reply.state == ReplyState::Intended) {
            self.replier.voice().say(recorder, reply);
        }
        self.replier.voice().say_again(recorder);
    }

    /// Every session, newest first. Those with an actor are as they are now; the others as the index has them, unless they
    /// are known to be damaged.
    pub(crate) async fn list(&self) -> Result<Vec<Session>, Problem> {
        let mut rows = self.options.store.indexed(LIST_LIMIT).await.map_err(problem::store)?;
        let live = self.live();
        for row in &mut rows {
            match live.get(&row.id).and_then(Handle::session) {
                Some(session) => *row = session,
                None => self.damages.mark(row),
            }
        }
        Ok(rows)
    }

    /// The sessions that fit, a page of them, as [`Self::list`] shows them.
    pub(crate) async fn list_some(&self, filter: &SessionFilter) -> Result<SessionList, Problem> {
        if let Some(cursor) = filter.cursor.as_deref().filter(|cursor| !store::Store::is_cursor(cursor)) {
            let title = format!("\"{cursor}\" is no place in the list");
            return Err(Problem::new(Code::BadRequest, title).hint("use next_cursor of the page before it"));
        }
        let limit = filter.limit.unwrap_or(LIST_LIMIT);
        if !(1..=LIST_LIMIT).contains(&limit) {
            return Err(Problem::new(Code::BadRequest, format!("limit must be between 1 and {LIST_LIMIT}")));
        }
        let mut page = self.options.store.listed(filter, limit).await.map_err(problem::store)?;
        let live = self.live();
        for row in &mut page.sessions {
            match live.get(&row.id).and_then(Handle::session) {
                Some(session) => *row = session,
                None => self.damages.mark(row),
            }
        }
        Ok(SessionList { sessions: page.sessions, next_cursor: page.next, counts: page.counts })
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
        if let Some(notifier) = &self.notifier {
            notifier.close().await;
        }
        self.replier.close().await;
        // Sessions may have waited for a build until now. Who only looked has nothing to end, unless it was asked to build.
        if self.options.duty == Duty::Work || self.builds.is_at_work() {
            self.builds.close().await;
        }
        self.exits.flush().await;
        self.servers.close().await;
        self.closed.cancel();
    }

    /// The sessions in memory.
    pub(crate) fn live(&self) -> HashMap<SessionId, Handle> {
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
