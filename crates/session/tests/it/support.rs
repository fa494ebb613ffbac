//! One server's worth of parts in a temporary directory, and ways to wait for what happens in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::event::Delivery;
use protocol::item::ToolCall;
use protocol::{
    Actor, Check, CreateSession, Environment, Event, EventBody, Item, ItemKind, Outcome, Receipt,
    Repo as RepoSpec, SessionId,
};
use sandbox::Driver;
use sandbox::native::Native;
use sandbox::snapshot::Snapshots;
use session::{Author, Feed, Options, Sessions, ShutDown};
use testkit::model::{Script, Server};
use testkit::repo::Repo;

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The parts of one server. What is left of its sandboxes goes when it is dropped.
pub(crate) struct World {
    pub(crate) repo: Repo,
    pub(crate) model: Server,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) driver: Arc<dyn Driver>,
    environment: Environment,
    idle: Duration,
    sleep: Duration,
    base_url: String,
    prebuild: bool,
    rebuild: Duration,
    disk: sandbox::gc::Policy,
    pub(crate) outbox: session::Outbox,
    overrides: llm::Overrides,
    others: Vec<llm::Model>,
    routes: session::Routes,
    budgets: protocol::Budgets,
    outside: Arc<dyn sandbox::egress::Outside>,
    price: Option<llm::Price>,
    memory: session::MemoryOptions,
    pub(crate) mcp: Vec<mcp::Server>,
    command_timeout: Duration,
    pub(crate) people: session::People,
}

impl World {
    /// The plain repository with its check, and a model that follows the script.
    pub(crate) async fn new(script: Script) -> Self {
        Self::with(Repo::plain(), script).await
    }

    pub(crate) async fn with(repo: Repo, script: Script) -> Self {
        // What a server only logs is beside a failure, too. Another world of this process may have asked for it.
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_test_writer();
        drop(log.try_init());
        let dir = tempfile::tempdir().unwrap();
        let driver = Arc::new(Native::open(&dir.path().join("sandbox")).unwrap());
        let environment = Environment {
            repos: vec![RepoSpec::at(repo.url())],
            checks: vec![Check { name: "test".into(), run: "./check.sh".into(), parser: "auto".into() }],
            ..Environment::default()
        };
        let model = Server::start(script).await;
        let base_url = model.url();
        let (idle, prebuild, rebuild) = (Duration::from_secs(600), false, Duration::from_secs(1800));
        let sleep = Duration::from_secs(60);
        let (outbox, disk) = (session::Outbox::default(), sandbox::gc::Policy::default());
        let overrides = llm::Overrides::default();
        Self {
            repo,
            model,
            dir,
            driver,
            environment,
            idle,
            sleep,
            base_url,
            prebuild,
            rebuild,
            disk,
            outbox,
            overrides,
            others: Vec::new(),
            routes: session::Routes::default(),
            budgets: protocol::Budgets::default(),
            outside: Arc::new(Nowhere),
            price: None,
            memory: session::MemoryOptions::default(),
            mcp: Vec::new(),
            command_timeout: Duration::from_secs(60),
            people: session::People::default(),
        }
    }

    /// With commands that may take this long.
    pub(crate) fn command_timeout(mut self, limit: Duration) -> Self {
        self.command_timeout = limit;
        self
    }

    /// With another way to remember.
    pub(crate) fn memory(mut self, memory: session::MemoryOptions) -> Self {
        self.memory = memory;
        self
    }

    /// With a model that costs this much.
    pub(crate) fn price(mut self, price: llm::Price) -> Self {
        self.price = Some(price);
        self
    }

    /// With another network.
    pub(crate) fn outside(mut self, outside: impl sandbox::egress::Outside + 'static) -> Self {
        self.outside = Arc::new(outside);
        self
    }

