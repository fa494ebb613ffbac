//! Who is there: the people that follow a session, counted by their connections, and who of them writes. None of it is
//! stored.

use std::sync::Arc;
use std::time::Duration;

use protocol::EphemeralBody;
use tokio::time::Instant;

use crate::feed::Stream;

/// Others are told that somebody writes at most this often.
const TYPING: Duration = Duration::from_secs(1);

/// One person.
struct Person {
    name: String,
    connections: usize,
    typed: Option<Instant>,
}

/// The people of one session, in the order of their names. Few sessions have more than one.
#[derive(Default)]
pub(crate) struct People(Vec<Person>);

impl People {
    /// Whether anybody is there.
    pub(crate) fn anybody(&self) -> bool {
        !self.0.is_empty()
    }

    /// The list as it is sent.
    pub(crate) fn presence(&self) -> EphemeralBody {
        EphemeralBody::Presence { people: self.0.iter().map(|person| person.name.clone()).collect() }
    }

    /// Whether others are to be told that this person writes.
    pub(crate) fn types(&mut self, person: &str) -> bool {
        let Ok(place) = self.place(person) else { return false };
        let person = &mut self.0[place];
        let now = Instant::now();
        let due = person.typed.is_none_or(|last| now.duration_since(last) >= TYPING);
        if due {
            person.typed = Some(now);
        }
        due
    }

    /// One more connection; whether the list is another now.
    fn arrive(&mut self, name: &str) -> bool {
        match self.place(name) {
            Ok(place) => {
                self.0[place].connections += 1;
                false
            }
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, Person { name: name.to_owned(), connections: 1, typed: None });
                true
            }
        }
    }

    /// One connection less; whether the list is another now.
    fn depart(&mut self, name: &str) -> bool {
        let Ok(place) = self.place(name) else { return false };
        self.0[place].connections -= 1;
        let gone = self.0[place].connections == 0;
        if gone {
            self.0.remove(place);
        }
        gone
    }

    /// Where somebody is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|person| person.name.as_str().cmp(name))
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
