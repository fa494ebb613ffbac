//! Everything of a server in this process: store, sandboxes, models, sessions and the listener. `serve` runs it until
//! it is told to end; other commands run it for their own length when no server is there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use protocol::{Session, Status};
use serde::{Deserialize, Serialize};
use session::{Duty, Sessions, ShutDown};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::exit::Usage;

/// A running server.
pub(crate) struct Node {
    pub(crate) url: String,
    sessions: Sessions,
    shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
    address_file: PathBuf,
    only_looks: bool,
}

/// A session that nobody uses leaves memory after this long.
const SLEEP: Duration = Duration::from_secs(60);
/// How long others have for their request after they found a server that is about to end.
const FAREWELL: Duration = Duration::from_millis(100);

/// How long a server is meant to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Until it is told to end: it keeps images fresh and sandboxes ready.
    Server,
    /// As long as one command, or its work: nobody would be there to use what it prepared.
    Command,
    /// As long as one look: it is gone before anybody could make use of it, so nobody is told where it is.
    Moment,
}

/// `server.json` in the data directory: how other commands find the server of that directory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) pid: u32,
    pub(crate) instance: String,
    /// Whether it only answers: it takes up no work, so whoever has some waits until it is gone.
    #[serde(default)]
    pub(crate) only_looks: bool,
}

/// Where a data directory's server writes its address.
pub(crate) fn address_file(data_dir: &Path) -> PathBuf {
    data_dir.join("server.json")
}

/// Models that a key in the environment makes available, when none are configured.
const BUILT_IN: [(&str, llm::Provider, &str); 3] = [
    ("anthropic", llm::Provider::Anthropic, "claude-sonnet-4-5"),
    ("openai", llm::Provider::OpenAiResponses, "gpt-5"),
    ("gemini", llm::Provider::Gemini, "gemini-2.5-pro"),
];

/// The configured models; without any, those that a key in the environment makes available.
pub(crate) fn models(config: &Config) -> Vec<llm::Model> {
    let secrets = config.secrets();
    if !config.models.is_empty() {
        let models = crate::config::in_order(&config.models).into_iter();
        return models.map(|(name, model)| model.callable(name, &secrets)).collect();
    }
    let built_in = |&(name, provider, model): &(&str, llm::Provider, &str)| {
        Some(crate::config::Model::new(provider, model).callable(name, &secrets)).filter(llm::Model::has_key)
    };
    BUILT_IN.iter().filter_map(built_in).collect()
}

impl Node {
    /// Starts a server. On error nothing of it is left.
    pub(crate) async fn start(
        config: &Config,
        listen: SocketAddr,
        duty: Duty,
        role: Role,
    ) -> anyhow::Result<Self> {
        // The port first: when it is taken nothing else has been touched.
        let listener = bind(listen).await.map_err(|error| bind_error(listen, &error))?;
        Self::start_on(config, listener, duty, role).await
    }

    /// On a port that is held already.
    pub(crate) async fn start_on(
        config: &Config,
        listener: TcpListener,
        duty: Duty,
        role: Role,
    ) -> anyhow::Result<Self> {
        raise_open_files();
        let address = listener.local_addr()?;
        let access = access(config)?;
        access.check(address).map_err(|error| {
            Usage(anyhow!("{error}\n  (the token is read from the variable {})", config.server.token_env))
        })?;
        let people = people(config)?;
        let sessions = sessions(config, duty, role).await?;
        let mut options = server::Options::new(sessions.clone(), access);
        options.local_user = user();
        options.allowed_hosts = config.server.allowed_hosts.clone();
        options.people = people;
        options.limits.sockets_per_user = config.server.sockets_per_user;
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(server::serve(listener, options, shutdown.clone().cancelled_owned()));
        let url = format!("http://{address}");
        let address_file = address_file(&config.server.data_dir);
        let only_looks = duty == Duty::Look;
        let node = Self { url, sessions, shutdown, serving, address_file, only_looks };
        if role == Role::Moment {
            return Ok(node);
        }
        if role == Role::Server {
            crate::memory::give_back_now_and_then(node.shutdown.clone());
        }
        if let Err(error) = write_address(&node.address(), &node.address_file) {
            // On a full disk people still want to look at what there is, and turns that go on are not to end for this.
            tracing::warn!(
                "{error:#}; commands on this machine find the server only with --server {}, until there is room",
                node.url
            );
            node.write_address_later();
        }
        Ok(node)
    }

