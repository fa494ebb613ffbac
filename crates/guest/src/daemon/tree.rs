//! Which processes belong to a process: its group and session, everything descended from it, and whatever carries its
//! mark, or its name in the environment, after it left all of those.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::mark;
use crate::wire::PROCESS_VARIABLE;

/// One living process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    parent: i32,
    group: i32,
    session: i32,
    zombie: bool,
}

/// The process whose tree is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root<'a> {
    /// The name in its environment.
    pub(super) id: &'a str,
    /// What everything that it started carries.
    pub(super) mark: Option<u64>,
    /// Its number, which is also the number of its group and session.
    pub(super) pid: i32,
    /// Whether it still exists, so that the number is surely its own.
    pub(super) alive: bool,
}

/// Sends a signal to everything in the tree. Returns how many processes it reached.
pub(super) fn signal(root: Root<'_>, signal: i32) -> io::Result<usize> {
    // The group first and at once, so that a process cannot slip away by forking while the table is read.
    if root.alive {
        send(-root.pid, signal)?;
    }
    let entries = scan()?;
    let members = members(&entries, own_pid(), root, &names);
    // One that may not be signalled must not save the others.
    let mut worst = Ok(members.len());
    for pid in &members {
        if !root.alive || entries[pid].group != root.pid {
            worst = send(*pid, signal).and(worst);
        }
    }
    worst
}

/// Whether anything of the tree is alive.
pub(super) fn alive(root: Root<'_>) -> io::Result<bool> {
    Ok(!members(&scan()?, own_pid(), root, &names).is_empty())
}

/// Sends a signal to one process, or with a negative number to a group. One that has gone meanwhile is no error.
pub(super) fn send(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes no pointers.
    if unsafe { libc::kill(pid, signal) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
}

fn own_pid() -> i32 {
    // SAFETY: getpid cannot fail.
    unsafe { libc::getpid() }
}

/// Pure: `named` tells whether a process carries this mark or id (true), another one (false), or none that can be read.
fn members(
    entries: &BTreeMap<i32, Entry>,
    daemon: i32,
    root: Root<'_>,
    named: &dyn Fn(i32, Root<'_>) -> Option<bool>,
) -> Vec<i32> {
    // Only what descends from the daemon can be ours: it is the reaper of everything it started.
    let ours: BTreeSet<i32> =
        entries.iter().filter(|(pid, _)| descends(entries, **pid, daemon)).map(|(pid, _)| *pid).collect();
    let mut members: BTreeSet<i32> = ours
        .iter()
        .copied()
        .filter(|pid| {
            let in_session = entries[pid].session == root.pid;
            // Once the process is gone its number can be given to another one, whose name then says so.
            (in_session && root.alive) || named(*pid, root).unwrap_or(in_session)
        })
        .collect();
    let own_session = entries.get(&daemon).map(|entry| entry.session);
    let mut sessions: BTreeSet<i32> = members.iter().map(|pid| entries[pid].session).collect();
    // A member can only have been joined in its session, or have children, by way of members.
    loop {
        let more: Vec<i32> = ours
            .iter()
            .copied()
            .filter(|pid| !members.contains(pid))
            .filter(|pid| {
                let entry = entries[pid];
                members.contains(&entry.parent)
                    || (sessions.contains(&entry.session) && Some(entry.session) != own_session)
            })
            .collect();
        if more.is_empty() {
            break;
        }
        sessions.extend(more.iter().map(|pid| entries[pid].session));
        members.extend(more);
    }
    members.into_iter().filter(|pid| !entries[pid].zombie).collect()
}

fn descends(entries: &BTreeMap<i32, Entry>, mut pid: i32, ancestor: i32) -> bool {
    // The table is read while it changes, so a chain may be broken or, in theory, bent into a ring.
    for _ in 0..entries.len() {
        match entries.get(&pid) {
            Some(entry) if entry.parent == ancestor => return true,
            Some(entry) => pid = entry.parent,
            None => return false,
        }
    }
    false
}

fn scan() -> io::Result<BTreeMap<i32, Entry>> {
    let mut entries = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // One that ends while we look is simply not there.
        let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some(entry) = parse(&stat) {
            entries.insert(pid, entry);
        }
    }
    Ok(entries)
}

/// Parses `pid (name) state ppid pgrp session …`; the name may hold anything, so it ends at the last parenthesis.
fn parse(stat: &[u8]) -> Option<Entry> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    Some(Entry { parent, group, session, zombie: matches!(state, "Z" | "X") })
}

/// Whether a process carries this mark, or this id in its environment. Another mark says nothing: a guest in a guest marks its own.
fn names(pid: i32, root: Root<'_>) -> Option<bool> {
    match (root.mark, mark::of(pid)) {
        (Some(wanted), Some(mark)) if wanted == mark => Some(true),
        _ => environment_names(pid, root.id),
    }
}

/// Whether a process carries this id in its environment; None when it carries none, or hides it.
fn environment_names(pid: i32, id: &str) -> Option<bool> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(PROCESS_VARIABLE.as_bytes())?.strip_prefix(b"="))
        .map(|value| value == id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(parent: i32, session: i32) -> Entry {
        Entry { parent, group: session, session, zombie: false }
    }

    #[test]
    fn names_with_parentheses_and_spaces_are_parsed() {
        let parsed = parse(b"12 (a) b ) (c) S 3 4 5 0 -1").unwrap();
        assert_eq!(parsed, Entry { parent: 3, group: 4, session: 5, zombie: false });
        assert!(parse(b"12 (x) Z 1 12 12 0").unwrap().zombie);
        assert_eq!(parse(b"rubbish"), None);
    }

    #[test]
    fn a_tree_is_session_descent_and_name_but_never_the_neighbours() {
        let entries = BTreeMap::from([
            (1, entry(0, 1)),
            (10, entry(1, 10)),
            (11, entry(10, 10)),
            // Left the session, then its parent died: only its name is left; its child has cleared even that.
            (20, entry(1, 20)),
            (21, entry(20, 21)),
            // In the session of the named one, parent gone, name cleared.
            (22, entry(1, 20)),
            (30, entry(1, 30)),
            (31, entry(30, 30)),
        ]);
        let named = |pid: i32, root: Root<'_>| match pid {
            10 | 11 | 20 => Some(root.id == "a"),
            30 | 31 => Some(root.id == "b"),
            _ => None,
        };
        let root = Root { id: "a", mark: None, pid: 10, alive: true };
        assert_eq!(members(&entries, 1, root, &named), [10, 11, 20, 21, 22]);
        let root = Root { id: "b", mark: None, pid: 30, alive: true };
        assert_eq!(members(&entries, 1, root, &named), [30, 31]);
    }

    #[test]
    fn a_reused_number_is_not_taken_for_the_old_process() {
        let entries = BTreeMap::from([(1, entry(0, 1)), (10, entry(1, 10))]);
        let root = Root { id: "old", mark: None, pid: 10, alive: false };
        assert!(members(&entries, 1, root, &|_, root| Some(root.id == "new")).is_empty());
    }

    #[test]
    fn what_does_not_descend_from_the_daemon_is_left_alone() {
        let entries =
            BTreeMap::from([(1, entry(0, 1)), (5, entry(1, 5)), (10, entry(5, 10)), (40, entry(1, 40))]);
        let root = Root { id: "a", mark: None, pid: 10, alive: true };
        assert_eq!(members(&entries, 5, root, &|_, _| Some(true)), [10]);
    }
}
