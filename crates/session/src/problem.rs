//! From the errors of the crates below to a [`Problem`]: a stable code, what happened, and what to do next.

use protocol::{Code, Problem, SessionId};

/// A store's error.
pub fn store(error: store::Error) -> Problem {
    let text = error.to_string();
    match error {
        store::Error::Full(path) => Problem::new(Code::StorageFull, "the disk of the data directory is full")
            .hint(format!(
                "free some space where {} is and try again; nothing that was confirmed is lost",
                path.parent().unwrap_or(&path).display()
            )),
        store::Error::Damaged { path, .. } if path.file_name().is_some_and(|name| name == "catalogue.db") => {
            Problem::new(Code::StorageDamaged, text).hint(format!(
                "stop the server, move {} and the files beside it with that name away, and start it again: sessions are found \
                 from their logs; environments that were added and idempotency keys are gone, unless a backup has them",
                path.display()
            ))
        }
        store::Error::Damaged { path, .. } => Problem::new(Code::StorageDamaged, text).hint(format!(
            "nothing more is written to it, and what comes before the damage can be read; to bring it back, stop the \
             server, move {} away and run `slipway restore` with a backup; other sessions are not affected",
            path.parent().unwrap_or(&path).display()
        )),
        store::Error::OpenFiles(_) => Problem::new(Code::Internal, text)
            .hint("raise the limit of open files for the server (ulimit -n), then try again"),
        store::Error::Newer(_) => {
            Problem::new(Code::StorageDamaged, text).hint("start the newer version of slipway again")
        }
        store::Error::NoSession(id) => no_session(id),
        store::Error::Locked { .. } => {
            Problem::new(Code::Conflict, text).hint("stop the other server, or use another data directory")
        }
        store::Error::Fenced => {
            Problem::new(Code::Conflict, text).hint("ask the server that owns the session now")
        }
        store::Error::Disk { path, .. } => Problem::new(Code::StorageFailed, text).hint(format!(
            "look at that disk and at the system's log (dmesg) on the server's machine, then try again, and start the server \
             again if that does not help; if the disk is lost, put a backup back with `slipway restore` on another one than \
             that of {}",
            path.parent().unwrap_or(&path).display()
        )),
        store::Error::Io { path, .. } => Problem::new(Code::Internal, text).hint(format!(
            "check that the server's user can read and write {}, then try again; the server's log says more",
            path.display()
        )),
    }
}

/// There is no such session.
pub(crate) fn no_session(id: SessionId) -> Problem {
    Problem::new(Code::NotFound, format!("there is no session {id}")).hint("`slipway ls` lists the sessions")
}

/// A reader says that it has events which are not in the log.
pub(crate) fn after_end(id: SessionId, after: u64, last_seq: u64) -> Problem {
    let title =
        format!("session {id} ends at event {last_seq}, and what comes after event {after} was asked for");
    let problem = Problem::new(Code::AfterEnd, title).hint(
        "read it again from the beginning, after event 0: what you have is of another server, or this one was \
         restored from a backup and does not have it any more",
    );
    Problem { last_seq: Some(last_seq), ..problem }
}

/// A reader says that it has events which are not the log's, although there are some with their numbers.
pub(crate) fn other_lineage(id: SessionId, after: u64) -> Problem {
    let title = format!(
        "session {id} was restored from a backup: what you have of it up to event {after} is not what its log has now"
    );
    Problem::new(Code::OtherLineage, title)
        .hint("forget what you have of it, and read it again from the beginning, after event 0")
}

/// Git on the host could not do it.
pub(crate) fn forge(error: &forge::Error) -> Problem {
    let text = error.to_string();
    match error {
        forge::Error::Unavailable { .. } => Problem::new(Code::RepositoryUnavailable, text)
            .hint("check the address, that it can be reached from this machine, and that git may read it"),
        forge::Error::NoBranch { .. } => Problem::new(Code::BranchNotFound, text)
            .hint("name one of these branches in the environment, or push the branch first"),
        forge::Error::Empty { .. } => {
            Problem::new(Code::RepositoryUnavailable, text).hint("push a first commit, then try again")
        }
        forge::Error::Refused(_) => {
            Problem::new(Code::DeliveryFailed, text).hint("undo what is refused, then try again")
        }
        forge::Error::Push { .. } => Problem::new(Code::DeliveryFailed, text)
            .hint("check that this machine may push there, then deliver the session again"),
        forge::Error::NoGit => Problem::new(Code::RepositoryUnavailable, text),
        forge::Error::Io(_) => Problem::new(Code::Internal, text)
            .hint("check the space and the permissions of the data directory"),
    }
}

