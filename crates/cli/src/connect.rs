//! Finds the server of the data directory, or is one for the length of a command.

use std::time::Duration;

use protocol::{Code, Problem};
use session::{Duty, ShutDown};

use crate::api::Api;
use crate::config::Config;
use crate::exit::Usage;
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
    pub(crate) async fn open(config: &Config, remote: &Remote, duty: Duty) -> anyhow::Result<Self> {
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
        let mut tries = 0;
        loop {
            if let Some(api) = running(config, token.clone()).await? {
                return Ok(Self { api, own: None });
            }
            match Node::start(config, ([127, 0, 0, 1], 0).into(), duty, Role::Command).await {
                Ok(node) => return Ok(Self { api: Api::new(&node.url, token)?, own: Some(node) }),
                Err(error) if tries < 50 && matches!(error.downcast_ref(), Some(store::Error::Locked(_))) => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => return Err(error),
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

/// The server that runs on the data directory, if one does.
pub(crate) async fn running(config: &Config, token: Option<String>) -> anyhow::Result<Option<Api>> {
    let Ok(bytes) = std::fs::read(address_file(&config.server.data_dir)) else { return Ok(None) };
    // A torn or foreign file is no server.
    let Ok(address) = serde_json::from_slice::<Address>(&bytes) else { return Ok(None) };
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
