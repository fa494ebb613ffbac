//! The limits of a sandbox's disk, kept by looking: overlayfs has no quota of its own.
//!
//! Once a second one system call tells how much is free on the file system. If that fell by a part of what the sandbox may
//! still use, its files are counted. What others free at the same time can hide what it writes, so they are also counted
//! every few seconds while it works. An idle sandbox costs next to nothing, and one that writes without end is stopped
//! within about a second of reaching its limit.

mod hidden;
mod shared;
mod tally;
mod walk;
mod work;

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Result;
use rustix::process::Pid;

use crate::spec::{Disk, DiskUsage, Launch, Rlimit, files};
use shared::Shared;
use tally::Tally;
use work::Work;

/// How often to look.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// How long to look again for what went away.
const AGAIN: Duration = Duration::from_millis(20);

/// How often to count while the sandbox works, whatever is free.
const WORK_PERIOD: Duration = Duration::from_secs(5);

/// Counting because the disk gets fuller may take this part of the time, and counting because of work that.
const SHARE: u32 = 10;
const WORK_SHARE: u32 = 50;

/// What a file system has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Free {
    bytes: u64,
    inodes: u64,
}

/// Keeps one sandbox within its limits.
pub(crate) struct Keeper {
    limit: Disk,
    upper: OwnedFd,
    usage: DiskUsage,
    work: Work,
    shared: Shared,
    /// How many files a process may have open.
    open_files: u64,
    /// Whether one had as many when it was last looked.
    all_open: bool,
    /// What was free when files were counted last, and when that was, and how long it took.
    free: Free,
    counted: Instant,
    took: Duration,
    bytes: Line,
    inodes: Line,
}

/// A limit and how far beyond it somebody got. Whoever is over may still run what makes room, but not take more.
#[derive(Debug)]
struct Line {
    limit: u64,
    slack: u64,
    reached_at: Option<u64>,
}

impl Line {
    fn new(limit: u64, least: u64, most: u64) -> Self {
        Self { limit, slack: (limit / 16).clamp(least, most), reached_at: None }
    }

    /// Above this it is crossed, again or for the first time.
    fn height(&self) -> u64 {
        self.reached_at.map_or(self.limit, |reached| reached.saturating_add(self.slack))
    }

    /// Whether the limit was reached, again or for the first time.
    fn crossed(&mut self, used: u64) -> bool {
        let crossed = used > self.height();
        if crossed {
            self.reached_at = Some(used);
        } else if used <= self.limit {
            self.reached_at = None;
        }
        crossed
    }

    /// What may still be taken.
    fn left(&self, used: u64) -> u64 {
        self.height().saturating_sub(used)
    }
}

impl Keeper {
    /// For the writable layer in the working directory of a sandbox, and its shared memory.
    pub(crate) fn new(launch: &Launch, shared: OwnedFd) -> Result<Self> {
        let limit = launch.disk;
        let open_files = launch.rlimits.iter().find(|(kind, _)| *kind == Rlimit::OpenFiles);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let upper = openat(CWD, files::UPPER, flags, Mode::empty())?;
        Ok(Self {
            limit,
            free: free(&upper)?,
            upper,
            usage: DiskUsage::default(),
            work: Work::of(&launch.cgroups),
            shared: Shared::new(shared),
            open_files: open_files.map_or(u64::MAX, |(_, limit)| *limit),
            all_open: false,
            counted: Instant::now(),
            took: Duration::ZERO,
            bytes: Line::new(limit.bytes, 1 << 20, 64 << 20),
            inodes: Line::new(limit.inodes, 100, 50_000),
        })
    }

    /// What was found last.
    pub(crate) fn usage(&self) -> DiskUsage {
        self.usage
    }

