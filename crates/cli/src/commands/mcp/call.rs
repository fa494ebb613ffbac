//! One call of a tool: the way to a server, what may be seen of it, and whether the caller still wants the answer.

use std::sync::Arc;

use protocol::{Session, SessionId};
use session::Duty;
use tokio_util::sync::CancellationToken;

use super::door::{Door, Look};
use super::progress::Progress;
use super::scope::Scope;
use crate::api::Api;

/// A call under way.
pub(super) struct Call {
    pub(super) door: Arc<Door>,
    pub(super) scope: Arc<Scope>,
    pub(super) progress: Progress,
    pub(super) reach: Reach,
    pub(super) ended: Ended,
    pub(super) look: Option<Look>,
}

/// Whether anybody still waits for the answer.
#[derive(Clone)]
pub(super) struct Ended {
    /// The client cancelled the call.
    pub(super) asked: CancellationToken,
    /// The client is gone.
    pub(super) gone: CancellationToken,
}

impl Ended {
    /// Until nobody does.
    pub(super) async fn wait(&self) {
        tokio::select! {
            () = self.asked.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
    }
}

/// What a call needs of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To be read from.
    Look,
    /// To work.
    Work,
}

impl Call {
    /// The server.
    pub(super) async fn api(&mut self) -> anyhow::Result<Api> {
        if let Some(look) = &self.look {
            return Ok(look.api());
        }
        match self.reach {
            Reach::Work => self.door.work().await,
            Reach::Look => match self.door.served(Duty::Look).await? {
                Some(api) => Ok(api),
                None => Ok(self.look.insert(self.door.look().await?).api()),
            },
        }
    }

    /// Ends a server of our own that only looked. A call that does not do so leaves the data directory locked.
    pub(super) async fn close(&mut self) -> anyhow::Result<()> {
        match self.look.take() {
            Some(look) => look.close().await,
            None => Ok(()),
        }
    }

    /// The session with this id, if it may be seen.
    pub(super) async fn session(&mut self, id: &str) -> anyhow::Result<Session> {
        let parsed: SessionId = id.trim().parse().map_err(|error: protocol::id::ParseIdError| {
            super::answer::wrong(error.to_string(), "list_sessions lists them")
        })?;
        let found = self.api().await?.session(parsed).await;
        self.scope.session(id.trim(), found)
    }
}
