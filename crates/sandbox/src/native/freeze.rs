//! Stops every process of a sandbox for a moment: through its control group, or with signals where it has none.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use launcher::spec::State;
use rustix::io::Errno;

use super::signals::Signals;

/// Processes stop at once unless they wait for a disk; one that takes this long is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(200);

/// What can stop a sandbox.
#[derive(Debug, Clone)]
pub(super) enum Freezer {
    /// A control group of version 1: `freezer.state`.
    State(PathBuf),
    /// A control group of version 2: `cgroup.freeze`.
    Freeze(PathBuf),
    /// No control group.
    Signals(Signals),
}

/// The sandbox stands still as long as this is held.
pub(super) struct Frozen<'a> {
    freezer: &'a Freezer,
    /// Whether all of it does; false if something did not stop in time.
    pub(super) whole: bool,
}

impl Freezer {
    /// That of the sandbox in a directory.
    pub(super) fn of(dir: &Path, state: &State) -> Self {
        let groups = state.cgroups.iter().find_map(|group| {
            let (freeze, state) = (group.join("cgroup.freeze"), group.join("freezer.state"));
            if freeze.exists() {
                Some(Self::Freeze(group.clone()))
            } else {
                state.exists().then(|| Self::State(group.clone()))
            }
        });
        groups.unwrap_or_else(|| Self::Signals(Signals::new(dir, state.init)))
    }

    /// Stops every process. One that does not stop in time does not keep the others from standing still.
    pub(super) fn freeze(&self) -> std::io::Result<Frozen<'_>> {
        // From here on: whatever fails, what was stopped goes on.
        let mut frozen = Frozen { freezer: self, whole: false };
        frozen.whole = match self {
            Self::State(group) => {
                std::fs::write(group.join("freezer.state"), "FROZEN")?;
                until_still(|| Ok(std::fs::read_to_string(group.join("freezer.state"))?.trim() == "FROZEN"))?
            }
            Self::Freeze(group) => {
                std::fs::write(group.join("cgroup.freeze"), "1")?;
                until_still(|| {
                    let events = std::fs::read_to_string(group.join("cgroup.events"))?;
                    Ok(events.lines().any(|line| line == "frozen 1"))
                })?
            }
            Self::Signals(signals) => signals.stop(PATIENCE)?,
        };
        Ok(frozen)
    }

    /// Lets every process go on. Succeeds when they are gone.
    pub(super) fn thaw(&self) -> std::io::Result<()> {
        let (group, written) = match self {
            Self::State(group) => (group, std::fs::write(group.join("freezer.state"), "THAWED")),
            Self::Freeze(group) => (group, std::fs::write(group.join("cgroup.freeze"), "0")),
            Self::Signals(signals) => return signals.go_on(),
        };
        match written {
            // A group that is being removed loses its files a moment before its directory, and says that it is no device.
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound && group.exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes it possible to kill every process: what a control group holds cannot even be killed.
    pub(super) fn let_die(&self) -> std::io::Result<()> {
        match self {
            Self::State(_) | Self::Freeze(_) => self.thaw(),
            Self::Signals(_) => Ok(()),
        }
    }

    /// Whether somebody stopped it, or is about to.
    pub(super) fn is_frozen(&self) -> bool {
        // A group that cannot be read is gone.
        let read = |group: &Path, file| std::fs::read_to_string(group.join(file)).unwrap_or_default();
        match self {
            Self::State(group) => matches!(read(group, "freezer.state").trim(), "FROZEN" | "FREEZING"),
            Self::Freeze(group) => read(group, "cgroup.freeze").trim() == "1",
            Self::Signals(signals) => signals.is_stopped(),
        }
    }

    /// Every process of the sandbox; its first may be missing.
    pub(super) fn processes(&self) -> std::io::Result<Vec<u32>> {
        let group = match self {
            Self::State(group) | Self::Freeze(group) => group,
            Self::Signals(signals) => return signals.processes(),
        };
        let text = std::fs::read_to_string(group.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

/// Waits until something is so; false if it takes too long.
fn until_still(is_still: impl Fn() -> std::io::Result<bool>) -> std::io::Result<bool> {
    let begun = Instant::now();
    while !is_still()? {
        match begun.elapsed() {
            time if time > PATIENCE => return Ok(false),
            // What only sleeps stops sooner than a pause would end.
            time if time < PAUSE => std::thread::yield_now(),
            _ => std::thread::sleep(PAUSE),
        }
    }
    Ok(true)
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
            tracing::error!(freezer = ?self.freezer, %error, "a sandbox stays frozen");
        }
    }
}
