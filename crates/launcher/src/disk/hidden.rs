//! Files that have no name any more, and still take room: a process has them open, has mapped them, or runs from them.

use std::collections::HashMap;
use std::io::BufRead;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::tally::Tally;

/// Adds what the processes of a sandbox hold, until it is enough. Processes that cannot be looked at are left out, and so
/// are files that are only mapped when this is not root, to whom alone the kernel shows them. Gives how many files the
/// process with the most of them has open.
pub(super) fn count(init: Pid, upper: &OwnedFd, tally: &mut Tally) -> u64 {
    let storage = rustix::fs::fstat(upper).map(|data| data.st_dev).ok();
    let processes = descendants(init.as_raw_nonzero().get());
    // overlayfs shows some files as its own, and some as those of the file system below. All processes have the same root,
    // but not all of them show it.
    let root = processes
        .iter()
        .flat_map(|pid| threads(*pid))
        .find_map(|thread| rustix::fs::stat(of(thread).join("root")).ok())
        .map(|data| data.st_dev);
    let mut most_open = 0;
    for pid in processes {
        let mut add = |path: PathBuf| {
            let Ok(data) = rustix::fs::stat(path) else { return true };
            if data.st_nlink == 0 && [storage, root].contains(&Some(data.st_dev)) {
                tally.add_once(&data);
            }
            !tally.is_enough()
        };
        if !each(pid, &mut most_open, &mut add) {
            break;
        }
    }
    most_open
}

/// Goes through what a process holds until `add` says that it is enough; whether it never did. A process whose first thread
/// ended shows nothing under its own number, and threads may have descriptors of their own, so every thread is asked.
/// Remembers the most descriptors that were in one table.
fn each(pid: i32, most_open: &mut u64, add: &mut impl FnMut(PathBuf) -> bool) -> bool {
    let (mut tables, mut mapped) = (Vec::new(), false);
    for id in threads(pid) {
        let thread = of(id);
        if !tables.iter().any(|other| share_descriptors(id, *other)) {
            tables.push(id);
            let mut in_table = 0;
            for open in std::fs::read_dir(thread.join("fd")).into_iter().flatten().flatten() {
                in_table += 1;
                *most_open = in_table.max(*most_open);
                if !add(open.path()) {
                    return false;
                }
            }
        }
        if mapped {
            continue;
        }
        for range in nameless_mappings(&thread, &mut mapped) {
            if !add(thread.join("map_files").join(range)) {
                return false;
            }
        }
        if !add(thread.join("exe")) {
            return false;
        }
    }
    true
}

/// The threads of a process.
fn threads(pid: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(of(pid).join("task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Where the kernel shows a process, or a thread as if it were a process, for which there is more to see.
fn of(id: i32) -> PathBuf {
    Path::new("/proc").join(id.to_string())
}

/// Whether two threads have the same table of descriptors. Where the kernel does not tell, they have not.
fn share_descriptors(one: i32, other: i32) -> bool {
    const KCMP_FILES: libc::c_int = 2;
    // SAFETY: plain numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) == 0 }
}

/// The names, in `map_files`, of mappings whose file has no name. Notes whether there were any mappings at all.
fn nameless_mappings(thread: &Path, any: &mut bool) -> Vec<String> {
    let Ok(file) = std::fs::File::open(thread.join("maps")) else { return Vec::new() };
    let lines = std::io::BufReader::new(file).split(b'\n').map_while(Result::ok);
    lines.inspect(|_| *any = true).filter_map(|line| nameless(&line)).collect()
}

fn nameless(line: &[u8]) -> Option<String> {
    // A name that only looks like it is looked at in vain, and does no harm.
    if !line.ends_with(b" (deleted)") {
        return None;
    }
    let range = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (from, to) = range.split_once('-')?;
    // There numbers are not filled up.
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(format!("{:x}-{:x}", number(from)?, number(to)?))
}

/// Every process below another. Below pid 1 of a namespace that is all of them: orphans become its children.
pub(super) fn descendants(top: i32) -> Vec<i32> {
    // Most sandboxes are idle most of the time, and looking at every process of the host for each of them adds up.
    let tasks: Vec<PathBuf> = std::fs::read_dir(of(top).join("task"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|task| task.path())
        .collect();
    let childless = |task: &PathBuf| std::fs::read(task.join("children")).is_ok_and(|list| list.is_empty());
    if !tasks.is_empty() && tasks.iter().all(childless) {
        return Vec::new();
    }
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut left = vec![top];
    while let Some(pid) = left.pop() {
        // Taken out, so that numbers which changed hands meanwhile cannot lead in circles.
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        left.extend(below);
    }
    found
}

/// The second field after the name.
fn parent(stat: &[u8]) -> Option<i32> {
    std::str::from_utf8(after_name(stat)?).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// What follows a name that may hold anything, also parentheses.
pub(super) fn after_name(stat: &[u8]) -> Option<&[u8]> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    Some(&stat[after..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_hide_the_parent() {
        assert_eq!(parent(b"12 (a) R 7 (x)) S 34 12 12 0"), Some(34));
        assert_eq!(parent(b"12 (\xff) R 7 12"), Some(7));
        assert_eq!(parent(b"12"), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let found = descendants(std::process::id().try_into().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&pid), "{pid} in {found:?}");
    }

    #[test]
    fn mappings_without_a_name_are_found() {
        assert_eq!(
            nameless(b"00400000-00401000 r-xp 00000000 08:01 12   /workspace/a\xff b (deleted)").as_deref(),
            Some("400000-401000")
        );
        assert_eq!(nameless(b"7f00-7f01 r-xp 00000000 08:01 12   /workspace/a"), None);
        assert_eq!(nameless(b" (deleted)"), None);
    }
}
