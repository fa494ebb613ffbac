//! A server on a free port over real sessions. The machine it plays has no sandboxes, which is a state a real one can
//! be in: turns fail with that reason.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocol::{Actor, CreateSession, Environment, Repo, SandboxId, SessionId};
use sandbox::{Driver, Error, Info, Layer, LayerId, Sandbox, Save, Spec};
use server::{Access, Options, Secret};
use session::Sessions;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) sessions: Sessions,
    pub(crate) repository: String,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<()>>,
    _repository: testkit::repo::Repo,
    _directory: tempfile::TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with_token(token: &str) -> Self {
        Self::serve(Access::Token(Secret::new(token).unwrap()), |_| ()).await
    }

    /// With other options.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        Self::serve(Access::Loopback, change).await
    }

    /// On a machine that has sandboxes.
    pub(crate) async fn start_with_sandboxes() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let driver = Arc::new(sandbox::native::Native::open(&directory.path().join("native")).unwrap());
        Self::serve_in(directory, driver, Access::Loopback, |_| ()).await
    }

    /// With its data in this directory.
    pub(crate) async fn start_in(directory: tempfile::TempDir) -> Self {
        Self::serve_in(directory, Arc::new(NoSandboxes), Access::Loopback, |_| ()).await
    }

    async fn serve(access: Access, change: impl FnOnce(&mut Options)) -> Self {
        Self::serve_in(tempfile::tempdir().unwrap(), Arc::new(NoSandboxes), access, change).await
    }

    async fn serve_in(
        directory: tempfile::TempDir,
        driver: Arc<dyn Driver>,
        access: Access,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let repository = testkit::repo::Repo::plain();
        let url = repository.url();
        let sessions = Sessions::start(session_options(directory.path(), &url, driver)).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut options = Options::new(sessions.clone(), access);
        change(&mut options);
        let ended = tokio::spawn(server::serve(listener, options, stopped));
        Self {
            address,
            sessions,
            repository: url,
            stop,
            ended,
            _repository: repository,
            _directory: directory,
        }
    }

    /// A new session, with a prompt that waits or has failed already.
    pub(crate) async fn session(&self) -> SessionId {
        let request = CreateSession {
            environment: "shop".into(),
            prompt: "fix the test".into(),
            images: Vec::new(),
            model: None,
            budgets: None,
            policy: None,
        };
        self.sessions.create(Actor::user("local"), request).await.unwrap().id
    }

    /// The same server with its data, after something was done to the log of a session while it was down.
    pub(crate) async fn again(self, session: SessionId, change: impl FnOnce(&std::path::Path)) -> Self {
        let Self { sessions, stop, ended, _directory: directory, .. } = self;
        stop.send(()).unwrap();
        ended.await.unwrap().unwrap();
        sessions.shut_down(session::ShutDown::KeepSandboxes).await;
        let log = sessions.store().session_dir(session).join("log.db");
        drop(sessions);
        // The files are closed when the last of those who use them is gone.
        while matches!(store::Store::open(directory.path()), Err(store::Error::Locked(_))) {
            tokio::task::yield_now().await;
        }
        change(&log);
        Self::serve_in(directory, Arc::new(NoSandboxes), Access::Loopback, |_| ()).await
    }

    /// The number of the last event, when nothing more comes by itself.
    pub(crate) async fn settled(&self, session: SessionId) -> u64 {
        let mut feed = self.sessions.feed(session, 0).await.unwrap();
        loop {
            let frame = feed.next().await.unwrap().unwrap();
            if let Some(seq) = frame.seq
                && frame.kind == "turn.finished"
                // The log can be read a moment before its last event is folded.
                && self.sessions.get(session).await.unwrap().seq <= seq
            {
                return seq;
            }
        }
    }

    /// Ends the server and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

fn session_options(
    directory: &std::path::Path,
    repository: &str,
    driver: Arc<dyn Driver>,
) -> session::Options {
    let repos = vec![Repo { url: repository.to_owned(), branch: None, path: None }];
    let images = sandbox::image::Images::open(&directory.join("images"), Arc::clone(&driver)).unwrap();
    let snapshots =
        sandbox::snapshot::Snapshots::open(&directory.join("snapshots"), Arc::clone(&driver)).unwrap();
    session::Options {
        store: store::Store::open(directory).unwrap(),
        images: Arc::new(images),
        pool: sandbox::pool::Pool::new(Arc::clone(&driver)),
        snapshots: Arc::new(snapshots),
        outside: Arc::new(sandbox::egress::Internet),
        disk: sandbox::gc::Policy::default(),
        pool_size: 0,
        rebuild: Duration::from_secs(1800),
        prebuild: false,
        driver,
        models: vec![llm::Model {
            name: "main".into(),
            provider: llm::Provider::OpenAiCompatible,
            model: "none".into(),
            base_url: Some("http://127.0.0.1:9/v1".into()),
            key: None,
            headers: Default::default(),
            price: None,
            overrides: llm::Overrides::default(),
        }],
        default_model: Some("main".into()),
        routes: session::Routes::default(),
        mirrors: forge::Mirrors::new(&directory.join("mirrors")),
        environments: vec![("shop".into(), Environment { repos, ..Environment::default() })],
        limits: sandbox::Limits::default(),
        turn: agent::Limits { rounds: 1, max_output_tokens: 100 },
        budgets: protocol::Budgets::default(),
        command_timeout: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        sleep: Duration::from_secs(60),
        author: session::Author::default(),
        people: session::People::default(),
        outbox: session::Outbox::default(),
        maps: None,
        memory: session::MemoryOptions::default(),
        mcp: Vec::new(),
        duty: session::Duty::Work,
    }
}

struct NoSandboxes;

#[async_trait::async_trait]
impl Driver for NoSandboxes {
    fn name(&self) -> &'static str {
        "none"
    }

    async fn create(&self, _: &Spec) -> Result<Arc<dyn Sandbox>, Error> {
        Err(Error::Start("this machine has no sandboxes".into()))
    }

    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        Err(Error::NotFound(id))
    }

    async fn list(&self) -> Result<Vec<Info>, Error> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: SandboxId) -> Result<(), Error> {
        Ok(())
    }

    async fn give(&self, id: SandboxId, _: &sandbox::Owner) -> Result<(), Error> {
        Err(Error::NotFound(id))
    }

    async fn save(&self, id: SandboxId, _: &LayerId, _: Save<'_>) -> Result<Layer, Error> {
        Err(Error::NotFound(id))
    }

    async fn layers(&self) -> Result<Vec<Layer>, Error> {
        Ok(Vec::new())
    }

    async fn layer(&self, _: &LayerId) -> Result<Option<Layer>, Error> {
        Ok(None)
    }

    async fn import(&self, _: &LayerId, _: &sandbox::Archive) -> Result<Layer, Error> {
        Err(Error::Start("this machine has no sandboxes".into()))
    }

    async fn squash(&self, _: &[LayerId], into: &LayerId) -> Result<Layer, Error> {
        Err(Error::NoLayer(into.clone()))
    }

    async fn remove_layer(&self, _: &LayerId) -> Result<(), Error> {
        Ok(())
    }
}
