//! Sessions: one actor each, the only writer of its log. The actor performs the agent's effects; readers follow the
//! feed, which is the log plus what is happening now, in one step.

mod actor;
pub mod backup;
mod books;
mod budget;
mod builds;
mod command;
mod control;
mod copies;
mod damaged;
mod embedding;
mod environments;
mod exits;
mod failure;
mod feed;
mod files;
mod forge_hooks;
mod fork;
mod history;
mod intake;
mod joint;
mod kept_call;
mod kept_fold;
mod kept_time;
mod limits;
#[cfg(feature = "load")]
mod load;
mod logins;
mod maps;
mod mcp;
mod naming;
mod notes;
mod outbox;
mod people;
mod pictures;
mod position;
mod presence;
mod problem;
mod process;
mod pull_requests;
mod recorder;
mod registry;
mod review;
mod routes;
mod runner;
mod secrets;
mod settings;
mod skills;
mod spend;
mod state;
mod statistics;
mod stop;
mod stopwatch;
mod team;
mod terminal;
mod watch;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::{
    Actor, Code, CreatePrompt, CreateSession, DeliverSession, Diff, EgressDecision, EgressLog, EgressStatus,
    Environment, EventPage, ForkSession, GarbageReport, ImageFile, ImageStatus, ItemId, Model,
    NamedEnvironment, Problem, PromptId, Session, SessionFilter, SessionId, SessionList, SessionOrigin,
    SnapshotList, StopSession, Stopped, WarmStatus, event,
};

pub use budget::validate as validate_budgets;
pub use builds::services;
pub use command::{Before, Cause, Command};
pub use embedding::Embedding;
pub use feed::{Feed, Frame, Text};
pub use limits::{Hit as LimitHit, merge as merge_limits, reached as limits_reached};
pub use maps::Maps;
pub use mcp::Sealed;
pub use memory::Occasion;
pub use notes::MemoryOptions;
pub use outbox::{Outbox, Patience};
pub use people::{Author, People};
pub use position::Position;
pub use problem::store as store_problem;
pub use pull_requests::Bundle;
use registry::Registry;
pub use routes::{Routes, Task};
pub use spend::SpendFilter;
pub use statistics::StatisticsFilter;
pub use terminal::{Terminal, TerminalInput, TerminalOutput, TerminalSpec};
pub use workspace::{Arrival, SetUp, bring_to_tip, prepare};

/// Most events of one page.
const PAGE_LIMIT: usize = 1000;

/// Longest host, and longest reason, of a refusal that somebody else tells of.
const LONGEST: usize = 1000;

/// What sessions need; all of it arrives as arguments.
pub struct Options {
    /// Logs and catalogue.
    pub store: store::Store,
    /// Makes the sandboxes.
    pub driver: Arc<dyn sandbox::Driver>,
    /// The images of the environments.
    pub images: Arc<sandbox::image::Images>,
    /// Sandboxes that are kept ready.
    pub pool: Arc<sandbox::pool::Pool>,
    /// The frozen workspaces of sessions.
    pub snapshots: Arc<sandbox::snapshot::Snapshots>,
    /// How sandboxes' connections reach the network, once they are allowed.
    pub outside: Arc<dyn sandbox::egress::Outside>,
    /// What may stay on disk.
    pub disk: sandbox::gc::Policy,
    /// Sandboxes that are kept ready for each environment that does not say.
    pub pool_size: u32,
    /// Images are built again after this long where the environment does not say.
    pub rebuild: Duration,
    /// Whether images are built and sandboxes kept ready without being asked; a server that lives only as long as one
    /// command has no use for it.
    pub prebuild: bool,
    /// Every model that can be asked for.
    pub models: Vec<llm::Model>,
    /// Name of the model used when neither the prompt nor the environment names one.
    pub default_model: Option<String>,
    /// The models of tasks beside the work itself.
    pub routes: Routes,
    /// The host's copies of the repositories.
    pub mirrors: forge::Mirrors,
    /// From the configuration file, by name.
    pub environments: Vec<(String, Environment)>,
    /// What each sandbox may use.
    pub limits: sandbox::Limits,
    /// When a turn has had enough.
    pub turn: agent::Limits,
    /// What sessions may use where nobody says otherwise.
    pub budgets: protocol::Budgets,
    /// Wall-clock limit of one shell command unless the call asks for less.
    pub command_timeout: Duration,
    /// A sandbox without a turn is stopped after this long; a snapshot of it is kept.
    pub idle: Duration,
    /// A session that nobody uses leaves memory after this long; its next use brings it back.
    pub sleep: Duration,
    /// Who is at work where no person is known.
    pub author: Author,
    /// Whom the commits are by.
    pub people: People,
    /// Pull requests and notifications.
    pub outbox: Outbox,
    /// How maps of large repositories are made; None where nobody wants any.
    pub maps: Option<Maps>,
    /// How the memory is used.
    pub memory: MemoryOptions,
    /// The MCP servers that environments can name.
    pub mcp: Vec<::mcp::Server>,
    /// What is done without being asked.
    pub duty: Duty,
}

