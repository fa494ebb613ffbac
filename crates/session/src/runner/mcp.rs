//! Which tools of MCP servers a turn offers. The servers are asked when the turn begins, and what they offer then is in the
//! log before the model is asked, so that a server that comes later makes the same requests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcp::{Connection, Error, Place, Server};
use protocol::{
    Actor, Code, EventBody, Item, ItemId, ItemKind, ItemStatus, McpMissing, McpProgram, McpTool, McpUse,
    ToolMode,
};

use super::Runner;
use crate::failure::Failure;

/// How long a turn waits for a server that is to say what it offers.
const LISTING: Duration = Duration::from_secs(30);

/// What a turn knows of MCP servers.
#[derive(Default)]
pub(super) struct Offer {
    servers: Vec<Server>,
    /// Names of servers that are not configured any more.
    unknown: Vec<String>,
    tools: Arc<Vec<McpTool>>,
    /// Connections that may say that they offer something else.
    open: Vec<(String, Arc<Connection>)>,
}

impl Offer {
    /// The tools, in the order in which the model has them.
    pub(super) fn tools(&self) -> Vec<McpTool> {
        self.tools.to_vec()
    }

    /// The server of this name.
    pub(super) fn server(&self, name: &str) -> Option<Server> {
        self.servers.iter().find(|server| server.name == name).cloned()
    }
}

impl Runner {
    /// Learns which servers there are, and what the turn offers already if another server has asked them.
    pub(super) fn know_servers(&mut self, programs: &[McpProgram]) {
        let mut offer = Offer::default();
        let named = self.context.workspace.mcp().iter().cloned();
        for one in named.chain(programs.iter().cloned().map(McpUse::Program)) {
            match one {
                McpUse::Named(name) => match self.context.servers.find(&name) {
                    Some(server) => offer.servers.push(server.clone()),
                    None => offer.unknown.push(name),
                },
                McpUse::Program(program) => offer.servers.push(crate::mcp::inside(&program)),
            }
        }
        offer.tools = self.context.recorder.stream().with_state(|state| state.offered()).unwrap_or_default();
        self.mcp = offer;
    }

    /// Asks the servers what they offer, unless the log has it, and records it.
    pub(super) async fn offer_tools(&mut self, model: &llm::Model) -> Result<(), Failure> {
        let stream = self.context.recorder.stream();
        let (asked, before) = stream.with_state(|state| (state.offered().is_some(), state.offered_last()));
        let none = self.mcp.servers.is_empty() && self.mcp.unknown.is_empty();
        // Only models that call in the provider's own way are offered them.
        if asked || none || model.profile().tool_mode != ToolMode::Native {
            return Ok(());
        }
        if self.mcp.servers.iter().any(|server| matches!(server.place, Place::Sandbox(_))) {
            Box::pin(self.arrive()).await?;
            // A program may be one that the set-up installs.
            if let Some(note) = Box::pin(self.settled()).await? {
                self.notice(note).await?;
            }
        }
        let listed = {
            let servers = self.mcp.servers.clone();
            let this: &Self = self;
            let listing = join_all(servers.into_iter().map(|server| async move {
                let tools = this.list(&server).await;
                (server, tools)
            }));
            tokio::select! {
                biased;
                () = this.stop.given() => return Err(Failure::Stopped),
                listed = listing => listed,
            }
        };
        let (mut tools, mut missing) = (Vec::new(), Vec::new());
        for name in &self.mcp.unknown {
            let reason = "it is not in slipway.toml any more".to_owned();
            missing.push((
                McpMissing { server: name.clone(), reason },
                format!("describe it there: [mcp.{name}]"),
            ));
        }
        for (server, offered) in listed {
            match offered {
                Ok((connection, offered)) => {
                    tools.extend(offered);
                    self.mcp.open.push((server.name, connection));
                }
                Err(error) => {
                    let hint = error.hint(&server.name);
                    missing.push((McpMissing { server: server.name, reason: error.to_string() }, hint));
                }
            }
        }
        self.record_offer(tools, missing, &before).await
    }

