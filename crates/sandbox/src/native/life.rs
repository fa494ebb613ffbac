//! How a sandbox is: whether it lives, and how it is ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use launcher::spec::{State, files};
use protocol::SandboxId;
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::freeze::Freezer;
use super::record::{Record, read_json};
use crate::{Error, Info};

/// Whoever makes a sandbox needs milliseconds; one that is older than this and not there was given up.
const YOUNG: Duration = Duration::from_secs(30);

/// What a sandbox's directory tells about it.
pub(super) fn info(id: SandboxId, dir: &Path) -> Result<Info, Error> {
    let record = Record::read(dir).unwrap_or_else(|error| {
        tracing::warn!(sandbox = %id, %error, "a sandbox's record cannot be read");
        None
    });
    let state = read_json::<State>(&dir.join(files::STATE));
    let young = id.age().is_none_or(|age| age < YOUNG);
    let (now, pid) = match &state {
        // Its lock is not touched: whoever makes it may be about to take it.
        None if young && !dir.join(files::ENDED).exists() => (crate::State::Starting, None),
        None if monitored(dir)? => (crate::State::Starting, None),
        None => (crate::State::Ended, None),
        Some(_) if !monitored(dir)? => (crate::State::Ended, None),
        Some(state) if Freezer::of(dir, state).is_frozen() => (crate::State::Frozen, Some(state.init)),
        Some(state) => (crate::State::Running, Some(state.init)),
    };
    let (owner, stack) = record.map(|record| (record.owner, record.stack)).unzip();
    Ok(Info { id, state: now, pid, owner, stack })
}

/// Ends a sandbox, at whatever point of its life it is, and waits until nothing of it runs.
pub(super) async fn end(dir: &Path) -> Result<(), Error> {
    let mut state = read_json::<State>(&dir.join(files::STATE));
    if state.is_none() {
        // It is being made. If whoever makes it is gone, its launcher notices when it is done; so this ends.
        for _ in 0..YOUNG.as_millis() / 5 {
            if !monitored(dir)? {
                break;
            }
            state = read_json(&dir.join(files::STATE));
            if state.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    if let Some(state) = &state {
        Freezer::of(dir, state).let_die().map_err(Error::io(dir))?;
        end_running(dir, state).await?;
    }
    if dir.exists() && monitored(dir)? {
        return Err(Error::Start("it does not end: its monitor still runs".to_owned()));
    }
    // A monitor that was killed could not remove these.
    let mut groups = state.map(|state| state.cgroups).unwrap_or_default();
    groups.extend(Record::read(dir).ok().flatten().map(|record| record.cgroups).unwrap_or_default());
    remove_groups(groups.iter().map(PathBuf::as_path)).await
}

/// Ends a sandbox by ending pid 1, which only the monitor's own process can have been given; then waits until the
/// monitor has cleaned up.
async fn end_running(dir: &Path, state: &State) -> Result<(), Error> {
    if monitored(dir)?
        && let Some(init) = i32::try_from(state.init).ok().and_then(rustix::process::Pid::from_raw)
    {
        // The monitor lives and has not reaped pid 1 yet, so this number is still its own; gone is as good.
        let _gone = rustix::process::kill_process(init, rustix::process::Signal::KILL);
    }
    let monitor = Path::new("/proc").join(state.monitor.to_string());
    for _ in 0..10_000 {
        // A tied sandbox's directory goes before its monitor does.
        let working = dir.exists() && monitored(dir)?;
        let monitor_lives = working || is_process(&monitor, "slipway-monitor");
        // The death of a monitor is the death of its sandbox, but a little later.
        if !monitor_lives && !is_process(&Path::new("/proc").join(state.init.to_string()), "slipway-guest") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Whether a process still is what it was; its number may be another's by now.
fn is_process(proc: &Path, name: &str) -> bool {
    std::fs::read_to_string(proc.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
}

/// Removes control groups. The kernel refuses while the last of many processes is on its way out.
pub(super) async fn remove_groups(groups: impl Iterator<Item = &Path>) -> Result<(), Error> {
    for group in groups {
        let mut tries = 0;
        loop {
            match std::fs::remove_dir(group) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy && tries < 2000 => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::Io { path: group.to_owned(), source: error });
                }
                _ => break,
            }
        }
    }
    Ok(())
}

/// Whether the sandbox's monitor lives: it holds the lock as long as it does.
pub(super) fn monitored(dir: &Path) -> Result<bool, Error> {
    let path = dir.join(files::LOCK);
    let lock = match rustix::fs::open(&path, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    {
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        other => other.map_err(|errno| Error::Io { path, source: errno.into() })?,
    };
    // Shared, so that two who look at once, or a child of one that has not begun its program, are not taken for a monitor.
    Ok(rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
}
