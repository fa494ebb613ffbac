//! Whether a sandbox did anything: without processor time nothing is written.

use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::spec::{Cgroup, Hierarchy};

/// Looks at the processor time of a sandbox.
#[derive(Debug)]
pub(super) struct Work {
    source: Source,
    /// What it was; unknown is never the same.
    before: Option<u64>,
}

/// Who tells about processor time.
#[derive(Debug)]
enum Source {
    /// A control group of version 2: a line of this file.
    Stat(PathBuf),
    /// One of version 1: this file.
    Usage(PathBuf),
    /// Without either, the processes themselves.
    Processes,
}

impl Work {
    /// Of a sandbox in these control groups.
    pub(super) fn of(groups: &[Cgroup]) -> Self {
        let unified = groups.iter().find(|group| group.hierarchy == Hierarchy::V2);
        let accounts =
            || groups.iter().map(|group| group.path.join("cpuacct.usage")).find(|file| file.exists());
        let source = match unified {
            Some(group) => Source::Stat(group.path.join("cpu.stat")),
            None => accounts().map_or(Source::Processes, Source::Usage),
        };
        Self { source, before: None }
    }

    /// From here on.
    pub(super) fn remember(&mut self, init: Pid) {
        self.before = self.source.now(init);
    }

    /// Whether there was any since. If nobody can tell, there was.
    pub(super) fn went_on(&self, init: Pid) -> bool {
        let now = self.source.now(init);
        now.is_none() || now != self.before
    }
}

/// The line of a group of version 2.
const USAGE: &str = "usage_usec ";

impl Source {
    fn now(&self, init: Pid) -> Option<u64> {
        let text = |file: &Path| std::fs::read_to_string(file).ok();
        match self {
            Self::Stat(file) => {
                text(file)?.lines().find_map(|line| line.strip_prefix(USAGE))?.trim().parse().ok()
            }
            Self::Usage(file) => text(file)?.trim().parse().ok(),
            Self::Processes => below(init.as_raw_nonzero().get()),
        }
    }
}

/// Processor time, in the kernel's ticks, of a process and all below it that live. One more or less of them changes it too.
fn below(top: i32) -> Option<u64> {
    let mut sum = 0u64;
    let mut left = vec![top];
    let mut met = 0;
    while let Some(pid) = left.pop() {
        met += 1;
        // Numbers that change hands meanwhile must not lead in circles.
        if met > MOST {
            return None;
        }
        let process = Path::new("/proc").join(pid.to_string());
        let Ok(stat) = std::fs::read(process.join("stat")) else { continue };
        sum = sum.wrapping_add(u64::from(pid.unsigned_abs())).wrapping_add(ticks(&stat).unwrap_or(0));
        for thread in std::fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
            // A kernel without this file has no other quick way to tell.
            let children = match std::fs::read_to_string(thread.path().join("children")) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && thread.path().exists() => {
                    return None;
                }
                other => other.unwrap_or_default(),
            };
            left.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
    }
    Some(sum)
}

/// More processes than this are not idle.
const MOST: usize = 10_000;

/// Time in user space and in the kernel, the 14th and the 15th field, and that of the children that ended.
fn ticks(stat: &[u8]) -> Option<u64> {
    let fields = std::str::from_utf8(super::hidden::after_name(stat)?).ok()?;
    fields.split_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_computes_is_noticed_and_whoever_sleeps_is_not() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x; while :; do :; done"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap_or_default();
        // It has started once it waits for its line.
        for _ in 0..500 {
            if state().contains("pipe") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let mut work = Work::of(&[]);
        assert!(work.went_on(pid), "nothing is known yet");
        work.remember(pid);
        let slept = !work.went_on(pid);
        drop(child.stdin.take());
        let mut worked = false;
        for _ in 0..500 {
            worked = worked || work.went_on(pid);
            if worked {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(slept && worked, "slept {slept}, worked {worked}");
    }

    #[test]
    fn the_times_of_a_process_are_found_whatever_its_name() {
        let stat = b"12 (a) R 7 (x)) S 34 12 12 0 -1 4194560 100 0 0 0 3 4 5 6 20 0 1 0 99";
        assert_eq!(ticks(stat), Some(18));
        assert_eq!(ticks(b"12"), None);
    }
}
