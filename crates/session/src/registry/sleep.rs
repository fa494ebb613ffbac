//! A session that nobody uses leaves memory. Its log and its row in the index have everything, so the next prompt, page
//! or socket brings it back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::{Code, Problem, SessionId};

use super::Registry;

/// How often to look, at most.
const LOOK: Duration = Duration::from_secs(15);

/// Sessions that were found idle: since when, and how long their logs were then.
type Idle = HashMap<SessionId, (Instant, u64)>;

impl Registry {
    /// Looks after idle sessions for as long as the registry is used.
    pub(super) fn sleep_when_idle(self: &Arc<Self>) {
        let registry = Arc::downgrade(self);
        let closed = self.closed.clone();
        let look = LOOK.min(self.options.sleep / 2).max(Duration::from_millis(10));
        drop(tokio::spawn(async move {
            let mut idle = Idle::new();
            loop {
                tokio::select! {
                    () = closed.cancelled() => return,
                    () = tokio::time::sleep(look) => {}
                }
                let Some(registry) = registry.upgrade() else { return };
                registry.put_to_sleep(&mut idle).await;
            }
        }));
    }

    /// How many sessions are in memory.
    pub(crate) fn awake(&self) -> usize {
        self.handles().values().filter(|cell| cell.initialized()).count()
    }

    /// Lets go of a session whose log another is about to take the place of. Whoever uses it would write to that one what
    /// follows from this one, so then it is refused.
    pub(crate) fn let_go(&self, id: SessionId) -> Result<(), Problem> {
        let mut handles = self.handles();
        let in_use = handles.get(&id).is_some_and(|cell| {
            Arc::strong_count(cell) > 1 || cell.get().is_some_and(|handle| handle.idle_seq().is_none())
        });
        if in_use {
            let title = format!("session {id} is in use, although its directory is gone");
            return Err(Problem::new(Code::Conflict, title)
                .hint("nothing was restored; stop the server, restore, and start it again"));
        }
        handles.remove(&id);
        self.damages.forget(id);
        Ok(())
    }

    async fn put_to_sleep(&self, known: &mut Idle) {
        let now = Instant::now();
        let idle: Idle = self
            .handles()
            .iter()
            .filter_map(|(id, cell)| {
                let seq = cell.get()?.idle_seq()?;
                let since =
                    known.get(id).filter(|(_, before)| *before == seq).map_or(now, |(since, _)| *since);
                Some((*id, (since, seq)))
            })
            .collect();
        *known = idle;
        let due = known.iter().filter(|(_, (since, _))| now.duration_since(*since) >= self.options.sleep);
        let due: Vec<(SessionId, u64)> = due.map(|(id, (_, seq))| (*id, *seq)).collect();
        for (id, seq) in due {
            known.remove(&id);
            self.put_one_to_sleep(id, seq).await;
        }
    }

    async fn put_one_to_sleep(&self, id: SessionId, seq: u64) {
        // Lists take the session from the index from now on.
        let recorder = self.handles().get(&id).and_then(|cell| cell.get()).map(|h| Arc::clone(h.recorder()));
        let Some(recorder) = recorder else { return };
        recorder.index().await;
        drop(recorder);
        let mut handles = self.handles();
        // Whoever uses the session got it from this map, so under its lock nobody can begin to.
        let unused = handles.get(&id).is_some_and(|cell| {
            Arc::strong_count(cell) == 1 && cell.get().is_some_and(|handle| handle.idle_seq() == Some(seq))
        });
        if unused {
            // With its last handle the actor ends.
            handles.remove(&id);
        }
    }
}
