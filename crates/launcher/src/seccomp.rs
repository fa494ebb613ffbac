//! The system-call filter. Everything is allowed that a developer's tools need; what reaches into the kernel's
//! administration, into other namespaces, or into subsystems with a history of escapes is refused.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use crate::fault::Fault;
use crate::nested::Nesting;
use crate::spec::Stage;

/// Newer than the C library's bindings.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Mounts, roots and the machine's name: of use only to who is root of a namespace. Refused with EPERM where programs make
/// no namespaces.
const IN_NAMESPACES: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// The newer way to mount. Refused always; where mounting is allowed, as if the kernel did not have it, so that programs
/// take the older one.
const NEWER_MOUNTS: &[libc::c_long] = &[
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
];

/// Refused with EPERM whatever the arguments.
const REFUSED: &[libc::c_long] = &[
    // Other namespaces and processes outside.
    libc::SYS_setns,
    libc::SYS_kcmp,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    // Kernel administration.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    // Subsystems that escapes came through, and that builds and tests do not need.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
];

/// Refused as well where they exist.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Socket families that there are; all others, such as kernel crypto (page-cache writes), the way to a hypervisor and raw
/// packets, are refused.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Protocols of those that have several. Of the kernel's own news only interfaces and addresses are to be had, which the C
/// library looks at to choose addresses; of IP only what a sandbox's network carries.
const PROTOCOLS: [(i32, &[i32]); 3] = [
    (libc::AF_INET, &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP]),
    (libc::AF_INET6, &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMPV6]),
    (libc::AF_NETLINK, &[libc::NETLINK_ROUTE]),
];

const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// A bit that stands for something else where processes are made.
const TIME_NAMESPACE: u64 = 0x80;

/// Options of sockets that change the packet filters of a network namespace: its root may, and they were a way into the
/// kernel more than once. For each level the first one, and how many follow.
const PACKET_FILTERS: [(i32, i32, i32); 4] = [
    (libc::IPPROTO_IP, 64, 8),
    // Of addresses on the same wire, and of bridges.
    (libc::IPPROTO_IP, 96, 8),
    (libc::IPPROTO_IP, 128, 8),
    (libc::IPPROTO_IPV6, 64, 8),
];

/// Installs the filters on this process; everything it starts inherits them.
pub(crate) fn install(nesting: Nesting) -> Result<(), Fault> {
    let fault =
        |what: &str, error: &dyn std::fmt::Display| Fault::new(Stage::Seccomp, format!("{what}: {error}"));
    seccompiler::apply_filter(&by_number(nesting)).map_err(|e| fault("refusing system calls", &e))?;
    let rules = by_argument(nesting).map_err(|e| fault("building the filter", &e))?;
    let denied = SeccompAction::Errno(libc::EPERM as u32);
    let refused = program(rules, denied).map_err(|e| fault("building the filter", &e))?;
    seccompiler::apply_filter(&refused).map_err(|e| fault("installing the filter", &e))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
}

/// The kinds of namespaces that cannot be made.
fn refused_namespaces(nesting: Nesting) -> u64 {
    match nesting {
        Nesting::Refused => NAMESPACES,
        Nesting::ButControlGroups => libc::CLONE_NEWCGROUP as u64,
        Nesting::Allowed => 0,
    }
}

/// Calls whose arguments decide.
fn by_argument(nesting: Nesting) -> Result<Rules, seccompiler::BackendError> {
    let mut rules = Rules::new();
    let argument = |index, length, operation, value| SeccompCondition::new(index, length, operation, value);
    let number = |index, operation, value: i32| {
        argument(index, SeccompCmpArgLen::Dword, operation, u64::from(value.cast_unsigned()))
    };
    // The conditions of a rule hold together: it is none of these.
    let none_of = |index, values: &[i32]| {
        values.iter().map(|value| number(index, SeccompCmpOp::Ne, *value)).collect::<Result<Vec<_>, _>>()
    };
    let mut sockets = vec![SeccompRule::new(none_of(0, &FAMILIES)?)?];
    for (family, protocols) in PROTOCOLS {
        let mut conditions = vec![number(0, SeccompCmpOp::Eq, family)?];
        conditions.extend(none_of(2, protocols)?);
        sockets.push(SeccompRule::new(conditions)?);
    }
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(none_of(0, &[libc::AF_UNIX])?)?]);
    let any_of = |flags: u64| {
        (0..64)
            .map(|bit| 1u64 << bit)
            .filter(|flag| flags & flag != 0)
            .map(|flag| {
                let set = argument(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
                SeccompRule::new(vec![set])
            })
            .collect::<Result<Vec<_>, _>>()
    };
    let namespaces = refused_namespaces(nesting);
    if namespaces != 0 {
        rules.insert(libc::SYS_clone, any_of(namespaces)?);
    }
    rules.insert(libc::SYS_unshare, any_of(namespaces | TIME_NAMESPACE)?);
    if nesting != Nesting::Refused {
        let mut options = Vec::new();
        for (level, first, count) in PACKET_FILTERS {
            for option in first..first + count {
                let both = vec![number(1, SeccompCmpOp::Eq, level)?, number(2, SeccompCmpOp::Eq, option)?];
                options.push(SeccompRule::new(both)?);
            }
        }
        rules.insert(libc::SYS_setsockopt, options);
    }
    // Pid 1 is the guest, and the same user: what would slow it down or starve it is not for its processes.
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setaffinity,
    ] {
        let guest = argument(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 1)?;
        rules.insert(call, vec![SeccompRule::new(vec![guest])?]);
    }
    for call in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        let guest = argument(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 1)?;
        rules.insert(call, vec![SeccompRule::new(vec![guest])?]);
    }
    // Typing into the terminal of whoever watches.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX]
        .iter()
        .map(|request| {
            SeccompRule::new(vec![argument(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *request)?])
        })
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_ioctl, typing);
    Ok(rules)
}

