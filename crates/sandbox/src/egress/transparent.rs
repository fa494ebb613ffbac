//! Connections of programs that know of no proxy. The kernel leads them here and remembers where they wanted to go.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::UNKNOWN;
use super::decide::{Gate, Refusal, Remedy};
use super::dns::{self, Names};
use super::rules::Host;
use super::stream::Client;
use super::tunnel::{self, Side, Target};

/// Tells where a connection wanted to go. The kernel knows, unless a test says otherwise.
pub(super) type Destination = Arc<dyn Fn(&TcpStream) -> std::io::Result<SocketAddr> + Send + Sync>;

/// What the kernel remembers of a connection that it led elsewhere.
pub(super) fn original() -> Destination {
    Arc::new(|stream| match stream.local_addr()? {
        SocketAddr::V4(_) => Ok(rustix::net::sockopt::ip_original_dst(stream)?.into()),
        SocketAddr::V6(_) => Ok(rustix::net::sockopt::ipv6_original_dst(stream)?.into()),
    })
}

/// Serves one connection.
pub(super) async fn serve(gate: Arc<Gate>, names: Arc<Names>, stream: TcpStream, destination: Destination) {
    let own = stream.local_addr();
    let to = match (destination(&stream), own) {
        (Ok(to), Ok(own)) if to != own => to,
        // It was not led here but came by itself, so it wants to go nowhere.
        (_, own) => {
            stream.reset();
            let (host, port) = match own {
                Ok(own) => (own.ip().to_string(), own.port()),
                Err(_) => (UNKNOWN.to_owned(), 0),
            };
            let why = "nobody can tell where it was to go";
            return gate.tell(&Refusal::new(host, port, why, Remedy::Nothing));
        }
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a sandbox's connection is slower than it could be");
    }
    // Whoever was asked, we answer, as we do where the question comes in a datagram.
    if to.port() == dns::PORT {
        return names.serve_stream(stream).await;
    }
    let client = Client::new(stream);
    let idle = client.idle();
    tokio::select! {
        () = tunnel::run(&gate, client, Target::Address(to)) => {}
        () = idle => {}
    }
}

/// Refuses a connection because there are too many.
pub(super) fn refuse(gate: &Gate, stream: &TcpStream, destination: &Destination, why: &str) {
    stream.reset();
    if let Ok(to) = destination(stream) {
        let host = gate.name_of(to.ip()).unwrap_or(Host::Address(to.ip()));
        gate.tell(&Refusal::new(host, to.port(), why, Remedy::AskAgain));
    }
}