/// There is no sandbox.
pub(crate) fn sandbox(error: &sandbox::Error) -> Problem {
    match error {
        sandbox::Error::Unsupported { message, hint } | sandbox::Error::NoRoom { message, hint } => {
            Problem::new(Code::SandboxUnavailable, message.clone()).hint(hint.clone())
        }
        sandbox::Error::NotFound(_) => Problem::new(Code::SandboxUnavailable, error.to_string())
            .hint("send a prompt: a new sandbox is made from the work that was kept"),
        sandbox::Error::Build { message, hint } | sandbox::Error::Limit { message, hint, .. } => {
            Problem::new(Code::SetupFailed, message.clone()).hint(hint.clone())
        }
        sandbox::Error::Start(_)
        | sandbox::Error::Io { .. }
        | sandbox::Error::InUse { .. }
        | sandbox::Error::NoLayer(_) => Problem::new(Code::SandboxUnavailable, error.in_full())
            .hint("`slipway doctor` says what is missing on this machine"),
    }
}

/// The guest did not do it.
pub(crate) fn guest(error: &guest::Error) -> Problem {
    match error {
        guest::Error::Unavailable(_) => Problem::new(Code::SandboxUnavailable, error.to_string())
            .hint("send a prompt: a new sandbox is made from the work that was kept"),
        guest::Error::NotFound(_) | guest::Error::Refused(_) => {
            Problem::new(Code::SandboxUnavailable, format!("the sandbox could not do its part: {error}"))
                .hint("the workspace's disk may be full; try again, or start a new session")
        }
    }
}

/// A model gave no answer after every attempt.
pub(crate) fn model(error: &llm::Error) -> Problem {
    match error.class {
        llm::Class::Unreachable | llm::Class::Auth => {
            Problem::new(Code::ModelUnavailable, error.message.clone())
                .hint("check the model's address and key in slipway.toml, then send the prompt again")
        }
        llm::Class::TimedOut => Problem::new(Code::ModelUnavailable, error.message.clone()).hint(
            "look at what the model's server does, or choose another model, then send the prompt again",
        ),
        llm::Class::Overloaded | llm::Class::RateLimited => {
            Problem::new(Code::ModelUnavailable, error.message.clone())
                .hint("wait a while or choose another model, then send the prompt again")
        }
        llm::Class::BadResponse => Problem::new(Code::ModelMisbehaved, error.message.clone())
            .hint("check that the address speaks the provider's wire format, or choose another model"),
        llm::Class::Unpaid => Problem::new(Code::ModelUnavailable, error.message.clone())
            .hint("pay the provider or choose another model, then send the prompt again"),
        llm::Class::UnknownModel | llm::Class::Unsupported | llm::Class::BadRequest => {
            Problem::new(Code::ModelUnavailable, error.message.clone())
                .hint("check the model's name and that it can call tools, or choose another model")
        }
        llm::Class::ContextOverflow => Problem::new(Code::ModelMisbehaved, error.message.clone())
            .hint("start a new session with a smaller task, or choose a model with a larger window"),
    }
}

/// Something in a recipe is not as it must be.
pub(crate) fn recipe(error: &sandbox::Error) -> Problem {
    let Problem { title, hint, .. } = sandbox(error);
    Problem { hint, ..Problem::new(Code::BadRequest, title) }
}

/// The server is ending.
pub(crate) fn closing() -> Problem {
    Problem::new(Code::ShuttingDown, "the server is shutting down").hint("try again when it is back")
}

/// A file of ours beside the log could not be used.
pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Problem {
    let text = format!("cannot use {}: {error}", path.display());
    if error.kind() == std::io::ErrorKind::StorageFull {
        Problem::new(Code::StorageFull, text).hint("free some space in the data directory and try again")
    } else {
        Problem::new(Code::Internal, text).hint("check the space and the permissions of the data directory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_meets_a_failing_disk_is_told_what_happened_and_what_to_do() {
        let path = std::path::PathBuf::from("/data/sessions/x/log.db");
        let problem = store(store::Error::Disk { path, detail: "Input/output error".to_owned() });
        assert_eq!((problem.code, problem.status), (Code::StorageFailed, 507));
        assert_eq!(problem.title, "the disk that holds /data/sessions/x/log.db failed: Input/output error");
        let hint = problem.hint.unwrap();
        assert!(hint.contains("dmesg") && hint.contains("slipway restore"), "{hint}");
    }
}
