//! The way to a server, looked for anew with each call, because servers come and go while an editor stays open. To look,
//! a server of our own for the moment will do; what is to be worked on goes to one that outlives us.

use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use session::Duty;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::api::Api;
use crate::background;
use crate::commands::Context;
use crate::connect::{Link, running};
use crate::node::is_under_way;
use crate::render::style;

/// How long a server that was told to end may take.
const FAREWELL: Duration = Duration::from_secs(20);

/// Finds servers, and starts them.
pub(super) struct Door {
    context: Context,
    /// The server in the background that was started here. Whoever opens the data directory or starts a server has this
    /// lock, so that calls side by side do not stand in each other's way.
    started: Arc<Mutex<Option<Child>>>,
}

/// A server of our own, for the length of one look.
pub(super) struct Look {
    link: Link,
    _alone: OwnedMutexGuard<Option<Child>>,
}

impl Look {
    pub(super) fn api(&self) -> Api {
        self.link.api.clone()
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.link.close_now().await
    }
}

impl Door {
    pub(super) fn new(context: Context) -> Self {
        Self { context, started: Arc::default() }
    }

    /// The server that is there, if one is: the named one, or that of the data directory.
    pub(super) async fn served(&self, duty: Duty) -> anyhow::Result<Option<Api>> {
        let Context { config, remote, .. } = &self.context;
        if remote.url.is_some() {
            return Ok(Some(self.context.look().await?.api));
        }
        let token = std::env::var(&config.server.token_env).ok().filter(|token| !token.is_empty());
        running(config, token, duty).await
    }

    /// A server of our own that only looks.
    pub(super) async fn look(&self) -> anyhow::Result<Look> {
        let alone = Arc::clone(&self.started).lock_owned().await;
        Ok(Look { link: self.context.look().await?, _alone: alone })
    }

    /// A server that works, and goes on when we are gone.
    pub(super) async fn work(&self) -> anyhow::Result<Api> {
        if let Some(api) = self.served(Duty::Work).await? {
            return Ok(api);
        }
        let mut ours = self.started.lock().await;
        let Context { config, source, remote, .. } = &self.context;
        let background = background::server(config, source, remote).await?;
        if let Some(child) = background.started
            && let Some(mut before) = ours.replace(child)
        {
            // It ended by itself, or there would have been no need of another; its entry in the table goes with this.
            before.try_wait()?;
        }
        Ok(background.api)
    }

    /// Ends the server that was started here, unless something is being worked on.
    pub(super) async fn close(&self) -> anyhow::Result<()> {
        let Some(mut child) = self.started.lock().await.take() else { return Ok(()) };
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        if let Some(api) = self.served(Duty::Work).await? {
            let sessions = api.sessions().await?.sessions;
            let busy = sessions.iter().filter(|session| is_under_way(session)).count();
            if busy > 0 {
                let server = child.id();
                style::note(&format!(
                    "{busy} of the sessions are still being worked on: the server in the background (process {server}) goes \
                     on with them, and ends by itself"
                ));
                return Ok(());
            }
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )?;
        let end = tokio::time::Instant::now() + FAREWELL;
        while child.try_wait()?.is_none() {
            if tokio::time::Instant::now() > end {
                style::note(&format!(
                    "the server in the background (process {}) takes long to end",
                    child.id()
                ));
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}
