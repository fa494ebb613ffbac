//! The processes of a sandbox, as the kernel shows them to its host.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// Which process is meant. Numbers are used again, but not with the same start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Name {
    pub(super) pid: i32,
    start: u64,
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) name: Name,
    /// How far below the first process it is.
    pub(super) depth: usize,
    pub(super) stand: Stand,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// A thread of it may do something.
    Goes,
    /// It was told to stop, and has.
    Stopped,
    /// It lent its memory to a child, and does not go on before that does.
    Lends,
    /// Whoever traces it holds it.
    Held,
    /// It has ended, and was not reaped yet.
    Ended,
}

/// Every process below another. Below pid 1 of a namespace that is all of them: orphans become its children.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Topmost first.
    pub(super) processes: Vec<Process>,
    /// Whether one went away before it could be looked at. A child of it may be missing then.
    pub(super) lost: bool,
}

impl Tree {
    /// Whether nothing in it goes on and nothing is missing, given what was found before; while nothing reaps. One that
    /// ended in between may have left a child to a process that had been looked at already.
    pub(super) fn is_still(&self, before: &Self) -> bool {
        let going = self.processes.iter().any(|process| process.stand == Stand::Goes);
        !going && !self.lost && self.processes == before.processes
    }
}

/// Looks at every process below another.
pub(super) fn below(top: i32) -> Result<Tree> {
    // Some kernels are built without this list.
    let known = match Path::new("/proc/thread-self/children").exists() {
        true => None,
        false => Some(children_of_all()?),
    };
    let mut found = Tree::default();
    let mut level = vec![top];
    for depth in 0.. {
        let mut next = Vec::new();
        for pid in level {
            // First what it does, then its children: one that stands still has no more of them later.
            if depth > 0 {
                let Some(process) = look(pid, depth)? else {
                    found.lost = true;
                    continue;
                };
                found.processes.push(process);
            }
            match &known {
                Some(known) => next.extend(known.get(&pid).into_iter().flatten()),
                None => next.extend(children(pid)?),
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    Ok(found)
}

/// One process; None if it is gone.
pub(super) fn look(pid: i32, depth: usize) -> Result<Option<Process>> {
    let Some(stat) = gone_is_none(std::fs::read(of(pid).join("stat")))? else { return Ok(None) };
    let start = Stat::parse(&stat)?.start;
    let (mut stopped, mut lends, mut held) = (false, false, false);
    for thread in threads(pid)? {
        let Some(stat) = gone_is_none(std::fs::read(thread.join("stat")))? else { continue };
        match Stat::parse(&stat)?.state {
            b'T' => stopped = true,
            b't' => held = true,
            b'Z' | b'X' | b'x' => {}
            b'D' if waits_for_child(&thread) => lends = true,
            _ => return Ok(Some(Process { name: Name { pid, start }, depth, stand: Stand::Goes })),
        }
    }
    let stand = match (stopped, lends, held) {
        (true, _, _) => Stand::Stopped,
        (_, true, _) => Stand::Lends,
        (_, _, true) => Stand::Held,
        _ => Stand::Ended,
    };
    Ok(Some(Process { name: Name { pid, start }, depth, stand }))
}

impl Process {
    /// Sends it a signal, and nobody else. Gone is as good.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = Pid::from_raw(self.name.pid) else { return Err(ErrorKind::InvalidInput.into()) };
        let sent = rustix::process::pidfd_open(pid, PidfdFlags::empty()).and_then(|handle| {
            // The handle is of whoever has the number now; if that is the one that is meant, it stays so.
            match std::fs::read(of(self.name.pid).join("stat")) {
                Ok(stat) if Stat::parse(&stat).is_ok_and(|stat| stat.start == self.name.start) => {
                    rustix::process::pidfd_send_signal(&handle, signal)
                }
                _ => Ok(()),
            }
        });
        match sent {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Whether another process traces it, such as a debugger.
    pub(super) fn is_traced(&self) -> bool {
        self.status("TracerPid:").is_some_and(|tracer| tracer != "0")
    }

    /// Whether it neither has to take a signal yet nor is in the middle of handling it.
    pub(super) fn is_done_with(&self, signal: Signal) -> bool {
        let bit = 1_u64 << (signal.as_raw() - 1);
        let has = |set: &str| {
            self.status(set)
                .and_then(|set| u64::from_str_radix(&set, 16).ok())
                .is_some_and(|set| set & bit != 0)
        };
        // A handler does not take its own signal while it runs.
        !["ShdPnd:", "SigPnd:", "SigBlk:"].into_iter().any(has)
    }

    /// A line of its status; None once it is gone.
    fn status(&self, key: &str) -> Option<String> {
        let status = std::fs::read_to_string(of(self.name.pid).join("status")).ok()?;
        Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
    }
}

/// What is read of a line of `stat`.
struct Stat {
    state: u8,
    parent: i32,
    start: u64,
}

impl Stat {
    fn parse(line: &[u8]) -> Result<Self> {
        let parse = || {
            // A name may hold anything, also parentheses.
            let after = line.iter().rposition(|byte| *byte == b')')? + 1;
            let fields: Vec<&str> =
                std::str::from_utf8(line.get(after..)?).ok()?.split_whitespace().collect();
            Some(Self {
                state: *fields.first()?.as_bytes().first()?,
                parent: fields.get(1)?.parse().ok()?,
                start: fields.get(19)?.parse().ok()?,
            })
        };
        parse().ok_or_else(|| {
            Error::new(ErrorKind::InvalidData, "the kernel describes a process unlike any other")
        })
    }
}

fn of(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// The threads of a process, as directories.
fn threads(pid: i32) -> Result<Vec<PathBuf>> {
    let Some(entries) = gone_is_none(std::fs::read_dir(of(pid).join("task")))? else { return Ok(Vec::new()) };
    let mut threads = Vec::new();
    for entry in entries {
        threads.extend(gone_is_none(entry)?.map(|entry| entry.path()));
    }
    Ok(threads)
}

fn children(pid: i32) -> Result<Vec<i32>> {
    let mut children = Vec::new();
    for thread in threads(pid)? {
        let list = gone_is_none(std::fs::read_to_string(thread.join("children")))?.unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(children)
}

/// The children of every process there is.
fn children_of_all() -> Result<HashMap<i32, Vec<i32>>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(stat) = gone_is_none(std::fs::read(of(pid).join("stat")))? {
            children.entry(Stat::parse(&stat)?.parent).or_default().push(pid);
        }
    }
    Ok(children)
}

/// Whether a thread is in the call that lends its memory to a child. It does not go on before the child lets it.
fn waits_for_child(thread: &Path) -> bool {
    // Where the kernel does not tell, it is something else.
    let text = std::fs::read_to_string(thread.join("syscall")).unwrap_or_default();
    let mut words = text.split_whitespace();
    let (Some(call), Some(flags)) = (words.next(), words.next()) else { return false };
    #[cfg(target_arch = "x86_64")]
    if call.parse() == Ok(libc::SYS_vfork) {
        return true;
    }
    let flags = flags.strip_prefix("0x").and_then(|flags| u64::from_str_radix(flags, 16).ok());
    call.parse() == Ok(libc::SYS_clone)
        && flags.is_some_and(|flags| flags & libc::CLONE_VFORK.unsigned_abs() as u64 != 0)
}

fn gone_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => {
            Ok(None)
        }
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_hide_the_state() {
        let rest = "34 12 12 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 7777 2297856 222";
        let stat = Stat::parse(format!("12 (a) R 7 (x)) T {rest}").as_bytes()).unwrap();
        assert_eq!((stat.state, stat.parent, stat.start), (b'T', 34, 7777));
        assert!(Stat::parse(b"12 (\xff) S 1").is_err());
    }

    #[test]
    fn a_process_whose_number_is_anothers_now_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut process = look(pid, 1).unwrap().unwrap();
        let found = below(std::process::id().try_into().unwrap()).unwrap();
        assert!(found.processes.iter().any(|other| other.name == process.name && other.depth == 1));
        let all = children_of_all().unwrap();
        assert!(all[&std::process::id().try_into().unwrap()].contains(&pid));
        process.name.start += 1;
        process.signal(Signal::KILL).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        process.name.start -= 1;
        process.signal(Signal::KILL).unwrap();
        assert!(!child.wait().unwrap().success());
        process.signal(Signal::KILL).unwrap();
        assert_eq!(look(pid, 1).unwrap(), None);
    }
}
