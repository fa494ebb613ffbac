//! Starting a program the quick way: the child borrows the daemon's memory until it is the program, so nothing is copied
//! for it, and the daemon learns at once why it could not become it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::null;

use rustix::process::Rlimit;

use super::{mark, signals};

/// Where programs are looked for when there is no PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Runs what is executable and has no format the kernel knows, as shells have always done.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// Words of the child's stack, which holds a few calls and no buffer.
const STACK: usize = 4096;

/// Exit code of a child that did not become the program; nobody sees it.
const FAILED: c_int = 127;

/// A program with all that it is started with, in the form that the kernel takes.
pub(super) struct Program {
    /// Files to try, in this order.
    files: Vec<CString>,
    arguments: Vec<CString>,
    variables: Vec<CString>,
    directory: CString,
}

impl Program {
    /// Fails where a zero byte is in a word. `variables` are `NAME=VALUE`.
    pub(super) fn new(
        argv: &[String],
        variables: Vec<String>,
        directory: &std::path::Path,
    ) -> Result<Self, std::ffi::NulError> {
        use std::os::unix::ffi::OsStrExt;
        let program = argv.first().map_or("", String::as_str);
        let path = variables.iter().rev().find_map(|variable| variable.strip_prefix("PATH="));
        let files = if program.contains('/') {
            vec![CString::new(program)?]
        } else {
            let place = |dir: &str| match dir {
                "" => CString::new(program),
                dir => CString::new(format!("{dir}/{program}")),
            };
            path.unwrap_or(DEFAULT_PATH).split(':').map(place).collect::<Result<_, _>>()?
        };
        Ok(Self {
            files,
            arguments: argv.iter().map(|word| CString::new(word.as_str())).collect::<Result<_, _>>()?,
            variables: variables.into_iter().map(CString::new).collect::<Result<_, _>>()?,
            directory: CString::new(directory.as_os_str().as_bytes())?,
        })
    }

    /// Starts it in a session of its own, with these as its standard descriptors. The number of the process is the
    /// caller's to wait for.
    pub(super) fn start(
        &self,
        stdio: [&OwnedFd; 3],
        on_terminal: bool,
        open_files: Rlimit,
        mark: Option<u64>,
    ) -> io::Result<i32> {
        // A descriptor below three would be written over before it is copied.
        let mut moved = Vec::new();
        let mut sources = [0; 3];
        for (source, fd) in sources.iter_mut().zip(stdio) {
            *source = fd.as_raw_fd();
            if *source < 3 {
                let higher = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
                *source = higher.as_raw_fd();
                moved.push(higher);
            }
        }
        let arguments = pointers(&self.arguments);
        let mut script = vec![SHELL.as_ptr(), null()];
        script.extend(arguments.iter().skip(1));
        let mut child = Child {
            files: pointers(&self.files),
            arguments,
            script,
            variables: pointers(&self.variables),
            directory: self.directory.as_ptr(),
            stdio: sources,
            on_terminal,
            open_files,
            mark,
            failure: 0,
        };
        let pid = child.start();
        drop(moved);
        pid
    }
}

/// A list as the kernel takes it, with its final null.
fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain([null()]).collect()
}

/// All that the child needs. It must neither allocate nor take a lock: the memory is the daemon's.
struct Child {
    files: Vec<*const c_char>,
    arguments: Vec<*const c_char>,
    /// The shell's arguments; the second is the file.
    script: Vec<*const c_char>,
    variables: Vec<*const c_char>,
    directory: *const c_char,
    stdio: [RawFd; 3],
    on_terminal: bool,
    open_files: Rlimit,
    mark: Option<u64>,
    /// Why it did not become the program, for the daemon to read.
    failure: c_int,
}

impl Child {
    fn start(&mut self) -> io::Result<i32> {
        let mut stack = Vec::<u128>::with_capacity(STACK);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // No handler of the daemon may run in the child, which has them until it resets them.
        let mask = set_mask(u64::MAX)?;
        // SAFETY: the stack is aligned and as long as said; its end is passed because stacks grow downwards. The daemon
        // stands still until the child is another program or has ended, so what they share has one user at a time, and
        // both the stack and `self` outlive that use.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK);
            libc::clone(run, top.cast(), flags, std::ptr::from_mut(self).cast::<c_void>())
        };
        let started = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) };
        set_mask(mask)?;
        let pid = started?;
        // SAFETY: the field is a plain number of ours; the child that may have written it is gone.
        match unsafe { std::ptr::read_volatile(&raw const self.failure) } {
            0 => Ok(pid),
            failure => {
                let child = rustix::process::Pid::from_raw(pid);
                while let Err(rustix::io::Errno::INTR) =
                    rustix::process::waitpid(child, rustix::process::WaitOptions::empty())
                {}
                Err(io::Error::from_raw_os_error(failure))
            }
        }
    }

    /// Becomes the program, or says why not.
    fn become_program(&mut self) -> Result<std::convert::Infallible, c_int> {
        signals::reset();
        // SAFETY: system calls on numbers and on strings that the daemon keeps as they are.
        unsafe {
            check(libc::setsid())?;
            check(libc::chdir(self.directory))?;
            for (target, source) in (0..).zip(self.stdio) {
                check(libc::dup2(source, target))?;
            }
            if self.on_terminal {
                check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            }
        }
        // The daemon allows itself more descriptors than a program should be surprised with.
        rustix::process::setrlimit(rustix::process::Resource::Nofile, self.open_files)
            .map_err(rustix::io::Errno::raw_os_error)?;
        if let Some(mark) = self.mark {
            mark::put(mark);
        }
        // SAFETY: no pointers.
        let closed =
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        check(if closed == 0 { 0 } else { -1 })?;
        set_mask(0).map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))?;
        self.execute()
    }

    fn execute(&mut self) -> Result<std::convert::Infallible, c_int> {
        let mut failure = libc::ENOENT;
        for file in &self.files {
            if file.is_null() {
                break;
            }
            // SAFETY: strings and lists with their ends, which the daemon keeps as they are.
            unsafe { libc::execve(*file, self.arguments.as_ptr(), self.variables.as_ptr()) };
            match errno() {
                libc::ENOENT | libc::ENOTDIR if failure != libc::EACCES => failure = libc::ENOENT,
                libc::ENOENT | libc::ENOTDIR => {}
                // Another directory may have one that may be run.
                libc::EACCES => failure = libc::EACCES,
                libc::ENOEXEC => {
                    self.script[1] = *file;
                    // SAFETY: as above.
                    unsafe { libc::execve(SHELL.as_ptr(), self.script.as_ptr(), self.variables.as_ptr()) };
                    return Err(libc::ENOEXEC);
                }
                other => return Err(other),
            }
        }
        Err(failure)
    }
}

extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: it is the `Child` that `start` passes, which nobody else uses now.
    let child = unsafe { &mut *child.cast::<Child>() };
    let Err(failure) = child.become_program();
    // SAFETY: as above; and ending without any of the daemon's cleaning up.
    unsafe {
        std::ptr::write_volatile(&raw mut child.failure, failure);
        libc::_exit(FAILED)
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

fn check(result: c_int) -> Result<(), c_int> {
    if result == -1 { Err(errno()) } else { Ok(()) }
}

/// Blocks exactly these signals, also those that the C library keeps for itself; gives those that were.
fn set_mask(mask: u64) -> io::Result<u64> {
    let mut old = 0_u64;
    // SAFETY: the kernel reads one mask of eight bytes and writes another.
    let set = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut old,
            size_of::<u64>(),
        )
    };
    if set == 0 { Ok(old) } else { Err(io::Error::last_os_error()) }
}
