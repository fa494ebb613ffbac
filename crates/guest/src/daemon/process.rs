//! One process: its output, its input, and how it ended.
//!
//! It is shared by the pumps that fill its ring, the follower bodies that empty it, the supervisor that ends it and
//! the requests that ask for it, all on one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::process::WaitStatus;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::ring::{Held, Ring, Stream};
use super::tree::Root;
use super::{pty, refused};
use crate::wire::{Exit, Failure, ProcessState, PtySize};

/// A process the guest started.
pub(super) struct Process {
    pub(super) id: String,
    pub(super) pid: i32,
    /// What everything that it starts carries.
    pub(super) mark: Option<u64>,
    pub(super) argv: Vec<String>,
    pub(super) ring: RefCell<Ring>,
    pub(super) outputs: Vec<OutputEnd>,
    pub(super) input: Mutex<Input>,
    /// The terminal it runs on, to change its size; gone when the terminal is.
    pub(super) terminal: RefCell<Option<Rc<AsyncFd<OwnedFd>>>>,
    /// Set when the main process was reaped.
    status: Cell<Option<WaitStatus>>,
    /// Set when all there is to say was said.
    exit: RefCell<Option<Exit>>,
    started: Instant,
    /// When the main process was reaped.
    reaped_at: Cell<Option<Instant>>,
    pub(super) last_output: Cell<Instant>,
    /// Something of the above changed.
    pub(super) changed: Notify,
    /// A follower caught up or left.
    pub(super) room: Notify,
}

/// Our end of one of its output pipes.
pub(super) struct OutputEnd {
    pub(super) stream: Stream,
    pub(super) fd: RefCell<Option<Rc<AsyncFd<OwnedFd>>>>,
    /// Bytes that were in the pipe when the main process ended and have not been read yet.
    pub(super) owed: Cell<u64>,
}

/// Its standard input.
pub(super) enum Input {
    /// It was started without.
    Never,
    /// It was ended, or the process reads it no longer.
    Closed,
    /// A pipe.
    Pipe(AsyncFd<OwnedFd>),
    /// The terminal.
    Terminal(Rc<AsyncFd<OwnedFd>>),
}

/// The descriptors of a process that was just started.
pub(super) struct Ends {
    pub(super) outputs: Vec<(Stream, Rc<AsyncFd<OwnedFd>>)>,
    pub(super) input: Input,
    pub(super) terminal: Option<Rc<AsyncFd<OwnedFd>>>,
}

impl Process {
    pub(super) fn new(
        id: &str,
        (pid, mark): (i32, Option<u64>),
        argv: &[String],
        ends: Ends,
        held: Held,
    ) -> Self {
        let outputs = ends
            .outputs
            .into_iter()
            .map(|(stream, fd)| OutputEnd { stream, fd: RefCell::new(Some(fd)), owed: Cell::new(0) })
            .collect();
        Self {
            id: id.to_owned(),
            pid,
            mark,
            argv: argv.to_vec(),
            ring: RefCell::new(Ring::new(held)),
            outputs,
            input: Mutex::new(ends.input),
            terminal: RefCell::new(ends.terminal),
            status: Cell::new(None),
            exit: RefCell::new(None),
            started: Instant::now(),
            reaped_at: Cell::new(None),
            last_output: Cell::new(Instant::now()),
            changed: Notify::new(),
            room: Notify::new(),
        }
    }

    /// What is told about it in a list.
    pub(super) fn state(&self) -> ProcessState {
        let until = self.reaped_at.get().unwrap_or_else(Instant::now);
        ProcessState {
            id: self.id.clone(),
            pid: self.pid,
            argv: self.argv.clone(),
            output: self.ring.borrow().end(),
            ran_ms: u64::try_from(until.duration_since(self.started).as_millis()).ok(),
            exit: self.exit(),
        }
    }

