//! Finds the server of the data directory, or is one for the length of a command.

use std::time::{Duration, Instant};

use protocol::{Code, Problem};
use session::{Duty, ShutDown};

use crate::api::Api;
use crate::config::Config;
use crate::exit::{Interrupted, Usage};
use crate::interrupt::Interrupts;
use crate::node::{Address, Node, Role, address_file};
use crate::render::style;

/// A server that a command can talk to.
pub(crate) struct Link {
    pub(crate) api: Api,
    own: Option<Node>,
}

/// A server named on the command line, instead of the data directory's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remote {
    pub(crate) url: Option<String>,
}

impl Link {
    /// To the named server, else the one that runs on the data directory, else one in this process.
    pub(crate) async fn open(
        config: &Config,
        remote: &Remote,
        duty: Duty,
        role: Role,
    ) -> anyhow::Result<Self> {
        let token = std::env::var(&config.server.token_env).ok().filter(|token| !token.is_empty());
        if let Some(url) = &remote.url {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(Usage(anyhow::anyhow!(
                    "--server wants an address such as http://127.0.0.1:7717, not \"{url}\""
                ))
                .into());
            }
            return Ok(Self { api: Api::new(url, token)?, own: None });
        }
        // Another command may be starting or ending its server right now; then the lock is taken for a moment.
        let mut wait = Wait::default();
        loop {
            if let Some(api) = running(config, token.clone(), duty).await? {
                return Ok(Self { api, own: None });
            }
            match Node::start(config, ([127, 0, 0, 1], 0).into(), duty, role).await {
                Ok(node) => return Ok(Self { api: Api::new(&node.url, token)?, own: Some(node) }),
                Err(error) => match error.downcast_ref() {
                    Some(store::Error::Locked(holder)) if wait.goes_on() => wait.a_little(holder).await?,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Whether the server is in this process.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Ends a server of our own at once, after a command that only looked.
    pub(crate) async fn close_now(self) -> anyhow::Result<()> {
        match self.own {
            Some(node) => node.stop(ShutDown::KeepSandboxes).await,
            None => Ok(()),
        }
    }

    /// Ends a server of our own, once nobody else's session needs it.
    pub(crate) async fn close(self, interrupts: &mut Interrupts) -> anyhow::Result<()> {
        let Some(node) = self.own else { return Ok(()) };
        if node.busy().await {
            style::note(
                "another session is still being worked on in this process; waiting for it (interrupt to leave)",
            );
            while node.busy().await {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(300)) => {}
                    // Whoever comes next takes their work up.
                    _signal = interrupts.next() => return node.stop(ShutDown::KeepSandboxes).await,
                }
            }
        }
        node.stop(ShutDown::RemoveSandboxes).await
    }
}

/// Waiting for another command that has the data directory and serves nobody.
struct Wait {
    began: Instant,
    told: bool,
    interrupts: Option<Interrupts>,
}

impl Default for Wait {
    fn default() -> Self {
        Self { began: Instant::now(), told: false, interrupts: None }
    }
}

impl Wait {
    /// Such commands read a repository or measure the disk at most; who takes longer than this hangs.
    const PATIENCE: Duration = Duration::from_secs(600);
    /// Nobody needs to hear of a shorter wait.
    const SILENCE: Duration = Duration::from_secs(2);

    fn goes_on(&self) -> bool {
        self.began.elapsed() < Self::PATIENCE
    }

    async fn a_little(&mut self, holder: &store::Holder) -> anyhow::Result<()> {
        if !self.told && self.began.elapsed() >= Self::SILENCE {
            self.told = true;
            let process = holder.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            style::note(&format!(
                "waiting for another slipway command{process} that is using {} (interrupt to give up)",
                holder.dir.display()
            ));
        }
        // Whoever called may have caught them before, and would not notice.
        let interrupts = match &mut self.interrupts {
            Some(interrupts) => interrupts,
            none => none.insert(Interrupts::catch()?),
        };
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(100)) => Ok(()),
            _signal = interrupts.next() => Err(Interrupted.into()),
        }
    }
}

/// The server that runs on the data directory, if one does that is of use: one that only looks does no work.
pub(crate) async fn running(
    config: &Config,
    token: Option<String>,
    duty: Duty,
) -> anyhow::Result<Option<Api>> {
    let Ok(bytes) = std::fs::read(address_file(&config.server.data_dir)) else { return Ok(None) };
    // A torn or foreign file is no server.
    let Ok(address) = serde_json::from_slice::<Address>(&bytes) else { return Ok(None) };
    if address.only_looks && duty == Duty::Work {
        return Ok(None);
    }
    let api = Api::new(&address.url, token)?;
    match api.health().await {
        // Of a server that was killed the file stays, and its port may be somebody else's by now.
        Ok(health) => Ok((health.instance == address.instance).then_some(api)),
        Err(error) => match error.downcast_ref::<Problem>().map(|problem| problem.code) {
            Some(Code::Unauthorized | Code::Forbidden) => {
                let variable = &config.server.token_env;
                Err(Problem::new(
                    Code::Unauthorized,
                    format!("the server at {} wants another token", address.url),
                )
                .hint(format!("set {variable} to the token that it was started with"))
                .into())
            }
            _ => Ok(None),
        },
    }
}
