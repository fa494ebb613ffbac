//! `slipway mcp ls|test|login|logout`: the MCP servers of the configuration, and signing in to them.

mod callback;
mod held;

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use mcp::{Auth, Connection, Http, Login, Place, Server, Stored, Vault, secret_name};
use serde_json::{Value, json};

use self::callback::Callback;
use self::held::Held;
use super::Context;
use crate::config::mcp_servers;
use crate::exit::{Exit, Usage};
use crate::render::{print, style, table, text};

/// The MCP servers whose tools agents have.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum McpServers {
    /// List the MCP servers of slipway.toml, and the presets that can be added
    Ls,
    /// Connect to an MCP server and list its tools
    ///
    /// The connection is made from here, with the configuration of this machine. A server that runs in sandboxes can only be
    /// tried in one.
    Test {
        /// Name of the server
        name: String,
    },
    /// Sign in to an MCP server
    ///
    /// It prints an address to open in a browser. When you have allowed it there, the browser comes back to this command; if it
    /// runs on another machine, paste the address that the browser shows then. The tokens are sealed as the secret mcp.NAME,
    /// and renewed from then on.
    Login {
        /// Name of the server
        name: String,
    },
    /// Forget what signing in to an MCP server gave
    Logout {
        /// Name of the server
        name: String,
    },
}

impl McpServers {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        match self {
            Self::Ls => list(&context),
            Self::Test { name } => test(&context, &name).await,
            Self::Login { name } => login(&context, &name).await,
            Self::Logout { name } => logout(&context, &name).await,
        }
    }
}

fn find(context: &Context, name: &str) -> anyhow::Result<Server> {
    let all = mcp_servers(&context.config)?;
    let names: Vec<String> = all.iter().map(|server| server.name.clone()).collect();
    all.into_iter().find(|server| server.name == name).ok_or_else(|| {
        let known = if names.is_empty() {
            format!("none is configured; add [mcp.{name}] to slipway.toml")
        } else {
            format!("the servers are: {}", names.join(", "))
        };
        Usage(anyhow!("there is no MCP server \"{name}\": {known}")).into()
    })
}

fn list(context: &Context) -> anyhow::Result<Exit> {
    let vault: Arc<dyn Vault> = Arc::new(Held::new(context.config.secrets()));
    let servers = mcp_servers(&context.config)?;
    let rows: Vec<(Server, String)> = servers
        .into_iter()
        .map(|server| {
            let access = access(&server, &vault);
            (server, access)
        })
        .collect();
    if context.json {
        let servers: Vec<Value> = rows
            .iter()
            .map(|(server, access)| json!({"name": server.name, "where": place(server).0, "target": place(server).1, "access": access}))
            .collect();
        let presets: Vec<Value> = mcp::presets::PRESETS
            .iter()
            .map(|preset| json!({"name": preset.name, "url": preset.url, "about": preset.about}))
            .collect();
        print::json(&json!({"servers": servers, "presets": presets}))?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        style::note(
            "no MCP server is configured; docs/mcp.md says how, or take a preset: [mcp.NAME] with preset = \"…\"",
        );
    } else {
        let row = |(server, access): &(Server, String)| {
            let (kind, target) = place(server);
            vec![server.name.clone(), kind.to_owned(), text::harmless(&target), access.clone()]
        };
        print::line(&table::format(&["name", "where", "what", "access"], rows.iter().map(row)))?;
    }
    for preset in mcp::presets::PRESETS {
        style::note(&format!("preset {}: {}", preset.name, preset.about));
    }
    Ok(Exit::Done)
}

fn place(server: &Server) -> (&'static str, String) {
    match &server.place {
        Place::Sandbox(program) => ("sandbox", program.command.join(" ")),
        Place::Host(program) => ("host", program.command.join(" ")),
        Place::Http(http) => ("address", http.url.clone()),
    }
}

/// How a server knows who asks, as far as that can be told without asking it.
fn access(server: &Server, vault: &Arc<dyn Vault>) -> String {
    match &server.place {
        Place::Sandbox(_) | Place::Host(_) => "-".to_owned(),
        Place::Http(Http { auth: Auth::None, headers, .. }) if headers.is_empty() => "open".to_owned(),
        Place::Http(Http { auth: Auth::None, .. }) => "headers".to_owned(),
        Place::Http(Http { auth: Auth::Token(_), .. }) => "token".to_owned(),
        Place::Http(Http { auth: Auth::OAuth { .. }, .. }) => {
            match Stored::new(&server.name, Arc::clone(vault)).is_there() {
                Ok(true) => "signed in".to_owned(),
                Ok(false) => format!("not signed in: slipway mcp login {}", server.name),
                Err(error) => error.to_string(),
            }
        }
    }
}

