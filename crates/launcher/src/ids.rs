//! The ids of a sandbox: a range of host ids of its own, and the user namespace that shows them as 0 to 65535 inside, so
//! that a process of one sandbox is a stranger to the files and processes of another.

use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::fault::{Context, Fault, check};
use crate::spec::{FIRST_RANGE, INSIDE_ID, RANGE, RANGES, Stage};

/// A range that is ours while this value lives.
pub(crate) struct Range {
    first: u32,
    /// An abstract socket is a lock that spans the host, needs no file, and is gone with its holder.
    _claim: UnixListener,
}

impl Range {
    /// Takes a range that no other sandbox on this host has.
    pub(crate) fn claim() -> Result<Self, Fault> {
        let stage = Stage::UserNamespace;
        let start = std::process::id() % RANGES;
        for number in (start..RANGES).chain(0..start) {
            let first = FIRST_RANGE + number * RANGE;
            let name = SocketAddr::from_abstract_name(format!("slipway-ids-{first}"))
                .at(stage, "naming a range of ids")?;
            match UnixListener::bind_addr(&name) {
                Ok(claim) => return Ok(Self { first, _claim: claim }),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error).at(stage, "claiming a range of ids"),
            }
        }
        Err(Fault::new(stage, "every range of ids is in use: remove sandboxes that are no longer needed"))
    }
}

/// The user namespace that everything inside runs in. It is made before anything is in it, because the mounts that show
/// the layers need to know its ids.
pub(crate) struct Users {
    /// The namespace.
    pub(crate) namespace: OwnedFd,
    /// The first host id of the range; None for an ordinary user, who has no other id than its own.
    pub(crate) first: Option<u32>,
}

impl Users {
    /// Makes the namespace. The process that held it until it could be opened is on its way out, and is reaped when the
    /// [`Holder`] is dropped.
    pub(crate) fn make(range: Option<&Range>) -> Result<(Self, Holder), Fault> {
        let stage = Stage::UserNamespace;
        let holder = Holder::start().at(stage, "making a user namespace")?;
        let proc = format!("/proc/{}", holder.pid.as_raw_nonzero());
        let map = match range {
            Some(range) => format!("0 {} {RANGE}", range.first),
            None => {
                std::fs::write(format!("{proc}/setgroups"), "deny").at(stage, "giving up groups")?;
                format!("{INSIDE_ID} 0 1")
            }
        };
        std::fs::write(format!("{proc}/uid_map"), &map).at(stage, "mapping users")?;
        std::fs::write(format!("{proc}/gid_map"), &map).at(stage, "mapping groups")?;
        let namespace =
            rustix::fs::open(format!("{proc}/ns/user"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .at(stage, "opening the user namespace")?;
        holder.end();
        Ok((Self { namespace, first: range.map(|range| range.first) }, holder))
    }

    /// The id, as this process must say it, of an id inside.
    pub(crate) fn outside(&self, inside: u32) -> u32 {
        // An ordinary user is root of the namespace it builds in, and the one user inside.
        self.first.map_or(0, |first| first + inside)
    }
}

/// A process that does nothing but be in a new user namespace. It shares our memory, which makes it quick to start.
pub(crate) struct Holder {
    pid: Pid,
    _stack: Vec<u128>,
}

extern "C" fn hold(_: *mut libc::c_void) -> libc::c_int {
    loop {
        // SAFETY: waits for a signal, which ends it. It never returns here, so nothing of the shared memory is touched.
        unsafe { libc::pause() };
    }
}

impl Holder {
    fn start() -> std::io::Result<Self> {
        // Room for one call and the frame of a signal that ends it.
        let mut stack = vec![0u128; 1024];
        let flags = libc::CLONE_NEWUSER | libc::CLONE_VM | libc::SIGCHLD;
        // SAFETY: the stack is aligned, its end is passed because stacks grow downwards, and it lives until the process
        // is reaped. What runs there only waits, so sharing memory with it is safe.
        let pid = check(unsafe {
            libc::clone(hold, stack.as_mut_ptr_range().end.cast(), flags, std::ptr::null_mut())
        })?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Self { pid, _stack: stack })
    }

    fn end(&self) {
        // It is our child and not reaped yet, so the number is its own; that it is dead already is as good.
        let _already_dead = rustix::process::kill_process(self.pid, Signal::KILL);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitpid(Some(self.pid), WaitOptions::empty())
        {}
    }
}
