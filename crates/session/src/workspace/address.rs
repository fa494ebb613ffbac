//! Repository addresses with credentials in them. They are for git alone: the log, which everybody who may look at a
//! session reads, has the address without them, and a file beside the log that nothing serves has the whole one.

use std::io::Write as _;
use std::path::Path;

use protocol::{Environment, Problem, SessionId};

use crate::problem;

/// The file in a session's directory. It is there only if there is something to keep apart.
const FILE: &str = "repositories.json";

/// The recipe as the log has it. What is taken out of it is written into the session's directory first.
pub(crate) fn keep_apart(dir: &Path, mut recipe: Environment) -> Result<Environment, Problem> {
    let whole: Vec<String> = recipe.repos.iter().map(|repo| repo.url.clone()).collect();
    for repo in &mut recipe.repos {
        repo.url = forge::public_url(&repo.url);
    }
    if recipe.repos.iter().zip(&whole).any(|(repo, whole)| repo.url != *whole) {
        let path = dir.join(FILE);
        let write = || -> std::io::Result<()> {
            // A temporary file is for its owner only, and stays so when it gets its name.
            let mut file = tempfile::NamedTempFile::new_in(dir)?;
            file.write_all(&serde_json::to_vec(&whole)?)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| problem::file(&path, &error))?;
    }
    Ok(recipe)
}

/// The recipe as git needs it.
pub(super) fn put_back(dir: &Path, session: SessionId, mut recipe: Environment) -> Environment {
    let path = dir.join(FILE);
    let read = std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice::<Vec<String>>(&bytes)?));
    match read {
        Ok(whole) => {
            let same = |(repo, whole): &(&mut protocol::Repo, String)| repo.url == forge::public_url(whole);
            for (repo, whole) in recipe.repos.iter_mut().zip(whole).filter(same) {
                repo.url = whole;
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        // Git says what it cannot read without them.
        Err(error) => {
            tracing::error!(%session, path = %path.display(), %error, "a repository's credentials cannot be read");
        }
    }
    recipe
}

/// Gives a session the credentials of the one that it goes on from.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Problem> {
    match std::fs::copy(from.join(FILE), to.join(FILE)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(problem::file(&from.join(FILE), &error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Takes credentials out of a recipe that is shown.
pub(crate) fn cover(recipe: &mut Environment) {
    for repo in &mut recipe.repos {
        repo.url = forge::covered_url(&repo.url);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use protocol::Repo;

    use super::*;

    fn recipe(url: &str) -> Environment {
        let repos = vec![Repo { url: url.to_owned(), branch: None, path: None }];
        Environment { repos, ..Environment::default() }
    }

    #[test]
    fn credentials_are_apart_and_come_back() {
        let (dir, fork) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let session = SessionId::new();
        let whole = recipe("https://ann:s3cret@git.test/a.git?token=t0ken");
        let logged = keep_apart(dir.path(), whole.clone()).unwrap();
        assert_eq!(logged.repos[0].url, "https://git.test/a.git");
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(put_back(dir.path(), session, logged.clone()), whole);
        copy(dir.path(), fork.path()).unwrap();
        assert_eq!(put_back(fork.path(), session, logged), whole);
        let other = recipe("https://git.test/other.git");
        assert_eq!(put_back(dir.path(), session, other.clone()), other, "they are of one repository");
    }

    #[test]
    fn without_credentials_there_is_no_file() {
        let (dir, fork) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plain = recipe("ssh://git@git.test/a.git");
        assert_eq!(keep_apart(dir.path(), plain.clone()).unwrap(), plain);
        copy(dir.path(), fork.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(put_back(fork.path(), SessionId::new(), plain.clone()), plain);
    }
}
