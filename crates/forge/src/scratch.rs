//! A throwaway bare repository that borrows a mirror's objects. What comes from a sandbox is unpacked and examined here
//! before the mirror gets any of it, and refs can be named freely here without two sessions getting in each other's way.

use std::io;
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
        lay_out(&path, &mirror.join("objects"), Format::of(commit))
            .map_err(|error| Error::io(format_args!("write {}", path.display()), &error))?;
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

    /// Lets HEAD name this branch, and the branch this commit. Nobody else is in here, so it needs none of git's locks; that the
    /// commit is there is found out by whatever reads it.
    pub(crate) fn begin_at(&self, reference: &str, commit: &str) -> Result<(), Error> {
        let file = self.path.join(reference);
        let write = || {
            std::fs::create_dir_all(file.parent().unwrap_or(&self.path))?;
            std::fs::write(&file, format!("{commit}\n"))?;
            std::fs::write(self.path.join("HEAD"), format!("ref: {reference}\n"))
        };
        write().map_err(|error| Error::io(format_args!("write {}", file.display()), &error))
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

/// How a repository names its objects.
#[derive(Clone, Copy)]
enum Format {
    Sha1,
    Sha256,
}

impl Format {
    /// As this commit id tells.
    fn of(commit: &str) -> Self {
        if commit.len() == 64 { Self::Sha256 } else { Self::Sha1 }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }
}

/// Makes an empty bare repository that borrows the objects of another, as git's manual describes one. Starting git for it
/// would take as long as what is then done in it.
fn lay_out(path: &Path, borrowed: &Path, format: Format) -> io::Result<()> {
    for directory in ["objects/info", "objects/pack", "refs/heads"] {
        std::fs::create_dir_all(path.join(directory))?;
    }
    let mut borrowed = borrowed.as_os_str().to_owned();
    borrowed.push("\n");
    std::fs::write(path.join("objects/info/alternates"), borrowed.as_encoded_bytes())?;
    let config = match format {
        Format::Sha1 => "[core]\n\trepositoryformatversion = 0\n\tbare = true\n".to_owned(),
        Format::Sha256 => {
            let name = format.name();
            format!(
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = {name}\n"
            )
        }
    };
    std::fs::write(path.join("config"), config)?;
    std::fs::write(path.join("HEAD"), "ref: refs/heads/none\n")
}

/// Makes an empty bare repository with the object format of this commit id.
pub(crate) async fn init(path: &Path, commit: &str) -> Result<(), Error> {
    let format = Format::of(commit).name();
    Git::local("init", path)
        .args(["--bare", "--quiet", "--template=", "--initial-branch=none"])
        .arg(format!("--object-format={format}"))
        .arg("--")
        .arg(path)
        .succeed()
        .await
        .map(drop)
}
