//! Why the work of a turn could not go on.

use protocol::{Code, Problem};

use crate::problem;

/// What ends a piece of work early. Each is handled in one place, in the runner.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing can be recorded: the turn is left as it is, to be resumed.
    Store(store::Error),
    /// The turn fails with this.
    Problem(Problem),
    /// A person stopped the turn.
    Stopped,
    /// The sandbox died; the text says why.
    Lost(String),
    /// A person must decide first: the turn is left as it is until then.
    Waits,
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<forge::Error> for Failure {
    fn from(error: forge::Error) -> Self {
        Self::Problem(problem::forge(&error))
    }
}

impl From<sandbox::Error> for Failure {
    fn from(error: sandbox::Error) -> Self {
        Self::Problem(problem::sandbox(&error))
    }
}

impl From<guest::Error> for Failure {
    fn from(error: guest::Error) -> Self {
        match error {
            guest::Error::Unavailable(detail) => Self::Lost(detail),
            error @ (guest::Error::NotFound(_) | guest::Error::Refused(_)) => {
                Self::Problem(problem::guest(&error))
            }
        }
    }
}

impl Failure {
    /// For callers outside a turn, who get an answer and no event.
    pub(crate) fn into_problem(self) -> Problem {
        match self {
            Self::Store(error) => problem::store(error),
            Self::Problem(problem) => problem,
            Self::Stopped => problem::closing(),
            Self::Waits => Problem::new(Code::Conflict, "the turn waits for somebody to decide"),
            Self::Lost(detail) => problem::guest(&guest::Error::Unavailable(detail)),
        }
    }
}
