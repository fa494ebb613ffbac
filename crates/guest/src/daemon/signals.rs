//! Signals the daemon itself reacts to, turned into messages it can await.
//!
//! A handler writes one byte into a pipe. Unlike a plain handler it knows who sent the signal: as pid 1 the
//! daemon ends only when it is told so from outside, never because a process in the sandbox ran `kill 1`.

use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::pipe::PipeFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Where the handler writes; negative until it is installed.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// The signals that have a handler.
const HANDLED: [libc::c_int; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2, libc::SIGPIPE];

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// A child changed its state.
    Child,
    /// End everything.
    Terminate,
}

/// The signals, in the order they came.
pub(super) struct Signals {
    receiver: AsyncFd<OwnedFd>,
}

/// Installs the handlers and returns what they write to.
pub(super) fn install() -> io::Result<OwnedFd> {
    let (receiver, sender) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // The sender lives as long as the handlers, which is as long as the process.
    let previous = WAKE.swap(sender.into_raw_fd(), Ordering::SeqCst);
    if previous >= 0 {
        return Err(io::Error::other("a guest already runs in this process"));
    }
    // Whoever started the sandbox may have left some ignored, which every process would inherit.
    for signal in 1..=64 {
        set_default(signal);
    }
    let flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NOCLDSTOP;
    action(libc::SIGCHLD, on_signal as *const () as usize, flags)?;
    action(libc::SIGTERM, on_signal as *const () as usize, flags)?;
    action(libc::SIGUSR1, on_excess as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART)?;
    action(libc::SIGUSR2, on_halt as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART)?;
    // Not ignored, because that would be inherited; a handler is not.
    action(libc::SIGPIPE, on_nothing as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART)?;
    Ok(receiver)
}

/// In a child that still has the daemon's handlers: removes them. Makes only system calls.
pub(super) fn reset() {
    for signal in HANDLED {
        set_default(signal);
    }
}

/// The C library would refuse the two signals it keeps for itself; KILL and STOP refuse here, and need nothing.
fn set_default(signal: libc::c_int) {
    // All zero is the kernel's sigaction for the default.
    let default = [0_usize; 8];
    // SAFETY: the kernel reads its sigaction, at most four words with a mask of eight bytes, and writes nothing.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<usize>(), 8_usize)
    };
}

extern "C" fn on_nothing(_signal: libc::c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {}

fn action(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid: default handler, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the handler is one of those below, which have the signature SA_SIGINFO asks for and are
    // async-signal-safe; the old action is not wanted.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The monitor says that the sandbox took more than it may: everything but the guest ends, also if the guest is busy.
extern "C" fn on_excess(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    unsafe { send_to_all(&*info, libc::SIGKILL) }
}

/// The driver is about to save the sandbox: everything but the guest stops. In one step, which no process escapes by
/// beginning another; the driver itself lets them go on.
extern "C" fn on_halt(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    unsafe { send_to_all(&*info, libc::SIGSTOP) }
}

/// In a handler: sends a signal to every other process, if whoever asks for it is outside.
///
/// # Safety
///
/// The kernel must have passed the siginfo.
unsafe fn send_to_all(info: &libc::siginfo_t, signal: libc::c_int) {
    // SAFETY: getpid, kill and the errno location are async-signal-safe, and errno is put back. As pid 1 the kill reaches
    // every process of the sandbox but this one; anywhere else it is not made.
    unsafe {
        let from_outside = info.si_code == libc::SI_USER && info.si_pid() == 0;
        if libc::getpid() == 1 && from_outside {
            let errno = libc::__errno_location();
            let saved = *errno;
            libc::kill(-1, signal);
            *errno = saved;
        }
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; the pid field is set for signals that were sent by a process, and
    // SIGTERM is no other kind. getpid, write and the errno location are async-signal-safe, and errno is put back.
    unsafe {
        // Sent from outside the pid namespace, the sender has no number here and is shown as 0. A process inside can
        // write that number into a signal that it queues, but then the kernel does not let it say SI_USER.
        let from_outside = (*info).si_code == libc::SI_USER && (*info).si_pid() == 0;
        if signal == libc::SIGTERM && libc::getpid() == 1 && !from_outside {
            return;
        }
        let errno = libc::__errno_location();
        let saved = *errno;
        let byte: u8 = if signal == libc::SIGTERM { b't' } else { b'c' };
        // A full pipe is no loss: what is in it already wakes the reader.
        libc::write(WAKE.load(Ordering::SeqCst), std::ptr::from_ref(&byte).cast(), 1);
        *errno = saved;
    }
}

impl Signals {
    /// Must be called inside the runtime.
    pub(super) fn new(receiver: OwnedFd) -> io::Result<Self> {
        // SAFETY: an OwnedFd is open, stays the same, and is closed only when the AsyncFd that owns it is dropped.
        let receiver = unsafe { AsyncFd::register_with_interest(receiver, Interest::READABLE) }?;
        Ok(Self { receiver })
    }

    /// The next one. Several that came together are one, and the end of everything is the one that counts.
    pub(super) async fn next(&mut self) -> io::Result<Signal> {
        loop {
            let mut ready = self.receiver.readable().await?;
            let mut bytes = [0; 64];
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut bytes)?));
            match read {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(length)) => {
                    // Nothing is left after a short read, and whatever comes is told anew.
                    if length < bytes.len() {
                        ready.clear_ready();
                    }
                    let terminate = bytes[..length].contains(&b't');
                    return Ok(if terminate { Signal::Terminate } else { Signal::Child });
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_ready_after_all) => {}
            }
        }
    }
}