/// What is done without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// A server's: unfinished turns go on, queues are worked off, sandboxes that belong to nobody are removed.
    Work,
    /// That of one command that only looks: nothing is touched, and whoever comes next finds it as it was.
    Look,
}

/// How to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutDown {
    /// Sandboxes live on and are adopted by the next server; unfinished turns are resumed by it.
    KeepSandboxes,
    /// For a server that lives only as long as one command: turns are stopped and sandboxes removed.
    RemoveSandboxes,
}

/// The sessions of one server. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    registry: Arc<Registry>,
}

impl Sessions {
    /// Opens the sessions: unfinished turns go on, and sandboxes that belong to no session are removed.
    pub async fn start(options: Options) -> Result<Self, Problem> {
        let this = Self { registry: Registry::start(options).await? };
        if this.registry.options.duty == Duty::Work {
            this.take_up_news().await?;
        }
        Ok(this)
    }

    /// Makes a session with its first prompt. It answers before the repository is read: what is wrong with that shows
    /// in the session.
    pub async fn create(&self, actor: Actor, request: CreateSession) -> Result<Session, Problem> {
        self.create_as(SessionId::new(), actor, request).await
    }

    /// The same with an id that was chosen before. If there is such a session it is the answer, so that whoever does not
    /// know whether this was done can ask again.
    pub async fn create_as(
        &self,
        id: SessionId,
        actor: Actor,
        request: CreateSession,
    ) -> Result<Session, Problem> {
        self.create_from(id, actor, SessionOrigin::Api, request).await
    }

    /// The same, with where it comes from.
    pub async fn create_from(
        &self,
        id: SessionId,
        actor: Actor,
        origin: SessionOrigin,
        request: CreateSession,
    ) -> Result<Session, Problem> {
        match self.registry.made(id).await? {
            Some(session) => Ok(session),
            None => self.registry.create(id, actor, origin, request).await,
        }
    }

    /// The sessions that fit, a page of them, the last changed first, and how many there are in each part of the inbox.
    pub async fn list_some(&self, filter: &SessionFilter) -> Result<SessionList, Problem> {
        self.registry.list_some(filter).await
    }

    /// Where the sandboxes of a session wanted to connect to.
    pub async fn egress_log(&self, id: SessionId) -> Result<EgressLog, Problem> {
        Ok(self.registry.open(id).await?.recorder().stream().with_state(|state| state.egress_log()))
    }

    /// Every session, newest first.
    pub async fn list(&self) -> Result<Vec<Session>, Problem> {
        self.registry.list().await
    }

    /// One session, as its log has it.
    pub async fn get(&self, id: SessionId) -> Result<Session, Problem> {
        match self.registry.open(id).await {
            Ok(handle) => handle.session().ok_or_else(|| problem::no_session(id)),
            Err(problem) => self.damaged(id, problem).await,
        }
    }

    /// Queues a prompt. Its turn begins when the ones before it have finished.
    pub async fn prompt(&self, id: SessionId, actor: Actor, text: String) -> Result<PromptId, Problem> {
        self.send(id, actor, CreatePrompt { prompt: text, now: false, images: Vec::new() }).await
    }

    /// Stops the turn under way and answers at once; `turn.finished` follows. Stopping twice, or when nothing runs, is
    /// no error. Prompts in the queue stay there, and the next one's turn begins after the stop.
    pub async fn stop(&self, id: SessionId, actor: Actor) -> Result<Stopped, Problem> {
        self.stop_with(id, actor, StopSession::default()).await
    }

    /// The diff from the commit the session began from to its workspace, or to the work as it was kept.
    pub async fn diff(&self, id: SessionId) -> Result<Diff, Problem> {
        self.registry.open(id).await?.diff().await
    }

