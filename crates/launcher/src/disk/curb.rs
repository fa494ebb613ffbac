//! Holding back what a sandbox writes while it is over its limit: no process can make a file longer than a little. Files can
//! still be removed and small ones written, which is what making room takes.
//!
//! Only the soft limit is changed, because nobody but root could ever raise the other again. A program can raise it for itself;
//! what it writes then is seen by counting, and ends it.

use rustix::io::Result;
use rustix::process::Pid;

use super::hidden;

/// The longest file that can be written meanwhile.
const LONGEST: libc::rlim_t = 1 << 20;

/// Of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Curb {
    on: bool,
}

impl Curb {
    /// Puts it on or takes it off. What cannot be done is tried again with the next count.
    pub(super) fn set(&mut self, on: bool, init: Pid) {
        let init = init.as_raw_nonzero().get();
        if on {
            // Whatever starts later has it from the first process; all others are about to be ended.
            self.on = limit(init, |_, hard| Some(LONGEST.min(hard))).is_ok() || self.on;
        } else if self.on {
            // Those that were started meanwhile go on, also after they made room.
            let lift = |pid| limit(pid, |soft, hard| (soft == LONGEST.min(hard)).then_some(hard));
            self.on = lift(init).is_err();
            for pid in hidden::descendants(init) {
                // One that is gone needs nothing.
                let _gone = lift(pid);
            }
        }
    }
}

/// Gives a process another soft limit for the size of files, if `choose` wants one.
fn limit(pid: i32, choose: impl FnOnce(libc::rlim_t, libc::rlim_t) -> Option<libc::rlim_t>) -> Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let done = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::IO)),
    };
    // SAFETY: nothing is set, and `now` is a valid, writable rlimit.
    done(unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut now) })?;
    let Some(soft) = choose(now.rlim_cur, now.rlim_max) else { return Ok(()) };
    let wanted = libc::rlimit { rlim_cur: soft, rlim_max: now.rlim_max };
    // SAFETY: `wanted` is a valid rlimit, and nothing is asked for.
    done(unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const wanted, std::ptr::null_mut()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_on_and_taken_off_and_touches_no_limit_but_its_own() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let soft = || {
            let mut seen = 0;
            limit(pid, |soft, _| {
                seen = soft;
                None
            })
            .unwrap();
            seen
        };
        let before = soft();
        let mut curb = Curb::default();
        curb.set(false, Pid::from_raw(pid).unwrap());
        assert_eq!(soft(), before);
        curb.set(true, Pid::from_raw(pid).unwrap());
        let held = soft();
        curb.set(false, Pid::from_raw(pid).unwrap());
        let lifted = soft();
        limit(pid, |_, _| Some(4096)).unwrap();
        curb.set(false, Pid::from_raw(pid).unwrap());
        let own = soft();
        for pid in hidden::descendants(pid) {
            rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).ok();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((held, lifted, own), (LONGEST, before, 4096));
    }
}