    /// Tries again until it can be written or the server ends.
    fn write_address_later(&self) {
        const AGAIN: Duration = Duration::from_secs(5);
        let (address, file) = (self.address(), self.address_file.clone());
        let shutdown = self.shutdown.clone();
        drop(tokio::spawn(async move {
            while shutdown.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_some() {
                if write_address(&address, &file).is_ok() {
                    tracing::info!("commands on this machine find the server now");
                    return;
                }
            }
        }));
    }

    fn address(&self) -> Address {
        Address {
            url: self.url.clone(),
            pid: std::process::id(),
            instance: server::instance().to_owned(),
            only_looks: self.only_looks,
        }
    }

    /// Whether a session is being worked on, or about to be.
    pub(crate) async fn busy(&self) -> bool {
        let sessions = self.sessions.list().await.unwrap_or_default();
        sessions.iter().any(is_under_way)
    }

    /// Ends the server.
    pub(crate) async fn stop(self, mode: ShutDown) -> anyhow::Result<()> {
        // From here on nobody finds us, if anybody did.
        match std::fs::remove_file(&self.address_file) {
            Ok(()) if self.only_looks => tokio::time::sleep(FAREWELL).await,
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", self.address_file.display());
            }
            _ => {}
        }
        self.sessions.shut_down(mode).await;
        self.shutdown.cancel();
        self.serving.await.context("the server broke down")?.context("the server ended with an error")
    }
}

/// Whether a session goes on without anybody doing something. What is paused waits for a person, as what is to be approved
/// does.
pub(crate) fn is_under_way(session: &Session) -> bool {
    match session.status {
        Status::Working => true,
        Status::Queued => !session.paused,
        _ => false,
    }
}

/// Every socket is a file, and so is every log in use: the soft limit of most systems is for programs that use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

fn write_address(address: &Address, file: &Path) -> anyhow::Result<()> {
    let temporary = file.with_extension("new");
    let written = serde_json::to_vec(address)
        .map_err(std::io::Error::from)
        .and_then(|text| std::fs::write(&temporary, text))
        .and_then(|()| std::fs::rename(&temporary, file));
    if written.is_err()
        && let Err(error) = std::fs::remove_file(&temporary)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove {}: {error}", temporary.display());
    }
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// Listens. A program that a server was just starting when it was killed has its port for a moment, so one that is taken is
/// waited for a little.
async fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    const AFTERLIFE: Duration = Duration::from_secs(1);
    let deadline = Instant::now() + AFTERLIFE;
    loop {
        match TcpListener::bind(listen).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bound => return bound,
        }
    }
}

fn bind_error(listen: SocketAddr, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow!(
            "{listen} is taken by another program\n  is slipway running already? otherwise choose another address with --listen, \
             or with listen in [server] of slipway.toml"
        ),
        std::io::ErrorKind::AddrNotAvailable => anyhow!(
            "this machine has no address {}\n  choose one of its own with --listen, such as 127.0.0.1:{}",
            listen.ip(),
            listen.port()
        ),
        std::io::ErrorKind::PermissionDenied => {
            anyhow!("this user may not listen on {listen}\n  choose a port above 1023")
        }
        _ => anyhow!("cannot listen on {listen}: {error}"),
    }
}

fn access(config: &Config) -> anyhow::Result<server::Access> {
    match std::env::var(&config.server.token_env) {
        Ok(token) if !token.is_empty() => {
            let secret = server::Secret::new(token.trim()).map_err(|error| Usage(error.into()))?;
            Ok(server::Access::Token(secret))
        }
        _ => Ok(server::Access::Loopback),
    }
}

/// People with tokens of their own.
fn people(config: &Config) -> anyhow::Result<Vec<(String, server::Secret)>> {
    let secret = |(name, variable): (&String, &String)| {
        let token = std::env::var(variable).unwrap_or_default();
        let secret = server::Secret::new(token.trim()).map_err(|_| {
            Usage(anyhow!(
                "[server.tokens] takes the token of {name} from the variable {variable}, which is not set or holds what \
                 cannot be a token\n  set it, such as to the output of `openssl rand -hex 32`"
            ))
        })?;
        Ok((name.clone(), secret))
    };
    config.server.tokens.iter().map(secret).collect()
}

