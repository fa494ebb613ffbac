//! Stops every process of a sandbox for a moment, through its control group.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes stop at once unless they wait for a disk; one that takes this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(200);

/// The control group that can stop a sandbox.
#[derive(Debug, Clone)]
pub(super) struct Freezer {
    group: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Version 1: `freezer.state`.
    State,
    /// Version 2: `cgroup.freeze`.
    Freeze,
}

/// The sandbox stands still as long as this is held.
pub(super) struct Frozen<'a> {
    freezer: &'a Freezer,
}

impl Freezer {
    /// The one among a sandbox's groups that has it.
    pub(super) fn find(groups: &[PathBuf]) -> Option<Self> {
        groups.iter().find_map(|group| {
            let kind = if group.join("cgroup.freeze").exists() {
                Kind::Freeze
            } else if group.join("freezer.state").exists() {
                Kind::State
            } else {
                return None;
            };
            Some(Self { group: group.clone(), kind })
        })
    }

    /// Stops every process, or none.
    pub(super) fn freeze(&self) -> std::io::Result<Frozen<'_>> {
        let frozen = Frozen { freezer: self };
        let word = match self.kind {
            Kind::State => "FROZEN",
            Kind::Freeze => "1",
        };
        std::fs::write(self.file(), word)?;
        let begun = Instant::now();
        while !self.stands_still()? {
            match begun.elapsed() {
                time if time > PATIENCE => return Err(std::io::ErrorKind::TimedOut.into()),
                // What only sleeps stops sooner than a pause would end.
                time if time < PAUSE => std::thread::yield_now(),
                _ => std::thread::sleep(PAUSE),
            }
        }
        Ok(frozen)
    }

    /// Lets every process go on. Succeeds when the group is gone.
    pub(super) fn thaw(&self) -> std::io::Result<()> {
        let word = match self.kind {
            Kind::State => "THAWED",
            Kind::Freeze => "0",
        };
        match std::fs::write(self.file(), word) {
            Err(error) if self.group.exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether somebody stopped it, or is about to.
    pub(super) fn is_frozen(&self) -> bool {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        match self.kind {
            Kind::State => matches!(text.trim(), "FROZEN" | "FREEZING"),
            Kind::Freeze => text.trim() == "1",
        }
    }

    /// Every process in it.
    pub(super) fn processes(&self) -> std::io::Result<Vec<u32>> {
        let text = std::fs::read_to_string(self.group.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    fn file(&self) -> PathBuf {
        self.group.join(match self.kind {
            Kind::State => "freezer.state",
            Kind::Freeze => "cgroup.freeze",
        })
    }

    fn stands_still(&self) -> std::io::Result<bool> {
        Ok(match self.kind {
            Kind::State => std::fs::read_to_string(self.file())?.trim() == "FROZEN",
            Kind::Freeze => {
                let events = std::fs::read_to_string(self.group.join("cgroup.events"))?;
                events.lines().any(|line| line == "frozen 1")
            }
        })
    }
}

impl Frozen<'_> {
    /// Lets every process go on, and says so if that fails.
    pub(super) fn thaw(self) -> std::io::Result<()> {
        let result = self.freezer.thaw();
        std::mem::forget(self);
        result
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.freezer.thaw() {
            tracing::error!(group = %self.freezer.group.display(), %error, "a sandbox stays frozen");
        }
    }
}

/// Every process in the pid namespace of another, for hosts without a control group.
pub(super) fn companions(init: u32) -> std::io::Result<Vec<u32>> {
    let namespace = |pid: u32| std::fs::read_link(Path::new("/proc").join(pid.to_string()).join("ns/pid"));
    let own = namespace(init)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // What cannot be looked at is not this user's.
        if namespace(pid).is_ok_and(|other| other == own) {
            found.push(pid);
        }
    }
    Ok(found)
}
