//! A mirror as one file, and back, for backups: a bundle of all its refs. A mirror that is there already gets only work that
//! it does not have; nothing of it changes.

use std::collections::HashSet;
use std::path::Path;

use crate::change::change;
use crate::git::{Git, LONG};
use crate::mirror::{Locks, Mirrors, URL_FILE};
use crate::{Error, name, remote, scratch};

/// The refs of sessions' work, as it is and as each turn left it.
const KEPT: [&str; 2] = ["refs/slipway/", "refs/slipway-turns/"];

/// What a bundle does not say of its mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// What it is a mirror of, for people.
    pub url: String,
    /// The ref that its HEAD names.
    pub head: String,
}

impl Mirrors {
    /// The names of all mirrors.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(self.dir()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(format_args!("read {}", self.dir().display()), &error)),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".git").map(str::to_owned))
            .filter(|name| is_name(name) && self.path_of(name).join(URL_FILE).is_file())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Writes everything that a mirror holds to one file.
    pub async fn pack(&self, name: &str, to: &Path) -> Result<Packed, Error> {
        let path = self.checked(name)?;
        let read = tokio::fs::read_to_string(path.join(URL_FILE)).await;
        let url = read.map_err(|error| Error::io(format_args!("read {}", path.display()), &error))?;
        let head = Git::local("symbolic-ref", &path).arg("HEAD").succeed().await?.text();
        let bundle = Git::local("bundle", &path).args(["create", "--quiet"]).arg(to).arg("--all");
        bundle.limit(LONG).succeed().await?;
        Ok(Packed { url: url.trim().to_owned(), head })
    }

    /// Makes a mirror from what [`Mirrors::pack`] wrote. One that is there gets the work of sessions that it does not
    /// have, and keeps what it has. Gives whether it is new.
    pub async fn unpack(&self, name: &str, packed: &Packed, bundle: &Path) -> Result<bool, Error> {
        let path = self.checked(name)?;
        let locks = self.locks_of(name);
        let _one_at_a_time = locks.fetching.lock().await;
        if path.join(URL_FILE).is_file() {
            return add_work(&path, &locks, bundle).await.map(|()| false);
        }
        self.make_dir()?;
        let temporary = scratch::temporary(self.dir())?;
        let new = temporary.path().join("mirror.git");
        let heads = heads(temporary.path(), bundle).await?;
        scratch::init(&new, heads.first().map_or("", |(commit, _)| commit)).await?;
        fetch(&new, bundle, &["+refs/*:refs/*".to_owned()]).succeed().await?;
        let head = if name::is_branch(&packed.head) { &packed.head } else { "refs/heads/none" };
        Git::local("symbolic-ref", &new).args(["HEAD", head]).succeed().await?;
        let place = async {
            tokio::fs::write(new.join(URL_FILE), format!("{}\n", packed.url)).await?;
            tokio::fs::rename(&new, &path).await
        };
        place.await.map_err(|error| Error::io(format_args!("make {}", path.display()), &error))?;
        Ok(true)
    }

    fn checked(&self, name: &str) -> Result<std::path::PathBuf, Error> {
        if is_name(name) {
            Ok(self.path_of(name))
        } else {
            Err(Error::Io(format!("{name:?} cannot be the name of a mirror")))
        }
    }
}

/// Whether a mirror's directory can be called so: nothing in it leads anywhere else.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= 200 && !name.starts_with(['.', '-']) && name.bytes().all(plain)
}

/// The refs in a bundle, with their commits.
async fn heads(inside: &Path, bundle: &Path) -> Result<Vec<(String, String)>, Error> {
    let output = Git::local("bundle", inside).args(["list-heads"]).arg(bundle).succeed().await?;
    let pair = |line: &str| line.split_once(' ').map(|(commit, name)| (commit.to_owned(), name.to_owned()));
    Ok(output.text().lines().filter_map(pair).collect())
}

async fn add_work(mirror: &Path, locks: &Locks, bundle: &Path) -> Result<(), Error> {
    let known =
        Git::local("for-each-ref", mirror).arg("--format=%(refname)").args(KEPT).succeed().await?.text();
    let known: HashSet<&str> = known.lines().collect();
    let missing: Vec<String> = heads(mirror, bundle)
        .await?
        .into_iter()
        .filter(|(_, name)| {
            KEPT.iter().any(|kept| name.starts_with(kept))
                && name::is_branch(name)
                && !known.contains(name.as_str())
        })
        .map(|(_, name)| format!("{name}:{name}"))
        .collect();
    // A list of refs has to fit on a command line.
    for some in missing.chunks(200) {
        let output = change(mirror, locks, || fetch(mirror, bundle, some)).await?;
        if !output.success() {
            return Err(Error::Io(format!("git fetch failed: {}", remote::reason(&output.stderr))));
        }
    }
    Ok(())
}

fn fetch(into: &Path, bundle: &Path, refs: &[String]) -> Git {
    let git = Git::local("fetch", into).args([
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
    ]);
    git.arg(bundle).args(refs).limit(LONG)
}
