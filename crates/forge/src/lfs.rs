//! Large files that git keeps elsewhere (Git LFS). A commit has pointers; their objects are in the store of the remote, and the
//! mirror has those that were needed, by their SHA-256. The program `git-lfs` fetches and pushes them, with git's own logins;
//! where the store is follows from the repository's address, never from a file of the repository.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::git::{Failure, Git, LONG, Overflow, Running};
use crate::url::Url;
use crate::{Error, Mirror, name, remote};

/// What a pointer begins with, and the sizes that one can have.
const BEGINS: &str = "version https://git-lfs.github.com/spec/v1\n";
const SIZES: std::ops::RangeInclusive<u64> = 100..=1024;
/// What all objects of a commit may have together.
const ALL_LIMIT: u64 = 4 * 1024 * 1024 * 1024;
/// Most bytes of a listing.
const LISTING: usize = 128 * 1024 * 1024;
/// How long moving objects may take.
const MOVING: Duration = Duration::from_secs(1800);
/// As many files are named.
const NAMED: usize = 5;
/// Objects that are named in one call of git.
const AT_ONCE: usize = 200;

/// A file that is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// The SHA-256 of what it points at.
    pub oid: String,
    /// The size of that.
    pub size: u64,
    /// Its place in the repository.
    pub path: String,
}

/// The large files of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Large {
    /// Those whose objects the mirror has.
    pub there: Vec<Pointer>,
    /// What a person should know of the others.
    pub missing: Option<String>,
}

impl Mirror {
    /// Whether files of a commit are meant to be kept elsewhere.
    pub async fn uses_lfs(&self, commit: &str) -> Result<bool, Error> {
        let wanted =
            ["-l", "-z", "-F", "-e", "filter=lfs", name::commit(commit)?, "--", ":(glob)**/.gitattributes"];
        let grep = self.git("grep").env("GIT_LITERAL_PATHSPECS", "0").args(wanted).confined();
        Ok(!grep.bound(64 * 1024, Overflow::Cut).run().await?.stdout.is_empty())
    }

    /// The files of a commit that are kept elsewhere.
    pub async fn pointers(&self, commit: &str) -> Result<Vec<Pointer>, Error> {
        let listed = self.git("ls-tree").args(["-r", "-z", "--long", "--full-tree", name::commit(commit)?]);
        let listed = listed.bound(LISTING, Overflow::Fail).limit(LONG).confined().succeed().await?.stdout;
        let mut small = Vec::new();
        for entry in listed.split(|byte| *byte == 0) {
            let Some((fields, path)) =
                std::str::from_utf8(entry).ok().and_then(|entry| entry.split_once('\t'))
            else {
                continue;
            };
            let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
            if let ["100644" | "100755" | "100664", "blob", object, size] = fields[..]
                && size.parse().is_ok_and(|size| SIZES.contains(&size))
            {
                small.push((object.to_owned(), path.to_owned()));
            }
        }
        self.read_pointers(small).await
    }

