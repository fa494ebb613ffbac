//! The floor: the fewest system calls that give namespaces, an overlay root and a command in it. This program runs itself
//! again with a hidden argument, because namespaces are only safe to build in a process with a single thread.
//!
//! It leaves out what makes a sandbox usable or safe: no /dev, no network interface, no control groups, no dropped
//! capabilities, no filter, no check that the walls stand, and no way in after the start.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};
use rustix::process::{Pid, WaitOptions};

use super::tree::Tree;
use super::{ECHO, Missing, Peer};

/// The hidden argument.
pub(crate) const ARGUMENT: &str = "__bare";
const NAME: &str = "bare clone3+overlay+exec";

pub(super) fn peer(dir: &Path, tree: &Tree) -> Result<Peer, Missing> {
    let program = std::env::current_exe().map_err(|error| Missing { name: NAME, why: error.to_string() })?;
    let mut arguments: Vec<OsString> = vec![ARGUMENT.into(), dir.into(), (&tree.dir).into()];
    arguments.extend(tree.shown.iter().map(Into::into));
    Ok(Peer::new(NAME, program, arguments))
}

/// Runs in the fresh process: `__bare DIR LOWER SHOWN…`.
pub(crate) fn main(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let mut paths = arguments.into_iter().map(PathBuf::from);
    let (dir, lower) = (paths.next().context("DIR")?, paths.next().context("LOWER")?);
    let shown: Vec<PathBuf> = paths.collect();
    let dir = dir.join(format!("bare-{}", std::process::id()));
    let [upper, work, root] = ["upper", "work", "root"].map(|name| dir.join(name));
    for path in [&dir, &upper, &work, &root] {
        std::fs::create_dir(path)?;
    }
    // Inside the new user namespace these are not known any more.
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let status = match clone3()? {
        None => {
            std::fs::write("/proc/self/setgroups", "deny")?;
            std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
            std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
            enter(&lower, &upper, &work, &root, &shown)?;
            return Err(Command::new(ECHO[0]).args(&ECHO[1..]).exec().into());
        }
        Some(child) => rustix::process::waitpid(Some(child), WaitOptions::empty())?,
    };
    for path in [&work.join("work"), &work, &upper, &root, &dir] {
        std::fs::remove_dir(path)?;
    }
    let code = status.and_then(|(_, status)| status.exit_status()).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Forks into new namespaces; None in the child.
fn clone3() -> std::io::Result<Option<Pid>> {
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // SAFETY: an all-zero clone_args is a valid value: no stack, no descriptors, no thread storage.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.unsigned_abs());
    arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    // SAFETY: like fork: no new stack is given, and this process has a single thread, so the child may go on as it is.
    let child = unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut arguments, std::mem::size_of::<libc::clone_args>())
    };
    match i32::try_from(child) {
        Ok(0) => Ok(None),
        Ok(pid) if pid > 0 => Ok(Pid::from_raw(pid)),
        Ok(_) | Err(_) => Err(std::io::Error::last_os_error()),
    }
}

/// Builds the root and makes it the only thing there is.
fn enter(lower: &Path, upper: &Path, work: &Path, root: &Path, shown: &[PathBuf]) -> anyhow::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let options = format!(
        "userxattr,lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    let options = std::ffi::CString::new(options)?;
    mount("overlay", root, "overlay", plain, Some(options.as_c_str())).context("mounting the overlay")?;
    for path in shown {
        let target = root.join(path.strip_prefix("/")?);
        mount_bind_recursive(path, &target).context("showing a directory")?;
        make_read_only(&target).context("making a directory read-only")?;
    }
    mount("proc", root.join("proc"), "proc", plain | MountFlags::NOEXEC, None).context("mounting /proc")?;
    rustix::process::chdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

fn make_read_only(path: &Path) -> anyhow::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: an all-zero mount_attr is a valid value.
    let mut attributes: libc::mount_attr = unsafe { std::mem::zeroed() };
    attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
    // SAFETY: the path is a terminated string, and `attributes` is valid for the size that is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            std::mem::size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}
