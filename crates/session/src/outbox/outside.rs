//! Whether something is being done outside at this moment. A server that ends lets that come to its end, for a while:
//! a push that is broken off can be taken up, but whoever watches the remote sees a connection that broke.

use tokio::sync::watch;

/// Whether the session's work is in the middle of a push or a request to a forge.
pub(crate) struct Outside(watch::Sender<bool>);

/// Something is being done outside until this is dropped.
pub(crate) struct Act(watch::Sender<bool>);

/// Nothing is done outside until this is dropped; then it is as it was before.
struct Rest<'a> {
    outside: &'a Outside,
    was: bool,
}

impl Default for Outside {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Outside {
    /// Begins an act.
    pub(crate) fn begin(&self) -> Act {
        self.0.send_replace(true);
        Act(self.0.clone())
    }

    /// Waits for something between two attempts, in which nothing is done outside.
    pub(crate) async fn rest<T>(&self, pause: impl Future<Output = T>) -> T {
        // Whoever is stopped meanwhile goes on as well, to see what came of it.
        let _rest = Rest { outside: self, was: self.0.send_replace(false) };
        pause.await
    }

    /// Waits until nothing is being done outside.
    pub(crate) async fn quiet(&self) {
        // The sender is ours, so that it cannot be gone.
        drop(self.0.subscribe().wait_for(|acts| !acts).await);
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.outside.0.send_replace(self.was);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_is_quiet_before_between_and_after_acts() {
        let outside = Outside::default();
        let is_quiet = || outside.quiet().now_or_never().is_some();
        assert!(is_quiet());
        let act = outside.begin();
        assert!(!is_quiet());
        outside.rest(async { assert!(is_quiet()) }).await;
        assert!(!is_quiet(), "the next attempt");
        drop(act);
        assert!(is_quiet());
        outside.rest(async {}).await;
        assert!(is_quiet(), "who does nothing does nothing after a pause either");
    }
}
