//! Commands that are done once. A command with an idempotency key has an id, which the events that it causes carry; what
//! it changes in the catalogue is marked there in the same transaction. So whoever sends it again, after a server died on
//! it, finds out whether it was done, and what its answer was.

use protocol::{Actor, CommandId};

use crate::actor::Handle;
use crate::problem;
use crate::state::State;

/// What is known of a command from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It is asked for the first time.
    Never,
    /// It was begun, and nobody knows how far it came.
    Perhaps,
    /// It was done; only its answer is not known.
    Done,
}

/// A command that has an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Its id: the same whenever it is sent again.
    pub id: CommandId,
    /// What is known of it from before.
    pub before: Before,
}

impl Command {
    /// What the command goes by in the catalogue.
    pub(crate) fn name(self) -> String {
        self.id.to_u128().to_string()
    }
}

/// Whether it is known that a command was done.
pub(crate) fn was_done(command: Option<Command>) -> bool {
    command.is_some_and(|command| command.before == Before::Done)
}

/// Who wants something, and by which command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Who.
    pub actor: Actor,
    /// The command, where it has an idempotency key.
    pub command: Option<Command>,
}

impl From<Actor> for Cause {
    fn from(actor: Actor) -> Self {
        Self { actor, command: None }
    }
}

impl Cause {
    /// The id of the command, for the events that it causes.
    pub(crate) fn id(&self) -> Option<CommandId> {
        self.command.map(|command| command.id)
    }

    /// The id of a command that somebody may have begun before.
    pub(crate) fn begun_before(&self) -> Option<CommandId> {
        self.command.filter(|command| command.before != Before::Never).map(|command| command.id)
    }

    /// The session as it was when the command had been done; None when it was not. Reads the log; nobody asks often.
    pub(crate) async fn done(&self, handle: &Handle) -> Result<Option<State>, protocol::Problem> {
        let Some(wanted) = self.begun_before() else { return Ok(None) };
        let recorder = handle.recorder();
        let (mut state, mut done) = (State::new(recorder.session()), None);
        let look = |event: &protocol::Event| {
            state.apply(event);
            if event.body.command() == Some(wanted) {
                done = Some(state.clone());
            }
        };
        recorder.visit(look).await.map_err(problem::store)?;
        Ok(done)
    }
}
