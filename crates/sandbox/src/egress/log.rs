//! Decisions as they are kept: those alike are merged, and what was refused is remembered for each environment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::{EgressDecision, RefusedHost, SandboxId, Timestamp};

use super::rules::Host;
use super::{Decision, OTHERS, Rules, Sink};

/// Decisions that are alike within this time are told together.
const TOGETHER: Duration = Duration::from_secs(1);

/// Different refusals that are told of within that time. The others are told in one sum: a program that tries many names
/// must not fill the log. What is allowed is told with its host always; how much that is has its own end (`pace`).
const DIFFERENT: usize = 64;

/// Hosts that a book of refusals has.
const REFUSED: usize = 200;

/// Merges the decisions of one sandbox. What is not told yet is told when it is dropped.
pub struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    sandbox: SandboxId,
    flush: Box<dyn Fn(Vec<EgressDecision>) + Send + Sync>,
    waiting: Mutex<Waiting>,
    runtime: tokio::runtime::Handle,
}

#[derive(Default)]
struct Waiting {
    merged: HashMap<Alike, EgressDecision>,
    order: Vec<Alike>,
    /// How many of them were refused.
    refused: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Alike {
    host: String,
    port: u16,
    allowed: bool,
    rule: String,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("sandbox", &self.shared.sandbox).finish_non_exhaustive()
    }
}

impl Log {
    /// A log that gives what it merged to `flush`, which must not block. Must be called in a tokio runtime.
    pub fn new(sandbox: SandboxId, flush: impl Fn(Vec<EgressDecision>) + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Handle::current();
        let shared = Shared { sandbox, flush: Box::new(flush), waiting: Mutex::default(), runtime };
        Self { shared: Arc::new(shared) }
    }

    /// What a [`super::Proxy`] tells its decisions to.
    pub fn sink(&self) -> Sink {
        let shared = self.shared.clone();
        Arc::new(move |decision| Shared::add(&shared, decision))
    }

    /// Tells what waits, now.
    pub fn flush(&self) {
        self.shared.flush();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.flush();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(this: &Arc<Self>, decision: Decision) {
        let Decision { host, port, allowed, rule, connections, sent, received, .. } = decision;
        let mut alike = Alike { host, port, allowed, rule };
        let mut waiting = this.waiting();
        let first = waiting.order.is_empty();
        if !allowed && waiting.refused >= DIFFERENT && !waiting.merged.contains_key(&alike) {
            let rule = "too many different ones to tell of each".to_owned();
            alike = Alike { host: OTHERS.to_owned(), port: 0, allowed, rule };
        }
        if !waiting.merged.contains_key(&alike) {
            waiting.order.push(alike.clone());
            waiting.refused += usize::from(!allowed);
        }
        let Alike { host, port, allowed, rule } = alike.clone();
        let entry = waiting.merged.entry(alike).or_insert_with(|| EgressDecision {
            sandbox: this.sandbox,
            host,
            port,
            allowed,
            rule,
            connections: 0,
            sent: 0,
            received: 0,
        });
        entry.connections = entry.connections.saturating_add(connections);
        entry.sent = entry.sent.saturating_add(sent);
        entry.received = entry.received.saturating_add(received);
        if first {
            let later = this.clone();
            // It ends by itself, and what it would tell is told by whoever flushes before.
            drop(this.runtime.spawn(async move {
                tokio::time::sleep(TOGETHER).await;
                later.flush();
            }));
        }
    }

    fn flush(&self) {
        let Waiting { mut merged, order, .. } = std::mem::take(&mut *self.waiting());
        let decisions: Vec<_> = order.iter().filter_map(|alike| merged.remove(alike)).collect();
        if !decisions.is_empty() {
            (self.flush)(decisions);
        }
    }
}

/// What sandboxes of one environment were refused, latest first.
#[derive(Debug, Default)]
pub struct Refused {
    hosts: Mutex<Vec<RefusedHost>>,
}

impl Refused {
    /// Remembers a decision, if it was a refusal.
    pub fn note(&self, decision: &EgressDecision) {
        if decision.allowed {
            return;
        }
        let mut hosts = self.hosts();
        let known = hosts.iter().position(|known| {
            (&known.host, known.port, &known.reason) == (&decision.host, decision.port, &decision.rule)
        });
        let count = known.map_or(0, |at| hosts.remove(at).count);
        let host = RefusedHost {
            host: decision.host.clone(),
            port: decision.port,
            reason: decision.rule.clone(),
            count: count + u64::from(decision.connections),
            last_at: Timestamp::now(),
        };
        hosts.insert(0, host);
        hosts.truncate(REFUSED);
    }

    /// Takes up what was remembered before, in place of what there is.
    pub fn restore(&self, mut hosts: Vec<RefusedHost>) {
        hosts.truncate(REFUSED);
        *self.hosts() = hosts;
    }

