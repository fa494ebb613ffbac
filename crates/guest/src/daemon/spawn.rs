//! Starting a process: its own session, three descriptors, and an environment it was given rather than one it found.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use rustix::pipe::PipeFlags;
use rustix::process::Rlimit;
use tokio::io::unix::AsyncFd;

use super::exec::Program;
use super::process::{Ends, Input};
use super::ring::Stream;
use super::{pty, refused};
use crate::wire::{Failure, PROCESS_VARIABLE, ProcessSpec, PtySize};

/// What a terminal is called in the environment when nobody says otherwise.
const TERMINAL_KIND: &str = "xterm-256color";

/// Any of these says what text is.
const TEXT_VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// Text is UTF-8 when nobody says otherwise. Only the kind of characters is named, and no whole locale: a program reads one
/// file for the one and a dozen for the other, each time it starts, and all that they say is what it does anyway.
const TEXT: (&str, &str) = ("LC_CTYPE", "C.UTF-8");

/// What every process is started with.
pub(super) struct Defaults {
    /// Working directory when none is asked for.
    pub(super) cwd: String,
    /// How many descriptors it may have.
    pub(super) open_files: Rlimit,
    /// What it reads when nobody writes to it: nothing.
    pub(super) null: OwnedFd,
}

impl Defaults {
    pub(super) fn new(cwd: String, open_files: Rlimit) -> io::Result<Self> {
        Ok(Self { cwd, open_files, null: std::fs::File::open("/dev/null")?.into() })
    }
}

/// Starts it and returns its number and our ends. The caller must note the number before it awaits anything, because
/// the reaper may run then.
pub(super) fn spawn(
    id: &str,
    spec: &ProcessSpec,
    env: &BTreeMap<String, String>,
    defaults: &Defaults,
    mark: Option<u64>,
) -> Result<(i32, Ends), Failure> {
    let cwd = Path::new(&defaults.cwd).join(spec.cwd.as_deref().unwrap_or_default());
    let program = program(id, spec, env, &cwd)?;
    let descriptors = |error: io::Error| refused(format!("no descriptor is free: {error}"));
    let (theirs, ends) = match spec.pty {
        Some(size) => {
            on_terminal(size).map_err(|error| refused(format!("no terminal can be opened: {error}")))?
        }
        None => on_pipes(spec.stdin).map_err(descriptors)?,
    };
    let stdio = match &theirs {
        Theirs::Terminal(user) => [user, user, user],
        Theirs::Pipes { stdin, stdout, stderr } => [stdin.as_ref().unwrap_or(&defaults.null), stdout, stderr],
    };
    let pid = program.start(stdio, spec.pty.is_some(), defaults.open_files, mark);
    match pid {
        Ok(pid) => Ok((pid, ends)),
        Err(error) => {
            // The working directory may be what was wrong; as it rarely is, it is looked at only now.
            check_directory(&cwd)?;
            Err(refused(why(&error, spec)))
        }
    }
}

fn program(
    id: &str,
    spec: &ProcessSpec,
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<Program, Failure> {
    match spec.argv.first() {
        None => return Err(refused("a process needs a program to run; argv is empty")),
        Some(program) if program.is_empty() => return Err(refused("the name of the program is empty")),
        Some(_) => {}
    }
    check_env(&spec.env)?;
    let mut variables: BTreeMap<&str, &str> = BTreeMap::new();
    if spec.pty.is_some() {
        variables.insert("TERM", TERMINAL_KIND);
    }
    variables.extend(env.iter().chain(&spec.env).map(|(name, value)| (name.as_str(), value.as_str())));
    if !TEXT_VARIABLES.iter().any(|name| variables.contains_key(name)) {
        variables.insert(TEXT.0, TEXT.1);
    }
    variables.insert(PROCESS_VARIABLE, id);
    let variables = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Program::new(&spec.argv, variables, cwd)
        .map_err(|_| refused(format!("{:?} cannot be started: there is a zero byte in it", spec.argv)))
}

fn check_directory(cwd: &Path) -> Result<(), Failure> {
    match std::fs::metadata(cwd) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(refused(format!("the working directory {} is not a directory", cwd.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(refused(format!("the working directory {} does not exist", cwd.display())))
        }
        Err(error) => Err(refused(format!("the working directory {}: {error}", cwd.display()))),
    }
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

/// What the process's standard descriptors are copies of.
enum Theirs {
    /// All three.
    Terminal(OwnedFd),
    /// One each; without an input it reads nothing.
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
}

/// The process's standard descriptors on a new terminal, and our end of it.
fn on_terminal(size: PtySize) -> io::Result<(Theirs, Ends)> {
    let pty::Terminal { controller, user } = pty::open(size)?;
    let terminal = Rc::new(watched(controller)?);
    let ends = Ends {
        outputs: vec![(Stream::Stdout, terminal.clone())],
        input: Input::Terminal(terminal.clone()),
        terminal: Some(terminal),
    };
    Ok((Theirs::Terminal(user), ends))
}

/// The process's standard descriptors on pipes, and our ends of them.
fn on_pipes(stdin: bool) -> io::Result<(Theirs, Ends)> {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
    let (stdin, input) = if stdin {
        let (theirs, ours) = pipe()?;
        (Some(theirs), Input::Pipe(watched(ours)?))
    } else {
        (None, Input::Never)
    };
    let (out_ours, stdout) = pipe()?;
    let (err_ours, stderr) = pipe()?;
    let outputs =
        vec![(Stream::Stdout, Rc::new(watched(out_ours)?)), (Stream::Stderr, Rc::new(watched(err_ours)?))];
    Ok((Theirs::Pipes { stdin, stdout, stderr }, Ends { outputs, input, terminal: None }))
}

fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: an OwnedFd is open, stays the same, and is closed only when the AsyncFd that owns it is dropped.
    Ok(unsafe { AsyncFd::register(fd) }?)
}