    /// Records what is offered from here on, and what is not.
    async fn record_offer(
        &mut self,
        tools: Vec<McpTool>,
        missing: Vec<(McpMissing, String)>,
        before: &[McpTool],
    ) -> Result<(), Failure> {
        let as_before = tools == *before;
        let mut bodies = vec![EventBody::ToolsListed {
            turn: self.turn,
            tools: if as_before { Vec::new() } else { tools.clone() },
            missing: missing.iter().map(|(missing, _)| missing.clone()).collect(),
            as_before,
        }];
        for (McpMissing { server, reason }, hint) in &missing {
            bodies.push(EventBody::ErrorRaised {
                code: Code::McpUnavailable,
                message: format!("the MCP server {server} cannot be used in this turn: {reason}"),
                hint: Some(hint.clone()),
            });
        }
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|(missing, _)| missing.server.as_str()).collect();
            let text = format!(
                "These MCP servers cannot be used in this turn, and their tools are missing: {}. Go on without them; say so in \
                 your summary if the task needed them.",
                names.join(", ")
            );
            let kind = ItemKind::notice(text);
            let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
            bodies.push(EventBody::ItemCompleted { turn: self.turn, item });
        }
        self.append(&Actor::system(), bodies).await?;
        self.mcp.tools = Arc::new(tools);
        Ok(())
    }

    /// Asks servers again that said that they offer something else. Gives all tools where they are others now.
    pub(super) async fn offer_anew(&mut self) -> Result<Option<Vec<McpTool>>, Failure> {
        let changed: Vec<String> = self
            .mcp
            .open
            .iter()
            .filter(|(_, open)| open.has_changed())
            .map(|(name, _)| name.clone())
            .collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let mut tools = Vec::new();
        for server in self.mcp.servers.clone() {
            let known = || self.mcp.tools.iter().filter(|tool| tool.server == server.name).cloned().collect();
            let listed = if changed.contains(&server.name) { Some(self.list(&server).await) } else { None };
            match listed {
                Some(Ok((_, offered))) => tools.extend(offered),
                // What it offered before can still be called, if only to be told that it cannot.
                Some(Err(_)) | None => tools.extend::<Vec<McpTool>>(known()),
            }
        }
        if tools == *self.mcp.tools {
            return Ok(None);
        }
        let before = Arc::clone(&self.mcp.tools);
        self.record_offer(tools.clone(), Vec::new(), &before).await?;
        Ok(Some(tools))
    }

    /// A server's tools, in a fixed order.
    async fn list(&self, server: &Server) -> Result<(Arc<Connection>, Vec<McpTool>), Error> {
        let listing = async {
            // That the sandbox is gone is found out, and told, by whatever needs it next.
            let gone = |_| Error::Unreachable("the sandbox does not answer".to_owned());
            let connection = self.connect(server).await.map_err(gone)??;
            let listed = connection.tools().await?;
            Ok((connection, offered(server, listed)))
        };
        let limit = server.timeout.min(LISTING);
        let slow = |_| Error::Slow { limit, said: String::new() };
        tokio::time::timeout(limit, listing).await.map_err(slow)?
    }

    /// The connection to a server. The outer error is a sandbox that is gone.
    pub(super) async fn connect(&self, server: &Server) -> Result<Result<Arc<Connection>, Error>, Failure> {
        match &server.place {
            Place::Sandbox(program) => self.context.inside.connect(&self.sandbox()?, server, program).await,
            Place::Host(_) | Place::Http(_) => Ok(self.context.servers.connect(&server.name).await),
        }
    }
}

/// A server's tools under the names that models call them by.
fn offered(server: &Server, listed: Vec<mcp::Tool>) -> Vec<McpTool> {
    let taken = listed.into_iter().filter(|tool| server.filter.takes(&tool.name));
    let mut tools: Vec<McpTool> = taken
        .map(|tool| McpTool {
            name: mcp::namespaced(&server.name, &tool.name),
            server: server.name.clone(),
            tool: tool.name,
            description: tool.description,
            schema: tool.schema,
        })
        .collect();
    // Some servers list in another order each time, and each order costs a provider's cache.
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}
