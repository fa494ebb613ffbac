//! The file system of a sandbox: an overlay root, the host's toolchains read-only, and a small /dev and /proc.
//!
//! Everything is mounted by file descriptor, and every mount point is resolved inside the new root without following
//! links: a layer that a sandbox could write to cannot lead a mount anywhere else.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};

use crate::fault::{Context, Fault, check};
use crate::ids::Users;
use crate::spec::{Launch, Stage};

mod furnish;
mod root;

/// Devices that programs expect; nothing else of the host's /dev is there.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Parts of /proc that tell about, or reach into, the host.
const HIDDEN_FILES: [&str; 6] =
    ["proc/kcore", "proc/keys", "proc/key-users", "proc/timer_list", "proc/sysrq-trigger", "proc/kallsyms"];
const HIDDEN_DIRECTORIES: [&str; 3] = ["proc/acpi", "proc/scsi", "proc/driver"];
const READ_ONLY: [&str; 5] = ["proc/bus", "proc/fs", "proc/irq", "proc/pressure", "proc/sys"];

/// Builds the root in this mount namespace and makes it the only thing there is. Gives the kernel's settings (/proc/sys)
/// as they are below what makes them read-only; nothing that runs inside may get hold of that.
pub(crate) fn enter_root(launch: &Launch, users: &Users) -> Result<OwnedFd, Fault> {
    // Nothing mounted here may be seen outside.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .at(Stage::Mount, "leaving the host's mounts")?;
    let null = clone_tree(Path::new("/dev/null"))?;
    let root = root::overlay(launch, users)?;
    for bind in &launch.binds {
        let tree = clone_tree(&bind.source)?;
        set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | plain())?;
        attach(&tree, &root, &bind.target)?;
    }
    for path in &launch.hidden {
        cover(&root, path)?;
    }
    let kernel_settings = proc(&root, null)?;
    dev(&root, launch.shm_bytes)?;
    rustix::process::fchdir(&root).at(Stage::Mount, "entering the root")?;
    rustix::process::pivot_root(".", ".").at(Stage::Mount, "changing the root")?;
    unmount(".", UnmountFlags::DETACH).at(Stage::Mount, "letting go of the host's root")?;
    rustix::process::chdir("/").at(Stage::Mount, "entering the root")?;
    Ok(kernel_settings)
}

fn plain() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

/// A detached copy of a part of the tree.
fn clone_tree(source: &Path) -> Result<OwnedFd, Fault> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, source, flags).at(Stage::Mount, &format!("taking {}", source.display()))
}

/// Sets attributes on a whole tree of mounts.
fn set_attributes(tree: &OwnedFd, attributes: MountAttrFlags) -> Result<(), Fault> {
    mount_setattr(tree, attributes, None).at(Stage::Mount, "making a mount read-only")
}

/// Sets attributes on a tree of mounts that is not attached anywhere yet; with a user namespace, files below it get the
/// ids that their own are mapped to there.
fn mount_setattr(
    tree: &OwnedFd,
    attributes: MountAttrFlags,
    users: Option<BorrowedFd<'_>>,
) -> std::io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let userns_fd = users.map_or(0, |users| u64::from(users.as_raw_fd().unsigned_abs()));
    let attr = MountAttr { set: attributes.bits().into(), clear: 0, propagation: 0, userns_fd };
    let depth = if users.is_some() { 0 } else { libc::AT_RECURSIVE };
    // SAFETY: the path is a valid empty string, and `attr` is valid for the size that is passed.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | depth,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(|_| ())
}

/// The place in the new root, found without following any link.
fn place(root: &OwnedFd, target: &Path) -> Result<OwnedFd, Errno> {
    let relative = target.strip_prefix("/").unwrap_or(target);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, relative, flags, Mode::empty(), resolve)
}

fn attach(tree: &OwnedFd, root: &OwnedFd, target: &Path) -> Result<(), Fault> {
    let place = place(root, target).at(Stage::Mount, &format!("finding {} in the root", target.display()))?;
    attach_at(tree.as_fd(), place.as_fd(), target)
}

