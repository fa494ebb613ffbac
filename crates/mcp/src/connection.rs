//! One connection to a server: what it offers, calls of its tools, and its end. Whatever the server does, each of these
//! comes to an end within the server's time.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams,
};
use rmcp::service::{ClientInitializeError, NotificationContext, Peer, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::called::Called;
use crate::error::{Error, quoted};
use crate::host::Process;
use crate::key::Vault;
use crate::server::{Http, Program};
use crate::tail::Tail;
use crate::tool::Tool;
use crate::{host, http};

/// Most tools of one server, and most pages that it may list them in.
const TOOLS: usize = 500;
const PAGES: usize = 50;
/// Longest name of a tool, in bytes.
const NAME: usize = 256;
/// Longest message of a program.
const MESSAGE: usize = 16 * 1024 * 1024;
/// How long one that let somebody wait in vain may take to show that it is not stuck.
const PROBE: Duration = Duration::from_secs(5);
/// How long a server may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(3);

/// A connection. Dropping it ends the program behind it, if it is one.
#[derive(Debug)]
pub struct Connection {
    service: RunningService<RoleClient, Listener>,
    peer: Peer<RoleClient>,
    changed: Arc<AtomicBool>,
    /// Whether something could not be sent: the server may have forgotten who speaks, or whoever signed in did so again.
    worn: AtomicBool,
    /// Whether an answer did not come in time: the server may be stuck.
    doubtful: AtomicBool,
    limit: Duration,
    tail: Tail,
    process: Option<Process>,
    /// What it means that it does not let us in, where nobody signs in to it.
    denied: Option<String>,
}

/// Hears what a server says by itself. It is offered nothing: no model, no person, no files.
#[derive(Debug, Clone)]
struct Listener {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let slipway = Implementation::new("slipway", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), slipway)
    }

    fn on_tool_list_changed(
        &self,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.changed.store(true, Ordering::Release);
        std::future::ready(())
    }
}

