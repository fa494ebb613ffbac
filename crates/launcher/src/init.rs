//! Pid 1 of the sandbox: builds the walls around itself from the inside, looks whether they stand, and runs the guest.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::fault::{Context, Fault, check};
use crate::spec::{Launch, Stage};
use crate::{cgroup, mounts, privileges, seccomp, verify};

/// What init tells the monitor, and the other way round, one byte at a time.
pub(crate) mod signal {
    /// Init: I am in my control groups and have my user namespace; look, and map its ids.
    pub(crate) const MAP_ME: u8 = b'm';
    /// Monitor: the ids are mapped.
    pub(crate) const MAPPED: u8 = b'M';
    /// Init: every wall stands and the guest is about to serve.
    pub(crate) const READY: u8 = b'r';
    /// Init: it failed; the fault follows as JSON.
    pub(crate) const FAILED: u8 = b'f';
}

/// Runs as the first process in the new namespaces. Never returns to the caller's work: it ends with the sandbox.
pub(crate) fn main(
    launch: &Launch,
    mut monitor: UnixStream,
    listener: UnixListener,
    outside: &BTreeMap<&'static str, String>,
) -> i32 {
    if let Err(fault) = build(launch, &mut monitor, outside) {
        let mut message = vec![signal::FAILED];
        let report =
            crate::spec::Report::Failed { stage: fault.stage, message: fault.message, errno: fault.errno };
        if let Ok(json) = serde_json::to_vec(&report) {
            message.extend(json);
        }
        // If even this fails the monitor sees the stream end, and says so.
        return if monitor.write_all(&message).is_ok() { 1 } else { 2 };
    }
    if monitor.write_all(&[signal::READY]).is_err() {
        return 2;
    }
    drop(monitor);
    let config = guest::daemon::Config { env: launch.env.clone(), cwd: launch.cwd.clone() };
    match guest::daemon::run(listener, config) {
        Ok(()) => 0,
        Err(_) => 3,
    }
}

fn build(
    launch: &Launch,
    monitor: &mut UnixStream,
    outside: &BTreeMap<&'static str, String>,
) -> Result<(), Fault> {
    cgroup::enter(&launch.cgroups)?;
    // SAFETY: a new cgroup namespace does not touch file descriptors or memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }.at(Stage::Namespaces, "making a cgroup namespace")?;
    rustix::system::sethostname(launch.hostname.as_bytes()).at(Stage::Namespaces, "naming the sandbox")?;
    loopback_up()?;
    mounts::enter_root(launch)?;
    privileges::limit(&launch.rlimits)?;
    // The walls are built and owned by the outer user namespace; from here on we are in an inner one, which has no
    // power over any of them.
    // SAFETY: a new user namespace does not touch file descriptors or memory, and there is only one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.at(Stage::UserNamespace, "making a user namespace")?;
    monitor.write_all(&[signal::MAP_ME]).at(Stage::UserNamespace, "asking for ids")?;
    expect(monitor, signal::MAPPED)?;
    privileges::drop_all(launch.ids)?;
    seccomp::install()?;
    verify::walls(launch, outside)
}

fn expect(monitor: &mut UnixStream, wanted: u8) -> Result<(), Fault> {
    let mut byte = [0];
    monitor.read_exact(&mut byte).at(Stage::Namespaces, "waiting for the monitor")?;
    if byte[0] == wanted { Ok(()) } else { Err(Fault::new(Stage::Namespaces, "the monitor gave up")) }
}

fn loopback_up() -> Result<(), Fault> {
    let stage = Stage::Network;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").at(stage, "opening a socket")?;
    // SAFETY: an all-zero ifreq is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: `request` is a valid ifreq with a terminated name, and the kernel only reads it.
    check(unsafe {
        libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&socket), libc::SIOCSIFFLAGS as _, &raw const request)
    })
    .at(stage, "bringing loopback up")
    .map(|_| ())
}
