//! Who may do what: one function that every route goes through, also while there is one local user. Accounts and
//! roles come in here and nowhere else.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::{Actor, ActorKind, Code, Problem, SessionId};

use crate::problem::Failure;

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// See it.
    Read,
    /// Make a new one.
    Create,
    /// Ask for work.
    Prompt,
    /// Stop the work.
    Stop,
    /// Decide an approval.
    Approve,
    /// Push the branch.
    Deliver,
    /// Write it.
    Write,
    /// Remove it.
    Remove,
}

/// What it is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The page at `/`, which has no data.
    Page,
    /// The server itself: health, the API's description.
    Server,
    /// All sessions.
    Sessions,
    /// One session, with everything in it.
    Session(SessionId),
    /// All environments.
    Environments,
    /// One environment.
    Environment(&'a str),
    /// The configured models.
    Models,
    /// All secrets, without their values.
    Secrets,
    /// One secret.
    Secret(&'a str),
    /// Where whoever asks has signed in.
    Logins,
    /// The notes across sessions.
    Memory,
    /// Everything at once, in an archive.
    Backup,
}

/// Decides whether the actor may do this. `None` is somebody we do not know.
pub fn authorize(actor: Option<&Actor>, action: Action, resource: Resource<'_>) -> Result<(), Problem> {
    let Some(actor) = actor else {
        return match (resource, action) {
            (Resource::Page, Action::Read) => Ok(()),
            _ => Err(unknown()),
        };
    };
    match actor.kind {
        ActorKind::User => Ok(()),
        // An agent acts through its session, the platform by itself; neither has business at the front door.
        ActorKind::Agent | ActorKind::System => {
            Err(Problem::new(Code::Forbidden, "only people may use the API"))
        }
    }
}

/// The answer to somebody without the right token.
pub(crate) fn unknown() -> Problem {
    Problem::new(Code::Unauthorized, "this server demands a token")
        .hint("send it as \"Authorization: Bearer TOKEN\"")
}

/// Who sent the request, as the door found out; `None` for somebody unknown who wants the page.
#[derive(Debug, Clone)]
pub(crate) struct Identity(pub(crate) Option<Actor>);

/// Somebody we know.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Actor);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        match parts.extensions.get::<Identity>() {
            Some(Identity(Some(actor))) => Ok(Self(actor.clone())),
            Some(Identity(None)) | None => Err(unknown().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_see_only_the_page() {
        assert!(authorize(None, Action::Read, Resource::Page).is_ok());
        for resource in [
            Resource::Server,
            Resource::Sessions,
            Resource::Environment("a"),
            Resource::Models,
            Resource::Secrets,
            Resource::Secret("a"),
            Resource::Logins,
            Resource::Memory,
            Resource::Backup,
        ] {
            let problem = authorize(None, Action::Read, resource).unwrap_err();
            assert_eq!(problem.code, Code::Unauthorized, "{resource:?}");
        }
        assert!(authorize(None, Action::Write, Resource::Page).is_err());
    }

    #[test]
    fn agents_do_not_use_the_front_door() {
        let session = Resource::Session(SessionId::from_u128(1));
        assert!(authorize(Some(&Actor::user("local")), Action::Deliver, session).is_ok());
        let problem = authorize(Some(&Actor::agent("main")), Action::Deliver, session).unwrap_err();
        assert_eq!(problem.code, Code::Forbidden);
    }
}
