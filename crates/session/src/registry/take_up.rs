//! What a server does with the sessions it finds: it looks at all of them beside its first requests, goes on with the
//! unfinished ones, and removes sandboxes that none of them has.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use protocol::{Code, Problem, SandboxId, Session, SessionId};

use super::Registry;
use crate::workspace::scratch;
use crate::{kept_fold, problem};

/// Sessions that are looked at, or taken up, at the same time. Each waits for the disk most of the time.
const AT_ONCE: usize = 32;

/// How long until what could not be taken up is tried again.
const AGAIN: Duration = Duration::from_secs(15);

/// What the index says of a session.
struct Known {
    id: SessionId,
    row: Option<Session>,
}

impl Known {
    /// Whether the session has something to do without being asked, as far as the index knows.
    fn is_unfinished(&self) -> bool {
        self.row.as_ref().is_none_or(unfinished)
    }
}

fn unfinished(row: &Session) -> bool {
    let delivers = row.delivery.as_ref().is_some_and(|delivery| delivery.state.is_pending());
    row.turn.is_some() || !row.queued.is_empty() || row.sandbox.is_some() || delivers || row.notifying
}

/// What became of one session.
enum Outcome {
    /// Its log was read; what it has, and whether it was left for a reason that may pass.
    Read { sandbox: Option<SandboxId>, passes: bool },
    /// Nothing is known of it; whether the reason may pass.
    Unread { passes: bool },
}

/// What became of all of them.
#[derive(Default)]
struct Taken {
    read: HashSet<SessionId>,
    unread: HashSet<SessionId>,
    sandboxes: HashSet<SandboxId>,
    /// Those that are tried again.
    left: Vec<SessionId>,
}

impl Taken {
    fn note(&mut self, id: SessionId, outcome: Outcome) {
        let passes = match outcome {
            Outcome::Read { sandbox, passes } => {
                self.read.insert(id);
                self.sandboxes.extend(sandbox);
                passes
            }
            Outcome::Unread { passes } => {
                self.unread.insert(id);
                passes
            }
        };
        if passes {
            self.left.push(id);
        }
    }
}

