//! Giving up every privilege, for good: user, capabilities, and the way to get any back.

use rustix::io::Errno;

use crate::fault::{Context, Fault, check};
use crate::spec::{INSIDE_ID, Ids, Rlimit, Stage};

fn prctl(option: i32, argument: u64) -> std::io::Result<()> {
    // SAFETY: the options used here take plain numbers and touch no memory.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) }).map(|_| ())
}

/// Becomes the inside user without any capability, and can never gain one.
pub(crate) fn drop_all(ids: Ids) -> Result<(), Fault> {
    let stage = Stage::Privileges;
    for capability in 0..64 {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            // The kernel knows no capability with this number, nor any after it.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => break,
            other => other.at(stage, "dropping a capability")?,
        }
    }
    prctl_ambient_clear().at(stage, "clearing ambient capabilities")?;
    if ids == Ids::Range {
        // SAFETY: a list of length zero is not read.
        check(unsafe { libc::setgroups(0, std::ptr::null()) }).at(stage, "leaving all groups")?;
    }
    // SAFETY: plain numbers. The process has a single thread, so the C library's broadcasting does nothing more.
    check(unsafe { libc::setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID) }).at(stage, "changing group")?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID) }).at(stage, "changing user")?;
    clear_capabilities().at(stage, "clearing capabilities")?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1).at(stage, "setting no_new_privs")?;
    // The monitor cleans up behind us; without it we do not live on.
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64).at(stage, "tying the sandbox to its monitor")?;
    prctl(libc::PR_SET_DUMPABLE, 0).at(stage, "hiding the guest from its processes")
}

fn prctl_ambient_clear() -> std::io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0, 0, 0) })
        .map(|_| ())
}

fn clear_capabilities() -> Result<(), Errno> {
    let none = rustix::thread::CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

/// Limits that hold for each process inside. Set before the inner user namespace is made, so that the count of
/// processes is the sandbox's own and not the host user's.
pub(crate) fn limit(limits: &[(Rlimit, u64)]) -> Result<(), Fault> {
    for (limit, value) in limits {
        let resource = match limit {
            Rlimit::OpenFiles => libc::RLIMIT_NOFILE,
            Rlimit::Processes => libc::RLIMIT_NPROC,
            Rlimit::Data => libc::RLIMIT_DATA,
            Rlimit::Core => libc::RLIMIT_CORE,
            Rlimit::FileSize => libc::RLIMIT_FSIZE,
        };
        let mut current = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `current` is a valid, writable rlimit.
        check(unsafe { libc::getrlimit(resource, &raw mut current) })
            .at(Stage::Privileges, "reading a limit")?;
        let value = (*value).min(current.rlim_max);
        let wanted = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: `wanted` is a valid rlimit.
        check(unsafe { libc::setrlimit(resource, &raw const wanted) })
            .at(Stage::Privileges, &format!("setting the limit {limit:?}"))?;
    }
    Ok(())
}
