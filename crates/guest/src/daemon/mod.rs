//! The inside: pid 1 of a sandbox. It starts processes, keeps their output, reaps every orphan, and reads and writes
//! files, all on one thread.
//!
//! It must start in well under a millisecond and weigh next to nothing, hence a current-thread runtime and hyper's
//! bare HTTP/1 server. Reads and writes of files happen inline: they are short, and a thread pool would cost more.

mod exec;
mod files;
mod follow;
mod mark;
mod pin;
mod process;
mod prompt;
mod pty;
mod reply;
mod ring;
mod routes;
mod signals;
mod spawn;
mod supervise;
mod table;
mod tree;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout_at};

use self::signals::{Signal, Signals};
use self::supervise::GRACE;
use self::table::{Children, Table};
use crate::wire::{Failure, FailureCode};

/// How much of a response hyper may hold for a peer that does not read; also the longest head of a request.
const CONNECTION_BUFFER: usize = 64 << 10;

/// What the launcher tells the guest.
#[derive(Debug)]
pub struct Config {
    /// Variables of every process.
    pub env: Vec<(String, String)>,
    /// Working directory when none is asked for.
    pub cwd: String,
}

/// Serves on the listening socket until the process is told to end. Never returns while there is work; runs as pid 1
/// of the sandbox, so it also reaps every orphan.
///
/// Run it in a process of its own: it takes over SIGCHLD, SIGTERM and SIGPIPE, and reaps every child there is.
pub fn run(listener: UnixListener, config: Config) -> io::Result<()> {
    let rank = take_office()?;
    let signals = signals::install()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, serve(listener, signals, config, rank))
}

/// What the daemon is among the processes around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Pid 1: every other process is in its care.
    Init,
    /// One of many, as in tests: only what it started is.
    Subreaper,
}

fn take_office() -> io::Result<Rank> {
    if std::process::id() == 1 {
        // Nothing in the sandbox may trace the daemon or look at its memory and descriptors through /proc.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
        return Ok(Rank::Init);
    }
    // SAFETY: this prctl takes integers only.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(Rank::Subreaper),
        _ => Err(io::Error::last_os_error()),
    }
}

async fn serve(listener: UnixListener, signals: OwnedFd, config: Config, rank: Rank) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let mut signals = Signals::new(signals)?;
    let table = Rc::new(Table::new(config)?);
    let accepting = spawn_local(accept(listener, table.clone()));
    // A child that ended before the handler was there left no signal.
    table.reap()?;
    while signals.next().await? != Signal::Terminate {
        table.reap()?;
    }
    accepting.abort();
    end_all(&table, &mut signals, rank).await
}

/// Asks everything to end, gives it some time, then kills what is left.
async fn end_all(table: &Table, signals: &mut Signals, rank: Rank) -> io::Result<()> {
    let send = |signal| match rank {
        Rank::Init => tree::send(-1, signal),
        Rank::Subreaper => table.signal_all(signal),
    };
    send(libc::SIGTERM)?;
    send(libc::SIGCONT)?;
    let deadline = Instant::now() + GRACE;
    while table.reap()? == Children::Some {
        match timeout_at(deadline, signals.next()).await {
            Ok(signal) => {
                signal?;
            }
            Err(_elapsed) => break,
        }
    }
    send(libc::SIGKILL)
}

async fn accept(listener: tokio::net::UnixListener, table: Rc<Table>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others have to end before this can go on.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let table = table.clone();
        spawn_local(async move {
            let service = service_fn(move |request| routes::handle(table.clone(), request));
            let connection = http1::Builder::new()
                .max_buf_size(CONNECTION_BUFFER)
                .auto_date_header(false)
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), service);
            // A peer that hangs up is not an error: processes do not depend on who listens.
            drop(connection.await);
        });
    }
}

fn refused(message: impl Into<String>) -> Failure {
    Failure { code: FailureCode::Refused, message: message.into() }
}

fn not_found(message: impl Into<String>) -> Failure {
    Failure { code: FailureCode::NotFound, message: message.into() }
}
