//! The ways out of sessions' sandboxes: each has a proxy of its own, whose decisions become events of the session, and
//! what was refused is remembered for each environment, so that a person can allow it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::event::EgressDecision;
use protocol::{Actor, Egress, EgressStatus, Environment, EventBody, Problem, SandboxId};
use sandbox::egress::{
    Decision, FetchError, Fetched, Log, Narrowing, Outside, Placeholders, Proxy, Refusal, Refusals, Rules,
    Secret, Sink,
};
use sandbox::{Sandbox, image};

use crate::books::Books;
use crate::command::Command;
use crate::problem;
use crate::recorder::Recorder;

/// Most refusals that one command is told of.
const TOLD: usize = 50;

/// The way out of one sandbox. Dropping it ends every connection.
pub(crate) struct Exit {
    environment: String,
    proxy: Proxy,
    secrets: Vec<protocol::Secret>,
    refused: Arc<Mutex<Refusals>>,
    /// What policies refuse of what the environment allows.
    narrowing: Mutex<Narrowing>,
    /// Tells what it has not told yet when it goes.
    log: Log,
}

impl Exit {
    /// Where to connect to, and what to trust, for the processes inside.
    pub(crate) async fn put_in(&self, sandbox: &dyn Sandbox) -> Result<(), guest::Error> {
        if let Some(bundle) = self.proxy.ca_bundle() {
            sandbox.guest().write_file(sandbox::egress::CA_BUNDLE, bundle.into()).await?;
        }
        sandbox.guest().set_env(&self.proxy.variables()).await
    }

    /// Fetches a page as a program in the sandbox could.
    pub(crate) async fn fetch(&self, url: &str, most: usize) -> Result<Fetched, FetchError> {
        self.proxy.fetch(url, most).await
    }

    /// Changes what policies refuse, from the next connection on.
    pub(crate) fn narrow(&self, narrowing: Narrowing) {
        let mut known = lock(&self.narrowing);
        self.proxy.narrow(narrowing.clone());
        *known = narrowing;
    }

    /// Name of the environment.
    pub(crate) fn environment(&self) -> &str {
        &self.environment
    }

    /// What was refused since this was last asked, once each. Whoever watches is told of it now, and not when the turn is
    /// over.
    pub(crate) fn take_refused(&self) -> Vec<Refusal> {
        self.log.flush();
        std::mem::replace(&mut *lock(&self.refused), Refusals::new(TOLD)).list()
    }
}

/// Where an exit begins.
pub(crate) enum Door {
    /// At the proxy that a claimed sandbox has.
    Proxy(Proxy),
    /// At the sandbox's sockets.
    Sockets(sandbox::egress::Sockets),
}

/// The ways out of all sandboxes.
pub(crate) struct Exits {
    outside: Arc<dyn Outside>,
    books: Books,
    /// Where the key of the placeholders is.
    placeholders: PathBuf,
    stored: store::Secrets,
    open: Mutex<Vec<Weak<Exit>>>,
}

impl Exits {
    /// None is open yet; what was refused earlier is known.
    pub(crate) async fn new(outside: Arc<dyn Outside>, store: &store::Store) -> Result<Arc<Self>, Problem> {
        let books = Books::open(store.clone()).await.map_err(problem::store)?;
        let (placeholders, stored) = (store.placeholder_key(), store.secrets().clone());
        Ok(Arc::new(Self { outside, books, placeholders, stored, open: Mutex::default() }))
    }

    /// Opens the way out of a session's sandbox. Secrets are there from now on.
    pub(crate) fn open(
        &self,
        environment: &str,
        (rules, narrowing): (Rules, Narrowing),
        secrets: &[protocol::Secret],
        sandbox: SandboxId,
        door: Door,
        recorder: &Arc<Recorder>,
    ) -> Result<Arc<Exit>, sandbox::Error> {
        let rules = rules.narrowed(narrowing.clone());
        let (refused, narrowing) = (Arc::new(Mutex::new(Refusals::new(TOLD))), Mutex::new(narrowing));
        let log = log(sandbox, Arc::clone(recorder));
        let sink = self.sink(environment, sandbox, &log, Arc::clone(&refused));
        let proxy = match door {
            Door::Proxy(proxy) => {
                proxy.set_rules(rules.of(environment));
                proxy.set_sink(sink);
                proxy
            }
            Door::Sockets(sockets) => {
                Proxy::start(sockets, rules.of(environment), Arc::clone(&self.outside), sink)?
            }
        };
        let values = self.secrets(environment, secrets)?;
        if !values.is_empty() {
            proxy.set_secrets(values)?;
        }
        let (environment, secrets) = (environment.to_owned(), secrets.to_vec());
        let exit = Arc::new(Exit { environment, proxy, secrets, refused, narrowing, log });
        let mut open = lock(&self.open);
        open.retain(|exit| exit.strong_count() > 0);
        open.push(Arc::downgrade(&exit));
        Ok(exit)
    }

