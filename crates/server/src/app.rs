//! What the routes share. The sessions can be reached only by naming who wants to do what with which thing, so no
//! route can forget to ask.

use std::sync::Arc;

use protocol::Problem;
use session::Sessions;

use crate::authorize::{Action, Caller, Resource, authorize};
use crate::limits::{Limits, Seat, Seats};
use crate::listen::Life;

/// State of the routes that need sessions.
#[derive(Clone)]
pub(crate) struct App {
    sessions: Sessions,
    life: Life,
    limits: Limits,
    seats: Seats,
    people: Arc<[String]>,
}

impl App {
    pub(crate) fn new(sessions: Sessions, life: Life, limits: Limits, people: Vec<String>) -> Self {
        Self { sessions, life, limits, seats: Seats::default(), people: people.into() }
    }

    /// Who has a token of their own.
    pub(crate) fn people(&self) -> &[String] {
        &self.people
    }

    /// The sessions, for a caller that may do this.
    pub(crate) fn allow(
        &self,
        caller: &Caller,
        action: Action,
        resource: Resource<'_>,
    ) -> Result<&Sessions, Problem> {
        authorize(Some(&caller.0), action, resource)?;
        Ok(&self.sessions)
    }

    /// The sessions, for what is let in by its own signature and not by the door.
    pub(crate) fn unguarded(&self) -> &Sessions {
        &self.sessions
    }

    /// The server's life, for streams and commands.
    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// What users and connections may use.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A place for one more stream of this caller's.
    pub(crate) fn seat(&self, caller: &Caller) -> Result<Seat, Problem> {
        self.seats.take(&caller.0.id, &self.limits)
    }

    /// The store, for idempotency keys.
    pub(crate) fn store(&self) -> &store::Store {
        self.sessions.store()
    }
}
