//! The root: an overlay of the sandbox's writable layer over the read-only ones.
//!
//! On disk all of them have the ids that files have inside. Root shows them to each sandbox through a mount that shifts
//! ids into the sandbox's range, so that any sandbox can stand on any layer without anything being copied.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::{attach_at, furnish, mount_setattr, plain};
use crate::fault::{Context, Fault, check};
use crate::ids::Users;
use crate::spec::{Launch, Stage, files};

/// Mounts the overlay at its place in the sandbox's directory.
pub(super) fn overlay(launch: &Launch, users: &Users) -> Result<OwnedFd, Fault> {
    if users.first.is_some() {
        shift_ids(launch, users)?;
    }
    let dir = open_directory(&launch.dir)?;
    let below = |name: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&dir, name, flags, Mode::empty()).at(Stage::Directory, &format!("opening {name}"))
    };
    let (upper, work, place) = (below(files::UPPER)?, below(files::WORK)?, below(files::ROOT)?);
    let lower = launch.layers.iter().map(|layer| open_directory(layer)).collect::<Result<Vec<_>, _>>()?;
    let layers = Layers { upper, work, lower };
    let _first = Acting::start(users)?;
    let mount = create(launch, users, &layers)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&mount, "", &place, "", flags).at(Stage::Overlay, "placing the root")?;
    if launch.furnish {
        furnish::all(launch, &mount, users)?;
    }
    Ok(mount)
}

/// Shows the storage directory, in this mount namespace only, with every id shifted into the sandbox's range.
fn shift_ids(launch: &Launch, users: &Users) -> Result<(), Fault> {
    let storage = launch.storage.display();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, &launch.storage, flags).at(Stage::Directory, &format!("taking {storage}"))?;
    mount_setattr(&tree, MountAttrFlags::MOUNT_ATTR_IDMAP, Some(users.namespace.as_fd()))
        .at(Stage::Storage, &format!("{storage} is on a file system whose ids cannot be mapped"))?;
    let place = open_directory(&launch.storage)?;
    attach_at(tree.as_fd(), place.as_fd(), &launch.storage)
}

fn open_directory(path: &Path) -> Result<OwnedFd, Fault> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .at(Stage::Directory, &format!("opening {}", path.display()))
}

/// What the overlay is made of, opened.
struct Layers {
    upper: OwnedFd,
    work: OwnedFd,
    /// Topmost first.
    lower: Vec<OwnedFd>,
}

/// A path for an interface that takes only paths: no length limit, no character that would need escaping.
fn via_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn create(launch: &Launch, users: &Users, layers: &Layers) -> Result<OwnedFd, Fault> {
    let stage = Stage::Overlay;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).at(stage, "this kernel has no overlayfs")?;
    let set = |key: &str, value: &str| {
        fsconfig_set_string(&context, key, value).at(stage, &format!("setting {key} of the overlay"))
    };
    set("source", "slipway")?;
    set_lower(&context, &layers.lower).at(stage, "setting the layers of the overlay")?;
    set("upperdir", &via_descriptor(&layers.upper))?;
    set("workdir", &via_descriptor(&layers.work))?;
    // A layer stands on its own, and says nothing about where in another layer a directory came from.
    set("redirect_dir", "nofollow")?;
    for option in ["index", "metacopy"] {
        match fsconfig_set_string(&context, option, "off") {
            // A kernel that does not know the feature has it off.
            Err(Errno::INVAL) => {}
            other => other.at(stage, &format!("setting {option} of the overlay"))?,
        }
    }
    if users.first.is_none() {
        // Without privileges overlayfs keeps its marks in attributes that an ordinary user may write.
        fsconfig_set_flag(&context, "userxattr").at(stage, "using user attributes for the overlay")?;
    }
    fsconfig_create(&context).map_err(|errno| fault(errno, launch))?;
    let mount =
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, plain()).at(stage, "mounting the overlay")?;
    // overlayfs does not fail when it cannot use the writable layer: it just does not write.
    let flags = rustix::fs::fstatvfs(&mount).at(stage, "looking at the overlay")?.f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err(fault(Errno::INVAL, launch));
    }
    Ok(mount)
}

/// Gives the lower layers one at a time, for which there is no limit to how many; or all at once where the kernel does
/// not know that yet.
fn set_lower(context: &OwnedFd, lower: &[OwnedFd]) -> Result<(), Errno> {
    for (number, layer) in lower.iter().enumerate() {
        match fsconfig_set_string(context, "lowerdir+", via_descriptor(layer)) {
            Err(Errno::INVAL) if number == 0 => {
                // All of them must fit into 255 bytes, so their names are as short as can be.
                rustix::process::chdir("/proc/self/fd")?;
                let names: Vec<String> = lower.iter().map(|layer| layer.as_raw_fd().to_string()).collect();
                return fsconfig_set_string(context, "lowerdir", names.join(":"));
            }
            other => other?,
        }
    }
    Ok(())
}

fn fault(errno: Errno, launch: &Launch) -> Fault {
    let dir = launch.dir.display();
    let message = match errno {
        Errno::INVAL => format!("the file system that holds {dir} cannot hold a sandbox's changes"),
        _ => format!("mounting the overlay in {dir}: {}", std::io::Error::from(errno)),
    };
    Fault { stage: Stage::Overlay, message, errno: errno.raw_os_error() }
}

/// While it lives, this process makes files as root of the sandbox. overlayfs remembers who mounted it and acts as that
/// user, and the host's root has no id in the sandbox's range.
struct Acting {
    shifted: bool,
}

impl Acting {
    fn start(users: &Users) -> Result<Self, Fault> {
        let Some(first) = users.first else { return Ok(Self { shifted: false }) };
        // Otherwise the kernel takes the capabilities over files away from whoever is not root.
        secure_bits(libc::SECBIT_NO_SETUID_FIXUP).at(Stage::Overlay, "keeping capabilities")?;
        act_as(first);
        if acting_as() != first {
            return Err(Fault::new(Stage::Overlay, "the sandbox's ids cannot be used"));
        }
        Ok(Self { shifted: true })
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if self.shifted {
            act_as(0);
            // Entering the sandbox's user namespace clears them too.
            let _cleared_later = secure_bits(0);
        }
    }
}

fn secure_bits(bits: libc::c_int) -> std::io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits as libc::c_ulong, 0, 0, 0) }).map(|_| ())
}

fn act_as(id: u32) {
    // SAFETY: plain numbers. Neither call tells whether it worked; the caller looks.
    unsafe {
        libc::setfsgid(id);
        libc::setfsuid(id);
    }
}

/// The id that files are made with.
fn acting_as() -> u32 {
    // SAFETY: a number that is no id changes nothing, and the one in use is returned.
    unsafe { libc::setfsuid(u32::MAX) }.unsigned_abs()
}