impl Registry {
    /// Starts the work that a server owes its sessions, in a task of its own: requests are answered meanwhile, and a session
    /// that one of them needs is opened for it first.
    pub(super) async fn take_up(self: &Arc<Self>) -> Result<(), Problem> {
        let mut known = self.known().await?;
        // Only those that are there now can belong to nobody: later ones are made by this server.
        let found = match self.options.driver.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the sandboxes cannot be listed");
                Vec::new()
            }
        };
        // Who has waited for us longest goes first.
        known.sort_by_key(|known| !known.is_unfinished());
        let this = Arc::clone(self);
        self.actors.spawn(async move {
            let mirrors = this.options.mirrors.clone();
            in_a_thread(move || mirrors.sweep()).await;
            let mut taken = Taken::default();
            let mut looked = futures_util::stream::iter(known)
                .map(|known| this.take_up_one(known))
                .buffer_unordered(AT_ONCE);
            while let Some((id, outcome)) = looked.next().await {
                taken.note(id, outcome);
            }
            drop(looked);
            this.remove_strangers(found, &taken).await;
            if this.options.prebuild && this.refuse_when_closing().await.is_ok() {
                this.builds.look_after();
            }
            this.try_again(taken.left).await;
        });
        self.sleep_when_idle();
        Ok(())
    }

    /// Takes a session up if there is something to do.
    async fn take_up_one(&self, known: Known) -> (SessionId, Outcome) {
        let id = known.id;
        // First, so that there is room for what is made now.
        let dir = self.options.store.session_dir(id);
        in_a_thread(move || scratch::sweep(&dir)).await;
        let row = match self.true_row(known).await {
            Ok(row) => row,
            // One damaged log must not keep the others from starting.
            Err(error) => {
                tracing::error!(session = %id, %error, "a session cannot be opened");
                let passes = !matches!(error, store::Error::Damaged { .. } | store::Error::Newer(_));
                self.damages.note(id, &problem::store(error));
                return (id, Outcome::Unread { passes });
            }
        };
        let Some(row) = row else { return (id, Outcome::Read { sandbox: None, passes: false }) };
        let mut passes = false;
        if unfinished(&row)
            && self.refuse_when_closing().await.is_ok()
            && let Err(error) = self.open(id).await
        {
            tracing::error!(session = %id, %error, "a session cannot be taken up");
            passes = error.code != Code::StorageDamaged;
        }
        (id, Outcome::Read { sandbox: row.sandbox, passes })
    }

    /// What could not be taken up for a reason that may pass, such as a full disk, is tried again until it can.
    async fn try_again(&self, mut left: Vec<SessionId>) {
        while !left.is_empty() {
            if self.closed.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_none() {
                return;
            }
            let mut still = Taken::default();
            for id in left {
                let (id, outcome) = self.take_up_one(Known { id, row: None }).await;
                still.note(id, outcome);
            }
            left = still.left;
        }
    }

    /// Makes the index true: a server that was killed may not have come to write a row. For one that only looks.
    pub(super) async fn refresh_index(&self) -> Result<(), Problem> {
        let looked = futures_util::stream::iter(self.known().await?).map(|known| async {
            let id = known.id;
            if let Err(error) = self.true_row(known).await {
                tracing::error!(session = %id, %error, "a session cannot be opened");
                self.damages.note(id, &problem::store(error));
            }
        });
        looked.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
        Ok(())
    }

    /// Every session that has a log, with its row, and those that the index says had one.
    async fn known(&self) -> Result<Vec<Known>, Problem> {
        let store = &self.options.store;
        let ids = store.sessions().await.map_err(problem::store)?;
        let rows = store.indexed(usize::MAX).await.map_err(problem::store)?;
        // Rows that an older version wrote are made anew, with what lists want to know.
        let old = store.unlisted().await.map_err(problem::store)?;
        let rows = rows.into_iter().filter(|row| !old.contains(&row.id));
        let mut rows: std::collections::HashMap<_, _> = rows.map(|row| (row.id, row)).collect();
        let mut known: Vec<_> = ids.into_iter().map(|id| Known { id, row: rows.remove(&id) }).collect();
        // What a row says of a log that is gone is not to be believed.
        known.extend(rows.into_keys().map(|id| Known { id, row: None }));
        Ok(known)
    }

    /// The session's row. The index is believed only when it is as new as the log.
    async fn true_row(&self, known: Known) -> Result<Option<Session>, store::Error> {
        let Known { id, row } = known;
        let store = &self.options.store;
        if let Some(row) = row
            && row.seq == store.last_seq(id).await?
        {
            return Ok(Some(row));
        }
        // Only read: a request may have opened the session by now, and must not lose it to us.
        let state = kept_fold::fold_stored(store, id).await?;
        let row = state.to_row();
        if let Some(row) = &row
            && let Err(error) = store.index(&row.session, &row.words).await
        {
            tracing::warn!(session = %id, %error, "the index of sessions could not be written");
        }
        Ok(row.map(|row| row.session))
    }

    /// Removes sandboxes that no session has.
    async fn remove_strangers(&self, found: Vec<sandbox::Info>, taken: &Taken) {
        // A command's own sandbox goes with that command.
        let a_commands = |info: &sandbox::Info| {
            info.owner == Some(sandbox::Owner::OneOff) && info.state != sandbox::State::Ended
        };
        // Nobody knows what a session has that could not be read; its work is in there.
        let an_unread_ones = |info: &sandbox::Info| match info.owner {
            Some(sandbox::Owner::Session(id)) => {
                taken.unread.contains(&id)
                    || (!taken.read.contains(&id) && self.options.store.has_session(id))
            }
            _ => false,
        };
        let stays = |info: &sandbox::Info| {
            taken.sandboxes.contains(&info.id) || a_commands(info) || an_unread_ones(info)
        };
        for info in found.into_iter().filter(|info| !stays(info)) {
            match self.options.driver.remove(info.id).await {
                Ok(()) => tracing::info!(sandbox = %info.id, "removed a sandbox that belongs to no session"),
                Err(error) => tracing::warn!(sandbox = %info.id, %error, "a sandbox could not be removed"),
            }
        }
    }
}

/// Does what waits for the disk where that keeps nobody waiting.
async fn in_a_thread(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::error!(%error, "what a killed server left could not be looked for");
    }
}
