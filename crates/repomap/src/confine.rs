//! What the reading process can do once it reads: take memory, read and write the files that are open, and end.

use std::collections::BTreeMap;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::Error;

/// Memory that it may take.
const MEMORY: u64 = 1024 * 1024 * 1024;
/// Seconds of a processor.
const SECONDS: u64 = 60;

/// What memory, pipes, time and an end need. There is nothing here that opens, connects, starts or signals others.
const CALLS: [i64; 27] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
];

/// Gives up everything that reading does not need, for good. A call of the system that is not on the list ends the process.
pub fn confine() -> Result<(), Error> {
    for (resource, most) in [(Resource::Data, MEMORY), (Resource::Cpu, SECONDS), (Resource::Core, 0)] {
        let most = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| Error::Confine(io::Error::from(error).to_string()))?;
    }
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let arch =
        std::env::consts::ARCH.try_into().map_err(|_| Error::Confine("of this processor".to_owned()))?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)
        .map_err(|error| Error::Confine(error.to_string()))?;
    let program: BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| Error::Confine(error.to_string()))?;
    // This also gives up new privileges.
    apply_filter(&program).map_err(|error| Error::Confine(error.to_string()))
}