    /// What was refused, latest first.
    pub fn list(&self) -> Vec<RefusedHost> {
        self.hosts().clone()
    }

    /// Forgets what is allowed by now.
    pub fn forget_allowed(&self, rules: &Rules) {
        self.hosts().retain(|refused| match Host::parse(&refused.host) {
            // A question for a name is told with the port of questions, whatever it was asked for.
            Ok(host) if refused.port == 53 => rules.allow_name(&host).is_err(),
            Ok(host) => rules.allow(&host, refused.port).is_err(),
            Err(_) => true,
        });
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<RefusedHost>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn decision(host: &str, allowed: bool, sent: u64) -> Decision {
        Decision {
            host: host.to_owned(),
            port: 443,
            allowed,
            can_be_allowed: true,
            rule: "rule".to_owned(),
            connections: 1,
            sent,
            received: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_alike_are_told_together() {
        let (sender, receiver) = mpsc::channel();
        let log = Log::new(SandboxId::new(), move |decisions| sender.send(decisions).unwrap());
        let sink = log.sink();
        sink(decision("a.test", true, 5));
        sink(decision("b.test", false, 0));
        sink(decision("a.test", true, 7));
        tokio::time::sleep(TOGETHER * 2).await;
        let told = receiver.try_recv().unwrap();
        let short: Vec<_> =
            told.iter().map(|d| (d.host.as_str(), d.allowed, d.connections, d.sent, d.received)).collect();
        assert_eq!(short, [("a.test", true, 2, 12, 2), ("b.test", false, 1, 0, 1)]);
        sink(decision("c.test", true, 0));
        drop(log);
        assert_eq!(receiver.try_recv().unwrap()[0].host, "c.test");
        assert!(receiver.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn many_different_ones_do_not_fill_the_log() {
        let (sender, receiver) = mpsc::channel();
        let log = Log::new(SandboxId::new(), move |decisions| sender.send(decisions).unwrap());
        for n in 0..1000 {
            log.sink()(decision(&format!("{n}.test"), false, 0));
        }
        log.flush();
        let told = receiver.try_recv().unwrap();
        assert_eq!(told.len(), DIFFERENT + 1);
        assert_eq!(told.iter().map(|d| d.connections).sum::<u32>(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_hide_no_host_that_was_let_through() {
        let (sender, receiver) = mpsc::channel();
        let log = Log::new(SandboxId::new(), move |decisions| sender.send(decisions).unwrap());
        for n in 0..1000 {
            log.sink()(decision(&format!("{n}.test"), false, 0));
        }
        for n in 0..100 {
            log.sink()(decision(&format!("{n}.good.test"), true, 7));
        }
        log.sink()(Decision { connections: 0, ..decision("0.good.test", true, 5_000_000) });
        log.flush();
        let told = receiver.try_recv().unwrap();
        let allowed: Vec<_> = told.iter().filter(|d| d.allowed).collect();
        assert_eq!(allowed.len(), 100);
        assert!(allowed.iter().all(|d| d.host.ends_with(".good.test") && d.port == 443), "{allowed:?}");
        assert_eq!((allowed[0].connections, allowed[0].sent), (1, 5_000_007));
        let others: Vec<_> = told.iter().filter(|d| d.host == OTHERS).collect();
        assert_eq!(others.iter().map(|d| (d.allowed, d.connections)).collect::<Vec<_>>(), [(false, 936)]);
    }

    #[test]
    fn refusals_are_remembered_latest_first() {
        let book = Refused::default();
        let note = |host: &str, allowed: bool| {
            book.note(&EgressDecision {
                sandbox: SandboxId::new(),
                host: host.to_owned(),
                port: 443,
                allowed,
                rule: "why".to_owned(),
                connections: 2,
                sent: 0,
                received: 0,
            });
        };
        for host in ["a.test", "b.test", "a.test"] {
            note(host, false);
        }
        note("c.test", true);
        let listed: Vec<_> = book.list().into_iter().map(|refused| (refused.host, refused.count)).collect();
        assert_eq!(listed, [("a.test".to_owned(), 4), ("b.test".to_owned(), 2)]);
        let rules = Rules::parse(&protocol::Egress::Allow(vec!["a.test".to_owned()])).unwrap();
        book.forget_allowed(&rules);
        assert_eq!(book.list().len(), 1);
        (0..300).for_each(|n| note(&format!("{n}.test"), false));
        assert_eq!(book.list().len(), REFUSED);
        assert_eq!(book.list()[0].host, "299.test");
        let again = Refused::default();
        again.restore([book.list(), book.list()].concat());
        assert_eq!(again.list(), book.list(), "no more than there may be");
    }
}
