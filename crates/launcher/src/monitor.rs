//! The monitor: starts init in new namespaces, reports to the driver, then waits for the end and cleans
//! up. It outlives the server; it is what makes sure that a sandbox leaves nothing behind even when no server runs.

use std::io::{BufRead, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::fault::{Context, Fault, check};
use crate::init::{self, signal};
use crate::spec::{Cause, Ended, Ids, Launch, Life, Limited, Report, Stage, State, files};
use crate::watch::Watch;
use crate::{cgroup, ids, rights, tree, verify};

/// Reads what to launch, launches it, reports, and stays until it ends. Gives the exit code.
pub fn main() -> i32 {
    name_process(c"slipway-monitor");
    close_inherited();
    // What the caller's is must not decide who can enter the directories of a sandbox.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let outcome = read_spec().and_then(|launch| {
        let started = start(&launch);
        if started.is_err() {
            cgroup::remove(launch.cgroups.iter().map(|group| group.path.as_path()));
        }
        started.map(|running| (launch, running))
    });
    let (launch, mut running) = match outcome {
        Ok(started) => started,
        Err(fault) => {
            let report = Report::Failed { stage: fault.stage, message: fault.message, errno: fault.errno };
            return if say(&report).is_ok() { 1 } else { 2 };
        }
    };
    let monitor = std::process::id();
    if say(&Report::Ready { monitor, init: running.init.as_raw_nonzero().get().unsigned_abs() }).is_err() {
        // Nobody waits for this sandbox any more.
        return finish(&launch, &running, Cause::OwnerGone);
    }
    let Running { watch, init, handle, .. } = &mut running;
    let cause = watch.until_end(&launch, *init, handle);
    finish(&launch, &running, cause)
}

/// A sandbox that runs.
struct Running {
    init: Pid,
    handle: OwnedFd,
    /// Held as long as we live, so that anyone can tell whether we do.
    _lock: OwnedFd,
    /// Held as long as we live, so that no other sandbox on this host takes the same ids.
    _range: Option<ids::Range>,
    watch: Watch,
}

fn read_spec() -> Result<Launch, Fault> {
    let mut line = String::new();
    // Byte by byte would be slow and buffering is safe: in a tied life nothing but the end follows this line.
    std::io::stdin().lock().read_line(&mut line).at(Stage::Spec, "reading what to launch")?;
    serde_json::from_str(&line)
        .map_err(|error| Fault::new(Stage::Spec, format!("reading what to launch: {error}")))
}

fn say(report: &Report) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()?;
    drop(stdout);
    // The driver reads to the end of the stream.
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

fn start(launch: &Launch) -> Result<Running, Fault> {
    // Not in the server's session: what happens to its terminal does not reach us. It fails only for a leader.
    let _already_leader = rustix::process::setsid();
    let directory = Stage::Directory;
    rustix::process::chdir(&launch.dir).at(directory, &format!("entering {}", launch.dir.display()))?;
    let lock = rustix::fs::open(
        files::LOCK,
        OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )
    .at(directory, "making the lock")?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).at(directory, "taking the lock")?;
    let outside = verify::namespaces()?;
    // A relative name keeps the address short however deep the directory is.
    let listener = UnixListener::bind(files::SOCKET).at(directory, "making the guest's socket")?;
    cgroup::make(&launch.cgroups)?;
    let range = match launch.ids {
        Ids::Range => Some(ids::Range::claim()?),
        Ids::Own => None,
    };
    for directory in [files::UPPER, files::WORK, files::ROOT] {
        make_directory(directory)?;
    }
    if launch.ids == Ids::Own {
        own_user_namespace()?;
    }
    let (users, holder) = ids::Users::make(range.as_ref())?;
    let (mut ours, theirs) = UnixStream::pair().at(Stage::Namespaces, "making a channel")?;
    let child = fork_into(cgroup::birthplace(&launch.cgroups)?.as_ref())?;
    if child == 0 {
        // The holder is not this process's to end.
        std::mem::forget(holder);
        // Nor are the monitor's own descriptors for the sandbox's first process.
        drop((ours, lock, range));
        silence_stdio();
        name_process(c"slipway-guest");
        std::process::exit(init::main(launch, users, theirs, listener, &outside));
    }
    drop((theirs, listener, users, holder));
    let init = i32::try_from(child)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| Fault::new(Stage::Namespaces, "no process id"))?;
    let handle = rustix::process::pidfd_open(init, PidfdFlags::empty())
        .at(Stage::Namespaces, "watching the sandbox")?;
    match follow(launch, init, &mut ours) {
        Ok(watch) => Ok(Running { init, handle, _lock: lock, _range: range, watch }),
        Err(fault) => {
            kill(init, &handle);
            Err(fault)
        }
    }
}

