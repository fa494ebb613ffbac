//! Allowed connections while they are open. Each is told when its first byte goes out, or soon after it was made, and
//! more of its bytes now and then: one that lasts is seen while it does, and a server that dies has told of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::decide::Way;
use super::rules::Host;
use super::{Decision, Sink};

/// How often open connections are looked at; one over which nothing went out for as long is told then.
const LOOK: Duration = Duration::from_secs(5);

/// More bytes of a connection are told this often at most.
const AGAIN: Duration = Duration::from_secs(30);

/// The open connections of one sandbox.
#[derive(Default)]
pub(super) struct Tickets {
    open: Mutex<HashMap<u64, Arc<Meter>>>,
    next: AtomicU64,
    /// There is one again.
    opened: Notify,
}

/// An allowed connection: counts its bytes, and tells the rest of them when dropped.
pub(super) struct Ticket {
    meter: Arc<Meter>,
    number: u64,
    tickets: Arc<Tickets>,
}

struct Meter {
    sink: Sink,
    sent: AtomicU64,
    received: AtomicU64,
    /// Whether it was told that there is this connection.
    begun: AtomicBool,
    told: Mutex<Told>,
}

/// What is told of a connection, and what was.
struct Told {
    host: String,
    port: u16,
    rule: String,
    sent: u64,
    received: u64,
    made: Instant,
    last: Option<Instant>,
    cancelled: bool,
}

impl Tickets {
    /// The ticket of a connection that is about to be made.
    pub(super) fn issue(self: &Arc<Self>, sink: Sink, host: &Host, port: u16, rule: &str) -> Ticket {
        let told = Told {
            host: host.to_string(),
            port,
            rule: rule.to_owned(),
            sent: 0,
            received: 0,
            made: Instant::now(),
            last: None,
            cancelled: false,
        };
        let meter = Arc::new(Meter {
            sink,
            sent: 0.into(),
            received: 0.into(),
            begun: false.into(),
            told: Mutex::new(told),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open();
        if open.is_empty() {
            self.opened.notify_one();
        }
        open.insert(number, Arc::clone(&meter));
        drop(open);
        Ticket { meter, number, tickets: Arc::clone(self) }
    }

    /// Tells of connections while they are open; never returns. Costs nothing while there are none.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            self.opened.notified().await;
            while !self.open().is_empty() {
                tokio::time::sleep(LOOK).await;
                self.each(|meter| meter.look(Instant::now()));
            }
        }
    }

    /// Tells what is not told yet, because the end is near.
    pub(super) fn tell_all(&self) {
        self.each(Meter::tell);
    }

    fn each(&self, what: impl Fn(&Meter)) {
        // Whoever is told must not wait for a lock of ours.
        let all: Vec<Arc<Meter>> = self.open().values().cloned().collect();
        all.iter().for_each(|meter| what(meter));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Meter>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, now: Instant) {
        let told = self.told();
        let due = match told.last {
            Some(last) => now.duration_since(last) >= AGAIN,
            None => now.duration_since(told.made) >= LOOK,
        };
        drop(told);
        if due {
            self.tell();
        }
    }

    /// Tells of the connection, if that was not told yet, and of the bytes since.
    fn tell(&self) {
        let mut told = self.told();
        if told.cancelled {
            return;
        }
        let begins = !self.begun.swap(true, Ordering::Relaxed);
        let (sent, received) = (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
        let decision = Decision {
            host: told.host.clone(),
            port: told.port,
            allowed: true,
            can_be_allowed: true,
            rule: told.rule.clone(),
            connections: begins.into(),
            sent: sent - told.sent,
            received: received - told.received,
        };
        (told.sent, told.received, told.last) = (sent, received, Some(Instant::now()));
        drop(told);
        if begins || decision.sent > 0 || decision.received > 0 {
            (self.sink)(decision);
        }
    }
}

impl Ticket {
    pub(super) fn sent(&self, bytes: usize) {
        self.meter.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        if bytes > 0 && !self.meter.begun.load(Ordering::Relaxed) {
            self.meter.tell();
        }
    }