    /// With a model of which this is known.
    pub(crate) fn profile(mut self, overrides: llm::Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// With another model beside the first.
    pub(crate) fn also(mut self, model: llm::Model) -> Self {
        self.others.push(model);
        self
    }

    /// With models for tasks.
    pub(crate) fn routes(mut self, routes: session::Routes) -> Self {
        self.routes = routes;
        self
    }

    /// With sessions that may use this much.
    pub(crate) fn budgets(mut self, budgets: protocol::Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// With images and warm sandboxes that are made without being asked.
    pub(crate) fn prebuild(mut self) -> Self {
        self.prebuild = true;
        self
    }

    /// With other things in the environment.
    pub(crate) fn environment(mut self, change: impl FnOnce(&mut Environment)) -> Self {
        change(&mut self.environment);
        self
    }

    /// With a model somewhere else.
    pub(crate) fn model_at(mut self, url: &str) -> Self {
        self.base_url = url.to_owned();
        self
    }

    /// With sandboxes that are stopped after this long without a turn.
    pub(crate) fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// With sessions that leave memory after this long without use.
    pub(crate) fn sleep(mut self, sleep: Duration) -> Self {
        self.sleep = sleep;
        self
    }

    /// With images that are looked after as often as can be.
    pub(crate) fn rebuild(mut self, rebuild: Duration) -> Self {
        self.rebuild = rebuild;
        self
    }

    /// With so many bytes of disk for all sandboxes and snapshots.
    pub(crate) fn budget(mut self, bytes: u64) -> Self {
        self.disk.budget_bytes = bytes;
        self
    }

    /// Makes everybody who reads the repository wait.
    pub(crate) fn block_repository(&self) -> Blocked {
        let head = self.repo.path().join("HEAD");
        let (aside, pipe) = (head.with_extension("aside"), head.with_extension("pipe"));
        std::fs::rename(&head, &aside).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Open for both, so that readers wait for words and not for a writer.
        let writer = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
        std::fs::rename(&pipe, &head).unwrap();
        Blocked { head, aside, writer }
    }

    /// Starts a server. The one before it must be gone.
    pub(crate) async fn start(&self) -> Sessions {
        let model = llm::Model {
            name: "main".into(),
            provider: llm::Provider::OpenAiCompatible,
            model: "scripted".into(),
            base_url: Some(self.base_url.clone()),
            key: None,
            headers: BTreeMap::new(),
            price: self.price,
            overrides: self.overrides.clone(),
        };
        let dir = self.dir.path().join("sandbox");
        let images = sandbox::image::Images::open(&dir.join("images"), Arc::clone(&self.driver))
            .unwrap()
            .with_pause(Duration::from_millis(10));
        let snapshots = Snapshots::open(&dir.join("snapshots"), Arc::clone(&self.driver)).unwrap();
        let options = Options {
            store: self.open_store().await,
            driver: Arc::clone(&self.driver),
            images: Arc::new(images),
            pool: sandbox::pool::Pool::new(Arc::clone(&self.driver)),
            snapshots: Arc::new(snapshots),
            outside: Arc::clone(&self.outside),
            disk: self.disk.clone(),
            pool_size: 1,
            rebuild: self.rebuild,
            prebuild: self.prebuild,
            models: std::iter::once(model).chain(self.others.clone()).collect(),
            default_model: Some("main".into()),
            routes: self.routes.clone(),
            mirrors: forge::Mirrors::new(&self.dir.path().join("mirrors"))
                .with_logins(self.outbox.forges.clone()),
            environments: vec![("plain".into(), self.environment.clone())],
            limits: sandbox::Limits::default(),
            turn: agent::Limits { rounds: 3, max_output_tokens: 4096 },
            budgets: self.budgets,
            command_timeout: self.command_timeout,
            idle: self.idle,
            sleep: self.sleep,
            author: Author::default(),
            people: self.people.clone(),
            outbox: self.outbox.clone(),
            maps: None,
            memory: self.memory.clone(),
            mcp: self.mcp.clone(),
            duty: session::Duty::Work,
        };
        Sessions::start(options).await.unwrap()
    }

    /// The tasks of a server that was dropped take a moment to let go of the directory.
    async fn open_store(&self) -> store::Store {
        let began = std::time::Instant::now();
        loop {
            match store::Store::open(&self.dir.path().join("data")) {
                Ok(store) => return store,
                Err(store::Error::Locked { .. }) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until a sandbox that nobody has was removed, which a server does beside its work.
    pub(crate) async fn until_gone(&self, sandbox: protocol::SandboxId) {
        let began = std::time::Instant::now();
        while self.driver.list().await.unwrap().iter().any(|info| info.id == sandbox) {
            assert!(began.elapsed() < PATIENCE, "a sandbox that belongs to nobody is still there");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the server and sees that it leaves no sandbox.
    pub(crate) async fn end(&self, sessions: Sessions) {
        sessions.shut_down(ShutDown::RemoveSandboxes).await;
        let left = self.driver.list().await.unwrap();
        assert!(left.is_empty(), "no sandbox is left: {left:#?}");
    }
}

/// A repository that nobody can read.
pub(crate) struct Blocked {
    head: std::path::PathBuf,
    aside: std::path::PathBuf,
    writer: std::fs::File,
}

impl Blocked {
    /// Lets everybody go on.
    pub(crate) fn release(mut self) {
        use std::io::Write as _;
        std::fs::rename(&self.aside, &self.head).unwrap();
        self.writer.write_all(b"ref: refs/heads/main\n").unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let driver = Arc::clone(&self.driver);
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for info in driver.list().await.unwrap_or_default() {
                    drop(driver.remove(info.id).await);
                }
            });
        };
        drop(std::thread::spawn(clean).join());
    }
}

/// A network in which every name has a public address and nothing answers.
struct Nowhere;

#[async_trait::async_trait]
impl sandbox::egress::Outside for Nowhere {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec![std::net::IpAddr::from([203, 0, 113, 7])])
    }

    async fn connect(&self, _: std::net::SocketAddr) -> std::io::Result<tokio::net::TcpStream> {
        Err(std::io::ErrorKind::ConnectionRefused.into())
    }

    fn roots(&self) -> Arc<rustls::RootCertStore> {
        Arc::new(rustls::RootCertStore::empty())
    }
}

pub(crate) fn ann() -> Actor {
    Actor::user("ann")
}

/// A new session with this prompt.
pub(crate) async fn create(sessions: &Sessions, prompt: &str) -> SessionId {
    let request = CreateSession {
        environment: "plain".into(),
        prompt: prompt.into(),
        images: Vec::new(),
        model: None,
        budgets: None,
        policy: None,
    };
    sessions.create(ann(), request).await.unwrap().id
}

/// A session's events as they come.
pub(crate) struct Follow {
    feed: Feed,
    pub(crate) events: Vec<Event>,
}

impl Follow {
    pub(crate) async fn new(sessions: &Sessions, id: SessionId) -> Self {
        Self { feed: sessions.feed(id, 0).await.unwrap(), events: Vec::new() }
    }

    /// The next durable event.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let frame = self.frame().await;
            if frame.seq.is_some() {
                let event: Event = serde_json::from_str(&frame.json).unwrap();
                assert_eq!(event.seq, self.events.len() as u64 + 1, "no gap, no double");
                self.events.push(event.clone());
                return event;
            }
        }
    }

