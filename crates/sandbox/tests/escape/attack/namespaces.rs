//! New namespaces, and those of others.

use super::sys::{at, open, signed, sys, write_to};
use super::{Case, Verdict, case, refused};

const KINDS: [(&str, &str, u64); 8] = [
    ("user", "user", libc::CLONE_NEWUSER as u64),
    ("mount", "mnt", libc::CLONE_NEWNS as u64),
    ("pid", "pid", libc::CLONE_NEWPID as u64),
    ("network", "net", libc::CLONE_NEWNET as u64),
    ("ipc", "ipc", libc::CLONE_NEWIPC as u64),
    ("uts", "uts", libc::CLONE_NEWUTS as u64),
    ("cgroup", "cgroup", libc::CLONE_NEWCGROUP as u64),
    ("time", "time", 0x80),
];

/// Bits that the kernel throws away and a careless filter compares.
const IGNORED_BIT: u64 = 1 << 40;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, file, flag) in KINDS {
        cases.push(case(format!("unshare {name}"), move || {
            refused(sys(libc::SYS_unshare, [flag]), &[libc::EPERM])
        }));
        cases.push(case(format!("unshare {name} with an ignored bit"), move || {
            refused(sys(libc::SYS_unshare, [flag | IGNORED_BIT]), &[libc::EPERM, libc::EINVAL])
        }));
        cases.push(case(format!("clone3 {name}"), move || {
            // SAFETY: an all-zero clone_args is a valid value.
            let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
            arguments.flags = flag;
            arguments.exit_signal = libc::SIGCHLD as u64;
            let size = size_of::<libc::clone_args>() as u64;
            refused(born(sys(libc::SYS_clone3, [at(&arguments), size])), &[libc::ENOSYS])
        }));
        cases.push(case(format!("setns to its own {name} namespace"), move || {
            let own = match open(&format!("/proc/self/ns/{file}"), libc::O_RDONLY) {
                Ok(own) => own,
                Err(errno) => return Verdict::Skipped(format!("this kernel has none: errno {errno}")),
            };
            refused(sys(libc::SYS_setns, [own.cast_unsigned(), flag]), &[libc::EPERM])
        }));
        cases.push(case(format!("open the {name} namespace of pid 1"), move || {
            refused(open(&format!("/proc/1/ns/{file}"), libc::O_RDONLY), &[libc::EACCES])
        }));
        // In clone this bit is a part of the signal's number.
        if name != "time" {
            cases.push(case(format!("clone {name}"), move || {
                let flags = flag | libc::SIGCHLD as u64;
                refused(born(sys(libc::SYS_clone, [flags, 0, 0, 0, 0])), &[libc::EPERM])
            }));
            cases.push(case(format!("clone {name} with an ignored bit"), move || {
                let flags = flag | IGNORED_BIT | libc::SIGCHLD as u64;
                refused(born(sys(libc::SYS_clone, [flags, 0, 0, 0, 0])), &[libc::EPERM])
            }));
        }
    }
    cases.extend([
        case("setns through a handle of pid 1", || {
            let handle = match sys(libc::SYS_pidfd_open, [1, 0]) {
                Ok(handle) => handle,
                Err(errno) => return Verdict::Skipped(format!("no handle: errno {errno}")),
            };
            let all = KINDS.iter().take(7).fold(0, |all, (.., flag)| all | flag);
            refused(sys(libc::SYS_setns, [handle.cast_unsigned(), all]), &[libc::EPERM])
        }),
        case("unshare everything at once", || {
            let all = KINDS.iter().fold(0, |all, (.., flag)| all | flag);
            refused(sys(libc::SYS_unshare, [all]), &[libc::EPERM])
        }),
        case("map other users", || refused(write_to("/proc/self/uid_map", "0 0 1"), &[libc::EPERM])),
        case("map other groups", || refused(write_to("/proc/self/gid_map", "0 0 1"), &[libc::EPERM])),
        case("keep groups while mapping", || {
            refused(write_to("/proc/self/setgroups", "allow"), &[libc::EPERM, libc::EACCES])
        }),
        case("the namespace above its own", || {
            let own = open("/proc/self/ns/user", libc::O_RDONLY).map(i64::cast_unsigned);
            // NS_GET_PARENT of the user namespace that the walls belong to.
            let parent = own.and_then(|own| sys(libc::SYS_ioctl, [own, 0xb702, 0]));
            refused(parent, &[libc::EPERM])
        }),
        case("the namespace that owns the network", || {
            let own = open("/proc/self/ns/net", libc::O_RDONLY).map(i64::cast_unsigned);
            // NS_GET_USERNS.
            let owner = own.and_then(|own| sys(libc::SYS_ioctl, [own, 0xb701, 0]));
            refused(owner, &[libc::EPERM])
        }),
        case("a process in no process's place", || {
            // CLONE_PARENT would make the newcomer a sibling; pid 1 has no siblings inside.
            let flags = libc::CLONE_PARENT as u64 | libc::SIGCHLD as u64;
            match born(sys(libc::SYS_clone, [flags, 0, 0, 0, 0])) {
                Ok(_) => {
                    let outside = sys(libc::SYS_getppid, [] as [u64; 0]) == Ok(0);
                    super::holds(!outside, "its parent is outside")
                }
                Err(_) => Verdict::Held,
            }
        }),
        case("a process group of nobody", || {
            refused(sys(libc::SYS_setpgid, [1, 0]), &[libc::ESRCH, libc::EPERM])
        }),
        case("signal every process there is but ours", || {
            // Pid 1 must not be reached; the test outside sees whether it answers.
            refused(
                sys(libc::SYS_kill, [signed(-1), 0]).and(sys(libc::SYS_kill, [0x3fff_ffff, 0])),
                &[libc::ESRCH],
            )
        }),
    ]);
    cases
}

/// Ends the newcomer at once, so that nothing is left of a case that should have been refused.
fn born(result: Result<i64, i32>) -> Result<i64, i32> {
    if result == Ok(0) {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(0) };
    }
    result
}
