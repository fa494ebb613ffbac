//! What sandboxes were refused, by environment, so that a person can allow it. It is remembered here and written into the
//! catalogue soon after, so it is there after a restart, and after a command that was its own server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use protocol::RefusedHost;
use protocol::event::EgressDecision;
use sandbox::egress::{Refused, Rules};
use store::Store;

use crate::command::Command;

/// What is refused within this time is written at once.
const TOGETHER: Duration = Duration::from_secs(1);

/// The books of all environments.
pub(crate) struct Books {
    shelf: Arc<Shelf>,
    open: Mutex<HashMap<String, Arc<Book>>>,
}

/// Where books are written.
struct Shelf {
    store: Store,
    runtime: tokio::runtime::Handle,
}

/// What sandboxes of one environment were refused.
pub(crate) struct Book {
    environment: String,
    refused: Refused,
    /// Gone with the books: whoever still tells of a connection then must not keep the store open.
    shelf: Weak<Shelf>,
    /// Whether there is something to write, for which a task is on its way.
    changed: AtomicBool,
    /// Held while it is written, so that an older state never follows a newer one.
    writing: tokio::sync::Mutex<()>,
}

impl Books {
    /// Reads what was written. Must be called in a tokio runtime.
    pub(crate) async fn open(store: Store) -> Result<Self, store::Error> {
        let known = store.refused().await?;
        let shelf = Arc::new(Shelf { store, runtime: tokio::runtime::Handle::current() });
        let books = Self { shelf, open: Mutex::default() };
        for (environment, hosts) in known {
            books.of(&environment).refused.restore(hosts);
        }
        Ok(books)
    }

    /// The book of an environment.
    pub(crate) fn of(&self, environment: &str) -> Arc<Book> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let book = open.entry(environment.to_owned()).or_insert_with(|| {
            Arc::new(Book {
                environment: environment.to_owned(),
                refused: Refused::default(),
                shelf: Arc::downgrade(&self.shelf),
                changed: AtomicBool::new(false),
                writing: tokio::sync::Mutex::default(),
            })
        });
        Arc::clone(book)
    }

    /// Writes what is not written yet.
    pub(crate) async fn flush(&self) {
        let all: Vec<Arc<Book>> =
            self.open.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for book in all {
            book.write().await;
        }
    }
}

impl Book {
    /// Remembers a decision, if it was a refusal. Does not block.
    pub(crate) fn note(self: &Arc<Self>, decision: &EgressDecision) {
        if !decision.allowed {
            self.refused.note(decision);
            self.write_soon();
        }
    }

    /// Remembers what a command tells of, and writes at once that it did: whoever sends it again is not counted twice.
    pub(crate) async fn note_for(&self, command: Command, decisions: &[EgressDecision]) {
        // Nobody else writes what this tells of before it is written with its mark.
        let _in_order = self.writing.lock().await;
        decisions.iter().for_each(|decision| self.refused.note(decision));
        self.put(Some(&command.name())).await;
    }

    /// What was refused, latest first.
    pub(crate) fn list(&self) -> Vec<RefusedHost> {
        self.refused.list()
    }

    /// Forgets what is allowed by now.
    pub(crate) fn forget_allowed(self: &Arc<Self>, rules: &Rules) {
        self.refused.forget_allowed(rules);
        self.write_soon();
    }

    /// Forgets everything: there is no such environment any more.
    pub(crate) fn forget(self: &Arc<Self>) {
        self.refused.restore(Vec::new());
        self.write_soon();
    }

    fn write_soon(self: &Arc<Self>) {
        let Some(shelf) = self.shelf.upgrade() else { return };
        if self.changed.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        // It ends by itself; whoever shuts down writes what it has not written.
        drop(shelf.runtime.spawn(async move {
            tokio::time::sleep(TOGETHER).await;
            this.write().await;
        }));
    }

    async fn write(&self) {
        let _in_order = self.writing.lock().await;
        if self.changed.swap(false, Ordering::AcqRel) {
            self.put(None).await;
        }
    }

    async fn put(&self, command: Option<&str>) {
        let Some(shelf) = self.shelf.upgrade() else { return };
        if let Err(error) = shelf.store.put_refused_for(command, &self.environment, self.list()).await {
            // It is still in memory, and written with what is refused next.
            tracing::warn!(environment = %self.environment, %error, "what was refused could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::SandboxId;

    use super::*;

    fn refusal(host: &str) -> EgressDecision {
        EgressDecision {
            sandbox: SandboxId::new(),
            host: host.to_owned(),
            port: 443,
            allowed: false,
            rule: "no rule".to_owned(),
            connections: 1,
            sent: 0,
            received: 0,
        }
    }

    fn hosts(book: &Book) -> Vec<String> {
        book.list().into_iter().map(|refused| refused.host).collect()
    }

    #[tokio::test]
    async fn what_was_refused_outlives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let open = || async { Books::open(Store::open(dir.path()).unwrap()).await.unwrap() };
        let books = open().await;
        books.of("shop").note(&refusal("a.test"));
        books.of("shop").note(&refusal("b.test"));
        books.of("api").note(&refusal("c.test"));
        books.of("gone").note(&refusal("d.test"));
        books.flush().await;
        drop(books);

        let books = open().await;
        assert_eq!(hosts(&books.of("shop")), ["b.test", "a.test"]);
        let allowed = protocol::Egress::Allow(vec!["b.test".to_owned()]);
        books.of("shop").forget_allowed(&Rules::parse(&allowed).unwrap());
        books.of("gone").forget();
        books.flush().await;
        drop(books);

        let books = open().await;
        assert_eq!(hosts(&books.of("shop")), ["a.test"]);
        assert_eq!(hosts(&books.of("api")), ["c.test"]);
        assert!(hosts(&books.of("gone")).is_empty());
    }
}
