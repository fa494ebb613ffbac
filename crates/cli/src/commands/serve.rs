//! `slipway serve`: the server, until it is told to end.

use std::net::SocketAddr;

use session::{Duty, ShutDown};

use super::Context;
use crate::exit::Exit;
use crate::node::{Node, Role};
use crate::render::{print, style};

/// Run the server until it is interrupted. Sandboxes and unfinished turns live on and are taken up by the next one.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Address to listen on [default: 127.0.0.1:7717]; anything but loopback demands a token
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// End when nothing has been worked on for this many seconds
    #[arg(long, value_name = "S", hide = true)]
    exit_when_idle: Option<u64>,
}

impl Serve {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let listen = self.listen.unwrap_or(context.config.server.listen);
        let role = if self.exit_when_idle.is_some() { Role::Command } else { Role::Server };
        let node = Node::start(&context.config, listen, Duty::Work, role).await?;
        if context.json {
            print::json(&serde_json::json!({ "url": node.url, "data_dir": context.config.server.data_dir }))?;
        } else {
            style::note(&format!("serving {} from {}", node.url, context.config.server.data_dir.display()));
            if crate::node::models(&context.config).is_empty() {
                style::note(
                    "no model is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or add [models.NAME] to slipway.toml",
                );
            }
        }
        wait(&node, self.exit_when_idle).await?;
        style::note("ending; sandboxes and unfinished turns are taken up by the next server");
        let mode =
            if self.exit_when_idle.is_some() { ShutDown::RemoveSandboxes } else { ShutDown::KeepSandboxes };
        node.stop(mode).await?;
        Ok(Exit::Done)
    }
}

async fn wait(node: &Node, exit_when_idle: Option<u64>) -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let idle = async {
        let Some(patience) = exit_when_idle else { return std::future::pending().await };
        let mut quiet = 0;
        while quiet < patience.max(1) {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            quiet = if node.busy().await { 0 } else { quiet + 1 };
        }
    };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _terminated = terminate.recv() => {}
        () = idle => {}
    }
    Ok(())
}
