//! All processes the guest knows, by id and by number, and the reaper that tells them of their end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, WaitOptions};
use tokio::sync::Notify;

use super::mark::Marks;
use super::process::Process;
use super::ring::{CROWD, Held};
use super::spawn::Defaults;
use super::supervise::{self, Scratch};
use super::{Config, not_found, prompt, refused, spawn, tree};
use crate::wire::{Failure, ProcessSpec, ProcessState};

/// Most processes that run at once.
const MOST_RUNNING: usize = 1024;

/// Most ended processes that are remembered.
const MOST_ENDED: usize = 256;

/// Longest id.
const LONGEST_ID: usize = 128;

/// Bytes of all variables; programs start with at most a few times this.
const LARGEST_ENV: usize = 512 << 10;

/// Most a pump reads at once: what a pipe holds.
const SCRATCH: usize = 64 << 10;

/// Descriptors the daemon allows itself: three a process, and one a follower.
const OPEN_FILES: u64 = 16 << 10;

/// The processes.
pub(super) struct Table {
    pub(super) defaults: Defaults,
    /// Variables of processes that are started from now on.
    env: RefCell<BTreeMap<String, String>>,
    by_id: RefCell<BTreeMap<String, Rc<Process>>>,
    /// Those whose main process was not reaped yet.
    by_pid: RefCell<BTreeMap<i32, Rc<Process>>>,
    /// Ids of ended processes, oldest first.
    ended: RefCell<VecDeque<String>>,
    running: Cell<usize>,
    reaped: Rc<Notify>,
    held: Held,
    scratch: Scratch,
    marks: Marks,
}

/// Whether there is anything left to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Children {
    None,
    Some,
}

impl Table {
    pub(super) fn new(config: Config) -> io::Result<Self> {
        let open_files = rustix::process::getrlimit(Resource::Nofile);
        let most = open_files.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
        if open_files.current.is_some_and(|current| current < most) {
            let more = Rlimit { current: Some(most), maximum: open_files.maximum };
            rustix::process::setrlimit(Resource::Nofile, more)?;
        }
        Ok(Self {
            defaults: Defaults::new(config.cwd, open_files)?,
            env: RefCell::new(config.env.into_iter().collect()),
            by_id: RefCell::default(),
            by_pid: RefCell::default(),
            ended: RefCell::default(),
            running: Cell::new(0),
            reaped: Rc::new(Notify::new()),
            held: Held::default(),
            marks: Marks::new(),
            scratch: Rc::new(RefCell::new(vec![0; SCRATCH])),
        })
    }

    /// The process with this id.
    pub(super) fn get(&self, id: &str) -> Result<Rc<Process>, Failure> {
        let process = self.by_id.borrow().get(id).cloned();
        process.ok_or_else(|| not_found(format!("there is no process {id}")))
    }

    /// The process with this id, started if there is none. Nothing is awaited between the look and the entry, so it
    /// cannot be started twice, and nothing between the start and the entry, so the reaper cannot miss it.
    pub(super) fn start(self: &Rc<Self>, id: &str, spec: &ProcessSpec) -> Result<Rc<Process>, Failure> {
        if let Some(process) = self.by_id.borrow().get(id) {
            return Ok(process.clone());
        }
        check_id(id)?;
        if self.running.get() >= MOST_RUNNING {
            return Err(refused(format!("{MOST_RUNNING} processes run already; end one first")));
        }
        let mark = self.marks.next();
        let (pid, ends) = spawn::spawn(id, spec, &self.env.borrow(), &self.defaults, mark)?;
        let process = Rc::new(Process::new(id, (pid, mark), &spec.argv, ends, self.held.clone()));
        self.by_pid.borrow_mut().insert(pid, process.clone());
        self.by_id.borrow_mut().insert(id.to_owned(), process.clone());
        self.running.set(self.running.get() + 1);
        if self.ended_at_once(&process) {
            return Ok(process);
        }
        let time_limit = spec.timeout_ms.map(Duration::from_millis);
        let (table, id) = (self.clone(), id.to_owned());
        supervise::start(&process, time_limit, &self.scratch, self.reaped.clone(), move || {
            table.remember(id)
        });
        Ok(process)
    }

    /// Keeps what a process has said already; whether that was all, and its exit is known.
    fn ended_at_once(&self, process: &Rc<Process>) -> bool {
        let Some(status) = prompt::look(process, &mut self.scratch.borrow_mut()) else { return false };
        self.by_pid.borrow_mut().remove(&process.pid);
        process.reaped(status);
        // One that was killed may have left others, whom its supervisor looks for.
        if status.terminating_signal() == Some(libc::SIGKILL) {
            return false;
        }
        process.finish(supervise::exit(status, false));
        self.remember(process.id.clone());
        true
    }

    /// Merges these variables into those of processes that are started later.
    pub(super) fn set_env(&self, variables: BTreeMap<String, String>) -> Result<(), Failure> {
        spawn::check_env(&variables)?;
        let mut env = self.env.borrow_mut();
        let size = env.iter().filter(|(name, _)| !variables.contains_key(*name)).chain(&variables);
        if size.map(|(name, value)| name.len() + value.len()).sum::<usize>() > LARGEST_ENV {
            return Err(refused(format!("the variables would take more than {LARGEST_ENV} bytes")));
        }
        env.extend(variables);
        Ok(())
    }

    /// All of them, by id.
    pub(super) fn list(&self) -> Vec<ProcessState> {
        self.by_id.borrow().values().map(|process| process.state()).collect()
    }

    /// Forgets an ended process and its output.
    pub(super) fn forget(&self, id: &str) -> Result<(), Failure> {
        if self.get(id)?.exit().is_none() {
            return Err(refused(format!("{id} still runs; end it before it is forgotten")));
        }
        self.by_id.borrow_mut().remove(id);
        self.ended.borrow_mut().retain(|ended| ended != id);
        Ok(())
    }

    /// Sends a signal to every process and all they started.
    pub(super) fn signal_all(&self, signal: i32) -> io::Result<()> {
        for process in self.by_id.borrow().values() {
            tree::signal(process.root(), signal)?;
        }
        Ok(())
    }

    /// Collects every child that has ended, ours and orphans that were left to us.
    pub(super) fn reap(&self) -> io::Result<Children> {
        let left = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let process = self.by_pid.borrow_mut().remove(&pid.as_raw_nonzero().get());
                    if let Some(process) = process {
                        process.reaped(status);
                    }
                }
                Ok(None) => break Children::Some,
                Err(Errno::CHILD) => break Children::None,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.reaped.notify_waiters();
        Ok(left)
    }

    /// Notes that a process has ended, and makes room if there are too many of those.
    fn remember(&self, id: String) {
        self.running.set(self.running.get() - 1);
        let mut ended = self.ended.borrow_mut();
        ended.push_back(id);
        let mut by_id = self.by_id.borrow_mut();
        while ended.len() > MOST_ENDED {
            if let Some(oldest) = ended.pop_front() {
                by_id.remove(&oldest);
            }
        }
        for process in ended.iter().filter_map(|id| by_id.get(id)) {
            if self.held.get() <= CROWD {
                break;
            }
            process.ring.borrow_mut().clear();
        }
    }
}

fn check_id(id: &str) -> Result<(), Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(plain) {
        return Err(refused(format!(
            "{id:?} cannot be the id of a process: use up to {LONGEST_ID} letters, digits and -._:"
        )));
    }
    Ok(())
}