    /// The files that are kept elsewhere and that the commits bring which no branch of the remote has.
    pub async fn new_pointers(&self, commit: &str) -> Result<Vec<Pointer>, Error> {
        let git = self.git("rev-list").args(["--objects", name::commit(commit)?, "--not", "--remotes"]);
        let listed = git.bound(LISTING, Overflow::Fail).limit(LONG).confined().succeed().await?.stdout;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        // Names of several lines give lines that are no objects.
        let named: BTreeMap<&str, &str> = listed
            .lines()
            .filter_map(|line| line.split_once(' ').filter(|(object, _)| name::commit(object).is_ok()))
            .collect();
        let asked: String = named.keys().map(|object| format!("{object}\n")).collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let git = self.git("cat-file").arg("--batch-check=%(objectname) %(objecttype) %(objectsize)");
        let kinds = git.stdin(asked.into_bytes()).bound(LISTING, Overflow::Fail).limit(LONG).confined();
        let kinds = kinds.succeed().await?.text();
        let mut small = Vec::new();
        for line in kinds.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            if let [object, "blob", size] = fields[..]
                && size.parse().is_ok_and(|size| SIZES.contains(&size))
                && let Some(path) = named.get(object)
            {
                small.push((object.to_owned(), (*path).to_owned()));
            }
        }
        self.read_pointers(small).await
    }

    /// Those of these files that are pointers.
    async fn read_pointers(&self, small: Vec<(String, String)>) -> Result<Vec<Pointer>, Error> {
        if small.is_empty() {
            return Ok(Vec::new());
        }
        let asked: String = small.iter().map(|(object, _)| format!("{object}\n")).collect();
        let bound = small.len() * 1200;
        let git = self.git("cat-file").arg("--batch=%(objectsize)").stdin(asked.into_bytes());
        let texts = git.bound(bound, Overflow::Fail).limit(LONG).confined().succeed().await?.stdout;
        let mut rest = texts.as_slice();
        let mut found = Vec::new();
        for (_, path) in small {
            let Some((text, after)) = crate::take::next_object(rest) else { break };
            rest = after;
            if let Some((oid, size)) = parse(text) {
                found.push(Pointer { oid, size, path });
            }
        }
        Ok(found)
    }

    /// Where the mirror has an object, or would have it.
    pub fn large_object(&self, oid: &str) -> PathBuf {
        let part = |from, to| oid.get(from..to).unwrap_or("none");
        self.path.join("lfs/objects").join(part(0, 2)).join(part(2, 4)).join(oid)
    }

    fn has_large(&self, pointer: &Pointer) -> bool {
        self.large_object(&pointer.oid).metadata().is_ok_and(|found| found.len() == pointer.size)
    }

    /// Of the large files that a commit has and another has not: the objects, fetched from the remote where the mirror lacks
    /// them.
    pub async fn fetch_large(&self, commit: &str, since: Option<&str>) -> Result<Large, Error> {
        let mut wanted = self.pointers(commit).await?;
        if let Some(since) = since {
            let before = self.pointers(since).await?;
            wanted.retain(|pointer| !before.contains(pointer));
        }
        let absent: Vec<&Pointer> = wanted.iter().filter(|pointer| !self.has_large(pointer)).collect();
        let bytes = absent.iter().fold(0_u64, |sum, pointer| sum.saturating_add(pointer.size));
        let why = if absent.is_empty() {
            None
        } else if bytes > ALL_LIMIT {
            let (mib, most) = (bytes >> 20, ALL_LIMIT >> 20);
            Some(format!("they have {mib} MiB together, and no more than {most} MiB are fetched"))
        } else if !self.has_git_lfs().await? {
            Some(format!("git-lfs is not installed on the machine that runs Slipway: {INSTALL}"))
        } else {
            let url = self.signed().await?;
            let fetch = self.lfs(&url).args(["fetch", "--include=", "--exclude=", "origin", commit]);
            match fetch.run().await {
                Ok(output) if output.success() => None,
                Ok(output) => Some(said(&url, &output.stderr)),
                Err(failure) => Some(failure.to_string()),
            }
        };
        let (there, missing): (Vec<Pointer>, Vec<Pointer>) =
            wanted.into_iter().partition(|pointer| self.has_large(pointer));
        let missing = (!missing.is_empty()).then(|| {
            let why = why.unwrap_or_else(|| "the remote does not have them".to_owned());
            format!("{}: {why}", names(&missing))
        });
        Ok(Large { there, missing })
    }

    /// Takes an object that came out of a sandbox, if it is what the pointer says.
    pub async fn put_large(&self, pointer: &Pointer, from: &Path) -> Result<(), Error> {
        let (to, from, pointer) = (self.large_object(&pointer.oid), from.to_owned(), pointer.clone());
        let put = tokio::task::spawn_blocking(move || put(&pointer, &from, &to)).await;
        put.unwrap_or_else(|error| Err(Error::Io(error.to_string())))
    }

    /// Whether the mirror has the object of a large file.
    pub fn is_large_there(&self, pointer: &Pointer) -> bool {
        self.has_large(pointer)
    }

    /// Gives the remote's store the objects that the commits need which it does not have. The store is asked for each: one
    /// that it has already is not sent again.
    pub(crate) async fn push_large(
        &self,
        commit: &str,
        branch: &str,
        running: &Running,
    ) -> Result<(), Error> {
        if !self.uses_lfs(commit).await? {
            return Ok(());
        }
        let new = self.new_pointers(commit).await?;
        if new.is_empty() {
            return Ok(());
        }
        let failed = |detail| Error::Push { url: self.url.public.clone(), branch: branch.to_owned(), detail };
        let absent = || new.iter().filter(|pointer| !self.has_large(pointer)).cloned().collect::<Vec<_>>();
        let mut missing = absent();
        if !missing.is_empty() {
            // What the store of the remote has need not come from here, as when a pointer was copied from another branch.
            self.fetch_large(commit, None).await?;
            missing = absent();
        }
        if !missing.is_empty() {
            return Err(failed(format!(
                "these files are pointers of Git LFS, and what they point at did not come out of the workspace: {}; prompt the \
                 session to write the files themselves again, and to commit them",
                names(&missing)
            )));
        }
        if !self.has_git_lfs().await? {
            return Err(failed(format!(
                "it has new objects of Git LFS ({}), and git-lfs is not installed on the machine that runs Slipway: {INSTALL}, \
                 and deliver again",
                names(&new)
            )));
        }
        let url = self.signed().await?;
        let mut oids: Vec<&str> = new.iter().map(|pointer| pointer.oid.as_str()).collect();
        oids.sort_unstable();
        oids.dedup();
        for some in oids.chunks(AT_ONCE) {
            let push = self.lfs(&url).args(["push", "--object-id", "origin"]).args(some.iter().copied());
            let output = push.running(running.clone()).run().await.map_err(|failure| match failure {
                Failure::NoGit => Error::NoGit,
                other => failed(other.to_string()),
            })?;
            if !output.success() {
                return Err(failed(format!(
                    "the objects of Git LFS were not taken: {}",
                    said(&url, &output.stderr)
                )));
            }
        }
        Ok(())
    }

    async fn has_git_lfs(&self) -> Result<bool, Error> {
        Ok(self.git("lfs").arg("version").run().await?.success())
    }

    /// `git lfs` for this repository, with the logins of its address.
    fn lfs(&self, url: &Url) -> Git {
        let store = url.large_store();
        let git = Git::remote("lfs")
            .inside(&self.path)
            .setting(format!("remote.origin.url={}", url.operand()))
            .setting(format!("lfs.url={store}"))
            .setting(format!("lfs.pushurl={store}"))
            .setting("lfs.locksverify=false")
            .setting("lfs.basictransfersonly=true");
        url.signed(git).limit(MOVING)
    }
}

