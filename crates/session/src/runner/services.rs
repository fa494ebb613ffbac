//! Services during a turn: looked after before the work begins, while a command runs, and after it.

use std::time::Duration;

use super::{Context, Runner};
use crate::workspace::Expected;

/// How often services are looked at while a command runs.
const EVERY: Duration = Duration::from_secs(2);

impl Runner {
    /// Looks after the services. Gives what the model should know of them.
    pub(super) async fn tend(&self, expected: Expected) -> Result<Vec<String>, store::Error> {
        let Context { workspace, recorder, .. } = &*self.context;
        let Some(sandbox) = self.sandbox.as_ref().filter(|_| workspace.has_services()) else {
            return Ok(Vec::new());
        };
        workspace.tend(recorder, &**sandbox, &self.stop, expected).await?;
        Ok(workspace.take_service_notes(sandbox.id()))
    }

    /// Does something with the services up, and looks after them as long as it takes.
    pub(super) async fn with_services<T>(&self, work: impl Future<Output = T>) -> T {
        let Context { workspace, recorder, .. } = &*self.context;
        let Some(sandbox) = self.sandbox.as_ref().filter(|_| workspace.has_services()) else {
            return work.await;
        };
        let look = async || {
            if let Err(error) = workspace.tend(recorder, &**sandbox, &self.stop, Expected::Any).await {
                // Whoever records how the work ended meets the same trouble, and handles it.
                tracing::debug!(%error, "services cannot be looked after");
            }
        };
        look().await;
        let tending = async {
            loop {
                tokio::time::sleep(EVERY).await;
                look().await;
            }
        };
        tokio::select! {
            done = work => done,
            () = tending => std::future::pending().await,
        }
    }
}
