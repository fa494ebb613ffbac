//! What a process has done by the time its start returns. A short command may have said everything and ended, and then all
//! of it goes out with the answer: nobody has to be woken for the rest, and nothing has to be watched.

use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::process::Process;
use super::supervise::hang_up;

/// Reads of one output: one that finds something, and one that finds its end. A process that goes on talking is heard by
/// its pumps.
const READS: usize = 2;

/// Keeps what it has said so far. Gives how it ended, if it has, and if nobody holds its outputs any more.
pub(super) fn look(process: &Process, scratch: &mut [u8]) -> Option<WaitStatus> {
    // A terminal is for somebody who types: it is not expected to end at once.
    if process.terminal.borrow().is_some() {
        return None;
    }
    for output in &process.outputs {
        for _ in 0..READS {
            let Some(fd) = output.fd.borrow().clone() else { break };
            match rustix::io::read(fd.get_ref(), &mut *scratch) {
                Ok(0) => hang_up(process, output),
                Ok(read) => process.output(output, &scratch[..read]),
                // Nothing yet; whatever else is wrong, its pump finds it again.
                Err(_) => break,
            }
        }
    }
    if process.outputs.iter().any(|output| output.fd.borrow().is_some()) {
        return None;
    }
    // It is a child that nobody has waited for; should that fail all the same, the reaper meets the error again.
    let ended = rustix::process::waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG).ok()?;
    ended.map(|(_, status)| status)
}
