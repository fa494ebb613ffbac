//! Pid 1 of the sandbox: builds the walls around itself from the inside, looks whether they stand, and runs the guest.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::fault::{Context, Fault};
use crate::ids::Users;
use crate::network::Sockets;
use crate::spec::{Launch, Stage};
use crate::{cgroup, landlock, mounts, nested, network, places, privileges, rights, seccomp, verify};

/// What init tells the monitor, in one byte.
pub(crate) mod signal {
    /// Every wall stands and the guest is about to serve; `/dev/shm` and the network's sockets come with it.
    pub(crate) const READY: u8 = b'r';
    /// It failed; the fault follows as JSON.
    pub(crate) const FAILED: u8 = b'f';
}

/// Runs as the first process in the new namespaces. Never returns to the caller's work: it ends with the sandbox.
pub(crate) fn main(
    launch: &Launch,
    users: Users,
    mut monitor: UnixStream,
    listener: UnixListener,
    outside: &BTreeMap<&'static str, String>,
) -> i32 {
    let built = build(launch, users, outside).and_then(|sockets| {
        let mut handed = vec![shared_memory()?];
        handed.extend(sockets);
        rights::send(&monitor, &[signal::READY], &handed).at(Stage::Guest, "handing the sockets over")
    });
    if let Err(fault) = built {
        return tell(&mut monitor, fault);
    }
    drop(monitor);
    let config = guest::daemon::Config { env: launch.env.clone(), cwd: launch.cwd.clone() };
    match guest::daemon::run(listener, config) {
        Ok(()) => 0,
        Err(_) => 3,
    }
}

/// Tells the monitor what failed. Gives the exit code.
fn tell(monitor: &mut UnixStream, fault: Fault) -> i32 {
    let mut message = vec![signal::FAILED];
    let report =
        crate::spec::Report::Failed { stage: fault.stage, message: fault.message, errno: fault.errno };
    if let Ok(json) = serde_json::to_vec(&report) {
        message.extend(json);
    }
    // If even this fails the monitor sees the stream end, and says so.
    if monitor.write_all(&message).is_ok() { 1 } else { 2 }
}

fn build(launch: &Launch, users: Users, outside: &BTreeMap<&'static str, String>) -> Result<Sockets, Fault> {
    cgroup::enter(&launch.cgroups)?;
    // SAFETY: a new cgroup namespace does not touch file descriptors or memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }.at(Stage::Namespaces, "making a cgroup namespace")?;
    rustix::system::sethostname(launch.hostname.as_bytes()).at(Stage::Namespaces, "naming the sandbox")?;
    let sockets = network::build(launch.network)?;
    let kernel_settings = mounts::enter_root(launch, &users)?;
    places::check(Path::new("/"), launch.furnish)?;
    expect_to_go_first();
    privileges::limit(&launch.rlimits)?;
    // The walls are built and owned by the outer user namespace; from here on we are in an inner one, which has no
    // power over any of them.
    move_into_link_name_space(users.namespace.as_fd(), Some(LinkNameSpaceType::User))
        .at(Stage::UserNamespace, "entering the user namespace")?;
    if launch.user_namespaces {
        nested::bound(&kernel_settings)?;
    }
    drop(kernel_settings);
    privileges::drop_all(launch.ids)?;
    let nesting = nested::Nesting::of(launch)?;
    landlock::restrict(nesting)?;
    seccomp::install(nesting)?;
    verify::walls(launch, outside)?;
    Ok(sockets)
}

/// What is shared between processes inside, for the monitor to look at how full it is. An ordinary user's monitor has no
/// other way to it.
fn shared_memory() -> Result<OwnedFd, Fault> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open("/dev/shm", flags, Mode::empty()).at(Stage::Guest, "opening /dev/shm")
}

/// When the whole machine is short of memory, what runs in a sandbox goes before what serves it. Inside its own limit the
/// kernel takes the largest process, which is a command and not the guest.
fn expect_to_go_first() {
    const SCORE: &str = "500";
    // A system that does not let us has lost nothing but an order of preference.
    let _preference = std::fs::write("/proc/self/oom_score_adj", SCORE);
}
