//! Stops every process of a sandbox with signals, for hosts that give us no control group.
//!
//! A parent is stopped before its children, and goes on after them, so that none of those which watch their children (a
//! shell with job control does) ever sees one that stands still. The guest is stopped first: it starts nothing new, and
//! writes no file for anyone. While the sandbox stands still a file in its directory says so, and which processes had
//! been stopped before by somebody else; whoever finds it later lets all the others go on.

use std::collections::HashSet;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::processes::{Name, Process, Stand, below, look};
use super::record::write_json;

/// What is in a sandbox's directory while it stands still.
const MARK: &str = "stopped.json";

/// A parent that takes longer than this is not waited for before its children are stopped. It is at once unless a busy
/// machine has no processor for it, or it waits for a disk.
const PARENT: Duration = Duration::from_millis(250);

/// How long the guest has at first.
const GUEST: Duration = Duration::from_millis(50);

/// One that is traced is not told to stop, because its tracer would be told first. If its tracer does not hold it by then,
/// nothing does.
const TRACED: Duration = Duration::from_millis(50);

/// Processes that begin others and end, one after the other, cannot be caught one by one. After so many looks the guest is
/// asked to stop all of them at once.
const LOOKS: u32 = 4;

/// The guest is given twice the time after each try that was too short, up to this: on a busy machine it has to wait for
/// a processor first. The other is how long it has before everything goes on.
const LONGEST: Duration = Duration::from_millis(320);
const LATE: Duration = Duration::from_secs(2);

const PAUSE: Duration = Duration::from_micros(200);

/// The way to stop a sandbox.
#[derive(Debug, Clone)]
pub(super) struct Signals {
    init: i32,
    mark: PathBuf,
}

impl Signals {
    /// Of the sandbox in a directory, by its first process.
    pub(super) fn new(dir: &Path, init: u32) -> Self {
        // A number that is none is nobody's.
        Self { init: i32::try_from(init).unwrap_or(i32::MAX), mark: dir.join(MARK) }
    }

    /// Whether somebody stopped it, or is about to.
    pub(super) fn is_stopped(&self) -> bool {
        self.mark.exists()
    }

    /// Every process but the first.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        Ok(below(self.init)?.processes.iter().map(|process| process.name.pid.unsigned_abs()).collect())
    }

    /// Stops every process; false if one of them did not within the patience.
    pub(super) fn stop(&self, patience: Duration) -> Result<bool> {
        let begun = Instant::now();
        let Some(guest) = look(self.init, 0)? else { return Ok(true) };
        let stopped = |process: &&Process| process.stand == Stand::Stopped;
        let mut before: HashSet<Name> =
            below(self.init)?.processes.iter().filter(stopped).map(|process| process.name).collect();
        self.write(&before)?;
        guest.signal(Signal::STOP)?;
        wait(&[guest], GUEST)?;
        let mut last = None;
        for round in 1_u32.. {
            // Before the look: one that goes on may reap, and start something.
            let guest_stands = stands(&guest)?;
            let now = below(self.init)?;
            if guest_stands && last.as_ref().is_some_and(|last| now.is_still(last)) {
                return Ok(true);
            }
            let going: Vec<Process> =
                now.processes.iter().copied().filter(|process| process.stand == Stand::Goes).collect();
            let (traced, free): (Vec<Process>, Vec<Process>) =
                going.iter().copied().partition(Process::is_traced);
            let late = begun.elapsed() > patience;
            if late || (guest_stands && free.is_empty() && !traced.is_empty() && begun.elapsed() > TRACED) {
                tracing::info!(?going, guest_stands, "processes that do not stop");
                return Ok(false);
            }
            // One of them was let go on meanwhile.
            let known = before.len();
            before.retain(|name| !free.iter().any(|process| process.name == *name));
            if before.len() < known {
                self.write(&before)?;
            }
            stop_levels(&free)?;
            if round.is_multiple_of(LOOKS) && !free.is_empty() {
                self.stop_at_once(&guest)?;
            } else if round > 2 {
                std::thread::sleep(PAUSE);
            }
            last = guest_stands.then_some(now);
        }
        Ok(false)
    }

    /// Has the guest stop everything in one step, which no process escapes by beginning another.
    fn stop_at_once(&self, guest: &Process) -> Result<()> {
        guest.signal(Signal::USR2)?;
        let mut time = GUEST;
        while time <= LONGEST {
            guest.signal(Signal::CONT)?;
            until(time, || Ok(guest.is_done_with(Signal::USR2)))?;
            guest.signal(Signal::STOP)?;
            wait(std::slice::from_ref(guest), time)?;
            // Only while it stands still this is sure: between taking a signal and beginning with it nothing shows.
            if guest.is_done_with(Signal::USR2) {
                break;
            }
            time *= 2;
        }
        Ok(())
    }

    /// Lets every process go on that was not stopped before. Succeeds when they are gone.
    pub(super) fn go_on(&self) -> Result<()> {
        // One that cannot be read was not finished, and then nothing was stopped yet.
        let before: HashSet<Name> = match std::fs::read(&self.mark) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => serde_json::from_slice::<Vec<Name>>(&other?).unwrap_or_default().into_iter().collect(),
        };
        if let Some(guest) = look(self.init, 0)? {
            if !guest.is_done_with(Signal::USR2) {
                // It would stop them all again.
                guest.signal(Signal::CONT)?;
                until(LATE, || Ok(guest.is_done_with(Signal::USR2)))?;
            }
            for process in below(self.init)?.processes.iter().rev() {
                // Also one that has not stopped: it may be about to. What its tracer holds was not told to.
                let ours = !matches!(process.stand, Stand::Held | Stand::Ended);
                if ours && !before.contains(&process.name) && !process.is_traced() {
                    process.signal(Signal::CONT)?;
                }
            }
            guest.signal(Signal::CONT)?;
        }
        match std::fs::remove_file(&self.mark) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, before: &HashSet<Name>) -> Result<()> {
        let names: Vec<&Name> = before.iter().collect();
        write_json(&self.mark, &names).map_err(std::io::Error::other)
    }
}

/// Stops processes, those of one depth after those above.
fn stop_levels(processes: &[Process]) -> Result<()> {
    for level in processes.chunk_by(|one, other| one.depth == other.depth) {
        for process in level {
            process.signal(Signal::STOP)?;
        }
        wait(level, PARENT)?;
    }
    Ok(())
}

/// Waits until processes stand still, but not for long.
fn wait(processes: &[Process], patience: Duration) -> Result<()> {
    until(patience, || {
        for process in processes {
            if !stands(process)? {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Waits until something is so, but not for long.
fn until(patience: Duration, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        match begun.elapsed() {
            time if time > patience => break,
            // What only sleeps stops sooner than a pause would end.
            time if time < PAUSE => std::thread::yield_now(),
            _ => std::thread::sleep(PAUSE),
        }
    }
    Ok(())
}

fn stands(process: &Process) -> Result<bool> {
    let now = look(process.name.pid, process.depth)?;
    Ok(now.is_none_or(|now| now.name != process.name || now.stand != Stand::Goes))
}
