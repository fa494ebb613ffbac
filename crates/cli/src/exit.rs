//! Exit codes, which scripts rely on, and how an error is told.

use std::process::ExitCode;

use protocol::{Code, Outcome, Problem, Status};

use crate::render::style;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It is done.
    Done,
    /// It failed or escalated.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// It is not allowed.
    NotAllowed,
    /// A human must decide.
    Waiting,
    /// It was interrupted.
    Interrupted,
    /// The exit code of a command that was run.
    Command(u8),
}

impl Exit {
    /// The code of [`Exit::Usage`].
    pub(crate) const USAGE: u8 = 2;
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => Exit::USAGE,
            Exit::NotAllowed => 3,
            Exit::Waiting => 4,
            Exit::Interrupted => 130,
            Exit::Command(code) => code,
        })
    }
}

impl From<Outcome> for Exit {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Escalated | Outcome::Failed | Outcome::OutOfBudget | Outcome::Cancelled => Self::Failed,
        }
    }
}

impl From<Status> for Exit {
    fn from(status: Status) -> Self {
        match status {
            Status::Queued | Status::Working | Status::Done => Self::Done,
            Status::Waiting => Self::Waiting,
            Status::Escalated | Status::Failed | Status::Cancelled | Status::OutOfBudget => Self::Failed,
        }
    }
}

/// What the user typed, or wrote into the configuration, cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub(crate) struct Usage(pub(crate) anyhow::Error);

/// It was told to end while it waited.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Tells an error and gives its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let text = match error.downcast_ref::<Problem>() {
        Some(problem) => problem.to_string(),
        None => format!("{error:#}"),
    };
    style::error(&text);
    code_of(error).into()
}

fn code_of(error: &anyhow::Error) -> Exit {
    if error.is::<Usage>() {
        return Exit::Usage;
    }
    if error.is::<Interrupted>() {
        return Exit::Interrupted;
    }
    match error.downcast_ref::<Problem>().map(|problem| problem.code) {
        Some(Code::Unauthorized | Code::Forbidden) => Exit::NotAllowed,
        Some(
            Code::BadRequest
            | Code::AfterEnd
            | Code::OtherLineage
            | Code::NotFound
            | Code::EnvironmentNotFound
            | Code::ModelNotFound
            | Code::BranchNotFound
            | Code::RepositoryUnavailable
            | Code::TooLarge,
        ) => Exit::Usage,
        _ => Exit::Failed,
    }
}
