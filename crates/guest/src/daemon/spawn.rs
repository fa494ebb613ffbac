//! Starting a process: its own session, three descriptors, and an environment it was given rather than one it found.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use rustix::process::Rlimit;
use tokio::io::unix::AsyncFd;

use super::process::{Ends, Input};
use super::ring::Stream;
use super::{pty, refused};
use crate::wire::{Failure, PROCESS_VARIABLE, ProcessSpec};

/// What a terminal is called in the environment when nobody says otherwise.
const TERMINAL_KIND: &str = "xterm-256color";

/// Starts it and returns its number and our ends. The caller must note the number before it awaits anything, because
/// the reaper may run then.
pub(super) fn spawn(
    id: &str,
    spec: &ProcessSpec,
    env: &BTreeMap<String, String>,
    cwd: &str,
    open_files: Rlimit,
) -> Result<(i32, Ends), Failure> {
    let mut command = command(id, spec, env, cwd)?;
    let terminal = match spec.pty {
        Some(size) => {
            Some(pty::open(size).map_err(|error| refused(format!("no terminal can be opened: {error}")))?)
        }
        None => None,
    };
    let controller = match terminal {
        Some(terminal) => {
            let copy = || {
                terminal.user.try_clone().map_err(|error| refused(format!("no descriptor is free: {error}")))
            };
            command.stdin(copy()?).stdout(copy()?).stderr(terminal.user);
            Some(terminal.controller)
        }
        None => {
            command.stdin(if spec.stdin { Stdio::piped() } else { Stdio::null() });
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            None
        }
    };
    let on_terminal = controller.is_some();
    // SAFETY: between fork and exec only system calls are made: no allocation, no lock.
    unsafe { command.pre_exec(move || become_process(on_terminal, open_files)) };
    let child = command.spawn();
    // Our copies of the terminal's user end go with the command; the terminal ends when the process's own are closed.
    drop(command);
    let mut child = child.map_err(|error| refused(why(&error, spec)))?;
    let pid = i32::try_from(child.id())
        .map_err(|error| refused(format!("the kernel gave a strange pid: {error}")))?;
    let ends = match controller {
        Some(controller) => terminal_ends(controller),
        None => pipe_ends(child.stdin.take(), child.stdout.take(), child.stderr.take()),
    };
    match ends {
        Ok(ends) => Ok((pid, ends)),
        Err(error) => {
            // Nobody could hear it, so it must not live; the reaper collects it as it does any orphan.
            let killed = child.kill();
            Err(refused(format!(
                "the output of {id} cannot be followed: {error}{}",
                match killed {
                    Ok(()) => String::new(),
                    Err(error) => format!(", and it cannot be killed: {error}"),
                }
            )))
        }
    }
}

