//! When images are built without being asked: when there is none, when the branch moved, and when the image is old.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Environment, NamedEnvironment, Timestamp};
use sandbox::image::Image;
use tokio::time::Instant;

use super::Builds;
use crate::environments;
use crate::joint::{self, Joint, of};

/// How often the remote is asked where a branch is.
const LOOK: Duration = Duration::from_secs(60);
/// Only environments that were used within this time are looked after closely.
const USED: Duration = Duration::from_secs(24 * 3600);
/// How often garbage is collected.
const COLLECT: Duration = Duration::from_secs(3600);

impl Builds {
    /// Looks after the images until the server ends.
    pub(crate) fn look_after(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            this.remember_use().await;
            let mut collected = Instant::now();
            loop {
                this.look().await;
                this.look_at_disk().await;
                if collected.elapsed() >= COLLECT {
                    this.collect_quietly().await;
                    collected = Instant::now();
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK.min(this.options.rebuild).max(Duration::from_secs(1))) => {}
                    () = this.end.cancelled() => return,
                }
            }
        });
    }

    /// What earlier servers' sessions were made from.
    async fn remember_use(&self) {
        let sessions = self.options.store.indexed(1000).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the sessions cannot be listed");
            Vec::new()
        });
        for session in sessions {
            if age(session.updated_at) < USED {
                self.entry(&session.environment, |entry| entry.used = entry.used.or(Some(Instant::now())));
            }
        }
    }

    async fn look(self: &Arc<Self>) {
        let all = match environments::list(&self.options).await {
            Ok(all) => all,
            Err(problem) => {
                tracing::warn!(error = %problem.title, "the environments cannot be listed");
                return;
            }
        };
        for NamedEnvironment { name, recipe, .. } in all {
            if self.end.is_cancelled() {
                return;
            }
            let busy = self.entry(&name, |entry| entry.running > 0);
            if busy || environments::check_recipe(&self.options, &recipe).is_err() {
                continue;
            }
            // What failed waits, unless there is another commit: it may be the one that mends it.
            if !self.may_try(&name) && !self.moved_since_failure(&name, &recipe).await {
                continue;
            }
            let Some(image) = self.current(&name) else {
                self.start(&name);
                continue;
            };
            let rebuild = recipe.rebuild_s.map_or(self.options.rebuild, Duration::from_secs);
            let stale = age(image.built_at) >= rebuild || self.moved(&name, &recipe, &image).await;
            if let Err(problem) = self.hold_ready_again(&name, &recipe, image).await {
                tracing::warn!(environment = %name, error = %problem.title, "no sandbox can be kept ready");
            }
            if stale {
                self.start(&name);
            }
        }
    }

    /// Whether the branch is somewhere else now, or the recipe may be another. A remote that does not answer has not
    /// moved.
    async fn moved(&self, name: &str, recipe: &Environment, image: &Image) -> bool {
        let (used, confirmed) = self.entry(name, |entry| (entry.used, entry.confirmed));
        if used.is_none_or(|used| used.elapsed() > USED) {
            return false;
        }
        // The configuration may have been edited while no server ran; if not, everything is there and this is quick.
        if !confirmed {
            return true;
        }
        let other = |(number, repo): (usize, &protocol::Repo)| {
            repo.branch.as_ref().is_some_and(|branch| *branch != of(&image.branch, number))
        };
        if joint::address(recipe) != image.url || recipe.repos.iter().enumerate().any(other) {
            return true;
        }
        let Some(mirrors) = Joint::existing(&self.options.mirrors, recipe) else { return true };
        self.is_elsewhere(name, &mirrors, &image.branch, &image.commit).await
    }

    /// Whether the branch is somewhere else than at the commit whose build failed.
    async fn moved_since_failure(&self, name: &str, recipe: &Environment) -> bool {
        let Some((branch, commit)) = self.entry(name, |entry| entry.failed.clone()) else { return false };
        match Joint::existing(&self.options.mirrors, recipe) {
            Some(mirrors) => self.is_elsewhere(name, &mirrors, &branch, &commit).await,
            None => false,
        }
    }

    /// Whether one of the branches is somewhere else.
    async fn is_elsewhere(&self, name: &str, mirrors: &Joint, branch: &str, commit: &str) -> bool {
        for (number, (_, mirror)) in mirrors.parts().enumerate() {
            let tip = tokio::select! {
                tip = mirror.remote_tip(of(branch, number)) => tip,
                () = self.end.cancelled() => return false,
            };
            match tip {
                Ok(Some(tip)) if tip != of(commit, number) => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(environment = %name, %error, "the remote did not say where the branch is");
                }
            }
        }
        false
    }
}

/// How long ago this was; nothing when the clock was set back.
pub(super) fn age(at: Timestamp) -> Duration {
    let milliseconds = Timestamp::now().as_millisecond().saturating_sub(at.as_millisecond());
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
