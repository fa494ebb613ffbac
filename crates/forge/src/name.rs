//! Names that are handed to git as arguments: branches and commit ids. They are checked here, before git sees them, so
//! that none can be taken for an option, another revision or another ref.

use crate::Error;

/// Whether this can be the name of a branch (or of anything below `refs/…/`), by git's own rules.
pub(crate) fn is_branch(name: &str) -> bool {
    let component = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !part.ends_with(".lock")
    };
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with('-')
        && name != "@"
        && name != "HEAD"
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(|c: char| c.is_control() || " ~^:?*[\\".contains(c))
        && name.split('/').all(component)
}

/// Refuses what cannot be a commit id written in full.
pub(crate) fn commit(text: &str) -> Result<&str, Error> {
    let full = matches!(text.len(), 40 | 64) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if full { Ok(text) } else { Err(Error::Io(format!("{text:?} is not a full commit id"))) }
}

/// Refuses what cannot be the last part of `refs/slipway/…`.
pub(crate) fn kept(name: &str) -> Result<String, Error> {
    if is_branch(name) {
        Ok(format!("refs/slipway/{name}"))
    } else {
        Err(Error::Io(format!("{name:?} cannot be part of a ref's name")))
    }
}

/// Where the work of each of a session's turns is kept, so that no later one takes its place.
pub(crate) fn turns(session: &str) -> Result<String, Error> {
    if is_branch(session) && !session.contains('/') {
        Ok(format!("refs/slipway-turns/{session}"))
    } else {
        Err(Error::Io(format!("{session:?} cannot be part of a ref's name")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_follow_gits_rules() {
        for good in ["main", "slipway/ses_01", "feature/a-b.c", "fünf", "a@b"] {
            assert!(is_branch(good), "{good}");
        }
        for bad in [
            "", "-d", "--all", "a..b", "a b", "a:b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.", "@",
            "a@{1}",
        ] {
            assert!(!is_branch(bad), "{bad}");
        }
    }

    #[test]
    fn only_full_ids_are_commits() {
        assert!(commit(&"a1".repeat(20)).is_ok());
        assert!(commit(&"a1".repeat(32)).is_ok());
        assert!(commit("HEAD").is_err());
        assert!(commit("--help").is_err());
        assert!(commit(&"A1".repeat(20)).is_err());
    }
}
