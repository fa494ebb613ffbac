//! The monitor's long wait: until the sandbox ends, its time is up, or its owner is gone. Meanwhile it answers questions
//! and keeps an eye on the disk.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use crate::control::Control;
use crate::disk::{self, Keeper};
use crate::fault::{Context, Fault};
use crate::given::{self, Given};
use crate::spec::{Answer, Cause, Command, DiskUsage, Launch, Life, Stage};

/// What is watched.
pub(crate) struct Watch {
    control: Control,
    disk: Keeper,
    /// What [`Command::Sockets`] hands out.
    sockets: Vec<OwnedFd>,
    /// When the time of the sandbox's life began ([`given::time`]).
    began: Duration,
}

impl Watch {
    /// Opens the socket; the working directory is the sandbox's own.
    pub(crate) fn open(launch: &Launch, shared: OwnedFd, sockets: Vec<OwnedFd>) -> Result<Self, Fault> {
        let control = Control::open().at(Stage::Directory, "making the monitor's socket")?;
        let disk = Keeper::new(launch, shared).at(Stage::Directory, "looking at the writable layer")?;
        Ok(Self { control, disk, sockets, began: given::time() })
    }

    /// How it is with the disk, as was found last.
    pub(crate) fn disk(&self) -> DiskUsage {
        self.disk.usage()
    }

    /// Waits for the end.
    pub(crate) fn until_end(&mut self, launch: &Launch, init: Pid, handle: &OwnedFd) -> Cause {
        let mut look = Instant::now() + disk::PERIOD;
        loop {
            let now = Instant::now();
            let limit = launch.wall_clock_ms.map(Duration::from_millis);
            let left = limit.map(|limit| self.began.saturating_add(limit).saturating_sub(given::time()));
            if left.is_some_and(|left| left.is_zero()) {
                match given_later(self.began) {
                    Some(later) => self.began = later,
                    None => return Cause::WallClock,
                }
                continue;
            }
            if look <= now {
                look = now + disk::PERIOD;
                if self.disk.look(init) {
                    end_processes(handle);
                }
            }
            let look_in = look.saturating_duration_since(now);
            let next = left.map_or(look_in, |left| left.min(look_in));
            let next = self.control.patience(now).map_or(next, |patience| patience.min(next));
            match self.wait(launch, handle, next) {
                Some(Woken::Ended) => return Cause::Died,
                Some(Woken::OwnerGone) => return Cause::OwnerGone,
                Some(Woken::Asked) => self.answer(init, handle),
                None => {}
            }
        }
    }

    fn wait(&self, launch: &Launch, handle: &OwnedFd, limit: Duration) -> Option<Woken> {
        // Rounded up, so that what is waited for has come when the wait is over.
        let timeout = Timespec::try_from(limit + Duration::from_micros(100)).ok();
        let stdin = std::io::stdin();
        let owner = if launch.life == Life::Tied { stdin.as_fd() } else { handle.as_fd() };
        let mut watched =
            vec![PollFd::new(handle, PollFlags::IN), PollFd::from_borrowed_fd(owner, PollFlags::empty())];
        watched.extend(self.control.watched().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        match poll(&mut watched, timeout.as_ref()) {
            // A peer may have waited too long.
            Ok(0) => return self.control.patience(Instant::now()).map(|_| Woken::Asked),
            // A signal; there is nothing to it.
            Err(_) => return None,
            Ok(_) => {}
        }
        if !watched[0].revents().is_empty() {
            return Some(Woken::Ended);
        }
        if watched[1].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Some(Woken::OwnerGone);
        }
        watched[2..].iter().any(|peer| !peer.revents().is_empty()).then_some(Woken::Asked)
    }

    fn answer(&mut self, init: Pid, handle: &OwnedFd) {
        let Self { control, disk, sockets, .. } = self;
        let sockets: &[OwnedFd] = sockets;
        control.serve(|command| match command {
            Command::Sockets if sockets.is_empty() => {
                (Answer::Refused("this sandbox has no network".to_owned()), &[] as &[OwnedFd])
            }
            Command::Sockets => (Answer::Sockets { transparent: sockets.len() > 3, names: true }, sockets),
            Command::Disk => {
                if disk.count(init) {
                    end_processes(handle);
                }
                (Answer::Disk(disk.usage()), &[])
            }
        });
    }
}

/// When the sandbox was given to another owner, if that was after its time began. Nobody tells the monitor of it: when the
/// time is up is early enough to look, and whoever claims a sandbox waits for nothing.
fn given_later(began: Duration) -> Option<Duration> {
    // What cannot be read gives no more time. The working directory is the sandbox's own.
    let given = Given::read(Path::new(".")).ok().flatten()?;
    Some(given.at).filter(|at| *at > began)
}

/// Why the wait was over.
enum Woken {
    Ended,
    OwnerGone,
    Asked,
}

/// Tells the guest to end everything but itself.
fn end_processes(init: &OwnedFd) {
    // Gone is as good.
    let _gone = rustix::process::pidfd_send_signal(init, Signal::USR1);
}
