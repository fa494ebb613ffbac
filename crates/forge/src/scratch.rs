//! A throwaway bare repository that borrows a mirror's objects. What comes from a sandbox is unpacked and examined here
//! before the mirror gets any of it, and refs can be named freely here without two sessions getting in each other's way.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;
use crate::git::Git;

/// What temporary directories beside the mirrors begin with, so that a later sweep knows them.
pub(crate) const PREFIX: &str = "tmp-";

/// A temporary repository; gone when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: TempDir,
    path: PathBuf,
}

impl Scratch {
    /// Makes one beside the mirror, with the object format of `commit`.
    pub(crate) async fn beside(mirror: &Path, commit: &str) -> Result<Self, Error> {
        let parent = mirror.parent().unwrap_or(mirror);
        let directory = temporary(parent)?;
        let path = directory.path().join("repository.git");
        init(&path, commit).await?;
        let mut borrowed = mirror.join("objects").into_os_string();
        borrowed.push("\n");
        let list = path.join("objects/info/alternates");
        let write = async {
            tokio::fs::create_dir_all(path.join("objects/info")).await?;
            tokio::fs::write(&list, borrowed.as_encoded_bytes()).await
        };
        write.await.map_err(|error| Error::io(format_args!("write {}", list.display()), &error))?;
        Ok(Self { directory, path })
    }

    /// The repository.
    pub(crate) fn repository(&self) -> &Path {
        &self.path
    }

    /// A place for a file that goes away together with the repository.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Git at work in this repository.
    pub(crate) fn git(&self, command: &'static str) -> Git {
        Git::local(command, &self.path)
    }

    pub(crate) async fn point(&self, name: &str, commit: &str) -> Result<(), Error> {
        self.git("update-ref").args(["--no-deref", name, commit]).succeed().await.map(drop)
    }
}

/// A temporary directory, only for us.
pub(crate) fn temporary(parent: &Path) -> Result<TempDir, Error> {
    tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(parent)
        .map_err(|error| Error::io(format_args!("make a directory in {}", parent.display()), &error))
}

/// Makes an empty bare repository with the object format of this commit id.
pub(crate) async fn init(path: &Path, commit: &str) -> Result<(), Error> {
    let format = if commit.len() == 64 { "sha256" } else { "sha1" };
    Git::local("init", path)
        .args(["--bare", "--quiet", "--template=", "--initial-branch=none"])
        .arg(format!("--object-format={format}"))
        .arg("--")
        .arg(path)
        .succeed()
        .await
        .map(drop)
}