    /// Pushes the branch of the last turn that was done, again if need be.
    pub async fn deliver(&self, id: SessionId, cause: impl Into<Cause>) -> Result<event::Delivery, Problem> {
        self.deliver_with(id, cause, DeliverSession::default()).await
    }

    /// The same, with what whoever asks says to it.
    pub async fn deliver_with(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        request: DeliverSession,
    ) -> Result<event::Delivery, Problem> {
        self.deliver_once(id, cause.into(), request).await
    }

    /// A page of the log after a position. More than there is cannot be asked for: `after` is at most the last event's
    /// number.
    pub async fn events(
        &self,
        id: SessionId,
        position: impl Into<Position>,
        limit: usize,
    ) -> Result<EventPage, Problem> {
        let limit = limit.clamp(1, PAGE_LIMIT);
        let position = position.into();
        let read = async {
            let handle = self.registry.open(id).await?;
            self.refuse_misplaced(id, handle.recorder(), position).await?;
            let lineage = handle.recorder().stream().with_state(|state| state.lineage());
            let events = handle.recorder().read(position.after, limit + 1).await.map_err(problem::store)?;
            Ok((events, lineage))
        };
        let (mut events, lineage) = match read.await {
            Ok(read) => read,
            Err(problem) => return self.sound_page(id, position, limit, problem).await,
        };
        let more = events.len() > limit;
        events.truncate(limit);
        let next_after = events.last().map_or(position.after, |event| event.seq);
        Ok(EventPage { events, next_after, more, lineage })
    }

    /// Replay after a position, then live, in one step: nothing lost, nothing twice. Of a damaged session it is what comes
    /// before the damage, and then the problem.
    pub async fn feed(&self, id: SessionId, position: impl Into<Position>) -> Result<Feed, Problem> {
        self.follow(id, position.into(), None).await
    }

    /// The feed for a person, whom all others see as long as it is read.
    pub async fn watch(
        &self,
        id: SessionId,
        position: impl Into<Position>,
        person: &str,
    ) -> Result<Feed, Problem> {
        self.follow(id, position.into(), Some(person.to_owned())).await
    }

    /// Tells all who follow the session that a person who does so, too, writes a prompt.
    pub async fn typing(&self, id: SessionId, person: &str) -> Result<(), Problem> {
        self.registry.open(id).await?.recorder().stream().typing(person);
        Ok(())
    }

    /// Opens a terminal in the session's sandbox, which is made if there is none.
    pub async fn terminal(&self, id: SessionId, spec: TerminalSpec) -> Result<Terminal, Problem> {
        let handle = self.registry.open(id).await?;
        Terminal::open(handle, spec, self.registry.closed.clone()).await
    }

    async fn follow(
        &self,
        id: SessionId,
        position: Position,
        person: Option<String>,
    ) -> Result<Feed, Problem> {
        let handle = match self.registry.open(id).await {
            Ok(handle) => handle,
            Err(problem) => return self.sound_feed(id, position, problem).await,
        };
        self.refuse_misplaced(id, handle.recorder(), position).await?;
        let after = position.after;
        let stream = handle.recorder().stream();
        // A reader that has everything would wait for what cannot come.
        if let Some(problem) = stream.trouble().filter(|_| after >= stream.with_state(|state| state.seq())) {
            return Err(problem);
        }
        Ok(Feed::new(Arc::clone(handle.recorder()), after, person, self.registry.closed.clone()))
    }

    /// The file of a kept output (`Output::blob`) or of an image (`ImageFile::name`).
    pub async fn blob(&self, id: SessionId, name: &str) -> Result<PathBuf, Problem> {
        let missing = || Problem::new(Code::NotFound, "the session has no such output");
        self.get(id).await?;
        // Only names that we give: nothing in a name can lead out of the directory.
        let name = match name.strip_suffix(".out").and_then(|stem| stem.parse::<ItemId>().ok()) {
            Some(item) => format!("{item}.out"),
            None if ImageFile::is_name(name) => name.to_owned(),
            None => return Err(missing()),
        };
        let path = self.registry.options.store.session_dir(id).join(name);
        match tokio::fs::metadata(&path).await {
            Ok(found) if found.is_file() => Ok(path),
            Ok(_) => Err(missing()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing()),
            Err(error) => Err(problem::file(&path, &error)),
        }
    }

