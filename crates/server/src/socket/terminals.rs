//! The terminals of one WebSocket, by the numbers that the client gave them. Each has a task for what it prints, which
//! waits while the client does not take it, and one for what is typed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::ws::Message;
use bytes::{BufMut, Bytes, BytesMut};
use protocol::{Code, Problem, ServerBody, ServerMessage, SessionId};
use session::{Terminal, TerminalInput, TerminalOutput};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::outbox::Outbox;
use crate::problem::bad_request;

/// Most terminals of one WebSocket.
const MOST: usize = 16;
/// What a terminal printed and the client has not taken, in pieces.
const PRINTED: usize = 8;
/// What was typed and the terminal has not taken.
const TYPED_BYTES: usize = 1024 * 1024;
/// The same, in pieces.
const TYPED: usize = 256;

/// Something of a terminal.
pub(super) struct Printed {
    terminal: u32,
    generation: u64,
    output: Result<TerminalOutput, Problem>,
}

enum Typed {
    Data(Bytes),
    Size(u16, u16),
    Close,
}

struct Open {
    session: SessionId,
    generation: u64,
    /// None before it is there.
    shell: Option<Shell>,
}

struct Shell {
    typed: mpsc::Sender<Typed>,
    waiting: Arc<AtomicUsize>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// The terminals of one WebSocket.
pub(super) struct Terminals {
    open: HashMap<u32, Open>,
    sender: mpsc::Sender<Printed>,
    printed: mpsc::Receiver<Printed>,
    last: u64,
}

impl Terminals {
    pub(super) fn new() -> Self {
        let (sender, printed) = mpsc::channel(PRINTED);
        Self { open: HashMap::new(), sender, printed, last: 0 }
    }

    /// What is printed next. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Printed> {
        self.printed.recv().await
    }

    /// A place for a terminal that is yet to come.
    pub(super) fn reserve(&mut self, terminal: u32, session: SessionId) -> Result<u64, Problem> {
        if self.open.contains_key(&terminal) {
            let title = format!("there is a terminal {terminal} on this connection");
            return Err(Problem::new(Code::Conflict, title).hint("give the new one another number"));
        }
        if self.open.len() >= MOST {
            let title = format!("this connection has {MOST} terminals, and that is all it may have");
            return Err(Problem::new(Code::RateLimited, title).hint("close one of them"));
        }
        self.last += 1;
        self.open.insert(terminal, Open { session, generation: self.last, shell: None });
        Ok(self.last)
    }

    /// The terminal is there, or is not.
    pub(super) fn begin(
        &mut self,
        terminal: u32,
        generation: u64,
        opened: Result<Terminal, Problem>,
        outbox: &mut Outbox,
    ) {
        // One that was closed meanwhile ends by being dropped.
        let Some(open) = self.open.get_mut(&terminal).filter(|open| open.generation == generation) else {
            return;
        };
        let session = open.session;
        let body = match opened {
            Ok(mut shell) => {
                let notices = shell.notices().to_vec();
                let (typed, typing) = mpsc::channel(TYPED);
                let waiting = Arc::new(AtomicUsize::new(0));
                let input = write(shell.input(), typing, Arc::clone(&waiting));
                let sender = self.sender.clone();
                let output = async move {
                    loop {
                        let output = shell.next().await;
                        let last = !matches!(output, Ok(TerminalOutput::Data(_)));
                        let sent = sender.send(Printed { terminal, generation, output }).await;
                        if last || sent.is_err() {
                            return;
                        }
                    }
                };
                let tasks = [tokio::spawn(input), tokio::spawn(output)].map(AbortOnDropHandle::new);
                open.shell = Some(Shell { typed, waiting, _tasks: tasks });
                ServerBody::TerminalOpened { terminal, notices }
            }
            Err(problem) => {
                self.open.remove(&terminal);
                ServerBody::TerminalClosed { terminal, exit_code: None, problem: Some(problem) }
            }
        };
        outbox.push_json(&ServerMessage::new(Some(session), body));
    }

