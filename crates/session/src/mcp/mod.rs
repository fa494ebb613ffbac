//! MCP servers of sessions: those of the configuration, which all sessions share and which hold secrets of this machine, and
//! programs in a session's sandbox, which have nothing that the sandbox does not have.

mod inside;
mod vault;

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp::{Connection, Error, Place, Server};
use protocol::{Code, McpProgram, McpUse, Problem};
use tokio::sync::Mutex;

pub(crate) use inside::Inside;
pub use vault::Sealed;

/// The servers of the configuration, with the connections to those on this machine and behind addresses.
#[derive(Debug)]
pub(crate) struct McpServers {
    servers: BTreeMap<String, Hosted>,
    vault: Arc<dyn mcp::Vault>,
}

/// One of them. Whoever connects holds the lock, so that it is started once.
#[derive(Debug)]
struct Hosted {
    server: Server,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl McpServers {
    /// These servers, with secrets of this vault.
    pub(crate) fn new(servers: &[Server], vault: Arc<dyn mcp::Vault>) -> Self {
        let hosted = |server: &Server| {
            (server.name.clone(), Hosted { server: server.clone(), connection: Mutex::default() })
        };
        Self { servers: servers.iter().map(hosted).collect(), vault }
    }

    /// The server of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Server> {
        self.servers.get(name).map(|hosted| &hosted.server)
    }

    /// The connection to a server that is not in a sandbox: the one that there is, or a new one where it ended.
    pub(crate) async fn connect(&self, name: &str) -> Result<Arc<Connection>, Error> {
        let hosted =
            self.servers.get(name).ok_or_else(|| Error::Unreachable("it is not configured".to_owned()))?;
        let mut connection = hosted.connection.lock().await;
        if let Some(open) = connection.as_ref()
            && open.is_usable().await
        {
            return Ok(Arc::clone(open));
        }
        *connection = None;
        let Server { name, place, timeout, .. } = &hosted.server;
        let opened = match place {
            Place::Host(program) => Connection::host(program, &*self.vault, *timeout).await?,
            Place::Http(http) => Connection::http(name, http, Arc::clone(&self.vault), *timeout).await?,
            Place::Sandbox(_) => return Err(Error::Unreachable("it runs in sandboxes only".to_owned())),
        };
        Ok(Arc::clone(connection.insert(Arc::new(opened))))
    }

    /// Ends all connections, and the programs behind them.
    pub(crate) async fn close(&self) {
        for hosted in self.servers.values() {
            let open = hosted.connection.lock().await.take();
            // One that is still used ends with its last use.
            if let Some(connection) = open.and_then(Arc::into_inner) {
                connection.close().await;
            }
        }
    }
}

/// What a program in the sandbox is as a server.
pub(crate) fn inside(program: &McpProgram) -> Server {
    let text = |(name, value): (&String, &String)| (name.clone(), mcp::Value::Text(value.clone()));
    Server {
        name: program.name.clone(),
        place: Place::Sandbox(mcp::Program {
            command: program.command.clone(),
            env: program.env.iter().map(text).collect(),
        }),
        filter: mcp::Filter { only: program.tools.clone(), without: program.without.clone() },
        timeout: program.timeout_s.map_or(mcp::TIMEOUT, std::time::Duration::from_secs),
    }
}

/// The servers of an environment as they must be, whoever names them.
pub(crate) fn check(servers: &[Server], uses: &[McpUse]) -> Result<(), Problem> {
    let refuse = |title: String, hint: String| Err(Problem::new(Code::BadRequest, title).hint(hint));
    for (place, one) in uses.iter().enumerate() {
        if uses[..place].iter().any(|before| before.name() == one.name()) {
            return refuse(
                format!("two MCP servers have the name \"{}\"", one.name().escape_debug()),
                "give each a name of its own".to_owned(),
            );
        }
        match one {
            McpUse::Named(name) if !servers.iter().any(|server| server.name == *name) => {
                let known = servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ");
                let hint = if known.is_empty() {
                    format!("describe it in slipway.toml: [mcp.{name}]")
                } else {
                    format!("the servers of slipway.toml are: {known}")
                };
                return refuse(format!("there is no MCP server \"{}\"", name.escape_debug()), hint);
            }
            McpUse::Named(_) => {}
            McpUse::Program(program) => check_program(program)?,
        }
    }
    Ok(())
}

/// A program in the sandbox as it must be.
pub(crate) fn check_program(program: &McpProgram) -> Result<(), Problem> {
    let refuse = |title: String, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    if let Err(why) = mcp::check_name(&program.name) {
        return refuse(why, "its tools begin with the name");
    }
    if program.command.first().is_none_or(|name| name.trim().is_empty()) {
        return refuse(
            format!("the MCP server \"{}\" has no command", program.name),
            "give it one: command = [\"program\", \"argument\"]",
        );
    }
    if program.timeout_s == Some(0) {
        return refuse(
            format!("the MCP server \"{}\" has no time to answer", program.name),
            "timeout_s is 1 or more seconds",
        );
    }
    Ok(())
}
