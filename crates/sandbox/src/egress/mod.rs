//! The way out of a sandbox: every connection ends here and is decided on here.
//!
//! The driver's sandbox has no route. Whatever a program connects to, the kernel of its network namespace redirects to
//! sockets that this process holds ([`Sockets`]); names are answered by us. So there is nothing to go around. What arrives
//! goes through one place that decides (`decide`), whichever way it came: names (`dns`), programs that know a proxy
//! (`explicit`), and those that do not (`transparent`).

mod address;
mod datagrams;
mod decide;
mod dns;
mod explicit;
mod first;
mod http;
mod log;
mod outside;
mod pins;
mod placeholder;
mod proxy;
mod rules;
mod scrub;
mod secret;
mod stream;
mod tls;
mod transparent;
mod tunnel;
mod upstream;
mod vault;

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

pub use log::{Log, Refused};
pub use outside::{Internet, Outside, Trusting};
pub use placeholder::Placeholders;
pub use proxy::Proxy;
pub use rules::Rules;
pub use secret::Secret;

/// The sockets of one sandbox's network namespace, all on its loopback.
#[derive(Debug)]
pub struct Sockets {
    /// Connections to any address but loopback arrive here; `SO_ORIGINAL_DST` tells where they wanted to go. None where
    /// the kernel cannot redirect: then only [`Self::proxy`] leads out.
    pub transparent: Option<TcpListener>,
    /// An explicit HTTP proxy, on [`PROXY_PORT`].
    pub proxy: TcpListener,
    /// Questions for names, to whatever server, arrive here.
    pub dns: UdpSocket,
    /// Those that come over a connection to the sandbox's own name server; to others, they are among the connections.
    /// None for a sandbox that an older version started.
    pub names: Option<TcpListener>,
    /// Every other datagram arrives here, only to be told of; None where the kernel cannot redirect.
    pub datagrams: Option<UdpSocket>,
}

/// Port of the explicit proxy inside.
pub const PROXY_PORT: u16 = 3128;

/// Where the certificates that programs inside trust are put, when there are more than the host's.
pub const CA_BUNDLE: &str = "/run/slipway/ca.pem";

/// One decision, told when it is made (refused) or when the connection ends (allowed).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The host that was asked for; an address where no name is known.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether it was let through.
    pub allowed: bool,
    /// Whether a rule could let it through; if not, it is refused whatever the rules are.
    pub can_be_allowed: bool,
    /// The rule that let it through, or why it was refused.
    pub rule: String,
    /// Bytes out of the sandbox.
    pub sent: u64,
    /// Bytes into the sandbox.
    pub received: u64,
}

/// Is told of every decision. Must not block.
pub type Sink = Arc<dyn Fn(Decision) + Send + Sync>;