    /// Passes on what was printed.
    pub(super) fn show(&mut self, printed: Printed, outbox: &mut Outbox) {
        let Printed { terminal, generation, output } = printed;
        let Some(open) = self.open.get(&terminal).filter(|open| open.generation == generation) else {
            return;
        };
        let session = open.session;
        let (exit_code, problem) = match output {
            Ok(TerminalOutput::Data(data)) => {
                let mut message = BytesMut::with_capacity(4 + data.len());
                message.put_u32(terminal);
                message.put(data);
                return outbox.push(Message::Binary(message.freeze()));
            }
            Ok(TerminalOutput::Exit(code)) => (Some(code), None),
            Err(problem) => (None, Some(problem)),
        };
        self.open.remove(&terminal);
        let closed = ServerBody::TerminalClosed { terminal, exit_code, problem };
        outbox.push_json(&ServerMessage::new(Some(session), closed));
    }

    /// Passes on what was typed: the terminal's number and the bytes.
    pub(super) fn type_in(&mut self, mut message: Bytes) -> Result<(), Problem> {
        let Some((number, _)) = message.split_first_chunk::<4>() else {
            return Err(bad_request("a binary message begins with the number of a terminal in four bytes"));
        };
        let terminal = u32::from_be_bytes(*number);
        let data = message.split_off(4);
        let size = data.len();
        let shell = self.shell(terminal)?;
        if shell.waiting.fetch_add(size, Ordering::Relaxed) + size > TYPED_BYTES {
            shell.waiting.fetch_sub(size, Ordering::Relaxed);
            return Err(deaf(terminal));
        }
        shell.typed.try_send(Typed::Data(data)).map_err(|_| {
            shell.waiting.fetch_sub(size, Ordering::Relaxed);
            deaf(terminal)
        })
    }

    pub(super) fn resize(&mut self, terminal: u32, columns: u16, rows: u16) -> Result<(), Problem> {
        let sent = self.shell(terminal)?.typed.try_send(Typed::Size(columns, rows));
        sent.map_err(|_| deaf(terminal))
    }

    /// Ends a terminal; one that is not there yet is gone at once.
    pub(super) fn close(&mut self, terminal: u32, outbox: &mut Outbox) -> Result<(), Problem> {
        let Some(open) = self.open.get(&terminal) else { return Err(unknown(terminal)) };
        match &open.shell {
            Some(shell) => shell.typed.try_send(Typed::Close).map_err(|_| deaf(terminal)),
            None => {
                let session = open.session;
                self.open.remove(&terminal);
                let closed = ServerBody::TerminalClosed { terminal, exit_code: None, problem: None };
                outbox.push_json(&ServerMessage::new(Some(session), closed));
                Ok(())
            }
        }
    }

    fn shell(&self, terminal: u32) -> Result<&Shell, Problem> {
        let open = self.open.get(&terminal).ok_or_else(|| unknown(terminal))?;
        open.shell.as_ref().ok_or_else(|| {
            Problem::new(Code::Conflict, format!("terminal {terminal} is not open yet"))
                .hint("wait for terminal.opened")
        })
    }
}

async fn write(input: TerminalInput, mut typing: mpsc::Receiver<Typed>, waiting: Arc<AtomicUsize>) {
    while let Some(typed) = typing.recv().await {
        let done = match typed {
            Typed::Data(data) => {
                let size = data.len();
                let done = input.write(data).await;
                waiting.fetch_sub(size, Ordering::Relaxed);
                done
            }
            Typed::Size(columns, rows) => input.resize(columns, rows).await,
            Typed::Close => {
                input.close().await;
                Ok(())
            }
        };
        if let Err(error) = done {
            // What was printed last tells the client how it ended.
            tracing::debug!(%error, "a terminal did not take what was typed");
        }
    }
}

fn unknown(terminal: u32) -> Problem {
    Problem::new(Code::NotFound, format!("there is no terminal {terminal} on this connection"))
        .hint("open it with terminal.open")
}

fn deaf(terminal: u32) -> Problem {
    Problem::new(Code::RateLimited, format!("terminal {terminal} does not take what is typed; some was lost"))
        .hint("wait until what runs in it reads on, or close it")
}
