//! Mounts, roots, and writing where only reading is meant.

use super::sys::{HERE, at, is_only_user, open, sys, write_to};
use super::{Case, case, holds, refused};

const OPEN_TREE_ATTR: i64 = 467;

fn mount(
    source: &std::ffi::CStr,
    target: &std::ffi::CStr,
    kind: &std::ffi::CStr,
    flags: u64,
) -> Result<i64, i32> {
    let text = |text: &std::ffi::CStr| text.as_ptr() as u64;
    sys(libc::SYS_mount, [text(source), text(target), text(kind), flags, 0])
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in
        [c"tmpfs", c"proc", c"sysfs", c"cgroup", c"cgroup2", c"overlay", c"devtmpfs", c"debugfs", c"fuse"]
    {
        cases.push(case(format!("mount {}", kind.to_string_lossy()), move || {
            refused(mount(c"none", c"/tmp", kind, 0), &[libc::EPERM])
        }));
        cases.push(case(format!("fsopen {}", kind.to_string_lossy()), move || {
            refused(sys(libc::SYS_fsopen, [kind.as_ptr() as u64, 0]), &[libc::EPERM])
        }));
    }
    let read_write = libc::MS_REMOUNT | libc::MS_BIND;
    cases.extend([
        case("bind a directory", || refused(mount(c"/", c"/tmp", c"", libc::MS_BIND), &[libc::EPERM])),
        case("remount the system read-write", move || {
            refused(mount(c"", c"/usr", c"", read_write), &[libc::EPERM])
        }),
        case("remount /proc/sys read-write", move || {
            refused(mount(c"", c"/proc/sys", c"", read_write), &[libc::EPERM])
        }),
        case("share mounts", || refused(mount(c"", c"/", c"", libc::MS_SHARED), &[libc::EPERM])),
        case("move a mount", || refused(mount(c"/proc", c"/tmp", c"", libc::MS_MOVE), &[libc::EPERM])),
        case("pivot_root", || refused(sys(libc::SYS_pivot_root, [at(c"."), at(c".")]), &[libc::EPERM])),
        case("chroot", || refused(sys(libc::SYS_chroot, [at(c"/tmp")]), &[libc::EPERM])),
        case("fspick", || refused(sys(libc::SYS_fspick, [HERE, at(c"/"), 0]), &[libc::EPERM])),
        case("fsconfig", || refused(sys(libc::SYS_fsconfig, [3, 6, 0, 0, 0]), &[libc::EPERM])),
        case("fsmount", || refused(sys(libc::SYS_fsmount, [3, 0, 0]), &[libc::EPERM])),
        case("open_tree", || refused(sys(libc::SYS_open_tree, [HERE, at(c"/"), 0]), &[libc::EPERM])),
        case("open_tree of a copy", || {
            refused(sys(libc::SYS_open_tree, [HERE, at(c"/"), 1]), &[libc::EPERM])
        }),
        case("open_tree_attr", || refused(sys(OPEN_TREE_ATTR, [HERE, at(c"/"), 1, 0, 0]), &[libc::EPERM])),
        case("move_mount", || {
            refused(sys(libc::SYS_move_mount, [HERE, at(c"/proc"), HERE, at(c"/tmp"), 0]), &[libc::EPERM])
        }),
        case("mount_setattr", || {
            let attributes = [0_u64, 1, 0, 0];
            let call = [HERE, at(c"/usr"), 0, at(&attributes), 32];
            refused(sys(libc::SYS_mount_setattr, call), &[libc::EPERM])
        }),
        case("the only root is its own", root_is_the_end),
        case("no mount without nosuid, nor with devices", mounts_are_plain),
        case("mounts do not tell where the host keeps the sandbox", || {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
            let place = super::fact("HOST_DIR");
            let line = mounts.lines().find(|line| line.contains(&place));
            holds(!place.is_empty() && line.is_none(), line.unwrap_or("no place was told"))
        }),
        case("open_by_handle_at", || {
            // Handle of the root inode of an ext4 file system, as in the escape called shocker.
            let handle: [u32; 4] = [8, 1, 2, 0];
            refused(sys(libc::SYS_open_by_handle_at, [HERE, at(&handle), 0]), &[libc::EPERM])
        }),
        case("name_to_handle_at", || {
            let (handle, mut id) = ([128_u32; 40], 0_i32);
            let call = [HERE, at(c"/"), at(&handle), super::sys::at_mut(&mut id), 0];
            refused(sys(libc::SYS_name_to_handle_at, call), &[libc::EPERM])
        }),
    ]);
    for target in ["/proc", "/dev", "/usr", "/proc/sys", "/proc/kcore", "/dev/shm"] {
        for (how, flags) in [("umount", 0), ("detach", libc::MNT_DETACH)] {
            cases.push(case(format!("{how} {target}"), move || {
                let target = std::ffi::CString::new(target).unwrap();
                let flags = u64::from(flags.cast_unsigned());
                refused(sys(libc::SYS_umount2, [target.as_ptr() as u64, flags]), &[libc::EPERM])
            }));
        }
    }
    for path in ["/usr/bin/env", "/usr/bin/sh"] {
        cases.push(case(format!("write to {path}"), move || {
            refused(write_to(path, "x"), &[libc::EROFS, libc::EACCES])
        }));
    }
    cases.push(case("make a file in the system's directories", || {
        refused(open("/usr/bin/slipway-escape", libc::O_CREAT | libc::O_WRONLY), &[libc::EROFS])
    }));
    for path in ["/etc/passwd", "/etc/ld.so.cache", "/etc/hosts"] {
        cases.push(case(format!("write to {path}"), move || {
            if is_only_user() {
                return super::Verdict::Skipped(
                    "the file is the user's own, in a layer of its own".to_owned(),
                );
            }
            refused(write_to(path, "x"), &[libc::EACCES, libc::EROFS])
        }));
    }
    cases
}

/// However far up one goes, and through whatever link of /proc, one ends at the same root.
fn root_is_the_end() -> super::Verdict {
    use std::os::unix::fs::MetadataExt;
    let place = |path: &str| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).unwrap();
    let up = "/..".repeat(50);
    let ways =
        ["/..", &up, "/proc/self/root", "/proc/self/root/..", "/proc/thread-self/root", "/workspace/../.."];
    let out = ways.into_iter().find(|way| place(way) != place("/"));
    holds(out.is_none(), format!("{out:?} is not the root"))
}

fn mounts_are_plain() -> super::Verdict {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (place, options) = (fields[4], fields[5].split(',').collect::<Vec<_>>());
        let has = |wanted: &str| options.contains(&wanted);
        // What covers files of /proc is /dev/null itself; the devices are clones of the host's own nodes.
        let is_device = devices.contains(&place) || place.starts_with("/proc/");
        if !is_device && !has("nosuid") {
            return super::Verdict::Open(format!("set-user-id works in {place}: {line}"));
        }
        if !is_device && !has("nodev") && !matches!(place, "/dev" | "/dev/pts") {
            return super::Verdict::Open(format!("devices work in {place}: {line}"));
        }
        let below_system =
            place.starts_with("/usr") || place.starts_with("/proc/sys") || place.starts_with("/nix");
        if below_system && !has("ro") {
            return super::Verdict::Open(format!("{place} can be written: {line}"));
        }
    }
    super::Verdict::Held
}
