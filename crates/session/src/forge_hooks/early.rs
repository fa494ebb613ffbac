//! News of a pull request that is being opened. Forges tell of it before they answer, and some never tell it again. So it is
//! written down before the forge hears that it was taken, and whoever serves next takes it up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forge::{Repository, Site, Told};
use protocol::event::{Delivery, DeliveryState};
use protocol::{HookTaken, Problem};
use serde::{Deserialize, Serialize};

use super::{Came, KEYS, NAMELESS, unknown};
use crate::feed::Stream;
use crate::{Sessions, problem};

/// How long it waits: as long as what the forge calls it is known.
const LATER: Duration = Duration::from_secs(24 * 3600);
/// How long where nobody knows whether the forge took what it was asked for: its answer was late, and no longer than this.
const LATE: Duration = Duration::from_secs(10 * 60);
/// Most news that wait at a time. Forges tell of every pull request, and those of others are none of ours.
const WAITING: usize = 200;
/// How soon it is looked at again, at first and in the end. What happens in a session that is awake is seen at once.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const LOOK_SELDOM: Duration = Duration::from_secs(20);

/// What is written down of it.
#[derive(Serialize, Deserialize)]
struct Early {
    site: String,
    told: Told,
}

/// That a pull request is being opened.
struct Opening {
    /// What happens in the session that does it, where that is awake. Another one goes on with it when it wakes.
    awake: Option<Arc<Stream>>,
    /// Whether it is sure to come to an end: what was asked for and not answered may have come to nothing.
    ends: bool,
}

impl Sessions {
    /// Waits until the pull request is known that it can be about, and lets the forge go meanwhile.
    pub(super) async fn wait_with(&self, site: Site, told: Told, key: String) -> Result<HookTaken, Problem> {
        if self.registry.early.load(Ordering::Relaxed) >= WAITING {
            return self.settle(&key, Ok(Came::Open(unknown()))).await;
        }
        let early = Early { site: site.name.clone(), told };
        let written = serde_json::to_string(&early).map_err(|error| {
            Problem::new(protocol::Code::Internal, format!("a webhook cannot be written down: {error}"))
                .hint("this is a fault of slipway: report it with the server's log")
        })?;
        // Before it is confirmed: a forge that has heard so does not tell it again.
        self.registry.options.store.rename_key(&key, &written).await.map_err(problem::store)?;
        self.clone().later(site, early.told, key);
        let what = "a pull request is being opened there: it is looked at when that is done";
        Ok(HookTaken { taken: true, what: what.to_owned(), session: None })
    }

    /// Takes up what an earlier server had written down. What is told under the same name meanwhile comes to the same.
    pub(crate) async fn take_up_news(&self) -> Result<(), Problem> {
        let sites = &self.registry.options.outbox.sites;
        for (key, name) in self.registry.options.store.left_keys(KEYS).await.map_err(problem::store)? {
            let Ok(Early { site, told }) = serde_json::from_str(&name) else { continue };
            match sites.iter().find(|known| known.name == site) {
                Some(site) => self.clone().later(site.clone(), told, key),
                None => tracing::info!(forge = site, "news of a forge that is not configured any more"),
            }
        }
        Ok(())
    }

    fn later(self, site: Site, told: Told, key: String) {
        self.registry.early.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let came = self.take_in_later(&site, &told).await;
            self.registry.early.fetch_sub(1, Ordering::Relaxed);
            // What the next server is to look at stays written down.
            if !matches!(came, Ok(Came::Early) | Err(_))
                && let Err(error) = self.registry.options.store.rename_key(&key, NAMELESS).await
            {
                tracing::warn!(forge = site.name, %error, "a webhook that came early will be looked at again");
            }
            match self.settle(&key, came).await {
                Ok(taken) => tracing::info!(forge = site.name, ?taken, "a webhook that came early"),
                Err(problem) => tracing::warn!(forge = site.name, %problem, "a webhook that came early"),
            }
        });
    }

    /// Takes it in once the pull request that it can be about is known, or there is none on its way any more.
    async fn take_in_later(&self, site: &Site, told: &Told) -> Result<Came, Problem> {
        let began = tokio::time::Instant::now();
        let mut wait = LOOK_AGAIN;
        loop {
            let came = self.take_in(site, told).await;
            let closed = &self.registry.closed;
            match came {
                Ok(Came::Early) if closed.is_cancelled() => return Ok(Came::Early),
                Ok(Came::Early) => {}
                came => return came,
            }
            let opening = match &told.repository {
                Some(repository) => self.opening(site, repository).await?,
                None => None,
            };
            let end = if opening.as_ref().is_some_and(|opening| opening.ends) { LATER } else { LATE };
            if began.elapsed() > end {
                return Ok(Came::Open(unknown()));
            }
            let news = async {
                match opening.and_then(|opening| opening.awake) {
                    Some(stream) => stream.news().await,
                    None => std::future::pending().await,
                }
                // Every word of a model is news.
                tokio::time::sleep(LOOK_AGAIN).await;
            };
            // Between the look and this it may have come; then the next look is not far.
            tokio::select! {
                _ = tokio::time::timeout(wait, news) => {}
                () = closed.cancelled() => {}
            }
            wait = (wait * 2).min(LOOK_SELDOM);
        }
    }

    /// A session that is opening a pull request in this repository, of which nobody knows the number yet.
    async fn opening(&self, site: &Site, repository: &Repository) -> Result<Option<Opening>, Problem> {
        let ours = |one: &Delivery| site.has(&one.remote, repository);
        let ends = |one: &Delivery| one.state.is_pending() && ours(one);
        let may_be =
            |one: &Delivery| one.state == DeliveryState::Unknown && one.number.is_none() && ours(one);
        let mut late = None;
        for handle in self.registry.live().into_values() {
            let stream = handle.recorder().stream();
            let (ends, may_be) = stream.with_state(|state| {
                let all = state.all_deliveries();
                (all.iter().any(ends), all.iter().any(may_be))
            });
            let opening = || Some(Opening { awake: Some(Arc::clone(stream)), ends });
            if ends {
                return Ok(opening());
            }
            if may_be {
                late = opening();
            }
        }
        for state in ["intended", "opening", "unknown"] {
            let named = format!("\"state\":\"{state}\"");
            let rows = self.registry.options.store.naming(named).await.map_err(problem::store)?;
            let any =
                |of: &dyn Fn(&Delivery) -> bool| rows.iter().any(|row| row.all_deliveries().iter().any(of));
            if any(&ends) {
                return Ok(Some(Opening { awake: None, ends: true }));
            }
            if late.is_none() && any(&may_be) {
                late = Some(Opening { awake: None, ends: false });
            }
        }
        Ok(late)
    }

    /// What becomes of news of a pull request that no session is known to have.
    pub(super) async fn of_nobody(&self, site: &Site, repository: &Repository) -> Result<Came, Problem> {
        Ok(match self.opening(site, repository).await? {
            Some(_) => Came::Early,
            None => Came::Open(unknown()),
        })
    }
}