    /// How to find everything it started.
    pub(super) fn root(&self) -> Root<'_> {
        Root { id: &self.id, pid: self.pid, mark: self.mark, alive: self.status.get().is_none() }
    }

    /// How it ended, once its last byte is in the ring.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit.borrow().clone()
    }

    /// The main process was reaped: from here on, only what is in its pipes now is still its own output.
    pub(super) fn reaped(&self, status: WaitStatus) {
        for output in &self.outputs {
            if let Some(fd) = &*output.fd.borrow() {
                // A terminal that was hung up answers with an error; it owes nothing then.
                output.owed.set(rustix::io::ioctl_fionread(fd.get_ref()).unwrap_or(0));
            }
        }
        let now = Instant::now();
        self.reaped_at.set(Some(now));
        self.last_output.set(now);
        self.status.set(Some(status));
        self.changed.notify_waiters();
    }

    /// Waits until the main process was reaped.
    pub(super) async fn main_ended(&self) -> WaitStatus {
        loop {
            let changed = self.changed.notified();
            if let Some(status) = self.status.get() {
                return status;
            }
            changed.await;
        }
    }

    /// Waits until its exit is known to all.
    async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            if self.exit.borrow().is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Makes the exit known. What its orphans write from now on is read, so that they live, and thrown away.
    pub(super) fn finish(&self, exit: Exit) {
        *self.exit.borrow_mut() = Some(exit);
        // A writer that holds the lock closes the input itself when it sees the exit.
        if let Ok(mut input) = self.input.try_lock() {
            input.close();
        }
        self.ring.borrow_mut().wake();
        self.changed.notify_waiters();
        self.room.notify_waiters();
    }

    /// Keeps what was read from a pipe.
    pub(super) fn output(&self, end: &OutputEnd, data: &[u8]) {
        end.owed.set(end.owed.get().saturating_sub(data.len() as u64));
        if self.exit.borrow().is_some() {
            return;
        }
        self.ring.borrow_mut().push(end.stream, data);
        if self.status.get().is_some() {
            self.last_output.set(Instant::now());
            self.changed.notify_waiters();
        }
    }

    /// One of its outputs ended.
    pub(super) fn output_ended(&self, end: &OutputEnd) {
        end.fd.borrow_mut().take();
        end.owed.set(0);
        self.changed.notify_waiters();
    }

    /// Waits while a follower is too far behind. After the exit nothing is kept, so there is nothing to wait for.
    pub(super) async fn has_room(&self) {
        loop {
            let room = self.room.notified();
            if self.exit.borrow().is_some() || !self.ring.borrow().full() {
                return;
            }
            room.await;
        }
    }

    /// Writes all of `data` to the input that the caller has locked.
    pub(super) async fn write(&self, input: &mut Input, mut data: &[u8]) -> Result<(), Failure> {
        while !data.is_empty() {
            let fd = match &*input {
                Input::Never => {
                    return Err(refused(format!("the standard input of {} was not kept open", self.id)));
                }
                Input::Closed => return Err(self.deaf()),
                Input::Pipe(fd) => fd,
                Input::Terminal(fd) => fd,
            };
            let ready = tokio::select! {
                biased;
                () = self.ended() => None,
                ready = fd.writable() => Some(ready),
            };
            let Some(ready) = ready else {
                input.close();
                continue;
            };
            let mut ready =
                ready.map_err(|error| refused(format!("cannot write to {}: {error}", self.id)))?;
            match ready.try_io(|fd| rustix::io::write(fd.get_ref(), data).map_err(io::Error::from)) {
                Ok(Ok(written)) => data = &data[written..],
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => {
                    let gone = matches!(error.raw_os_error(), Some(libc::EPIPE | libc::EIO));
                    input.close();
                    return Err(if gone {
                        self.deaf()
                    } else {
                        refused(format!("cannot write to {}: {error}", self.id))
                    });
                }
                Err(_not_ready_after_all) => {}
            }
        }
        Ok(())
    }

    /// Ends the input. A terminal has no end, so its reader is told with the end-of-file key.
    pub(super) async fn close_input(&self) -> Result<(), Failure> {
        let mut input = self.input.lock().await;
        match &*input {
            Input::Never | Input::Closed => Ok(()),
            Input::Pipe(_) => {
                input.close();
                Ok(())
            }
            Input::Terminal(_) => self.write(&mut input, b"\x04").await,
        }
    }

    /// Changes the size of its terminal.
    pub(super) fn resize(&self, size: PtySize) -> Result<(), Failure> {
        let terminal = self.terminal.borrow();
        let terminal = terminal.as_ref().ok_or_else(|| refused(format!("{} has no terminal", self.id)))?;
        pty::resize(terminal.get_ref(), size)
            .map_err(|error| refused(format!("the terminal of {} cannot be resized: {error}", self.id)))
    }

    fn deaf(&self) -> Failure {
        refused(format!("{}: it no longer reads its input", self.id))
    }
}

impl Input {
    /// Closes it for good; one that never was stays that way.
    fn close(&mut self) {
        if !matches!(self, Self::Never) {
            *self = Self::Closed;
        }
    }
}
