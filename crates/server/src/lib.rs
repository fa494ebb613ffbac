//! HTTP, WebSocket and server-sent events over the sessions.
//!
//! Everything the server needs arrives as arguments of [`serve`]: a bound listener, [`Options`] and a future that
//! ends it. Each request passes the door ([`Access`], host, origin), then [`authorize`], then one route; what is
//! asked for is done by `session`. Only webhooks of forges are let in by their signatures instead.

mod access;
mod app;
mod authorize;
mod extract;
mod idempotency;
mod limits;
mod listen;
mod negotiate;
mod patience;
mod problem;
mod routes;
mod shell;
mod site;
mod socket;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use session::Sessions;
use tokio::net::TcpListener;

pub use access::{Access, Secret, TOKEN_PROTOCOL, WEBSOCKET_PROTOCOL};
pub use authorize::{Action, Resource, authorize};
pub use limits::Limits;

/// What a server needs.
pub struct Options {
    /// The sessions it gives access to.
    pub sessions: Sessions,
    /// Who may come in.
    pub access: Access,
    /// Name of the one user that every request acts for, until there are accounts.
    pub local_user: String,
    /// Host names under which the server may be asked for beside its loopback names, such as `slipway.example.com`
    /// (any port) or `slipway.example.com:8443` (that port only). For a reverse proxy.
    pub allowed_hosts: Vec<String>,
    /// Origins of foreign pages that may use the API, such as `https://tools.example.com`.
    pub allowed_origins: Vec<String>,
    /// People who have tokens of their own, by name; a request with such a token acts for that person.
    pub people: Vec<(String, Secret)>,
    /// What users and connections may use.
    pub limits: Limits,
}

impl Options {
    /// Options for one local user, without foreign hosts and origins.
    pub fn new(sessions: Sessions, access: Access) -> Self {
        Self {
            sessions,
            access,
            local_user: "local".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            people: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Refuses an address that others can reach while no token is demanded.
    pub fn check(&self, address: SocketAddr) -> Result<(), Error> {
        self.access.check(address)
    }
}

/// The API's description, as `GET /api/v1/openapi.json` gives it, in a form that people and version control can read.
pub fn openapi() -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&routes::openapi::document())?;
    text.push('\n');
    Ok(text)
}

/// Names this process among all servers, so that a client can tell whether the one that answers is the one it means.
pub fn instance() -> &'static str {
    static INSTANCE: OnceLock<String> = OnceLock::new();
    INSTANCE.get_or_init(|| protocol::ItemId::new().to_string())
}

/// Why a server does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Others could use the server without a token.
    #[error(
        "{0} can be reached from other machines, and no token is set: set a token, or listen on 127.0.0.1 or [::1]"
    )]
    Exposed(SocketAddr),
    /// The token cannot be sent in a header.
    #[error(
        "the token is empty or has characters other than letters, digits and printable ASCII signs: \
         set another one, such as the output of `openssl rand -hex 32`"
    )]
    BadToken,
}

/// Sends back what each WebSocket sends, until the process ends; set up and served like every other one.
#[cfg(feature = "echo")]
pub async fn serve_echoes(listener: TcpListener) {
    socket::echo::run(listener).await;
}

/// Serves until `shutdown` completes; then open streams are ended and at most five seconds are spent on the rest.
pub async fn serve(listener: TcpListener, options: Options, shutdown: impl Future) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    options.check(address).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error))?;
    let Options { sessions, access, local_user, allowed_hosts, allowed_origins, people, limits } = options;
    let life = listen::Life::default();
    let named = people.iter().map(|(name, _)| name.clone()).collect();
    let door = Arc::new(access::Door::new(access, local_user, people, allowed_hosts, allowed_origins));
    let app = app::App::new(sessions, life.clone(), limits, named);
    let hooks = routes::forge_hooks::routes(app.clone());
    let api = routes::sessions_api(app);
    let router = shell::wrap(door, api, site::Site::built()).merge(shell::surrounded(hooks));
    listen::run(listener, router, life, shutdown).await;
    Ok(())
}
