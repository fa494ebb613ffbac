//! What every sandbox has and layers from elsewhere may lack: places for the mounts, the workspace, a home, and the few
//! files that name the machine and its user.
//!
//! This writes into the mounted overlay, before any process of the sandbox runs, and every path is resolved in the new
//! root: a link in a layer can lead to another place in the sandbox, and no further.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, unlinkat};
use rustix::io::Errno;

use crate::fault::{Context, Fault};
use crate::ids::Users;
use crate::spec::{INSIDE_ID, Launch, Stage};

/// Directories, whose they are, and their modes.
const DIRECTORIES: [(&str, u32, u32); 8] = [
    ("proc", 0, 0o755),
    ("dev", 0, 0o755),
    ("etc", 0, 0o755),
    // Before /run, which may be a link to there.
    ("var/tmp", 0, 0o1777),
    ("run/slipway", INSIDE_ID, 0o755),
    ("tmp", 0, 0o1777),
    ("home/dev", INSIDE_ID, 0o755),
    ("workspace", INSIDE_ID, 0o755),
];

/// Longer than any list of users that is meant for people.
const LONGEST_FILE: u64 = 1 << 20;

/// Puts all of it there, as far as it is missing.
pub(super) fn all(launch: &Launch, root: &OwnedFd, users: &Users) -> Result<(), Fault> {
    for (path, owner, mode) in DIRECTORIES {
        directory(root, path, users.outside(owner), mode).at(Stage::Mount, &format!("making /{path}"))?;
    }
    let etc = open(root, "etc").at(Stage::Mount, "opening /etc")?;
    let names = format!("127.0.0.1\tlocalhost {0}\n::1\tlocalhost\n", launch.hostname);
    file(&etc, "hosts", |old| old.trim_ascii().is_empty().then(|| names.clone().into()))?;
    if launch.network {
        let resolver = b"nameserver 127.0.0.1\n";
        file(&etc, "resolv.conf", |old| (old != resolver).then(|| resolver.to_vec()))?;
    }
    file(&etc, "passwd", |old| {
        with_line(old, &format!("dev:x:{INSIDE_ID}:{INSIDE_ID}:dev:/home/dev:/bin/sh"))
    })?;
    file(&etc, "group", |old| with_line(old, &format!("dev:x:{INSIDE_ID}:")))
}

fn open(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
}

/// A directory, made with its parents if it is not there; one that is gets the owner or the mode that it must have.
fn directory(root: &OwnedFd, path: &str, owner: u32, mode: u32) -> Result<(), Errno> {
    let found = match open(root, path) {
        Err(Errno::NOENT) => {
            let (parent, name) = match path.rsplit_once('/') {
                Some((parent, name)) => {
                    // The parents are root's, and for everyone to enter.
                    parents(root, parent)?;
                    (open(root, parent)?, name)
                }
                None => (open(root, "/")?, path),
            };
            mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
            open(root, path)?
        }
        other => other?,
    };
    let now = rustix::fs::fstat(&found)?;
    if owner != now.st_uid && (mode & 0o002) == 0 {
        let (user, group) = (rustix::fs::Uid::from_raw(owner), rustix::fs::Gid::from_raw(owner));
        rustix::fs::chownat(&found, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    }
    if now.st_mode & mode != mode {
        let itself = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
        rustix::fs::chmod(itself, Mode::from_raw_mode(now.st_mode & 0o7777 | mode))?;
    }
    Ok(())
}

fn parents(root: &OwnedFd, path: &str) -> Result<(), Errno> {
    if let Some((parent, _)) = path.rsplit_once('/') {
        parents(root, parent)?;
    }
    match open(root, path) {
        Err(Errno::NOENT) => {}
        other => return other.map(|_| ()),
    }
    let (parent, name) = path.rsplit_once('/').unwrap_or(("/", path));
    mkdirat(open(root, parent)?, name, Mode::from_raw_mode(0o755))
}

/// Replaces a file by what `change` makes of its content, if that is anything. A link is replaced and not followed.
fn file(etc: &OwnedFd, name: &str, change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<(), Fault> {
    let doing = format!("writing /etc/{name}");
    let old = read(etc, name).at(Stage::Mount, &doing)?;
    let Some(new) = change(old.as_deref().unwrap_or_default()) else { return Ok(()) };
    match unlinkat(etc, name, AtFlags::empty()) {
        Err(Errno::NOENT) => {}
        other => other.at(Stage::Mount, &doing)?,
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(etc, name, flags, Mode::from_raw_mode(0o644)).at(Stage::Mount, &doing)?;
    std::fs::File::from(file).write_all(&new).at(Stage::Mount, &doing)
}

/// A regular file's content; None when there is none.
fn read(etc: &OwnedFd, name: &str) -> std::io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(etc, name, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        other => std::fs::File::from(other?),
    };
    let data = file.metadata()?;
    if !data.is_file() || data.len() > LONGEST_FILE {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(LONGEST_FILE).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// A list of users or groups with one more line, unless the id has one; both have the id in the third field.
fn with_line(list: &[u8], line: &str) -> Option<Vec<u8>> {
    let id = INSIDE_ID.to_string();
    let known = list
        .split(|byte| *byte == b'\n')
        .any(|line| line.split(|byte| *byte == b':').nth(2) == Some(id.as_bytes()));
    if known {
        return None;
    }
    let mut longer = list.to_vec();
    if !longer.is_empty() && !longer.ends_with(b"\n") {
        longer.push(b'\n');
    }
    longer.extend_from_slice(line.as_bytes());
    longer.push(b'\n');
    Some(longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_users_gets_the_inside_user_once() {
        let line = "dev:x:1000:1000:dev:/home/dev:/bin/sh";
        let first = with_line(b"root:x:0:0::/root:/bin/sh", line).unwrap();
        assert_eq!(first, format!("root:x:0:0::/root:/bin/sh\n{line}\n").into_bytes());
        assert_eq!(with_line(&first, line), None);
        assert_eq!(with_line(b"node:x:1000:1000::/home/node:/bin/sh\n", line), None);
    }

    #[test]
    fn links_lead_no_further_than_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("root"), dir.path().join("outside"));
        std::fs::create_dir_all(inside.join("var")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink("/var", inside.join("run")).unwrap();
        std::os::unix::fs::symlink(outside.join("file"), inside.join("hosts")).unwrap();
        let root = openat(rustix::fs::CWD, &inside, OFlags::PATH, Mode::empty()).unwrap();
        let own = rustix::process::getuid().as_raw();
        directory(&root, "run/slipway", own, 0o755).unwrap();
        assert!(inside.join("var/slipway").is_dir());
        let written = file(&root, "hosts", |old| old.is_empty().then(|| b"new".to_vec()));
        assert!(written.is_ok(), "{:?}", written.err());
        assert_eq!(std::fs::read(inside.join("hosts")).unwrap(), b"new");
        assert!(!outside.join("file").exists());
    }
}