fn attach_at(tree: BorrowedFd<'_>, place: BorrowedFd<'_>, target: &Path) -> Result<(), Fault> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", place, "", flags).at(Stage::Mount, &format!("mounting {}", target.display()))
}

/// A new file system of a type, detached.
fn fresh(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd, Fault> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).at(Stage::Mount, &format!("opening {kind}"))?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value).at(Stage::Mount, &format!("setting {key} of {kind}"))?;
    }
    fsconfig_create(&context).at(Stage::Mount, &format!("making {kind}"))?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).at(Stage::Mount, &format!("mounting {kind}"))
}

fn proc(root: &OwnedFd, null: OwnedFd) -> Result<OwnedFd, Fault> {
    let mount = fresh("proc", &[], plain() | MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    attach(&mount, root, Path::new("/proc"))?;
    let kernel_settings =
        openat(&mount, "sys", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .at(Stage::Mount, "opening /proc/sys")?;
    let again =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    for path in HIDDEN_FILES {
        // What this kernel does not have needs no hiding.
        let Some(place) = present(root, path)? else { continue };
        let cover = open_tree(&null, "", again).at(Stage::Mount, "covering a file")?;
        attach_at(cover.as_fd(), place.as_fd(), Path::new(path))?;
    }
    let mut empty: Option<OwnedFd> = None;
    for path in HIDDEN_DIRECTORIES {
        let Some(place) = present(root, path)? else { continue };
        let cover = match &empty {
            Some(first) => open_tree(first, "", again).at(Stage::Mount, "covering a directory")?,
            None => fresh("tmpfs", &[("size", "0")], plain() | MountAttrFlags::MOUNT_ATTR_RDONLY)?,
        };
        attach_at(cover.as_fd(), place.as_fd(), Path::new(path))?;
        empty.get_or_insert(cover);
    }
    for path in READ_ONLY {
        let Some(place) = present(root, path)? else { continue };
        let tree = open_tree(&place, "", again).at(Stage::Mount, &format!("taking /{path}"))?;
        set_attributes(&tree, MountAttrFlags::MOUNT_ATTR_RDONLY | plain())?;
        attach_at(tree.as_fd(), place.as_fd(), Path::new(path))?;
    }
    Ok(kernel_settings)
}

fn present(root: &OwnedFd, path: &str) -> Result<Option<OwnedFd>, Fault> {
    match place(root, Path::new(path)) {
        Err(Errno::NOENT) => Ok(None),
        other => other.at(Stage::Mount, &format!("finding {path}")).map(Some),
    }
}

/// Shows an empty directory instead of what is there, if anything is.
fn cover(root: &OwnedFd, path: &Path) -> Result<(), Fault> {
    let place = match place(root, path) {
        // A part that is a link leads to something that is shown, or not, under its own name.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        other => other.at(Stage::Mount, &format!("finding {}", path.display()))?,
    };
    let empty = fresh("tmpfs", &[("size", "0")], plain() | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    attach_at(empty.as_fd(), place.as_fd(), path)
}

fn dev(root: &OwnedFd, shm_bytes: u64) -> Result<(), Fault> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let dev = fresh("tmpfs", &[("mode", "755"), ("size", "65536")], attributes)?;
    attach(&dev, root, Path::new("/dev"))?;
    let stage = Stage::Mount;
    for name in DEVICES {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&dev, name, flags, Mode::from_raw_mode(0o666)).at(stage, &format!("making /dev/{name}"))?;
        let target = format!("/dev/{name}");
        let tree = clone_tree(Path::new(&target))?;
        attach(&tree, root, Path::new(&target))?;
    }
    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))
            .at(stage, &format!("making /dev/{name}"))?;
    }
    for (link, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        rustix::fs::symlinkat(target, &dev, link).at(stage, &format!("making /dev/{link}"))?;
    }
    let pts = fresh("devpts", &[("mode", "620"), ("ptmxmode", "666")], attributes)?;
    attach(&pts, root, Path::new("/dev/pts"))?;
    let shm = fresh("tmpfs", &[("mode", "1777"), ("size", &shm_bytes.to_string())], plain())?;
    attach(&shm, root, Path::new("/dev/shm"))?;
    Ok(())
}
