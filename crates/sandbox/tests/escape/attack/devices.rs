//! Devices: making nodes, opening what a host has, and the marks of the overlay.

use super::sys::{HERE, at, open, sys};
use super::{Case, Verdict, case, holds, refused};

const HOST_DEVICES: [&str; 22] = [
    "mem",
    "kmem",
    "port",
    "kmsg",
    "sda",
    "vda",
    "nvme0n1",
    "loop0",
    "loop-control",
    "fuse",
    "kvm",
    "net/tun",
    "console",
    "tty0",
    "tty1",
    "vsock",
    "vhost-net",
    "vhost-vsock",
    "userfaultfd",
    "mapper/control",
    "snapshot",
    "input",
];

/// All that /dev has.
const EXPECTED: [&str; 13] = [
    "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
    "zero",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in HOST_DEVICES {
        cases.push(case(format!("open /dev/{name}"), move || {
            refused(open(&format!("/dev/{name}"), libc::O_RDONLY), &[libc::ENOENT])
        }));
    }
    for (name, mode, device) in [
        ("the first disk", libc::S_IFBLK, 0x800),
        ("a virtual disk", libc::S_IFBLK, 0xfe00),
        ("physical memory", libc::S_IFCHR, 0x101),
        ("the kernel's log", libc::S_IFCHR, 0x10b),
        ("null", libc::S_IFCHR, 0x103),
        ("a whiteout", libc::S_IFCHR, 0),
    ] {
        for dir in ["/workspace", "/tmp", "/dev/shm"] {
            cases.push(case(format!("make a node of {name} in {dir}"), move || {
                let path = std::ffi::CString::new(format!("{dir}/node")).unwrap();
                let call = [HERE, path.as_ptr() as u64, u64::from(mode | 0o666), device];
                let made = sys(libc::SYS_mknodat, call);
                // On a file system of its own a whiteout is an ordinary thing without a device behind it.
                if device == 0 && dir == "/dev/shm" && made.is_ok() {
                    let opened = open("/dev/shm/node", libc::O_RDONLY);
                    std::fs::remove_file("/dev/shm/node").unwrap();
                    return refused(opened, &[libc::EACCES, libc::ENXIO]);
                }
                refused(made, &[libc::EPERM])
            }));
        }
    }
    cases.extend([
        case("/dev has the usual few and nothing else", || {
            let mut names: Vec<String> = std::fs::read_dir("/dev")
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            holds(names == EXPECTED, format!("{names:?}"))
        }),
        case("nobody else's terminals", || {
            let names: Vec<String> = std::fs::read_dir("/dev/pts")
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            holds(names == ["ptmx"], format!("{names:?}"))
        }),
        case("replace a device", || {
            refused(
                sys(libc::SYS_unlinkat, [HERE, at(c"/dev/null"), 0]),
                &[libc::EACCES, libc::EPERM, libc::EBUSY],
            )
        }),
        case("rename /dev", || {
            refused(
                sys(libc::SYS_rename, [at(c"/dev"), at(c"/workspace/dev")]),
                &[libc::EACCES, libc::EBUSY, libc::EXDEV],
            )
        }),
        case("change a device's mode", || {
            refused(sys(libc::SYS_fchmodat, [HERE, at(c"/dev/null"), 0]), &[libc::EPERM, libc::EROFS])
        }),
        case("the overlay's own marks", || overlay_mark(c"trusted.overlay.opaque", &[libc::EPERM])),
        case("a redirect of the overlay", || overlay_mark(c"trusted.overlay.redirect", &[libc::EPERM])),
        case("a capability on a file", || {
            // Version 2 with CAP_SYS_ADMIN.
            let capability = [0x0200_0001_u32, 1 << 21, 0, 0, 0];
            std::fs::write("/workspace/capable", "x").unwrap();
            let path = c"/workspace/capable".as_ptr() as u64;
            let name = c"security.capability".as_ptr() as u64;
            refused(sys(libc::SYS_setxattr, [path, name, at(&capability), 20, 0]), &[libc::EPERM])
        }),
        case("ioctls that change a file's project", || {
            let file = match open("/workspace/project", libc::O_CREAT | libc::O_RDWR) {
                Ok(file) => file.cast_unsigned(),
                Err(errno) => return Verdict::Open(format!("no file: errno {errno}")),
            };
            // FS_IOC_FSSETXATTR with project 7; it would take the file out of a quota.
            let attributes = [0_u32, 0, 0, 7, 0, 0, 0];
            let errors = [libc::EPERM, libc::ENOTTY, libc::EOPNOTSUPP, libc::EINVAL, libc::EACCES];
            refused(sys(libc::SYS_ioctl, [file, 0x401c_5820, at(&attributes)]), &errors)
        }),
        case("an immutable file that could not be removed", || {
            let file = open("/workspace/forever", libc::O_CREAT | libc::O_RDWR).unwrap().cast_unsigned();
            // FS_IOC_SETFLAGS with FS_IMMUTABLE_FL.
            let flags = 0x10_u64;
            let errors = [libc::EPERM, libc::ENOTTY, libc::EOPNOTSUPP, libc::EACCES];
            refused(sys(libc::SYS_ioctl, [file, 0x4008_6602, at(&flags)]), &errors)
        }),
    ]);
    cases
}

fn overlay_mark(name: &std::ffi::CStr, wanted: &[i32]) -> Verdict {
    std::fs::create_dir_all("/workspace/marked").unwrap();
    let path = c"/workspace/marked".as_ptr() as u64;
    refused(sys(libc::SYS_setxattr, [path, name.as_ptr() as u64, at(b"/../../.."), 9, 0]), wanted)
}
