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
use tokio::task::JoinHandle;

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

/// The connection to one server. Whoever connects holds the lock, so that it is started once, and no server waits for another.
type Place = Mutex<Held>;

/// A connection with the sandbox that it leads into.
#[derive(Debug, Default)]
struct Held {
    open: Option<(SandboxId, Arc<Connection>)>,
    /// What brings input to the program that was started last, and ends it when the connection is gone.
    goodbye: Option<JoinHandle<()>>,
}

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
        if let Some((_, connection)) = place.open.as_ref().filter(here)
            && connection.is_usable().await
        {
            return Ok(Ok(Arc::clone(connection)));
        }
        place.open = None;
        // The one before it ends now, and not beside the one that comes.
        if let Some(goodbye) = place.goodbye.take() {
            goodbye.abort();
            if let Err(error) = goodbye.await {
                tracing::trace!(%error, "an MCP server in a sandbox is not waited for");
            }
        }
        Ok(match start(sandbox, server, program, &mut place.goodbye).await? {
            Ok(connection) => {
                let connection = Arc::new(connection);
                place.open = Some((sandbox.id(), Arc::clone(&connection)));
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
    goodbye: &mut Option<JoinHandle<()>>,
) -> Result<Result<Connection, Error>, Failure> {
    end_others(&**sandbox, &server.name).await?;
    let id = format!("{}{}", prefix(&server.name), protocol::ItemId::new());
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
    *goodbye = Some(tokio::spawn(bring_in(Arc::clone(sandbox), id, from_us)));
    Ok(Connection::over(output, input, tail, server.timeout).await)
}

/// What the ids of the programs of a server begin with. Each has an id of its own: one that was killed is known to the guest
/// until the last of its output was read, and whoever starts another with its id is given the end of that one.
fn prefix(server: &str) -> String {
    format!("mcp:{server}:")
}

/// Ends what there is of this server: one that a server before this one left, or that does not answer any more.
async fn end_others(sandbox: &dyn Sandbox, server: &str) -> Result<(), Failure> {
    let known = sandbox.guest().processes().await?;
    for other in known.iter().filter(|known| known.id.starts_with(&prefix(server))) {
        process::kill(sandbox, &other.id).await;
        process::forget(sandbox, &other.id).await;
    }
    Ok(())
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
