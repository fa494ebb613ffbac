//! The monitor's long wait: until the sandbox ends, its time is up, or its owner is gone. Meanwhile it answers questions
//! and keeps an eye on the disk.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

use crate::control::Control;
use crate::disk::{Keeper, Order};
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
    /// Whether it was made for whoever comes first: its time begins when it is given away.
    waits: bool,
}

impl Watch {
    /// Opens the socket; the working directory is the sandbox's own.
    pub(crate) fn open(launch: &Launch, shared: OwnedFd, sockets: Vec<OwnedFd>) -> Result<Self, Fault> {
        let control = Control::open().at(Stage::Directory, "making the monitor's socket")?;
        let disk = Keeper::new(launch, shared).at(Stage::Directory, "looking at the writable layer")?;
        let waits = Given::is_prepared(Path::new("."));
        Ok(Self { control, disk, sockets, began: given::time(), waits })
    }

    /// How it is with the disk, as was found last.
    pub(crate) fn disk(&self) -> DiskUsage {
        self.disk.usage()
    }

    /// Waits for the end.
    pub(crate) fn until_end(&mut self, launch: &Launch, init: Pid, handle: &OwnedFd) -> Cause {
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            let limit = launch.wall_clock_ms.map(Duration::from_millis);
            let left = limit.map(|limit| self.began.saturating_add(limit).saturating_sub(given::time()));
            if left.is_some_and(|left| left.is_zero()) {
                match self.begins_anew() {
                    Some(began) => self.began = began,
                    None => return Cause::WallClock,
                }
                continue;
            }
            if looked + self.disk.period() <= now {
                looked = now;
                let order = self.disk.look(init);
                if let Some(cause) = obey(order, handle) {
                    return cause;
                }
            }
            let look = looked + self.disk.period();
            let look_in = look.saturating_duration_since(now);
            let next = left.map_or(look_in, |left| left.min(look_in));
            let next = self.control.patience(now).map_or(next, |patience| patience.min(next));
            match self.wait(launch, handle, next) {
                Some(Woken::Ended) => return Cause::Died,
                Some(Woken::OwnerGone) => return Cause::OwnerGone,
                Some(Woken::Asked) => {
                    if let Some(cause) = self.answer(init, handle) {
                        return cause;
                    }
                }
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

    /// Answers whoever asked. Why the sandbox has to end, if it turned out that it does.
    fn answer(&mut self, init: Pid, handle: &OwnedFd) -> Option<Cause> {
        let mut end = None;
        let Self { control, disk, sockets, .. } = self;
        let sockets: &[OwnedFd] = sockets;
        control.serve(|command| match command {
            Command::Sockets if sockets.is_empty() => {
                (Answer::Refused("this sandbox has no network".to_owned()), &[] as &[OwnedFd])
            }
            Command::Sockets => {
                let (transparent, ipv6) = (sockets.len() > 3, sockets.len() > 5);
                (Answer::Sockets { transparent, names: true, ipv6 }, sockets)
            }
            Command::Disk => {
                end = obey(disk.count(init), handle).or(end);
                (Answer::Disk(disk.usage()), &[])
            }
        });
        end
    }

    /// When the sandbox's time began, if that was later than is known: it was given to another owner, or still waits for the
    /// first. Nobody tells the monitor of it: when the time is up is early enough to look, and whoever claims a sandbox waits
    /// for nothing.
    fn begins_anew(&self) -> Option<Duration> {
        // What cannot be read gives no more time. The working directory is the sandbox's own.
        match Given::read(Path::new(".")) {
            Ok(Some(given)) => Some(given.at).filter(|at| *at > self.began),
            Ok(None) if self.waits => Some(given::time()),
            Ok(None) | Err(_) => None,
        }
    }
}

/// Ends what has to end; why the sandbox itself does, if so.
fn obey(order: Order, init: &OwnedFd) -> Option<Cause> {
    match order {
        Order::None => None,
        Order::EndProcesses => {
            end_processes(init);
            None
        }
        Order::EndSandbox(cause) => Some(cause),
    }
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