/// Follows init until it is ready. What can be done meanwhile is.
fn follow(launch: &Launch, init: Pid, stream: &mut UnixStream) -> Result<Watch, Fault> {
    let state = State {
        monitor: std::process::id(),
        init: init.as_raw_nonzero().get().unsigned_abs(),
        cgroups: launch.cgroups.iter().map(|group| group.path.clone()).collect(),
    };
    let state = write_aside(files::STATE, &state)?;
    let mut byte = [0];
    let (length, handed) = rights::receive(stream, &mut byte).at(Stage::Guest, "listening to the sandbox")?;
    if length == 0 {
        return Err(Fault::new(Stage::Guest, "the sandbox ended while it was being built"));
    }
    if byte[0] != signal::READY {
        let mut json = Vec::new();
        stream.read_to_end(&mut json).at(Stage::Guest, "listening to the sandbox")?;
        return Err(match serde_json::from_slice(&json) {
            Ok(Report::Failed { stage, message, errno }) => Fault { stage, message, errno },
            _ => Fault::new(Stage::Guest, "the sandbox failed while it was being built"),
        });
    }
    cgroup::verify(&launch.cgroups, init)?;
    let mut handed = handed.into_iter();
    let shared = handed.next().ok_or_else(|| Fault::new(Stage::Guest, "the sandbox handed nothing over"))?;
    let watch = Watch::open(launch, shared, handed.collect())?;
    put_in_place(&state, files::STATE)?;
    Ok(watch)
}

/// The C library's bindings have it in a type that is too small.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into new namespaces and, where the kernel has version 2 of control groups, right into one. Gives 0 in the
/// child.
fn fork_into(group: Option<&OwnedFd>) -> Result<i64, Fault> {
    let namespaces =
        libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: an all-zero clone_args is a valid value: no stack, no identifiers.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = namespaces as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(group) = group {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::from(group.as_raw_fd().unsigned_abs());
    }
    // SAFETY: like fork: no new stack is given, and this process has a single thread, so the child may go on as it is.
    // The arguments are valid for the size that is passed.
    check(unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) })
        .at(Stage::Namespaces, "making namespaces")
}

/// An ordinary user first becomes root of a namespace of its own, in which it may build the rest.
fn own_user_namespace() -> Result<(), Fault> {
    let stage = Stage::UserNamespace;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // SAFETY: a new user namespace does not touch file descriptors or memory, and there is only one thread.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) }
        .at(stage, "making a user namespace")?;
    std::fs::write("/proc/self/setgroups", "deny").at(stage, "giving up groups")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).at(stage, "mapping the user")?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1")).at(stage, "mapping the group")
}

fn make_directory(path: &str) -> Result<(), Fault> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Err(Errno::EXIST) => Ok(()),
        other => other.at(Stage::Directory, &format!("making {path}")),
    }
}

/// Whatever the server's caller left open is not for a process that outlives both.
fn close_inherited() {
    // SAFETY: nothing in this program has opened a descriptor above the standard three yet.
    // Kernels before 5.9 have no such call, and can make no sandbox either: the mounts will say so.
    let _closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

/// The program runs from a memory file, so lists of processes would show only a number.
fn name_process(name: &std::ffi::CStr) {
    // A process without a good name is still a good process.
    let _unnamed = rustix::thread::set_name(name);
}

fn silence_stdio() {
    let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) else {
        // Without /dev/null building /dev will fail too, and say so.
        return;
    };
    let _closed_anyway = (
        rustix::stdio::dup2_stdin(&null),
        rustix::stdio::dup2_stdout(&null),
        rustix::stdio::dup2_stderr(&null),
    );
}