    async fn frame(&mut self) -> session::Frame {
        match tokio::time::timeout(PATIENCE, self.feed.next()).await {
            Ok(frame) => frame.unwrap().expect("the feed goes on"),
            Err(_) => panic!("nothing happens any more; so far: {:#?}", self.events),
        }
    }

    /// Waits until a text in flight has this in it.
    pub(crate) async fn text(&mut self, wanted: &str) {
        loop {
            let frame = self.frame().await;
            match frame.seq {
                Some(_) => self.events.push(serde_json::from_str(&frame.json).unwrap()),
                None if frame.json.contains(wanted) => return,
                None => {}
            }
        }
    }

    /// Waits for an event.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&EventBody) -> bool) -> Event {
        loop {
            let event = self.next().await;
            if wanted(&event.body) {
                return event;
            }
        }
    }

    /// Waits for the end of the turn under way.
    pub(crate) async fn finished(&mut self) -> Finished {
        match self.until(|body| matches!(body, EventBody::TurnFinished { .. })).await.body {
            EventBody::TurnFinished { outcome, reason, receipt, .. } => Finished { outcome, reason, receipt },
            _ => unreachable!(),
        }
    }

    /// Completed items, in order.
    pub(crate) fn items(&self) -> Vec<&Item> {
        self.events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::ItemCompleted { item, .. } => Some(item),
                _ => None,
            })
            .collect()
    }

    /// Completed tool calls, in order.
    pub(crate) fn calls(&self) -> Vec<(&Item, &ToolCall)> {
        let call = |item| match item {
            &Item { kind: ItemKind::ToolCall(ref call), .. } => Some((item, call)),
            _ => None,
        };
        self.items().into_iter().filter_map(call).collect()
    }

    /// The text that the last call gave.
    pub(crate) fn last_output(&self) -> String {
        let (_, call) = *self.calls().last().unwrap();
        call.output.as_ref().unwrap().text.clone()
    }

    /// The names of the events, in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.body.name()).collect()
    }

    /// Delivery updates, in order.
    pub(crate) fn deliveries(&self) -> Vec<&Delivery> {
        self.events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::DeliveryUpdated(delivery) => Some(delivery),
                _ => None,
            })
            .collect()
    }
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    pub(crate) receipt: Receipt,
}