    /// A new session that goes on from a snapshot of this one, with a prompt of its own.
    pub async fn fork(&self, id: SessionId, actor: Actor, request: ForkSession) -> Result<Session, Problem> {
        self.fork_as(SessionId::new(), id, actor, request).await
    }

    /// The same with an id for the new session that was chosen before, as in [`Self::create_as`].
    pub async fn fork_as(
        &self,
        id: SessionId,
        source: SessionId,
        actor: Actor,
        request: ForkSession,
    ) -> Result<Session, Problem> {
        match self.registry.made(id).await? {
            Some(session) => Ok(session),
            None => self.registry.fork(id, source, actor, request).await,
        }
    }

    /// The snapshots that a session can be forked from, oldest first.
    pub async fn snapshots(&self, id: SessionId) -> Result<SnapshotList, Problem> {
        self.registry.snapshots(id).await
    }

    /// How far an environment's image is.
    pub async fn image(&self, name: &str) -> Result<ImageStatus, Problem> {
        let environment = environments::find(&self.registry.options, name).await?;
        Ok(self.registry.builds.status(&environment.name))
    }

    /// Starts a build of an environment's image and answers at once; [`Self::image`] says how far it is.
    pub async fn build(&self, name: &str) -> Result<ImageStatus, Problem> {
        let environment = environments::find(&self.registry.options, name).await?;
        environments::check_recipe(&self.registry.options, &environment.recipe)?;
        Ok(self.registry.builds.start(&environment.name))
    }

    /// Builds an environment's image and answers when that is done; meanwhile [`Self::image`] says how far it is. The
    /// error is the build's own; the image before it stays in use.
    pub async fn build_and_wait(&self, name: &str) -> Result<ImageStatus, Problem> {
        let environment = environments::find(&self.registry.options, name).await?;
        environments::check_recipe(&self.registry.options, &environment.recipe)?;
        self.registry.builds.run(&environment.name).await
    }

    /// Somebody is about to ask: a sandbox of the environment is made ready, if there is an image to make it from, and
    /// otherwise the image is built.
    pub async fn warm(&self, name: &str) -> Result<WarmStatus, Problem> {
        let environment = environments::find(&self.registry.options, name).await?;
        self.registry.builds.warm(&environment.name, &environment.recipe).await
    }

    /// What of the network an environment's sandboxes can reach, and what they were refused.
    pub async fn egress(&self, name: &str) -> Result<EgressStatus, Problem> {
        let environment = environments::find(&self.registry.options, name).await?;
        Ok(self.registry.exits.status(&environment.name, environment.recipe.egress))
    }

    /// Remembers what a sandbox of an environment was refused that is not a session's, such as that of a command.
    pub async fn note_egress(
        &self,
        name: &str,
        decisions: &[EgressDecision],
        command: Option<Command>,
    ) -> Result<EgressStatus, Problem> {
        let environment = environments::find(&self.registry.options, name).await?;
        if decisions.iter().any(|decision| decision.host.len() > LONGEST || decision.rule.len() > LONGEST) {
            let problem = Problem::new(Code::BadRequest, "a host or a reason is too long to be remembered");
            return Err(problem.hint(format!("each may have {LONGEST} bytes")));
        }
        if !command::was_done(command) {
            self.registry.exits.note(&environment.name, decisions, command).await;
        }
        Ok(self.registry.exits.status(&environment.name, environment.recipe.egress))
    }

    /// Allows more of the network, from the next connection on, also in sandboxes that run.
    pub async fn allow(&self, name: &str, rules: Vec<String>) -> Result<EgressStatus, Problem> {
        self.allow_as(None, name, rules).await
    }

    /// The same for a command that is done once.
    pub async fn allow_as(
        &self,
        command: Option<Command>,
        name: &str,
        rules: Vec<String>,
    ) -> Result<EgressStatus, Problem> {
        if command::was_done(command) {
            return self.egress(name).await;
        }
        self.registry.allow(name, rules, command).await
    }

    /// Removes what nothing refers to and what is over the disk's budget; with `dry_run` it only says what it would.
    pub async fn collect_garbage(&self, dry_run: bool) -> Result<GarbageReport, Problem> {
        self.registry.builds.collect_garbage(dry_run).await
    }

