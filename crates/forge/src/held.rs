//! Files that git holds locked. A lock is inherited by everything that git starts and goes with the last of them, so it
//! tells whether something still runs of a git that was started by a server which is gone; and `/proc` tells who.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::git::GRACE;

/// How often it is looked whether a lock is free.
const LOOK: Duration = Duration::from_millis(20);

/// How a file is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Beside others who lock it like this.
    Shared,
    /// By one alone.
    Alone,
}

/// Locks the file if that can be done now.
pub(crate) fn try_lock(file: &File, how: How) -> io::Result<bool> {
    let operation = match how {
        How::Shared => FlockOperation::NonBlockingLockShared,
        How::Alone => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the file can be locked, and locks it.
pub(crate) async fn lock(file: &File, how: How) -> io::Result<()> {
    while !try_lock(file, how)? {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Which file it is, whatever its name.
pub(crate) type Id = (u64, u64);

/// The id of an open file.
pub(crate) fn id(file: &File) -> io::Result<Id> {
    file.metadata().map(|metadata| id_of(&metadata))
}

/// The id of a file of which this is known.
pub(crate) fn id_of(metadata: &std::fs::Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

/// Whether the path leads to this file, and not to another that was made in its place.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    id(file).is_ok_and(|id| path.metadata().is_ok_and(|metadata| id_of(&metadata) == id))
}

/// Ends whatever holds the file locked, first politely and then by force, and locks it. False when something cannot be
/// ended.
pub(crate) async fn end_holders(file: &File, path: &Path) -> io::Result<bool> {
    signal_holders(path, Signal::TERM);
    if let Ok(locked) = tokio::time::timeout(GRACE, lock(file, How::Alone)).await {
        return locked.map(|()| true);
    }
    let by_force = async {
        // Again and again: a process may start another while it is killed.
        while !try_lock(file, How::Alone)? {
            signal_holders(path, Signal::KILL);
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    match tokio::time::timeout(GRACE, by_force).await {
        Ok(locked) => locked.map(|()| true),
        Err(_) => Ok(false),
    }
}

fn signal_holders(path: &Path, signal: Signal) {
    let Ok(path) = path.canonicalize() else { return };
    let processes = processes();
    let holders: Vec<&Process> = processes.iter().filter(|process| process.holds(&path)).collect();
    for process in &processes {
        // Who leads a session and holds the file is the git that we started, so the whole session is git's. A process of it
        // may have closed the file, as ssh does.
        let ours = |holder: &&Process| {
            holder.id == process.id || holder.id == holder.session && holder.session == process.session
        };
        if holders.iter().any(ours) {
            process.signal(signal);
        }
    }
}

/// A process as `/proc` shows it. The handle is of the process that was looked at, whoever has its number later.
struct Process {
    id: i32,
    session: i32,
    handle: rustix::fd::OwnedFd,
}

impl Process {
    fn find(id: i32) -> Option<Self> {
        let handle = pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()?;
        let stat = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        Some(Self { id, session: session(&stat)?, handle })
    }

    /// Whether it has the file open and locked. Having it open is not enough: a child of this process has it too, until it
    /// becomes another program.
    fn holds(&self, path: &Path) -> bool {
        let Ok(files) = std::fs::read_dir(format!("/proc/{}/fd", self.id)) else { return false };
        files.flatten().any(|file| {
            // Only the name is read: to look at a file of another process may take for ever.
            let here = std::fs::read_link(file.path()).is_ok_and(|target| target == path);
            let info = format!("/proc/{}/fdinfo/{}", self.id, file.file_name().to_string_lossy());
            here && std::fs::read_to_string(info).is_ok_and(|info| info.contains("FLOCK"))
        })
    }

    fn signal(&self, signal: Signal) {
        tracing::info!(pid = self.id, ?signal, "ends what an earlier server's git left running");
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::warn!(pid = self.id, %error, "cannot signal what git left running"),
        }
    }
}

/// Every process but this one.
fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let this = rustix::process::getpid().as_raw_nonzero().get();
    ids.filter(|id| *id != this).filter_map(Process::find).collect()
}

/// The session in `pid (name) state ppid pgrp session …`; the name may hold anything, so it ends at the last parenthesis.
fn session(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_read() {
        assert_eq!(session(b"12 (a) b ) (c) S 3 4 5 0 -1"), Some(5));
        assert_eq!(session(b"rubbish"), None);
    }

    #[tokio::test]
    async fn whoever_holds_a_file_is_ended_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("held");
        let file = File::create_new(&path).unwrap();
        // The second has the file open and holds nothing.
        let script =
            "trap '' TERM; exec 9<\"$1\"; flock $2 9 || exit 1; echo ready; while :; do sleep 0.1; done";
        let start = |how: &str| {
            let mut child = tokio::process::Command::new("sh")
                .args(["-c", script, "sh"])
                .arg(&path)
                .arg(how)
                .stdout(std::process::Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            (child.stdout.take().unwrap(), child)
        };
        let (mut word, mut holder) = start("-x");
        let (mut other_word, mut other) = start("-u");
        for word in [&mut word, &mut other_word] {
            let mut said = [0; 6];
            tokio::io::AsyncReadExt::read_exact(word, &mut said).await.unwrap();
        }
        assert!(!try_lock(&file, How::Shared).unwrap());
        assert!(end_holders(&file, &path).await.unwrap());
        assert!(!holder.wait().await.unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "it held nothing");
        other.kill().await.unwrap();
        assert!(is_at(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
    }
}