    /// The secrets of an environment with their values. What stands for one inside is the same wherever and whenever.
    fn secrets(
        &self,
        environment: &str,
        recipes: &[protocol::Secret],
    ) -> Result<Vec<Secret>, sandbox::Error> {
        if recipes.is_empty() {
            return Ok(Vec::new());
        }
        let placeholders = Placeholders::open(&self.placeholders)?;
        let stored = |name: &str| {
            let value = self.stored.get(name).map_err(|error| (error.to_string(), error.hint()))?;
            Ok(value.as_bytes().to_vec())
        };
        let read = |recipe: &protocol::Secret| {
            let placeholder = placeholders.of(environment, &recipe.name);
            Secret::read(recipe, &stored).map(|secret| secret.known_as(placeholder))
        };
        recipes.iter().map(read).collect()
    }

    /// What the steps of a build can reach; None for nothing.
    pub(crate) fn of_a_build(
        &self,
        name: &str,
        environment: &Environment,
    ) -> Result<Option<image::Egress>, Problem> {
        if environment.egress == Egress::None {
            return Ok(None);
        }
        let rules = Rules::parse(&environment.egress).map_err(|error| problem::recipe(&error))?;
        let secrets = self.secrets(name, &environment.secrets);
        let (book, sandbox) = (self.books.of(name), SandboxId::new());
        Ok(Some(image::Egress {
            rules: rules.of(name),
            secrets: secrets.map_err(|error| problem::sandbox(&error))?,
            outside: Arc::clone(&self.outside),
            sink: Arc::new(move |decision: Decision| book.note(&event(sandbox, &decision))),
        }))
    }

    /// Remembers what a sandbox of an environment was refused whose proxy is not ours.
    pub(crate) async fn note(
        &self,
        environment: &str,
        decisions: &[EgressDecision],
        command: Option<Command>,
    ) {
        let book = self.books.of(environment);
        match command {
            Some(command) => book.note_for(command, decisions).await,
            None => decisions.iter().for_each(|decision| book.note(decision)),
        }
    }

    /// Changes what is allowed in the sandboxes of an environment that run.
    pub(crate) fn set_rules(&self, environment: &str, rules: &Rules) {
        for exit in lock(&self.open).iter().filter_map(Weak::upgrade) {
            if exit.environment == environment {
                let narrowing = lock(&exit.narrowing);
                exit.proxy.set_rules(rules.clone().of(environment).narrowed(narrowing.clone()));
            }
        }
        self.books.of(environment).forget_allowed(rules);
    }

    /// A secret of the store has another value: sandboxes that run have it from their next request on.
    pub(crate) fn secret_changed(&self, name: &str) {
        for exit in lock(&self.open).iter().filter_map(Weak::upgrade) {
            let is_it = |recipe: &&protocol::Secret| recipe.secret.as_deref() == Some(name);
            let recipes: Vec<_> = exit.secrets.iter().filter(is_it).cloned().collect();
            match self.secrets(&exit.environment, &recipes) {
                Ok(values) => exit.proxy.renew_secrets(values),
                Err(error) => tracing::warn!(
                    secret = name,
                    environment = exit.environment,
                    %error,
                    "sandboxes that run keep the value that a secret had before"
                ),
            }
        }
    }

    /// An environment is gone, and with it what it was refused.
    pub(crate) fn forget(&self, environment: &str) {
        self.books.of(environment).forget();
    }

    /// Writes what is only remembered so far.
    pub(crate) async fn flush(&self) {
        self.books.flush().await;
    }

    /// What is allowed, and what was refused.
    pub(crate) fn status(&self, environment: &str, egress: Egress) -> EgressStatus {
        EgressStatus { egress, refused: self.books.of(environment).list(), note: None }
    }

    fn sink(&self, environment: &str, sandbox: SandboxId, log: &Log, refused: Arc<Mutex<Refusals>>) -> Sink {
        let (book, log) = (self.books.of(environment), log.sink());
        Arc::new(move |decision: Decision| {
            book.note(&event(sandbox, &decision));
            lock(&refused).note(&decision);
            log(decision);
        })
    }
}

/// Records decisions as events of the session, those alike as one.
fn log(sandbox: SandboxId, recorder: Arc<Recorder>) -> Log {
    let runtime = tokio::runtime::Handle::current();
    Log::new(sandbox, move |decisions| {
        let recorder = Arc::clone(&recorder);
        let bodies = decisions.into_iter().map(EventBody::EgressDecided).collect();
        drop(runtime.spawn(async move {
            if let Err(error) = recorder.append(&Actor::system(), bodies).await {
                tracing::warn!(%sandbox, %error, "decisions on connections could not be recorded");
            }
        }));
    })
}

fn event(sandbox: SandboxId, decision: &Decision) -> EgressDecision {
    let Decision { host, port, allowed, rule, connections, sent, received, .. } = decision.clone();
    EgressDecision { sandbox, host, port, allowed, rule, connections, sent, received }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