impl Connection {
    /// Speaks with a server over its output and input, wherever it runs. What it writes to its standard error goes to the
    /// tail, which is quoted when it fails.
    pub async fn over<R, W>(output: R, input: W, tail: Tail, limit: Duration) -> Result<Self, Error>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(MESSAGE);
        Self::begin(transport, tail, limit, None, None).await
    }

    /// Starts a program on this machine and speaks with it. It ends with the connection, and with this process.
    pub async fn host(program: &Program, vault: &dyn Vault, limit: Duration) -> Result<Self, Error> {
        let tail = Tail::default();
        let started = host::start(program, vault, &tail).await?;
        let transport =
            AsyncRwTransport::new_client(started.output, started.input).with_max_line_length(MESSAGE);
        Self::begin(transport, tail, limit, Some(started.process), None).await
    }

    /// Speaks with the server at an address. What it stores under the server's name are the credentials of whoever signed in.
    pub async fn http(
        name: &str,
        server: &Http,
        vault: Arc<dyn Vault>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let connecting = http::connect(name, server, vault);
        let ready = tokio::time::timeout(limit, connecting).await;
        match ready.map_err(|_| Error::slow(limit, &Tail::default()))?? {
            http::Ready::Plain(transport) => {
                Self::begin(transport, Tail::default(), limit, None, http::denied(server)).await
            }
            http::Ready::SignedIn(transport) => {
                Self::begin(transport, Tail::default(), limit, None, None).await
            }
        }
    }

    async fn begin<T, E, A>(
        transport: T,
        tail: Tail,
        limit: Duration,
        process: Option<Process>,
        denied: Option<String>,
    ) -> Result<Self, Error>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let changed = Arc::new(AtomicBool::new(false));
        let listener = Listener { changed: Arc::clone(&changed) };
        let greeting = Box::pin(rmcp::serve_client(listener, transport));
        let service = match tokio::time::timeout(limit, greeting).await {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                let error = match process {
                    Some(process) => told(process, &error, &tail).await,
                    None => Error::connecting(&error, &tail),
                };
                return Err(error.with_reason(denied.as_deref()));
            }
            Err(_) => return Err(Error::slow(limit, &tail)),
        };
        let peer = service.peer().clone();
        Ok(Self {
            service,
            peer,
            changed,
            worn: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            limit,
            tail,
            process,
            denied,
        })
    }

    /// The server's tools, in its own order.
    pub async fn tools(&self) -> Result<Vec<Tool>, Error> {
        // What changes from here on is not in the list.
        self.changed.store(false, Ordering::Release);
        let listed = async {
            let mut tools: Vec<Tool> = Vec::new();
            let mut cursor = None;
            for _ in 0..PAGES {
                let page = PaginatedRequestParams::default().with_cursor(cursor);
                let page = self.peer.list_tools(Some(page)).await?;
                for tool in page.tools.iter().map(Tool::new) {
                    let known = tools.iter().any(|known| known.name == tool.name);
                    if tools.len() < TOOLS && is_name(&tool.name) && !known {
                        tools.push(tool);
                    }
                }
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            Ok(tools)
        };
        self.within(listed).await
    }

    /// Whether the server said that its tools are others now, since they were listed.
    pub fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Calls a tool. Dropping the future tells the server that nobody waits for the answer any more.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Called, Error> {
        let wanted = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.within(self.peer.call_tool_once(wanted)).await? {
            CallToolResponse::Complete(result) => Ok(Called::new(result)),
            CallToolResponse::InputRequired(_) => {
                Err(Error::Refused("it asks for a person's input, which is not given here".to_owned()))
            }
            _ => Err(Error::Rubbish("its answer is of a kind that was not asked for".to_owned())),
        }
    }

    /// Whether it can be used no more; a new one may.
    pub fn is_closed(&self) -> bool {
        self.worn.load(Ordering::Acquire) || self.peer.is_transport_closed() || self.service.is_closed()
    }

    /// Whether a call has a chance: a server that let somebody wait in vain must answer something easy first.
    pub async fn is_usable(&self) -> bool {
        if self.is_closed() || !self.doubtful.load(Ordering::Acquire) {
            return !self.is_closed();
        }
        let answers = tokio::time::timeout(self.limit.min(PROBE), self.peer.list_tools(None)).await;
        let answers = answers.is_ok_and(|answer| answer.is_ok());
        self.doubtful.store(!answers, Ordering::Release);
        answers
    }

    /// What the server says of itself.
    pub fn about(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let server = info.server_info.as_ref()?;
        Some(quoted(&format!("{} {}", server.name, server.version)))
    }

    /// Says goodbye, and ends the program.
    pub async fn close(mut self) {
        if let Err(error) = self.service.close_with_timeout(GOODBYE).await {
            tracing::debug!(%error, "a connection to an MCP server did not end as it should");
        }
        if let Some(process) = self.process.take() {
            process.end(GOODBYE).await;
        }
    }

    async fn within<T>(
        &self,
        asked: impl Future<Output = Result<T, rmcp::ServiceError>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(self.limit, asked).await {
            Ok(answer) => answer.map_err(|error| {
                // Nothing tells a session that the server forgot from one that only this request was refused for; a new one
                // costs little.
                if matches!(error, rmcp::ServiceError::TransportSend(_)) {
                    self.worn.store(true, Ordering::Release);
                }
                Error::asking(&error, &self.tail).with_reason(self.denied.as_deref())
            }),
            Err(_) => {
                self.doubtful.store(true, Ordering::Release);
                Err(Error::slow(self.limit, &self.tail))
            }
        }
    }
}

/// Whether a tool can be called so: by what people can read in one line.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME && !name.chars().any(char::is_control)
}

/// Why a program could not be spoken with. One that ended has said why by then, if it says anything.
async fn told(mut process: Process, error: &ClientInitializeError, tail: &Tail) -> Error {
    let how = process.ended(Duration::from_secs(1)).await;
    match (Error::connecting(error, tail), how) {
        (Error::Gone(_) | Error::Unreachable(_), Some(how)) => {
            Error::Gone(format!(" ({how}){}", tail.said()))
        }
        (error, _) => error,
    }
}