/// How to have the program.
const INSTALL: &str = "install it there (Debian, Ubuntu: apt-get install git-lfs)";

fn said(url: &Url, stderr: &str) -> String {
    url.redact(&remote::reason(stderr))
}

fn names(pointers: &[Pointer]) -> String {
    let mut paths: Vec<String> = pointers.iter().map(|pointer| harmless(&pointer.path)).collect();
    paths.sort();
    paths.dedup();
    let more = paths.len().saturating_sub(NAMED);
    paths.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", paths.join(", "))
}

fn harmless(path: &str) -> String {
    path.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// What a pointer points at. What only looks like one is a file as any other.
fn parse(text: &[u8]) -> Option<(String, u64)> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix(BEGINS)?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let oid = value("oid sha256:")?;
    let is_sum = oid.len() == 64 && oid.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    Some((is_sum.then(|| oid.to_owned())?, value("size ")?.parse().ok()?))
}

fn put(pointer: &Pointer, from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |error: &io::Error| Error::io(format_args!("keep {}", to.display()), error);
    let refused = |what: &str| {
        let path = harmless(&pointer.path);
        Err(Error::Refused(format!(
            "{path} is a pointer of Git LFS, and what is in the workspace for it {what}"
        )))
    };
    let mut file = std::fs::File::open(from).map_err(|error| failed(&error))?;
    let mut sum = Sha256::new();
    let mut bytes = vec![0; 256 * 1024];
    let mut size = 0;
    loop {
        let read = file.read(&mut bytes).map_err(|error| failed(&error))?;
        if read == 0 {
            break;
        }
        size += read as u64;
        sum.update(&bytes[..read]);
    }
    let sum: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if size != pointer.size || sum != pointer.oid {
        return refused("is something else");
    }
    let dir = to.parent().unwrap_or(to);
    std::fs::create_dir_all(dir).map_err(|error| failed(&error))?;
    // Whole or not there, and not on another disk than the mirror.
    let mut temporary = tempfile::NamedTempFile::new_in(dir).map_err(|error| failed(&error))?;
    let mut file = std::fs::File::open(from).map_err(|error| failed(&error))?;
    io::copy(&mut file, &mut temporary).map_err(|error| failed(&error))?;
    temporary.as_file().sync_all().map_err(|error| failed(&error))?;
    temporary.persist(to).map_err(|error| failed(&error.error)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pointers_are_pointers() {
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = format!("{BEGINS}oid sha256:{oid}\nsize 12345\n");
        assert_eq!(parse(text.as_bytes()), Some((oid.to_owned(), 12345)));
        for other in [
            format!("{BEGINS}oid sha256:{}\nsize 1\n", "../".repeat(22)),
            format!("{BEGINS}oid sha256:{oid}\n"),
            format!("x{text}"),
            String::new(),
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_object_is_kept_only_if_it_is_what_the_pointer_says() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("out"), dir.path().join("aa/bb/object"));
        std::fs::write(&from, "large").unwrap();
        let oid: String = Sha256::digest(b"large").iter().map(|byte| format!("{byte:02x}")).collect();
        let pointer = Pointer { oid, size: 5, path: "a\nb.bin".to_owned() };
        let wrong = Pointer { oid: "a".repeat(64), ..pointer.clone() };
        let error = put(&wrong, &from, &to).unwrap_err().to_string();
        assert!(error.contains("a\u{fffd}b.bin") && error.contains("is something else"), "{error}");
        assert!(!to.exists());
        put(&pointer, &from, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"large");
    }
}
