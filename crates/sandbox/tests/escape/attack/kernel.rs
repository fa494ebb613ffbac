//! Calls into the kernel's administration and into subsystems with a history, and calls of other architectures.

use super::sys::{at, at_mut, open, sys, write_to};
use super::{Case, case, refused};

/// Calls that are refused whatever their arguments, so these are made up.
const REFUSED: &[(&str, i64)] = &[
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("bpf", libc::SYS_bpf),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("keyctl", libc::SYS_keyctl),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("kexec_file_load", libc::SYS_kexec_file_load),
    ("reboot", libc::SYS_reboot),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl),
    ("quotactl_fd", libc::SYS_quotactl_fd),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("clock_adjtime", libc::SYS_clock_adjtime),
    ("adjtimex", libc::SYS_adjtimex),
    ("sethostname", libc::SYS_sethostname),
    ("setdomainname", libc::SYS_setdomainname),
    ("syslog", libc::SYS_syslog),
    ("vhangup", libc::SYS_vhangup),
    ("kcmp", libc::SYS_kcmp),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("process_madvise", libc::SYS_process_madvise),
    ("move_pages", libc::SYS_move_pages),
    ("migrate_pages", libc::SYS_migrate_pages),
    ("mbind", libc::SYS_mbind),
    ("set_mempolicy", libc::SYS_set_mempolicy),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = REFUSED
        .iter()
        .map(|(name, number)| case(*name, move || refused(sys(*number, [0; 6]), &[libc::EPERM])))
        .collect();
    // A queue of its own and a call on a descriptor that is none: what would be allowed elsewhere.
    cases.extend([
        case("io_uring_setup with good arguments", || {
            let mut parameters = [0_u32; 30];
            refused(sys(libc::SYS_io_uring_setup, [4, at_mut(&mut parameters)]), &[libc::EPERM])
        }),
        case("bpf that loads a program", || {
            let attributes = [0_u64; 16];
            refused(sys(libc::SYS_bpf, [5, at(&attributes), 128]), &[libc::EPERM])
        }),
        case("typing into a terminal", || terminal(libc::TIOCSTI)),
        case("typing into a terminal, with an ignored bit", || terminal(libc::TIOCSTI | 1 << 40)),
        case("selecting on a console", || terminal(libc::TIOCLINUX)),
        case("a filter is in force and cannot be taken off", || {
            // SECCOMP_SET_MODE_STRICT and turning it off by prctl.
            let off = sys(libc::SYS_prctl, [libc::PR_SET_SECCOMP as u64, 0, 0, 0, 0]);
            let mode = sys(libc::SYS_prctl, [libc::PR_GET_SECCOMP as u64, 0, 0, 0, 0]);
            match mode {
                Ok(2) => refused(off, &[libc::EINVAL]),
                other => super::Verdict::Open(format!("the mode is {other:?}")),
            }
        }),
        case("a filter of its own does not open the one above", || {
            // One instruction: everything is allowed.
            let allow: [u64; 1] = [0x7fff_0000_0000_0006];
            let program = [1_u64, at(&allow)];
            let added = sys(libc::SYS_seccomp, [1, 0, at(&program)]);
            if added.is_err() {
                return super::Verdict::Open(format!(
                    "no filter could be added, so nothing was tried: {added:?}"
                ));
            }
            refused(sys(libc::SYS_unshare, [libc::CLONE_NEWUSER as u64]), &[libc::EPERM])
        }),
        case("limits of pid 1", || {
            refused(sys(libc::SYS_prlimit64, [1, libc::RLIMIT_NOFILE as u64, 0, 0]), &[libc::EPERM])
        }),
        case("raising its own hard limit", || {
            let more = [1_u64 << 30, 1 << 30];
            refused(sys(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE as u64, at(&more), 0]), &[libc::EPERM])
        }),
        case("real-time scheduling", || {
            let priority = [50_i32];
            refused(
                sys(libc::SYS_sched_setscheduler, [0, libc::SCHED_FIFO as u64, at(&priority)]),
                &[libc::EPERM],
            )
        }),
        case("a better priority", || {
            refused(sys(libc::SYS_setpriority, [0, 0, super::sys::signed(-20)]), &[libc::EACCES, libc::EPERM])
        }),
        case("safety from the kernel's killer", || {
            refused(write_to("/proc/self/oom_score_adj", "-1000"), &[libc::EACCES, libc::EPERM])
        }),
        case("the kernel's log", || refused(open("/dev/kmsg", libc::O_RDONLY), &[libc::ENOENT])),
    ]);
    cases.extend(foreign());
    cases
}

fn terminal(request: u64) -> super::Verdict {
    let terminal = match open("/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY) {
        Ok(terminal) => terminal.cast_unsigned(),
        Err(errno) => return super::Verdict::Skipped(format!("no terminal: errno {errno}")),
    };
    let byte = [b'x'];
    refused(sys(libc::SYS_ioctl, [terminal, request, at(&byte)]), &[libc::EPERM])
}

#[cfg(target_arch = "x86_64")]
fn foreign() -> Vec<Case> {
    const X32: i64 = 0x4000_0000;
    vec![
        case("a 32-bit call", || {
            let result: i32;
            // SAFETY: 20 is getpid of the 32-bit calls; it takes no argument and touches no memory.
            unsafe {
                std::arch::asm!(
                    "int 0x80",
                    inlateout("eax") 20_i32 => result,
                    out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                );
            }
            super::Verdict::Open(format!("it gave {result}"))
        })
        .ends_by(&[libc::SIGSYS, libc::SIGSEGV]),
        case("an x32 call", || refused(sys(X32 + libc::SYS_getpid, [0; 6]), &[libc::ENOSYS])),
        case("an x32 mount", || refused(sys(X32 + libc::SYS_mount, [0; 6]), &[libc::ENOSYS])),
        case("an x32 io_uring_setup", || {
            refused(sys(X32 + libc::SYS_io_uring_setup, [0; 6]), &[libc::ENOSYS])
        }),
        case("iopl", || refused(sys(libc::SYS_iopl, [3]), &[libc::EPERM])),
        case("ioperm", || refused(sys(libc::SYS_ioperm, [0x70, 1, 1]), &[libc::EPERM])),
        case("modify_ldt", || refused(sys(libc::SYS_modify_ldt, [0, 0, 0]), &[libc::EPERM])),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn foreign() -> Vec<Case> {
    Vec::new()
}