async fn sessions(config: &Config, duty: Duty, role: Role) -> anyhow::Result<Sessions> {
    let data_dir = &config.server.data_dir;
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(data_dir)
        .map_err(|error| {
            anyhow!(
                "cannot make the data directory {}: {error}\n  choose another with --data-dir, or data_dir in [server] of slipway.toml",
                data_dir.display()
            )
        })?;
    let store = store::Store::open_with(data_dir, config.secret_key()).map_err(|error| match error {
        store::Error::Damaged { .. } => {
            let problem = session::store_problem(error);
            anyhow!("{}\n  {}", problem.title, problem.hint.unwrap_or_default())
        }
        other => other.into(),
    })?;
    let driver = sandbox::native::Native::open(&data_dir.join("native"))?;
    let missing = driver.cgroups().missing();
    if !missing.is_empty() {
        tracing::warn!(
            "no control groups for {}: sandboxes are limited by process only (see: slipway doctor)",
            missing.join(", ")
        );
    }
    if store.secrets().key_is_exposed() {
        let file = store.secrets().key_file().display();
        tracing::warn!("others than its owner may read {file}, which opens the secrets: chmod 600 {file}");
    }
    for (name, model) in &config.models {
        if let Some(why) = model.lacks_key(store.secrets()) {
            tracing::warn!("[models.{name}] has no key: {why}");
        }
    }
    let models = models(config);
    let named = Some(config.agent.model.clone()).filter(|name| !name.is_empty());
    let known: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    if let Some((task, name)) = config.routes.unknown(&known) {
        let task = task.as_str();
        tracing::warn!("[routes] {task} = \"{name}\" is no model: is its key set? The session's own does it");
    }
    let named = named.or_else(|| config.routes.code.clone());
    let default_model = named.or_else(|| models.first().map(|model| model.name.clone()));
    let native = data_dir.join("native");
    let driver: Arc<dyn sandbox::Driver> = Arc::new(driver);
    let outbox = config.outbox().map_err(Usage)?;
    if let Some(why) = config.memory.lacks_key(store.secrets()) {
        tracing::warn!("[memory.embedding] has no key: {why}");
    }
    let memory = config.memory.options(store.secrets());
    let author = author();
    let options = session::Options {
        store,
        images: Arc::new(sandbox::image::Images::open(&native.join("images"), Arc::clone(&driver))?),
        pool: sandbox::pool::Pool::new(Arc::clone(&driver)),
        snapshots: Arc::new(sandbox::snapshot::Snapshots::open(
            &native.join("snapshots"),
            Arc::clone(&driver),
        )?),
        outside: config.sandbox.outside()?,
        disk: config.sandbox.garbage(),
        pool_size: config.sandbox.pool,
        rebuild: Duration::from_secs(config.sandbox.rebuild_s),
        prebuild: role == Role::Server,
        driver,
        models,
        default_model,
        routes: config.routes.clone(),
        mirrors: forge::Mirrors::new(&data_dir.join("mirrors")).with_logins(outbox.forges.clone()),
        environments: config.environments.clone().into_iter().collect(),
        limits: config.sandbox.limits(),
        turn: agent::Limits {
            rounds: config.agent.check_rounds,
            max_output_tokens: config.agent.max_output_tokens,
        },
        budgets: config.budget.budgets().map_err(Usage)?,
        command_timeout: Duration::from_secs(config.agent.command_timeout_s),
        idle: Duration::from_secs(config.sandbox.idle_s),
        sleep: SLEEP,
        people: config.people(user(), &author),
        author,
        outbox,
        maps: config.agent.maps(),
        memory,
        mcp: crate::config::mcp_servers(config).map_err(Usage)?,
        duty,
    };
    Ok(Sessions::start(options).await?)
}

/// Name of the one local user.
fn user() -> String {
    ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "local".to_owned())
}

/// Commits carry the name that the user gave to git.
fn author() -> session::Author {
    let asked = ["config", "--global", "--null", "--get-regexp", r"^user\.(name|email)$"];
    let output = std::process::Command::new("git").args(asked).output();
    // Without git there is nothing to commit either, and whoever needs it says so.
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let configured = |key: &str| {
        let values = said.split('\0').filter_map(|entry| entry.split_once('\n'));
        let value = values.rev().find(|(name, _)| *name == key)?.1.trim().to_owned();
        (!value.is_empty()).then_some(value)
    };
    let user = user();
    session::Author {
        name: configured("user.name").unwrap_or_else(|| user.clone()),
        email: configured("user.email").unwrap_or_else(|| format!("{user}@localhost")),
    }
}
