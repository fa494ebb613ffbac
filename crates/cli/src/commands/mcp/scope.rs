//! What of the sessions is offered: all of it, or less.

use protocol::{Code, Problem, Session};

/// Whether anything can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Look,
    Change,
}

/// The restrictions that the server was started with.
#[derive(Debug)]
pub(super) struct Scope {
    mode: Mode,
    environments: Vec<String>,
}

impl Scope {
    /// Only these environments; all of them where none is named.
    pub(super) fn new(mode: Mode, environments: Vec<String>) -> Self {
        Self { mode, environments }
    }

    pub(super) fn changes(&self) -> bool {
        self.mode == Mode::Change
    }

    /// The environments that it is restricted to, if it is.
    pub(super) fn environments(&self) -> Option<&[String]> {
        (!self.environments.is_empty()).then_some(&self.environments)
    }

    pub(super) fn covers(&self, environment: &str) -> bool {
        self.environments().is_none_or(|names| names.iter().any(|name| name == environment))
    }

    /// An environment that may be used. One that is not offered is as if it did not exist.
    pub(super) fn environment(&self, name: String) -> anyhow::Result<String> {
        if self.covers(&name) {
            return Ok(name);
        }
        Err(Problem::new(Code::EnvironmentNotFound, format!("there is no environment {name}"))
            .hint("list_environments lists them")
            .into())
    }

    /// A session that may be seen. One of an environment that is not offered is as if it did not exist.
    pub(super) fn session(&self, id: &str, found: anyhow::Result<Session>) -> anyhow::Result<Session> {
        let absent = || Problem::new(Code::NotFound, format!("there is no session {id}"));
        match found {
            Ok(session) if self.covers(&session.environment) => Ok(session),
            Ok(_) => Err(absent().hint("list_sessions lists them").into()),
            Err(error) if self.hides(&error) => Err(absent().hint("list_sessions lists them").into()),
            Err(error) => Err(error),
        }
    }

    /// Whether an error means that there is no such session. Where only some are offered, one that is too damaged to tell its
    /// environment is not.
    fn hides(&self, error: &anyhow::Error) -> bool {
        match error.downcast_ref::<Problem>().map(|problem| problem.code) {
            Some(Code::NotFound) => true,
            Some(Code::StorageDamaged) => self.environments().is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_everything_is_offered() {
        let open = Scope::new(Mode::Change, Vec::new());
        assert!(open.covers("shop") && open.environments().is_none() && open.changes());
        let narrow = Scope::new(Mode::Look, vec!["shop".into()]);
        assert!(narrow.covers("shop") && !narrow.covers("shop2") && !narrow.changes());
        assert!(narrow.environment("web".into()).is_err());
        let damaged = || Err(Problem::new(Code::StorageDamaged, "the log is damaged").into());
        let told = |scope: &Scope| scope.session("ses_x", damaged()).unwrap_err().to_string();
        assert!(told(&narrow).starts_with("there is no session ses_x"));
        assert_eq!(told(&open), "the log is damaged");
    }
}
