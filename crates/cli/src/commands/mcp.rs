//! `slipway mcp`: sessions as tools of an editor or another agent, over MCP. The arguments are here, the server and its
//! tools below.

mod answer;
mod call;
mod door;
mod progress;
mod schema;
mod scope;
mod serve;
mod told;
mod tools;

use super::Context;
use super::mcp_servers::McpServers;
use crate::exit::Exit;
use scope::Scope;

/// Offer sessions as tools to an editor or another agent, over MCP on standard input and output; with a subcommand, look after
/// the MCP servers whose tools agents have.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Mcp {
    /// Offer no tool that changes anything
    #[arg(long)]
    read_only: bool,
    /// Offer only sessions of this environment; give it again for more of them. No others can be seen or used
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    #[command(subcommand)]
    servers: Option<McpServers>,
}

impl Mcp {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        if let Some(servers) = self.servers {
            return servers.run(context).await;
        }
        let mode = if self.read_only { scope::Mode::Look } else { scope::Mode::Change };
        serve::run(context, Scope::new(mode, self.env)).await
    }
}