/// Ends init, and with it every process of its pid namespace, and reaps it.
fn kill(init: Pid, handle: &OwnedFd) {
    // Already dead is as good.
    let _already_dead = rustix::process::pidfd_send_signal(handle, Signal::KILL);
    while let Err(Errno::INTR) = rustix::process::waitpid(Some(init), WaitOptions::empty()) {}
}

fn finish(launch: &Launch, running: &Running, cause: Cause) -> i32 {
    kill(running.init, &running.handle);
    let oom_kills = cgroup::oom_kills(&launch.cgroups);
    cgroup::remove(launch.cgroups.iter().map(|group| group.path.as_path()));
    if launch.life == Life::Tied {
        // The lock is released only by our end, after the directory is gone.
        return i32::from(tree::remove(&launch.dir).is_err());
    }
    let limit = match cause {
        Cause::WallClock => Some(Limited::WallClock),
        Cause::DiskBytes => Some(Limited::DiskBytes),
        Cause::DiskInodes => Some(Limited::DiskInodes),
        Cause::Died if oom_kills > 0 => Some(Limited::Memory),
        Cause::Removed | Cause::OwnerGone | Cause::Died => None,
    };
    let ended = Ended { cause, oom_kills, limit, disk: running.watch.disk() };
    let told = write_aside(files::ENDED, &ended).and_then(|aside| put_in_place(&aside, files::ENDED)).is_ok();
    let gone = [files::SOCKET, files::CONTROL].map(|socket| std::fs::remove_file(socket).is_ok());
    i32::from(!(told && gone == [true; 2]))
}

/// Writes a file under another name first, so that whoever reads it sees all of it or nothing.
fn write_aside(name: &str, value: &impl serde::Serialize) -> Result<String, Fault> {
    let json = serde_json::to_vec(value).map_err(|error| Fault::new(Stage::Directory, error.to_string()))?;
    let aside = format!("{name}.new");
    std::fs::write(&aside, json).at(Stage::Directory, &format!("writing {name}"))?;
    Ok(aside)
}

fn put_in_place(aside: &str, name: &str) -> Result<(), Fault> {
    std::fs::rename(aside, name).at(Stage::Directory, &format!("writing {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Cgroup, Hierarchy};

    /// Where version 2 of control groups is mounted, if this user may make groups there.
    fn unified() -> Option<std::path::PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        Some(std::path::PathBuf::from(mount.split(' ').nth(1)?))
    }

    #[test]
    fn init_is_born_in_its_group_of_version_2() {
        let Some(group) = unified().map(|mount| mount.join(format!("slipway-test-{}", std::process::id())))
        else {
            println!("skipped: version 2 of control groups is not mounted");
            return;
        };
        if std::fs::create_dir(&group).is_err() {
            println!("skipped: this user may not make control groups");
            return;
        }
        let groups =
            [Cgroup { path: group.clone(), hierarchy: Hierarchy::V2, settings: Vec::new(), oom_file: None }];
        let birthplace = cgroup::birthplace(&groups).unwrap().unwrap();
        let child = fork_into(Some(&birthplace)).unwrap();
        if child == 0 {
            // Other threads of the test program may have held locks, so nothing but a system call is safe here.
            loop {
                // SAFETY: waits for a signal, which ends it.
                unsafe { libc::pause() };
            }
        }
        let child = Pid::from_raw(child.try_into().unwrap()).unwrap();
        let verified = cgroup::verify(&groups, child).map_err(|fault| fault.message);
        rustix::process::kill_process(child, Signal::KILL).unwrap();
        rustix::process::waitpid(Some(child), WaitOptions::empty()).unwrap();
        cgroup::remove([group.as_path()].into_iter());
        assert_eq!(verified, Ok(()));
        assert!(!group.exists());
    }
}
