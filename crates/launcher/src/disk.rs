//! The limits of a sandbox's disk, kept by looking: overlayfs has no quota of its own.
//!
//! Once a second one system call tells how much is free on the file system. If that fell by a part of what the sandbox may
//! still use, its files are counted. What others free at the same time can hide what it writes, so they are also counted
//! every few seconds while it works. An idle sandbox costs next to nothing, and one that writes without end is stopped
//! within about a second of reaching its limit. As long as it is over the limit it is looked at many times a second, and what it
//! can write is held back. While it has to be counted because it may have taken too much, it is slowed down.

mod brake;
mod curb;
mod hidden;
mod line;
mod shared;
mod tally;
mod walk;
mod work;

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Result;
use rustix::process::Pid;

use crate::spec::{Cause, Disk, DiskUsage, Launch, Rlimit, files};
use brake::Brake;
use curb::Curb;
use line::{Line, Sight, Verdict};
use shared::Shared;
use tally::Tally;
use work::Work;

/// How often to look, and how often while a limit is exceeded.
const PERIOD: Duration = Duration::from_secs(1);
const OVER_PERIOD: Duration = Duration::from_millis(50);

/// How long to look again for what went away.
const AGAIN: Duration = Duration::from_millis(20);

/// How often to count while the sandbox works, whatever is free; and that while a limit is exceeded.
const WORK_PERIOD: Duration = Duration::from_secs(5);
const OVER_WORK_PERIOD: Duration = Duration::from_millis(250);

/// Counting because the disk gets fuller may take this part of the time, and counting because of work that.
const SHARE: u32 = 10;
const WORK_SHARE: u32 = 50;
/// The same while a limit is exceeded.
const OVER_SHARE: u32 = 2;
const OVER_WORK_SHARE: u32 = 10;

/// Bytes and files that may be taken at least to make room, and how many more end the sandbox at the earliest. A few files
/// of the length that is still allowed do not end what runs next.
const SLACK: (u64, u64) = (8 << 20, 100);
/// So much room, or so many files less, is looked at at once.
const ROOM: (u64, u64) = (1 << 20, 100);
const EXCESS: (u64, u64) = (256 << 20, 20_000);

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
    curb: Curb,
    brake: Brake,
}

/// What has to be done about what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing.
    None,
    /// Whatever runs in the sandbox has to end.
    EndProcesses,
    /// The sandbox has to end, because of this.
    EndSandbox(Cause),
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
            bytes: Line::new(limit.bytes, SLACK.0, EXCESS.0),
            inodes: Line::new(limit.inodes, SLACK.1, EXCESS.1),
            curb: Curb::default(),
            brake: Brake::of(&launch.cgroups),
        })
    }

    /// What was found last.
    pub(crate) fn usage(&self) -> DiskUsage {
        self.usage
    }

    /// When to look again.
    pub(crate) fn period(&self) -> Duration {
        if self.is_over() { OVER_PERIOD } else { PERIOD }
    }

    fn is_over(&self) -> bool {
        self.bytes.is_over() || self.inodes.is_over()
    }

    /// Looks, and counts if there is reason to.
    pub(crate) fn look(&mut self, init: Pid) -> Order {
        self.usage.shared_hits += u64::from(self.shared.filled());
        let Ok(now) = free(&self.upper) else { return Order::None };
        let quiet = self.counted.elapsed();
        let suspect = self.could_be_over(now);
        // Until it is counted, so that no more comes in the meantime than can be helped.
        self.brake.set(suspect);
        let due = match self.is_over() {
            false => {
                suspect
                    || (quiet >= self.took * SHARE && self.fell(now))
                    || (quiet >= WORK_PERIOD.max(self.took * WORK_SHARE) && self.work.went_on(init))
            }
            // Others write too, and a sandbox can be over its limit for long; so counting never takes all of the time.
            true => {
                let period = OVER_WORK_PERIOD.max(self.took * OVER_WORK_SHARE);
                let open = self.bytes.is_open() || self.inodes.is_open();
                (quiet >= self.took * OVER_SHARE && (open || suspect || self.rose(now)))
                    || (quiet >= period && self.work.went_on(init))
            }
        };
        if due { self.count(init) } else { Order::None }
    }

    /// Whether somebody made room.
    fn rose(&self, now: Free) -> bool {
        now.bytes.saturating_sub(self.free.bytes) >= ROOM.0
            || now.inodes.saturating_sub(self.free.inodes) >= ROOM.1
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
            let mut tally = Tally::up_to(self.bytes.enough(), self.inodes.enough());
            let walked = walk::count(self.upper.as_fd(), &mut tally);
            if (tally.bytes, tally.inodes) >= (most.bytes, most.inodes) {
                most = tally;
            }
            if !matches!(walked, Ok(true)) || most.is_enough() || begun.elapsed() >= AGAIN {
                return (most, walked);
            }
        }
    }

    /// Counts now.
    pub(crate) fn count(&mut self, init: Pid) -> Order {
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
            Err(_) => tally.inodes = tally.inodes.max(self.limit.inodes.saturating_add(1)),
        }
        (self.usage.bytes, self.usage.inodes) = (tally.bytes, tally.inodes);
        let sight = match walked {
            _ if tally.is_enough() => Sight::Partial,
            Ok(false) => Sight::Whole,
            Ok(true) => Sight::Moving,
            Err(_) => Sight::Partial,
        };
        let (bytes, inodes) = (self.bytes.judge(tally.bytes, sight), self.inodes.judge(tally.inodes, sight));
        self.usage.byte_hits += u64::from(bytes != Verdict::Fine);
        self.usage.inode_hits += u64::from(inodes != Verdict::Fine);
        // Before anything is ended, so that what starts afterwards is held back from the first.
        self.curb.set(self.bytes.is_over(), init);
        // Whoever took too much is about to be ended, and whoever did not has waited long enough.
        self.brake.set(false);
        self.counted = Instant::now();
        self.took = begun.elapsed();
        match (bytes, inodes) {
            (Verdict::Beyond, _) => Order::EndSandbox(Cause::DiskBytes),
            (_, Verdict::Beyond) => Order::EndSandbox(Cause::DiskInodes),
            (Verdict::Fine, Verdict::Fine) => Order::None,
            _ => Order::EndProcesses,
        }
    }
}

fn free(upper: &OwnedFd) -> Result<Free> {
    let data = rustix::fs::fstatvfs(upper)?;
    Ok(Free { bytes: data.f_bfree.saturating_mul(data.f_frsize), inodes: data.f_ffree })
}
