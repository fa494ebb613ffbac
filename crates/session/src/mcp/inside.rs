//! Programs in a session's sandbox that speak MCP. Their input and output go through the guest, as those of any command do;
//! the connection is this process's, so it ends with it, and the next server starts the program anew.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use guest::{Output, ProcessSpec};
use mcp::{Connection, Error, Program, Server, Tail, Value};
use protocol::SandboxId;
use sandbox::{Sandbox, WORKSPACE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Mutex;

use crate::failure::Failure;
use crate::process;

/// Bytes on their way in one direction.
const BUFFER: usize = 256 * 1024;
/// How long a program whose input was closed may take to end.
const GOODBYE: Duration = Duration::from_secs(2);

/// The connections of one session, by the server's name.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    open: std::sync::Mutex<BTreeMap<String, Arc<Place>>>,
}

/// The connection to one server, with the sandbox that it leads into. Whoever connects holds the lock, so that it is started
/// once, and no server waits for another.
type Place = Mutex<Option<(SandboxId, Arc<Connection>)>>;

impl Inside {
    /// The connection to a program: the one that there is, or a new one where it ended or the sandbox is another. The outer
    /// error is a sandbox that is gone.
    pub(crate) async fn connect(
        &self,
        sandbox: &Arc<dyn Sandbox>,
        server: &Server,
        program: &Program,
    ) -> Result<Result<Arc<Connection>, Error>, Failure> {
        let place = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(open.entry(server.name.clone()).or_default())
        };
        let mut place = place.lock().await;
        let here = |(id, open): &&(SandboxId, Arc<Connection>)| *id == sandbox.id() && !open.is_closed();
        if let Some((_, connection)) = place.as_ref().filter(here) {
            return Ok(Ok(Arc::clone(connection)));
        }
        *place = None;
        Ok(match start(sandbox, server, program).await? {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *place = Some((sandbox.id(), Arc::clone(&connection)));
                Ok(connection)
            }
            Err(error) => Err(error),
        })
    }
}

async fn start(
    sandbox: &Arc<dyn Sandbox>,
    server: &Server,
    program: &Program,
) -> Result<Result<Connection, Error>, Failure> {
    let id = format!("mcp-{}", server.name);
    // One that a server before this one left, or that does not answer any more.
    process::kill(&**sandbox, &id).await;
    process::forget(&**sandbox, &id).await;
    let mut env = BTreeMap::new();
    for (name, value) in &program.env {
        // What is in a sandbox is no secret any more, so none goes there.
        let Value::Text(text) = value else {
            return Ok(Err(Error::Key(format!("{name} cannot be a secret: the server runs in the sandbox"))));
        };
        env.insert(name.clone(), text.clone());
    }
    let spec = ProcessSpec {
        argv: program.command.clone(),
        env,
        cwd: Some(WORKSPACE.to_owned()),
        timeout_ms: None,
        pty: None,
        stdin: true,
    };
    let guest = sandbox.guest().clone();
    let started = match guest.start(&id, &spec).await {
        Ok(started) => started,
        Err(guest::Error::NotFound(detail) | guest::Error::Refused(detail)) => {
            return Ok(Err(Error::Unreachable(format!("it cannot be started: {detail}"))));
        }
        Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
    };
    let (output, to_us) = tokio::io::duplex(BUFFER);
    let (input, from_us) = tokio::io::duplex(BUFFER);
    let tail = Tail::default();
    tokio::spawn(bring_out(guest.clone(), id.clone(), started, to_us, tail.clone()));
    tokio::spawn(bring_in(Arc::clone(sandbox), id, from_us));
    Ok(Connection::over(output, input, tail, server.timeout).await)
}

/// What the program writes comes out. It ends with the program, with the sandbox, or when nobody reads it.
async fn bring_out(
    guest: guest::Client,
    id: String,
    started: guest::Process,
    mut to: DuplexStream,
    tail: Tail,
) {
    let (mut pieces, _pump) = process::pump(guest, id, started);
    let mut expected = 0;
    while let Some(Ok(piece)) = pieces.recv().await {
        match piece {
            Output::Stdout { offset, data } => {
                // Bytes are missing in the middle of a message: what follows means nothing.
                if offset > expected || to.write_all(&data).await.is_err() {
                    return;
                }
                expected = offset + data.len() as u64;
            }
            Output::Stderr { offset, data } => {
                if offset > expected {
                    return;
                }
                expected = offset + data.len() as u64;
                tail.push(&data);
            }
            Output::Exit(_) => return,
        }
    }
}

/// What we write goes in. When the connection ends, the program is let to end, and ended.
async fn bring_in(sandbox: Arc<dyn Sandbox>, id: String, mut from: DuplexStream) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let piece = Bytes::copy_from_slice(&buffer[..read]);
        if let Err(error) = sandbox.guest().write_stdin(&id, piece).await {
            tracing::debug!(%id, %error, "an MCP server in a sandbox takes no more input");
            return;
        }
    }
    if sandbox.guest().close_stdin(&id).await.is_ok() {
        tokio::time::sleep(GOODBYE).await;
        process::kill(&*sandbox, &id).await;
        process::forget(&*sandbox, &id).await;
    }
}
