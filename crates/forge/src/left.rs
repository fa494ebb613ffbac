//! Pushes of which nobody saw the end. While git pushes a branch, it holds a file locked; the file goes when git has said
//! how the push ended. A file that is there tells a later server that a push was broken off, and the lock that it still runs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::git::{Git, LONG};
use crate::held::{self, How};
use crate::{Error, Mirror};

/// Where a mirror has these files.
const DIR: &str = "slipway-pushing";

/// A push of which nobody saw the end, as a server left it that was killed.
#[derive(Debug)]
pub struct LeftPush {
    branch: String,
    path: PathBuf,
    file: File,
    elsewhere: bool,
}

impl LeftPush {
    /// Whether git still runs.
    pub fn is_running(&self) -> bool {
        // An error is told by whoever ends it.
        !held::try_lock(&self.file, How::Alone).unwrap_or(false)
    }

    /// Whether the remote may still take the branch when nothing of git is left here: it is on another machine.
    pub fn may_come(&self) -> bool {
        self.elsewhere
    }

    /// Lets the push come to its end, and ends it when it is given up or takes too long. Nothing of git runs any more when
    /// this returns without an error.
    pub async fn end(self, given_up: impl Future<Output = ()>) -> Result<(), Error> {
        self.settle(given_up).await?;
        // What a remote on this machine does not have now never comes.
        if self.elsewhere { Ok(()) } else { self.forget() }
    }

    async fn settle(&self, given_up: impl Future<Output = ()>) -> Result<(), Error> {
        let ended = tokio::select! {
            biased;
            locked = held::lock(&self.file, How::Alone) => locked.map(|()| true),
            () = given_up => held::end_holders(&self.file, &self.path).await,
            () = tokio::time::sleep(LONG) => held::end_holders(&self.file, &self.path).await,
        };
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Io(format!(
                "a push of {} that an earlier server began still runs and cannot be ended: end whatever has {} open",
                self.branch,
                self.path.display()
            ))),
            Err(error) => Err(Error::io(format_args!("lock {}", self.path.display()), &error)),
        }
    }

    fn forget(&self) -> Result<(), Error> {
        let id = held::id(&self.file).map_err(|error| failed(&self.path, &error))?;
        remove(&self.path, id)
    }
}

impl Mirror {
    /// A push of this branch of which nobody saw the end.
    pub fn left_push(&self, branch: &str) -> Result<Option<LeftPush>, Error> {
        let path = file_of(&self.path, branch);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        let elsewhere = self.url.path().is_none();
        Ok(Some(LeftPush { branch: branch.to_owned(), path, file, elsewhere }))
    }

    /// The remote has the branch: whatever is left of its push, there is nothing more to be found out.
    pub fn forget_push(&self, branch: &str) {
        let forgotten = self.left_push(branch).and_then(|left| left.map_or(Ok(()), |left| left.forget()));
        if let Err(error) = forgotten {
            tracing::warn!(%error, "a push that has ended will look like one that was broken off");
        }
    }

    /// Waits for a push that was left, and makes the file for the next one.
    pub(crate) async fn claim_push(&self, branch: &str, commit: &str) -> Result<Pushing, Error> {
        let path = file_of(&self.path, branch);
        loop {
            if let Some(left) = self.left_push(branch)? {
                left.settle(std::future::pending()).await?;
                left.forget()?;
            }
            let (at, note) = (path.clone(), format!("{commit} {branch}\n"));
            // After a power cut nothing runs any more on this machine, but a remote elsewhere may go on.
            let durable = self.url.path().is_none();
            let claimed = tokio::task::spawn_blocking(move || claim(&at, &note, durable)).await;
            let claimed = claimed.unwrap_or_else(|error| Err(io::Error::other(error)));
            match claimed.map_err(|error| failed(&path, &error))? {
                Some((file, id)) => return Ok(Pushing { path, id, file: Some(file) }),
                // Somebody else was quicker.
                None => tokio::task::yield_now().await,
            }
        }
    }
}

/// A push that is about to begin. When nothing comes of it, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Pushing {
    path: PathBuf,
    id: held::Id,
    file: Option<File>,
}

impl Pushing {
    /// Hands the lock over to git, which holds it alone from now on.
    pub(crate) fn start(mut self, git: Git) -> (Git, Started) {
        let git = match self.file.take() {
            Some(file) => git.inherits(file),
            None => git,
        };
        (git, Started { path: self.path.clone(), id: self.id })
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        if self.file.is_some()
            && let Err(error) = remove(&self.path, self.id)
        {
            tracing::warn!(%error, "a push that was not begun will look like one");
        }
    }
}

/// A push that was begun. It is remembered until it is said how it ended.
#[derive(Debug)]
pub(crate) struct Started {
    path: PathBuf,
    id: held::Id,
}

impl Started {
    /// It is known how the push ended. What git leaves behind on purpose, as a helper that keeps passwords, may still hold
    /// the file.
    pub(crate) fn ended(self) {
        if let Err(error) = remove(&self.path, self.id) {
            tracing::warn!(%error, "a push that has ended will look like one that was broken off");
        }
    }
}

/// Where it is, whatever the branch has in its name.
fn file_of(mirror: &Path, branch: &str) -> PathBuf {
    let name: String = Sha256::digest(branch).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    mirror.join(DIR).join(name)
}

/// A new locked file with a note for people; None when there is one already.
fn claim(path: &Path, note: &str, durable: bool) -> io::Result<Option<(File, held::Id)>> {
    let dir = path.parent().unwrap_or(path);
    std::fs::create_dir_all(dir)?;
    let mut file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    if !held::try_lock(&file, How::Alone)? || !held::is_at(&file, path) {
        return Ok(None);
    }
    file.write_all(note.as_bytes())?;
    if durable {
        file.sync_all()?;
        for made in [Some(dir), dir.parent()].into_iter().flatten() {
            File::open(made)?.sync_all()?;
        }
    }
    let id = held::id(&file)?;
    Ok(Some((file, id)))
}

/// Removes a file, but not another that was made in its place.
fn remove(path: &Path, id: held::Id) -> Result<(), Error> {
    let same = path.metadata().is_ok_and(|metadata| held::id_of(&metadata) == id);
    if same {
        std::fs::remove_file(path).map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("keep track of a push in {}", path.display()), error)
}