    /// Looks, and counts if there is reason to. Whether the sandbox has to be stopped.
    pub(crate) fn look(&mut self, init: Pid) -> bool {
        self.usage.shared_hits += u64::from(self.shared.filled());
        let Ok(now) = free(&self.upper) else { return false };
        let quiet = self.counted.elapsed();
        let due = self.could_be_over(now)
            || (quiet >= self.took * SHARE && self.fell(now))
            || (quiet >= WORK_PERIOD.max(self.took * WORK_SHARE) && self.work.went_on(init));
        due && self.count(init)
    }

    /// Whether so much was used, by whomever, that this sandbox is beyond its limit if it was the one. Then it is counted
    /// however long that takes.
    fn could_be_over(&self, now: Free) -> bool {
        self.free.bytes.saturating_sub(now.bytes) > self.bytes.left(self.usage.bytes)
            || self.free.inodes.saturating_sub(now.inodes) > self.inodes.left(self.usage.inodes)
    }

    /// Whether a part of what may still be used was used, by whomever.
    fn fell(&self, now: Free) -> bool {
        let step = |left: u64, least: u64, most: u64| (left / 8).clamp(least, most);
        let bytes = step(self.bytes.left(self.usage.bytes), 1 << 20, 64 << 20);
        let inodes = step(self.inodes.left(self.usage.inodes), 100, 50_000);
        self.free.bytes.saturating_sub(now.bytes) >= bytes
            || self.free.inodes.saturating_sub(now.inodes) >= inodes
    }

    /// Counts what has a name. A directory that is renamed all the time is hardly ever where it was just seen; so where
    /// something went away, and that did not take long, it is looked for again, and the most that was seen counts.
    fn walk(&self, begun: Instant) -> (Tally, Result<bool>) {
        let mut most = Tally::default();
        loop {
            let mut tally = Tally::up_to(self.bytes.height(), self.inodes.height());
            let walked = walk::count(self.upper.as_fd(), &mut tally);
            if (tally.bytes, tally.inodes) >= (most.bytes, most.inodes) {
                most = tally;
            }
            if !matches!(walked, Ok(true)) || most.is_enough() || begun.elapsed() >= AGAIN {
                return (most, walked);
            }
        }
    }

    /// Counts now. Whether the sandbox has to be stopped.
    pub(crate) fn count(&mut self, init: Pid) -> bool {
        let begun = Instant::now();
        self.usage.shared_hits += u64::from(self.shared.filled());
        // Before anything is counted, so that what is written meanwhile is a reason to count again.
        self.work.remember(init);
        if let Ok(now) = free(&self.upper) {
            self.free = now;
        }
        let (mut tally, walked) = self.walk(begun);
        match walked {
            Ok(_) => {
                let open = hidden::count(init, &self.upper, &mut tally);
                let all_open = open >= self.open_files;
                self.usage.open_file_hits += u64::from(all_open && !self.all_open);
                self.all_open = all_open;
            }
            // A tree that cannot be counted with the descriptors there are is deeper than any that is meant to be.
            Err(_) => tally.inodes = self.limit.inodes.saturating_add(1),
        }
        (self.usage.bytes, self.usage.inodes) = (tally.bytes, tally.inodes);
        let (over_bytes, over_inodes) = (self.bytes.crossed(tally.bytes), self.inodes.crossed(tally.inodes));
        self.usage.byte_hits += u64::from(over_bytes);
        self.usage.inode_hits += u64::from(over_inodes);
        self.counted = Instant::now();
        self.took = begun.elapsed();
        over_bytes || over_inodes
    }
}

fn free(upper: &OwnedFd) -> Result<Free> {
    let data = rustix::fs::fstatvfs(upper)?;
    Ok(Free { bytes: data.f_bfree.saturating_mul(data.f_frsize), inodes: data.f_ffree })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_crossed_again_only_by_taking_more() {
        let mut line = Line { limit: 10, slack: 5, reached_at: None };
        assert!(!line.crossed(10));
        assert!(line.crossed(12));
        assert!(!line.crossed(17));
        assert_eq!(line.left(16), 1);
        assert!(line.crossed(18));
        assert!(!line.crossed(9));
        assert!(line.crossed(11));
    }
}
