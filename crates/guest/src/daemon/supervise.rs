//! The tasks of one process: a pump for each output, and the supervisor that enforces its time limit and decides when
//! its exit may be told.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::WaitStatus;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until, timeout};

use super::process::{OutputEnd, Process};
use super::tree;
use crate::wire::Exit;

/// After this long without output, a child that still holds the pipe is taken to be a background one.
const SILENCE: Duration = Duration::from_millis(200);

/// How long a chatty background child can delay the exit.
const CHATTER: Duration = Duration::from_secs(2);

/// Between the polite signal and the other one.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How often the remains of a tree are killed again, in case they fork as fast as they die.
const ROUNDS: u32 = 20;

/// A buffer that all pumps share: reads do not block and are not interrupted by each other on one thread.
pub(super) type Scratch = Rc<RefCell<Vec<u8>>>;

/// Starts the tasks. `reaped` is notified whenever children were reaped; `done` is called when the exit is known.
pub(super) fn start(
    process: &Rc<Process>,
    time_limit: Option<Duration>,
    scratch: &Scratch,
    reaped: Rc<Notify>,
    done: impl FnOnce() + 'static,
) {
    for index in 0..process.outputs.len() {
        spawn_local(pump(process.clone(), index, scratch.clone()));
    }
    let process = process.clone();
    spawn_local(async move {
        supervise(&process, time_limit, &reaped).await;
        done();
    });
}

async fn supervise(process: &Process, time_limit: Option<Duration>, reaped: &Notify) {
    let in_time = match time_limit {
        Some(limit) => timeout(limit, process.main_ended()).await.ok(),
        None => Some(process.main_ended().await),
    };
    let timed_out = in_time.is_none();
    let status = match in_time {
        Some(status) => status,
        None => {
            terminate(process, reaped).await;
            process.main_ended().await
        }
    };
    if timed_out || status.terminating_signal() == Some(libc::SIGKILL) {
        kill(process, reaped).await;
    }
    settle(process).await;
    process.finish(exit(status, timed_out));
}

/// How it ended, in the words of the wire.
pub(super) fn exit(status: WaitStatus, timed_out: bool) -> Exit {
    let signal = status.terminating_signal();
    let code = status.exit_status().unwrap_or_else(|| 128 + signal.unwrap_or(0));
    Exit { code, signal, timed_out }
}

/// Asks the whole tree to end and gives it some time, then kills what is left.
async fn terminate(process: &Process, reaped: &Notify) {
    // A tree that cannot be read or signalled now is met again, with the other signal, by `kill`.
    drop(tree::signal(process.root(), libc::SIGTERM));
    // One that is stopped would never see it.
    drop(tree::signal(process.root(), libc::SIGCONT));
    let gone = async {
        loop {
            // The last one of a tree to die is a child of ours, so its end always wakes us.
            let reaped = reaped.notified();
            if !tree::alive(process.root()).unwrap_or(true) {
                return;
            }
            reaped.await;
        }
    };
    // Running into the limit is the other way for the wait to end, not a failure.
    drop(timeout(GRACE, gone).await);
    kill(process, reaped).await;
}

/// Kills the whole tree. A process in the middle of a system call that cannot be interrupted may outlive this.
async fn kill(process: &Process, reaped: &Notify) {
    for _ in 0..ROUNDS {
        let woken = reaped.notified();
        if matches!(tree::signal(process.root(), libc::SIGKILL), Ok(0)) {
            return;
        }
        drop(timeout(Duration::from_millis(50), woken).await);
    }
}

/// Waits until the process's own output is in the ring and its children's has had a chance to be.
async fn settle(process: &Process) {
    let mut chatter = None;
    loop {
        let changed = process.changed.notified();
        if process.outputs.iter().all(|output| output.fd.borrow().is_none()) {
            return;
        }
        if process.outputs.iter().any(|output| output.owed.get() > 0) {
            changed.await;
            continue;
        }
        let limit = *chatter.get_or_insert_with(|| Instant::now() + CHATTER);
        let quiet = process.last_output.get() + SILENCE;
        tokio::select! {
            biased;
            () = changed => {}
            () = sleep_until(quiet.min(limit)) => {
                if Instant::now() >= limit || Instant::now() >= process.last_output.get() + SILENCE {
                    return;
                }
            }
        }
    }
}

/// Moves output into the ring until the last holder of the pipe closes it, also after the exit was told.
async fn pump(process: Rc<Process>, index: usize, scratch: Scratch) {
    let Some(end) = process.outputs.get(index) else { return };
    let Some(fd) = end.fd.borrow().clone() else { return };
    loop {
        process.has_room().await;
        let Ok(mut ready) = fd.readable().await else { break };
        let read = ready.try_io(|fd| {
            let mut scratch = scratch.borrow_mut();
            let read = rustix::io::read(fd.get_ref(), scratch.as_mut_slice()).map_err(io::Error::from)?;
            process.output(end, &scratch[..read]);
            Ok(read)
        });
        match read {
            // A terminal ends with an error instead of an empty read, and any other error ends a pipe, too.
            Ok(Ok(0)) => break,
            Ok(Err(error)) if error.kind() != io::ErrorKind::Interrupted => break,
            Ok(_) => tokio::task::yield_now().await,
            Err(_not_ready_after_all) => {}
        }
    }
    drop(fd);
    hang_up(&process, end);
}

/// An output has ended.
pub(super) fn hang_up(process: &Process, end: &OutputEnd) {
    process.output_ended(end);
    process.terminal.borrow_mut().take();
}