async fn test(context: &Context, name: &str) -> anyhow::Result<Exit> {
    let server = find(context, name)?;
    let held = Arc::new(Held::new(context.config.secrets()));
    let vault: Arc<dyn Vault> = held.clone();
    let connected = match &server.place {
        Place::Host(program) => Connection::host(program, &*vault, server.timeout).await,
        Place::Http(http) => Connection::http(name, http, vault, server.timeout).await,
        Place::Sandbox(program) => {
            return Err(Usage(anyhow!(
                "{name} runs in the sandbox of each session; try whether its program starts with: slipway sandbox run --env ENV -- {}",
                program.command.join(" ")
            ))
            .into());
        }
    };
    let tried = match connected {
        Ok(connection) => {
            let tools = connection.tools().await;
            let about = connection.about();
            connection.close().await;
            tools.map(|tools| (tools, about))
        }
        Err(error) => Err(error),
    };
    // A token that was renewed meanwhile takes the place of the one before.
    keep(context, &held).await?;
    let (tools, about) = tried.map_err(|error| anyhow!("{name}: {error}\n  {}", error.hint(name)))?;
    let taken = |tool: &&mcp::Tool| server.filter.takes(&tool.name);
    if context.json {
        let tools: Vec<Value> = tools
            .iter()
            .filter(taken)
            .map(|tool| json!({"name": mcp::namespaced(name, &tool.name), "description": tool.description, "schema": tool.schema}))
            .collect();
        print::json(&json!({"server": name, "about": about, "tools": tools}))?;
        return Ok(Exit::Done);
    }
    let rows = tools.iter().filter(taken).map(|tool| {
        let first = tool.description.lines().next().unwrap_or_default();
        vec![mcp::namespaced(name, &tool.name), text::harmless(first).chars().take(100).collect()]
    });
    print::line(&table::format(&["tool", "what the server says of it"], rows))?;
    let offered = tools.iter().filter(taken).count();
    let about = about.map(|about| format!(" ({})", text::harmless(&about))).unwrap_or_default();
    style::note(&format!("{name}{about} works; {offered} of its {} tools are offered", tools.len()));
    Ok(Exit::Done)
}

async fn login(context: &Context, name: &str) -> anyhow::Result<Exit> {
    let server = find(context, name)?;
    let Place::Http(Http { url, auth: Auth::OAuth { client_id, scopes }, .. }) = &server.place else {
        return Err(Usage(anyhow!("nobody signs in to {name}: [mcp.{name}] has no oauth = true")).into());
    };
    let held = Arc::new(Held::new(context.config.secrets()));
    let callback = Callback::listen().await?;
    let told = |error: mcp::Error| anyhow!("{name}: {error}");
    let wanted = (client_id.as_deref(), scopes.as_slice());
    let begun = Login::begin(name, url, wanted, callback.address(), held.clone());
    let login = tokio::time::timeout(Duration::from_secs(60), begun).await;
    let login =
        login.map_err(|_| anyhow!("{name} did not say within a minute where one signs in"))?.map_err(told)?;
    style::note("open this address in a browser and allow it:");
    style::note(&format!("  {}", text::harmless(login.address())));
    style::note(
        "waiting for the browser to come back; if it cannot reach this machine, paste the address that it shows",
    );
    let came_back = callback.wait().await?;
    login.finish(&came_back).await.map_err(told)?;
    keep(context, &held).await?;
    if context.json {
        print::json(&json!({ "signed_in": name }))?;
    } else {
        style::note(&format!("signed in to {name}; try it with: slipway mcp test {name}"));
    }
    Ok(Exit::Done)
}

async fn logout(context: &Context, name: &str) -> anyhow::Result<Exit> {
    find(context, name)?;
    let link = context.look().await?;
    let removed = link.api.remove_secret(&secret_name(name)).await;
    link.close_now().await?;
    removed?;
    if context.json {
        print::json(&json!({ "signed_out": name }))?;
    } else {
        style::note(&format!(
            "forgot the tokens of {name}; they stay valid there until they are revoked or end"
        ));
    }
    Ok(Exit::Done)
}

/// Has the server seal what a sign-in or a renewal gave: only whoever has the data directory writes secrets.
async fn keep(context: &Context, held: &Held) -> anyhow::Result<()> {
    let Some((name, value)) = held.take() else { return Ok(()) };
    let link = context.look().await?;
    let set = link.api.set_secret(&name, value.to_string()).await;
    link.close_now().await?;
    set.map(drop)
}