    /// Every environment, by name, with how far its image is.
    pub async fn environments(&self) -> Result<Vec<NamedEnvironment>, Problem> {
        let mut all = environments::list(&self.registry.options).await?;
        for environment in &mut all {
            let status = self.registry.builds.status_of(&environment.name, &environment.recipe).await;
            environment.image = Some(status);
            workspace::address::cover(&mut environment.recipe);
        }
        Ok(all)
    }

    /// One environment.
    pub async fn environment(&self, name: &str) -> Result<NamedEnvironment, Problem> {
        let mut environment = environments::find(&self.registry.options, name).await?;
        let status = self.registry.builds.status_of(&environment.name, &environment.recipe).await;
        environment.image = Some(status);
        workspace::address::cover(&mut environment.recipe);
        Ok(environment)
    }

    /// Checks that the repository and branch can be read, then stores the recipe.
    pub async fn put_environment(
        &self,
        name: &str,
        recipe: Environment,
    ) -> Result<NamedEnvironment, Problem> {
        self.put_environment_as(None, name, recipe).await
    }

    /// The same for a command that is done once.
    pub async fn put_environment_as(
        &self,
        command: Option<Command>,
        name: &str,
        recipe: Environment,
    ) -> Result<NamedEnvironment, Problem> {
        let mut stored = if command::was_done(command) {
            environments::stored(name, recipe)
        } else {
            let stored = environments::put(&self.registry.options, name, recipe, command).await?;
            self.registry.environment_changed(name, Some(&stored.recipe));
            stored
        };
        workspace::address::cover(&mut stored.recipe);
        Ok(stored)
    }

    /// Removes an environment of the catalogue; sessions that were made from it keep their recipe.
    pub async fn remove_environment(&self, name: &str) -> Result<(), Problem> {
        self.remove_environment_as(None, name).await
    }

    /// The same for a command that is done once.
    pub async fn remove_environment_as(&self, command: Option<Command>, name: &str) -> Result<(), Problem> {
        if command::was_done(command) {
            return Ok(());
        }
        environments::remove(&self.registry.options, name, command).await?;
        self.registry.environment_changed(name, None);
        Ok(())
    }

    /// The configured models, by name, without their keys.
    pub fn models(&self) -> Vec<Model> {
        let (options, client) = (&self.registry.options, &self.registry.client);
        let described = |model: &llm::Model| describe(model, options, client.idle(model));
        let mut models: Vec<Model> = options.models.iter().map(described).collect();
        models.sort_by(|one, other| one.name.cmp(&other.name));
        models
    }

    /// How many sessions are in memory; the others are a file and a row.
    pub fn awake(&self) -> usize {
        self.registry.awake()
    }

    /// The store.
    pub fn store(&self) -> &store::Store {
        &self.registry.options.store
    }

    /// No new turns start; the running ones are left to be resumed (their sandboxes live on) or stopped and cleaned up.
    pub async fn shut_down(&self, mode: ShutDown) {
        self.registry.shut_down(mode).await;
    }
}

/// A title: the first line of a prompt that says something, shortened.
fn title(prompt: &str) -> String {
    const LENGTH: usize = 80;
    /// Words of this length are no words.
    const LONG_WORD: usize = 12;
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    if line.chars().count() <= LENGTH {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(LENGTH - 1).collect();
    // Half of something long is of no use to a reader, and half of a key is known as one by nobody.
    let cut = short.rsplit(|letter: char| !letter.is_ascii_graphic()).next().map_or(0, str::len);
    if cut >= LONG_WORD && line[short.len()..].starts_with(|letter: char| letter.is_ascii_graphic()) {
        short.truncate(short.len() - cut);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// A model as people may see it.
fn describe(model: &llm::Model, options: &Options, idle: Duration) -> Model {
    let profile = model.profile();
    Model {
        name: model.name.clone(),
        provider: model.provider.name().to_owned(),
        model: model.model.clone(),
        default: options.default_model.as_deref() == Some(&model.name),
        key: model.has_key(),
        context: profile.context,
        context_assumed: profile.source == llm::Source::Assumed,
        max_output: profile.max_output,
        tool_mode: profile.tool_mode,
        edit_format: profile.edit_format,
        images: profile.images,
        idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
        price: llm::price(model).map(|price| protocol::ModelPrice {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        }),
        fallback: model.overrides.fallback.clone(),
        tasks: options.routes.tasks(&model.name).map(|task| task.as_str().to_owned()).collect(),
    }
}
