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
mod fetch;
mod first;
mod http;
mod log;
mod lookups;
mod narrow;
mod outside;
mod pace;
mod pins;
mod placeholder;
mod proxy;
mod refusals;
mod rules;
mod scrub;
mod scrubbed;
mod secret;
mod spelling;
mod stream;
mod ticket;
mod tls;
mod transparent;
mod tunnel;
mod upstream;
mod vault;

use std::net::{Ipv6Addr, TcpListener, UdpSocket};
use std::sync::Arc;

pub use fetch::{FETCH_TIME, FetchError, Fetched, resolved};
pub use log::{Log, Refused};
pub use narrow::Narrowing;
pub use outside::{Internet, Outside, Trusting};
pub use placeholder::Placeholders;
pub use proxy::Proxy;
pub use refusals::{Refusal, Refusals};
pub use rules::Rules;
pub use secret::{Secret, Stored};

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
    /// What goes to IPv6 addresses; None where the kernel has no way to redirect that, and for a sandbox that an older
    /// version started. There is no route for it then.
    pub ipv6: Option<Ipv6Sockets>,
}

/// The sockets for IPv6, as those of the same names for IPv4.
#[derive(Debug)]
pub struct Ipv6Sockets {
    /// Connections.
    pub transparent: TcpListener,
    /// Questions for names.
    pub dns: UdpSocket,
    /// Every other datagram.
    pub datagrams: UdpSocket,
}

/// Port of the explicit proxy inside.
pub const PROXY_PORT: u16 = 3128;

/// Where the certificates that programs inside trust are put, when there are more than the host's.
pub const CA_BUNDLE: &str = "/run/slipway/ca.pem";

/// What a decision is told of when nobody can say which host was meant.
const UNKNOWN: &str = "unknown";

/// What stands for all hosts that are too many to be told of each.
const OTHERS: &str = "others";

/// One decision. A refusal is told when it is made. An allowed connection is told when it begins, and again with the bytes
/// since, from time to time and when it ends.
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
    /// How many connections begin with this; 0 where it tells of more bytes of one that was told before.
    pub connections: u32,
    /// Bytes out of the sandbox.
    pub sent: u64,
    /// Bytes into the sandbox.
    pub received: u64,
}

/// Is told of every decision. Must not block.
pub type Sink = Arc<dyn Fn(Decision) + Send + Sync>;

/// A host and a port as they are written together: an IPv6 address stands in brackets. A port that nobody knows (0) is
/// left out.
pub fn with_port(host: &str, port: u16) -> String {
    let host = bracketed(host);
    if port == 0 { host } else { format!("{host}:{port}") }
}

/// The rule that lets this host through on this port. One without a port is for those of the web.
pub fn rule_for(host: &str, port: u16) -> String {
    if matches!(port, 80 | 443) { bracketed(host) } else { with_port(host, port) }
}

fn bracketed(host: &str) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_colons_stands_in_brackets() {
        assert_eq!(with_port("2001:db8::10", 8080), "[2001:db8::10]:8080");
        assert_eq!(with_port("a.test", 22), "a.test:22");
        assert_eq!(with_port(OTHERS, 0), "others");
        assert_eq!(rule_for("a.test", 443), "a.test");
        for (host, port) in [("2001:4860::10", 443), ("2001:4860::10", 8080), ("192.0.2.1", 22)] {
            let egress = protocol::Egress::Allow(vec![rule_for(host, port)]);
            let rules = Rules::parse(&egress).unwrap();
            assert!(rules.allow(&rules::Host::parse(host).unwrap(), port).is_ok(), "{host} {port}");
        }
    }
}