fn command(
    id: &str,
    spec: &ProcessSpec,
    env: &BTreeMap<String, String>,
    cwd: &str,
) -> Result<Command, Failure> {
    let (program, arguments) =
        spec.argv.split_first().ok_or_else(|| refused("a process needs a program to run; argv is empty"))?;
    if program.is_empty() {
        return Err(refused("the name of the program is empty"));
    }
    check_env(&spec.env)?;
    let cwd = Path::new(cwd).join(spec.cwd.as_deref().unwrap_or_default());
    match std::fs::metadata(&cwd) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(refused(format!("the working directory {} is not a directory", cwd.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(refused(format!("the working directory {} does not exist", cwd.display())));
        }
        Err(error) => return Err(refused(format!("the working directory {}: {error}", cwd.display()))),
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cwd).env_clear();
    if spec.pty.is_some() {
        command.env("TERM", TERMINAL_KIND);
    }
    command.envs(env).envs(&spec.env);
    command.env(PROCESS_VARIABLE, OsStr::new(id));
    Ok(command)
}

/// Refuses what the kernel would misread.
pub(super) fn check_env(variables: &BTreeMap<String, String>) -> Result<(), Failure> {
    let bad = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    if let Some(name) = variables.keys().find(|name| bad(name)) {
        return Err(refused(format!("{name:?} cannot be the name of a variable")));
    }
    match variables.iter().find(|(_, value)| value.contains('\0')) {
        Some((name, _)) => Err(refused(format!("the value of {name} has a zero byte in it"))),
        None => Ok(()),
    }
}

/// Runs in the child, just before it becomes the program.
fn become_process(on_terminal: bool, open_files: Rlimit) -> io::Result<()> {
    // All zero is the kernel's sigaction for the default. The C library would refuse the two signals it keeps for
    // itself, which whoever started the sandbox may have left ignored; KILL and STOP refuse here, and need nothing.
    let default = [0_usize; 8];
    for signal in 1..=64 {
        // SAFETY: the kernel reads its sigaction, at most four words with a mask of eight bytes, and writes nothing.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null::<usize>(),
                8_usize,
            )
        };
    }
    // SAFETY: the set is a local that sigemptyset fills in before sigprocmask reads it; the old mask is not wanted.
    let unmasked = unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
    };
    if unmasked != 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::process::setsid()?;
    prefer_when_memory_is_short();
    if on_terminal {
        // SAFETY: the request takes an integer; descriptor 0 is the terminal.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // The daemon allows itself more descriptors than a program should be surprised with.
    rustix::process::setrlimit(rustix::process::Resource::Nofile, open_files)?;
    // Everything else closes at exec and not now: the standard library still has to report a failed exec.
    // SAFETY: close_range takes no pointers.
    let closed =
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn why(error: &io::Error, spec: &ProcessSpec) -> String {
    let program = spec.argv.first().map_or("", String::as_str);
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) if program.contains('/') => {
            format!("the program {program} does not exist, or its interpreter does not")
        }
        Some(libc::ENOENT | libc::ENOTDIR) => format!("the program {program} is not found in PATH"),
        Some(libc::EACCES) => format!("the program {program} may not be run: it is not an executable file"),
        Some(libc::ENOEXEC) => format!("the program {program} is of a format this machine does not run"),
        Some(libc::E2BIG) => {
            format!("the arguments and variables of {program} are too long; put them into a file")
        }
        Some(libc::EAGAIN) => {
            format!("{program} cannot be started: the sandbox has reached its limit of processes")
        }
        Some(libc::ENOMEM) => format!("{program} cannot be started: the sandbox has no memory left"),
        Some(libc::EMFILE | libc::ENFILE) => {
            format!("{program} cannot be started: too many files are open; end or forget other processes")
        }
        _ => format!("{program} cannot be started: {error}"),
    }
}

fn terminal_ends(controller: OwnedFd) -> io::Result<Ends> {
    let terminal = Rc::new(watched(controller)?);
    Ok(Ends {
        outputs: vec![(Stream::Stdout, terminal.clone())],
        input: Input::Terminal(terminal.clone()),
        terminal: Some(terminal),
    })
}

fn pipe_ends(
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
) -> io::Result<Ends> {
    let mut outputs = Vec::with_capacity(2);
    if let Some(stdout) = stdout {
        outputs.push((Stream::Stdout, Rc::new(watched(stdout.into())?)));
    }
    if let Some(stderr) = stderr {
        outputs.push((Stream::Stderr, Rc::new(watched(stderr.into())?)));
    }
    let input = match stdin {
        Some(stdin) => Input::Pipe(watched(stdin.into())?),
        None => Input::Never,
    };
    Ok(Ends { outputs, input, terminal: None })
}

fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: an OwnedFd is open, stays the same, and is closed only when the AsyncFd that owns it is dropped.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// When the sandbox's memory is used up the kernel ends a command, and not the daemon that tells about it. A kernel that
/// does not take the wish decides by size, which is nearly always a command too.
fn prefer_when_memory_is_short() {
    // SAFETY: plain system calls on a constant path and constant bytes; the descriptor is this function's own.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, c"500".as_ptr().cast(), 3);
            libc::close(file);
        }
    }
}