    pub(super) fn received(&self, bytes: usize) {
        self.meter.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was taken for one host turned out to be meant for another, which is allowed too.
    pub(super) fn is_for(&self, way: &Way) {
        let host = way.host.to_string();
        if self.meter.told().host == host {
            return;
        }
        // What was told already stays with the other host; this one is a decision of its own.
        if self.meter.begun.load(Ordering::Relaxed) {
            self.meter.tell();
            self.meter.begun.store(false, Ordering::Relaxed);
        }
        let mut told = self.meter.told();
        (told.host, told.rule) = (host, way.rule().to_owned());
    }

    /// What was allowed at first is refused after all, and told as that. Bytes that went meanwhile are told all the same.
    pub(super) fn cancel(&self) {
        let Meter { sent, received, begun, .. } = &*self.meter;
        let unused = sent.load(Ordering::Relaxed) == 0 && received.load(Ordering::Relaxed) == 0;
        if unused && !begun.load(Ordering::Relaxed) {
            self.meter.told().cancelled = true;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.tickets.open().remove(&self.number);
        self.meter.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn tickets() -> (Arc<Tickets>, Sink, Receiver<Decision>) {
        let (sender, receiver) = channel();
        let sink: Sink = Arc::new(move |decision| sender.send(decision).unwrap());
        (Arc::default(), sink, receiver)
    }

    fn told(receiver: &Receiver<Decision>) -> Vec<(String, u32, u64, u64)> {
        receiver.try_iter().map(|d| (d.host, d.connections, d.sent, d.received)).collect()
    }

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_told_when_it_begins_and_while_it_lasts() {
        let (tickets, sink, receiver) = tickets();
        let watching = tokio::spawn(tickets.clone().watch());
        let ticket = tickets.issue(sink, &host("a.test"), 443, "rule");
        assert_eq!(told(&receiver), []);
        ticket.sent(5);
        assert_eq!(told(&receiver), [("a.test".to_owned(), 1, 5, 0)], "with its first byte");
        ticket.sent(10);
        ticket.received(3);
        tokio::time::sleep(LOOK * 2).await;
        assert_eq!(told(&receiver), [], "not too often");
        tokio::time::sleep(AGAIN).await;
        assert_eq!(told(&receiver), [("a.test".to_owned(), 0, 10, 3)], "while it lasts");
        tokio::time::sleep(AGAIN * 3).await;
        assert_eq!(told(&receiver), [], "nothing went over it");
        ticket.received(7);
        drop(ticket);
        assert_eq!(told(&receiver), [("a.test".to_owned(), 0, 0, 7)], "the rest at its end");
        assert!(tickets.open().is_empty());
        watching.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_says_nothing_is_told_soon_and_when_all_ends() {
        let (tickets, sink, receiver) = tickets();
        let watching = tokio::spawn(tickets.clone().watch());
        let quiet = tickets.issue(sink.clone(), &host("quiet.test"), 22, "rule");
        tokio::time::sleep(LOOK * 2).await;
        assert_eq!(told(&receiver), [("quiet.test".to_owned(), 1, 0, 0)]);
        let other = tickets.issue(sink, &host("other.test"), 22, "rule");
        other.received(2);
        tickets.tell_all();
        assert_eq!(told(&receiver), [("other.test".to_owned(), 1, 0, 2)]);
        drop((quiet, other));
        assert_eq!(told(&receiver), []);
        watching.abort();
    }

    #[tokio::test]
    async fn what_is_refused_after_all_is_not_told_unless_bytes_went() {
        let (tickets, sink, receiver) = tickets();
        let unused = tickets.issue(sink.clone(), &host("a.test"), 443, "rule");
        unused.cancel();
        drop(unused);
        assert_eq!(told(&receiver), []);
        let used = tickets.issue(sink, &host("b.test"), 443, "rule");
        used.received(6);
        used.cancel();
        drop(used);
        assert_eq!(told(&receiver), [("b.test".to_owned(), 1, 0, 6)]);
    }
}
