//! Who is there: the people that follow a session, counted by their connections, and who of them writes. None of it is
//! stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::EphemeralBody;
use tokio::time::Instant;

use crate::feed::Stream;

/// Others are told that somebody writes at most this often.
const TYPING: Duration = Duration::from_secs(1);

/// One person.
#[derive(Default)]
struct Person {
    connections: usize,
    typed: Option<Instant>,
}

/// The people of one session, by name.
#[derive(Default)]
pub(crate) struct People(BTreeMap<String, Person>);

impl People {
    /// Whether anybody is there.
    pub(crate) fn anybody(&self) -> bool {
        !self.0.is_empty()
    }

    /// The list as it is sent.
    pub(crate) fn presence(&self) -> EphemeralBody {
        EphemeralBody::Presence { people: self.0.keys().cloned().collect() }
    }

    /// Whether others are to be told that this person writes.
    pub(crate) fn types(&mut self, person: &str) -> bool {
        let Some(person) = self.0.get_mut(person) else { return false };
        let now = Instant::now();
        let due = person.typed.is_none_or(|last| now.duration_since(last) >= TYPING);
        if due {
            person.typed = Some(now);
        }
        due
    }

    /// One more connection; whether the list is another now.
    fn arrive(&mut self, name: &str) -> bool {
        let person = self.0.entry(name.to_owned()).or_default();
        person.connections += 1;
        person.connections == 1
    }

    /// One connection less; whether the list is another now.
    fn depart(&mut self, name: &str) -> bool {
        let Some(person) = self.0.get_mut(name) else { return false };
        person.connections -= 1;
        person.connections == 0 && self.0.remove(name).is_some()
    }
}

/// Somebody is there as long as this is.
pub(crate) struct Presence {
    stream: Arc<Stream>,
    name: String,
}

impl Presence {
    /// Somebody comes.
    pub(crate) fn new(stream: &Arc<Stream>, name: String) -> Self {
        stream.change_people(|people| people.arrive(&name));
        Self { stream: Arc::clone(stream), name }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.stream.change_people(|people| people.depart(&self.name));
    }
}
