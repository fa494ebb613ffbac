//! Our server, as the program has it: store, sessions, routes. Only the events come from here instead of from turns.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use protocol::{Actor, CreateSession, Environment, SessionId};
use sandbox::Driver;
use sandbox::native::Native;
use serde_json::{Value, json};
use session::{Sessions, ShutDown};
use testkit::model::{Reply, Script};
use testkit::repo::Repo;

use super::{Order, Orders, answer, message, now, read_message, stream};

/// The server with what it stands on.
struct World {
    sessions: Sessions,
    ids: Arc<Vec<SessionId>>,
    address: std::net::SocketAddr,
    script: tokio::sync::watch::Sender<u64>,
    /// Somebody who watches the noisy turn to its end.
    watcher: Option<tokio::task::JoinHandle<()>>,
    _model: testkit::model::Server,
    _repo: Repo,
    _dir: tempfile::TempDir,
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut orders = Orders::listen();
    let mut world = World::start().await?;
    while let Some(order) = orders.next().await? {
        let result = match order {
            Order::Make { sessions } => world.make(sessions).await,
            Order::Stream { rate, seconds } => world.stream(rate, seconds).await,
            Order::Flood { bytes } => world.flood(bytes).await,
            Order::Calm => world.calm().await,
            other => bail!("this process cannot do {other:?}"),
        };
        answer(result).await?;
    }
    world.sessions.shut_down(ShutDown::RemoveSandboxes).await;
    Ok(())
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
        let repo = Repo::plain();
        let (script, bytes) = tokio::sync::watch::channel(0);
        let model = testkit::model::Server::start(flooding(bytes)).await;
        let sessions = Sessions::start(options(dir.path(), &repo.url(), &model.url())?).await?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut served = server::Options::new(sessions.clone(), server::Access::Loopback);
        served.local_user = "bench".to_owned();
        served.limits.sockets_per_user = usize::MAX;
        drop(tokio::spawn(server::serve(listener, served, std::future::pending::<()>())));
        let ids = Arc::default();
        Ok(Self { sessions, ids, address, script, watcher: None, _model: model, _repo: repo, _dir: dir })
    }

    async fn make(&mut self, count: usize) -> anyhow::Result<Value> {
        let made = (0..count).map(|place| {
            let sessions = self.sessions.clone();
            async move { sessions.create_quiet(&format!("session {place}")).await }
        });
        // A few at a time, as people would.
        let made = futures_util::StreamExt::buffered(futures_util::stream::iter(made), 16);
        let ids: Vec<SessionId> = futures_util::TryStreamExt::try_collect(made).await?;
        let address = self.address;
        let sockets = ids.iter().map(|id| format!("ws://{address}/api/v1/sessions/{id}/socket?after=2"));
        let sockets: Vec<String> = sockets.collect();
        self.ids = Arc::new(ids);
        Ok(json!(sockets))
    }

    async fn stream(&self, rate: u32, seconds: u32) -> anyhow::Result<Value> {
        let (sessions, ids) = (self.sessions.clone(), Arc::clone(&self.ids));
        let send = move |place: usize, number| {
            let (sessions, id) = (sessions.clone(), ids[place]);
            async move {
                let text = message(number);
                let (_, sent) = read_message(&text).context("a message without its time")?;
                let on_disk = sessions.tell(id, text).await?;
                let on_disk = now() - u64::try_from(on_disk.elapsed().as_nanos())?;
                Ok((on_disk.saturating_sub(sent) as f64 / 1e6) as f32)
            }
        };
        Ok(json!(stream(self.ids.len(), rate, seconds, send).await?))
    }

    /// A turn in a real sandbox, whose output everybody could follow.
    async fn flood(&mut self, bytes: u64) -> anyhow::Result<Value> {
        self.script.send_replace(bytes);
        let request = CreateSession {
            environment: "plain".to_owned(),
            prompt: "Print a lot".to_owned(),
            images: Vec::new(),
            model: None,
            budgets: None,
            policy: None,
        };
        let session = self.sessions.create(Actor::user("bench"), request).await?;
        // It is under way when its first output shows.
        let mut feed = self.sessions.feed(session.id, 0).await?;
        loop {
            let frame = feed.next().await?.context("the server ended")?;
            match frame.kind {
                "delta" => break,
                "turn.finished" => bail!("the noisy turn ended at once: {:?}", frame.json),
                _ => {}
            }
        }
        self.watcher = Some(tokio::spawn(async move {
            while let Ok(Some(frame)) = feed.next().await {
                if frame.kind == "turn.finished" {
                    break;
                }
            }
        }));
        Ok(json!(session.id))
    }

    async fn calm(&mut self) -> anyhow::Result<Value> {
        if let Some(watcher) = self.watcher.take() {
            watcher.await?;
        }
        Ok(Value::Null)
    }
}

/// A model that asks for one command with a lot of output.
fn flooding(bytes: tokio::sync::watch::Receiver<u64>) -> Script {
    Script::from_fn(move |request, _| {
        let asked = request.messages.iter().any(|m| matches!(m, protocol::chat::Message::Assistant { .. }));
        let bytes = *bytes.borrow();
        let command = format!("yes 'a line of output of a build that says too much' | head -c {bytes}");
        if asked { Reply::text("Done.") } else { Reply::new().call("shell", json!({ "command": command })) }
    })
}

fn options(dir: &std::path::Path, repo: &str, model: &str) -> anyhow::Result<session::Options> {
    let native = dir.join("native");
    let driver: Arc<dyn Driver> = Arc::new(Native::open(&native)?);
    let repos = vec![protocol::Repo::at(repo)];
    Ok(session::Options {
        store: store::Store::open(&dir.join("data"))?,
        images: Arc::new(sandbox::image::Images::open(&native.join("images"), Arc::clone(&driver))?),
        pool: sandbox::pool::Pool::new(Arc::clone(&driver)),
        snapshots: Arc::new(sandbox::snapshot::Snapshots::open(
            &native.join("snapshots"),
            Arc::clone(&driver),
        )?),
        outside: Arc::new(sandbox::egress::Internet),
        disk: sandbox::gc::Policy::default(),
        pool_size: 0,
        rebuild: Duration::from_secs(1800),
        prebuild: false,
        driver,
        models: vec![llm::Model {
            name: "main".to_owned(),
            provider: llm::Provider::OpenAiCompatible,
            model: "scripted".to_owned(),
            base_url: Some(model.to_owned()),
            key: None,
            headers: Default::default(),
            price: None,
            overrides: llm::Overrides::default(),
        }],
        default_model: Some("main".to_owned()),
        routes: session::Routes::default(),
        mirrors: forge::Mirrors::new(&dir.join("mirrors")),
        environments: vec![("plain".to_owned(), Environment { repos, ..Environment::default() })],
        limits: sandbox::Limits::default(),
        turn: agent::Limits { rounds: 1, max_output_tokens: 100 },
        budgets: protocol::Budgets::default(),
        command_timeout: Duration::from_secs(600),
        idle: Duration::from_secs(600),
        sleep: Duration::from_secs(600),
        author: session::Author::default(),
        people: session::People::default(),
        outbox: session::Outbox::default(),
        maps: None,
        memory: session::MemoryOptions::default(),
        mcp: Vec::new(),
        duty: session::Duty::Work,
    })
}
