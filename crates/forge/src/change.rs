//! Git that changes a mirror's refs. It holds a file of the mirror as long as it runs, so that a lock file of git's own that
//! is in the way can be told from one that a killed git left behind; nobody else removes that.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::git::{Failure, Git, Output};
use crate::held::{self, How};
use crate::mirror::Locks;
use crate::{Error, Mirror, remote};

/// The file that whatever changes a mirror holds.
const FILE: &str = "slipway-changing";
/// Other lock files may be in the way once the first are gone; not more often than this.
const MENDS: u32 = 3;
/// How long it is waited until nothing changes the mirror.
const PATIENCE: Duration = Duration::from_secs(10);
/// Git's lock files last for moments. One that stays for this long, while nothing of ours runs, is not a person's either.
const STAYS: Duration = Duration::from_secs(1);

impl Mirror {
    /// Runs git for a change of the mirror's refs.
    pub(crate) async fn change(&self, git: impl Fn() -> Git) -> Result<Output, Failure> {
        change(&self.path, &self.locks, git).await
    }

    /// Changes the mirror's refs, and takes any exit status but success as an error of the host.
    pub(crate) async fn must_change(&self, git: impl Fn() -> Git) -> Result<Output, Error> {
        let output = self.change(git).await?;
        if output.success() {
            return Ok(output);
        }
        Err(Error::Io(format!(
            "git could not change the mirror of {}: {}",
            self.url.public,
            remote::reason(&output.stderr)
        )))
    }
}

/// Runs git for a change of a repository's refs; once more when a lock file was in the way that a killed git left behind.
pub(crate) async fn change(
    repository: &Path,
    locks: &Locks,
    git: impl Fn() -> Git,
) -> Result<Output, Failure> {
    let mut mends = 0;
    loop {
        let output = {
            let _beside_others = locks.changing.read().await;
            let file = hold(repository).await.map_err(Failure::Start)?;
            git().inherits(file).run().await?
        };
        let in_the_way = lock_files(&output.stderr, repository);
        if output.success() || in_the_way.is_empty() || mends == MENDS {
            return Ok(output);
        }
        mends += 1;
        match remove_left(repository, locks, &in_the_way).await {
            Ok(true) => {}
            Ok(false) => return Ok(output),
            Err(error) => {
                tracing::warn!(path = %repository.display(), %error, "cannot remove what a killed git left");
                return Ok(output);
            }
        }
    }
}

async fn hold(repository: &Path) -> io::Result<File> {
    let file = open(repository)?;
    held::lock(&file, How::Shared).await?;
    Ok(file)
}

fn open(repository: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(repository.join(FILE))
}

/// The lock files that git says are there already.
fn lock_files(stderr: &str, repository: &Path) -> Vec<PathBuf> {
    let named = stderr.lines().filter_map(|line| {
        let (_, rest) = line.split_once("Unable to create '")?;
        rest.rsplit_once("': File exists").map(|(path, _)| PathBuf::from(path))
    });
    let ours = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "lock")
            && path.strip_prefix(repository).is_ok_and(|rest| {
                rest.components().all(|component| matches!(component, Component::Normal(_)))
            })
    };
    named.filter(ours).collect()
}

/// Removes these lock files if nothing runs that could have made them. False when something does, and may go on.
async fn remove_left(repository: &Path, locks: &Locks, paths: &[PathBuf]) -> io::Result<bool> {
    let file = open(repository)?;
    let alone = tokio::time::timeout(PATIENCE, async {
        let guard = locks.changing.write().await;
        // Not only this process: a git of a server that is gone may still run.
        held::lock(&file, How::Alone).await?;
        Ok::<_, io::Error>(guard)
    });
    let Ok(alone) = alone.await else { return Ok(false) };
    let _alone = alone?;
    let seen: Vec<_> = paths.iter().map(|path| (path, made(path))).collect();
    tokio::time::sleep(STAYS).await;
    for (path, before) in seen {
        // One that went meanwhile is not in the way any more.
        let Some(before) = before else { continue };
        match made(path) {
            Some(now) if now == before => {
                tracing::warn!(path = %path.display(), "removes a lock file that a git which was killed left behind");
                std::fs::remove_file(path)?;
            }
            Some(_) | None => {}
        }
    }
    Ok(true)
}

/// Which file it is and when it was written.
fn made(path: &Path) -> Option<(held::Id, i64, i64)> {
    let of = |metadata: Metadata| (held::id_of(&metadata), metadata.mtime(), metadata.mtime_nsec());
    path.symlink_metadata().ok().map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lock_files_of_the_repository_are_read() {
        let stderr = "error: cannot lock ref 'HEAD': Unable to create '/m/a.git/HEAD.lock': File exists.\n\
                      error: x: Unable to create '/m/a.git/refs/x/it's.lock': File exists.\n\
                      error: x: Unable to create '/m/a.git/../b.git/HEAD.lock': File exists.\n\
                      error: x: Unable to create '/m/b.git/HEAD.lock': File exists.\n\
                      error: x: Unable to create '/m/a.git/HEAD': File exists.\n\
                      error: x: Unable to create '/m/a.git/y.lock': Permission denied\n";
        let found = lock_files(stderr, Path::new("/m/a.git"));
        assert_eq!(found, [PathBuf::from("/m/a.git/HEAD.lock"), PathBuf::from("/m/a.git/refs/x/it's.lock")]);
    }
}