const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS, offset 0 of seccomp_data
const JUMP_IF_GREATER_EQUAL: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// Calls whose number decides. The kernel runs a filter for every call there is when it is installed, so each step of
/// it is time that every launch takes: the list is searched by halves.
///
/// On x86-64 the kernel also takes x32 calls, whose numbers a filter by number would miss, so all of them are refused.
/// 32-bit calls have another architecture, and the other filter's preamble ends the process for those.
fn by_number(nesting: Nesting) -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let mut program = vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_GREATER_EQUAL, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: Refusal::Absent.verdict() },
    ];
    program.extend(search(&refusals(nesting)));
    program
}

/// How a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// It is not permitted.
    Forbidden,
    /// There is no such call.
    Absent,
}

impl Refusal {
    const fn verdict(self) -> u32 {
        libc::SECCOMP_RET_ERRNO
            | match self {
                Self::Forbidden => libc::EPERM as u32,
                Self::Absent => libc::ENOSYS as u32,
            }
    }
}

/// The calls that are refused whatever their arguments, sorted.
fn refusals(nesting: Nesting) -> Vec<(u32, Refusal)> {
    let list = |calls: &[libc::c_long], refusal| {
        calls.iter().map(|call| (*call as u32, refusal)).collect::<Vec<_>>()
    };
    let mut refusals = list(REFUSED, Refusal::Forbidden);
    refusals.extend(list(REFUSED_HERE, Refusal::Forbidden));
    // The C library falls back to clone, whose flags a filter can read, only when clone3 does not exist.
    refusals.push((libc::SYS_clone3 as u32, Refusal::Absent));
    if nesting == Nesting::Refused {
        refusals.extend(list(IN_NAMESPACES, Refusal::Forbidden));
        refusals.extend(list(NEWER_MOUNTS, Refusal::Forbidden));
    } else {
        refusals.extend(list(NEWER_MOUNTS, Refusal::Absent));
    }
    refusals.sort_unstable_by_key(|(call, _)| *call);
    refusals
}

/// Refuses these calls, which are sorted, and lets the others through.
fn search(calls: &[(u32, Refusal)]) -> BpfProgram {
    const FEW: usize = 3;
    let give = |k: u32| sock_filter { code: RETURN, jt: 0, jf: 0, k };
    // The list is short enough, which is checked below, that no jump is longer than a jump can be.
    let distance = |steps: usize| u8::try_from(steps).unwrap_or(u8::MAX);
    if calls.len() <= FEW {
        let mut program: BpfProgram = calls
            .iter()
            .enumerate()
            .map(|(number, (call, refusal))| {
                // Over the comparisons that are left and over the returns that come first.
                let jt = distance(calls.len() - number + usize::from(*refusal == Refusal::Absent));
                sock_filter { code: JUMP_IF_EQUAL, jt, jf: 0, k: *call }
            })
            .collect();
        let refused = [Refusal::Forbidden, Refusal::Absent].map(Refusal::verdict);
        program.extend([libc::SECCOMP_RET_ALLOW].into_iter().chain(refused).map(give));
        return program;
    }
    let (below, from) = calls.split_at(calls.len() / 2);
    let lower = search(below);
    let half = sock_filter { code: JUMP_IF_GREATER_EQUAL, jt: distance(lower.len()), jf: 0, k: from[0].0 };
    let mut program = vec![half];
    program.extend(lower);
    program.extend(search(from));
    program
}

// A jump in a filter is at most 255 instructions long; half of the list takes less than four for each call.
const MOST_CALLS: usize = REFUSED.len() + REFUSED_HERE.len() + IN_NAMESPACES.len() + NEWER_MOUNTS.len() + 1;
const _: () = assert!(MOST_CALLS.div_ceil(2) * 4 < 255);

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter gives for a call, found by running it.
    fn verdict(program: &[sock_filter], call: u32) -> u32 {
        let mut at = 1;
        loop {
            let step = &program[at];
            at += 1;
            let holds = match step.code {
                0x06 => return step.k,
                0x35 => call >= step.k,
                0x15 => call == step.k,
                other => panic!("{other:#x} is not in this filter"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    #[test]
    fn every_number_on_the_list_is_refused_and_no_other() {
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        for nesting in [Nesting::Refused, Nesting::ButControlGroups, Nesting::Allowed] {
            let program = by_number(nesting);
            let mut count = 0;
            for call in 0..1000_u32 {
                let on = |list: &[libc::c_long]| list.contains(&libc::c_long::from(call));
                let wanted = if on(REFUSED) || on(REFUSED_HERE) {
                    refused
                } else if on(&[libc::SYS_clone3]) {
                    absent
                } else if on(NEWER_MOUNTS) {
                    if nesting == Nesting::Refused { refused } else { absent }
                } else if on(IN_NAMESPACES) && nesting == Nesting::Refused {
                    refused
                } else {
                    libc::SECCOMP_RET_ALLOW
                };
                assert_eq!(verdict(&program, call), wanted, "call {call}, {nesting:?}");
                count += usize::from(wanted != libc::SECCOMP_RET_ALLOW);
            }
            assert_eq!(count, refusals(nesting).len(), "no call is listed twice");
            assert_eq!(verdict(&program, 0x4000_0000 + 39), absent);
        }
    }
}
