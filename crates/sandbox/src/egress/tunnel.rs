//! Connections whose bytes go both ways: what was connected to, what the client's first bytes say, and the rules must
//! agree before anything goes out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::decide::{Gate, Refusal, Remedy, Stop, Way};
use super::first::{First, Wait, first};
use super::http::{self, After, Aim};
use super::rules::Host;
use super::stream::{Client, Outbound};
use super::upstream::Speech;
use super::vault::Vault;

/// A sandbox must have agreed on TLS within this time.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What was connected to.
pub(super) enum Target {
    /// A host, by CONNECT. The connection is there already, so that it could be answered whether there is one.
    Named(Way, Outbound),
    /// An address, by a program that knows of no proxy.
    Address(SocketAddr),
}

/// What becomes of a connection.
enum Plan {
    /// Its bytes are passed on.
    Relay(Way),
    /// Its requests are passed on.
    Requests(Aim),
    /// Its TLS ends here, and its requests are passed on with secrets.
    Intercept(Way, Arc<Vault>),
}

/// The sandbox's side of a tunnel.
pub(super) trait Side: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The connection is to end as if nobody had taken it.
    fn reset(&self);
}

impl Side for TcpStream {
    fn reset(&self) {
        if let Err(error) = self.set_zero_linger() {
            tracing::debug!(%error, "a refused connection ends without a reset");
        }
    }
}

impl Side for TokioIo<Upgraded> {
    /// It was answered that there is a connection; it can only be closed.
    fn reset(&self) {}
}

/// Serves one tunnel until it ends.
pub(super) async fn run<S: Side>(gate: &Arc<Gate>, mut client: Client<S>, target: Target) {
    let (named, made) = match target {
        Target::Named(way, outbound) => (Ok(way), Some(outbound)),
        Target::Address(to) => (Err(to), None),
    };
    let mut made = made;
    match decide(gate, &mut client, &named, &mut made).await {
        Ok(Some(plan)) => perform(gate, client, plan, made).await,
        Ok(None) => {}
        Err(stop) => {
            client.inner().reset();
            match stop {
                Stop::Refused(refusal) => {
                    if let Some(outbound) = &made {
                        outbound.ticket().cancel();
                    }
                    gate.tell(&refusal);
                }
                Stop::Unreachable(why) => tracing::debug!(why, "a sandbox's connection was not made"),
            }
        }
    }
}

/// Finds out what becomes of a connection; None if it ended meanwhile. `named` is the way that was asked for by name, or
/// the address that was connected to.
async fn decide<S: Side>(
    gate: &Gate,
    client: &mut Client<S>,
    named: &Result<Way, SocketAddr>,
    made: &mut Option<Outbound>,
) -> Result<Option<Plan>, Stop> {
    if let Err(to) = named {
        let host = gate.name_of(to.ip()).unwrap_or(Host::Address(to.ip()));
        gate.check(&host, *to)?;
    }
    let said = first(client, Wait::Shortly).await;
    if said == First::Closed {
        // Whoever only tried whether somebody is there is told of too, if it may not know.
        return match named {
            Ok(_) => Ok(None),
            Err(_) => judge(gate, named, said).await.map(|_| None),
        };
    }
    if said != First::Silence {
        return judge(gate, named, said).await.map(Some);
    }
    let Plan::Relay(way) = judge(gate, named, said).await? else { return Ok(None) };
    let server = match made {
        Some(server) => server,
        None => made.insert(gate.connect(&way).await?),
    };
    let mut spoke = false;
    let mut buffer = vec![0; 16 << 10];
    loop {
        tokio::select! {
            looked = client.look() => match looked {
                Ok(1..) => break,
                Ok(0) => return Ok(Some(Plan::Relay(way))),
                Err(_) => return Ok(None),
            },
            read = server.read(&mut buffer) => {
                let Ok(read @ 1..) = read else { return Ok(None) };
                spoke = true;
                if client.write_all(&buffer[..read]).await.is_err() {
                    return Ok(None);
                }
            }
        }
    }
    // It did not wait for the server, or not only: what it says now must agree as if it had said it at once.
    let said = first(client, Wait::Forever).await;
    match judge(gate, named, said).await? {
        Plan::Relay(way) => {
            if let Some(server) = made {
                server.ticket().is_for(&way);
            }
            Ok(Some(Plan::Relay(way)))
        }
        Plan::Intercept(way, _) if spoke => Ok(Some(Plan::Relay(way))),
        Plan::Requests(_) if spoke => {
            let why = "the server spoke before a request came";
            Err(Refusal::new(&way.host, way.port, why, Remedy::Nothing).into())
        }
        plan @ (Plan::Intercept(..) | Plan::Requests(_)) => Ok(Some(plan)),
    }
}

/// What becomes of a connection whose client said this first.
async fn judge(gate: &Gate, named: &Result<Way, SocketAddr>, said: First) -> Result<Plan, Stop> {
    let secrets_for = |host: &Host| gate.vault().filter(|vault| vault.covers(host));
    let plan = |way: Way| match secrets_for(&way.host) {
        Some(vault) => Plan::Intercept(way, vault),
        None => Plan::Relay(way),
    };
    let refuse =
        |host: &Host, port: u16, why: &str| Stop::from(Refusal::new(host, port, why, Remedy::Nothing));
    let plain_http2 = "HTTP/2 without TLS does not show which host it is for";
    let nameless = "its TLS does not say a name, which it must for a host that has secrets";
    let unnamed = "it is neither HTTP nor TLS, which only a rule that names the port allows";
    let rules = gate.rules();
    match (named, said) {
        (Ok(way), First::Bad(why)) => Err(refuse(&way.host, way.port, why)),
        (Ok(way), First::Other) if !rules.names_port(&way.host, way.port) => {
            Err(refuse(&way.host, way.port, unnamed))
        }
        // An address that is allowed as an address is allowed under every name.
        (Ok(way), _) if way.host.address().is_some() => Ok(Plan::Relay(way.clone())),
        (Ok(way), First::Tls(Some(name))) if name == way.host => Ok(plan(way.clone())),
        (Ok(way), First::Tls(Some(name))) => {
            let why = format!("the connection is for {}, and its TLS says otherwise", way.host);
            Err(refuse(&name, way.port, &why))
        }
        (Ok(way), First::Tls(None)) if secrets_for(&way.host).is_some() => {
            Err(refuse(&way.host, way.port, nameless))
        }
        (Ok(way), First::Http) => Ok(Plan::Requests(Aim::Named(way.clone()))),
        (Ok(way), First::Http2) if !rules.is_open() => Err(refuse(&way.host, way.port, plain_http2)),
        (Ok(way), First::Http2 | First::Tls(None) | First::Other | First::Silence | First::Closed) => {
            Ok(Plan::Relay(way.clone()))
        }
        (Err(to), First::Bad(why)) => {
            let host = gate.name_of(to.ip()).unwrap_or(Host::Address(to.ip()));
            Err(refuse(&host, to.port(), why))
        }
        (Err(to), First::Tls(Some(name))) => match gate.agree(&name, *to).await {
            Ok(way) => Ok(plan(way)),
            Err(stop) => gate.literally(*to).await.map(Plan::Relay).map_err(|_| stop),
        },
        (Err(to), First::Http) => Ok(Plan::Requests(Aim::Address(*to))),
        (Err(to), First::Http2) => {
            let host = gate.name_of(to.ip()).unwrap_or(Host::Address(to.ip()));
            gate.literally(*to).await.map(Plan::Relay).map_err(|_| refuse(&host, to.port(), plain_http2))
        }
        (Err(to), First::Tls(None)) => {
            // Any of the names may be meant: the sandbox chooses which one it asks for last.
            match gate.names_of(to.ip()).into_iter().find(|host| secrets_for(host).is_some()) {
                Some(host) => Err(refuse(&host, to.port(), nameless)),
                None => gate.by_address(*to, |_| true).await.map(Plan::Relay),
            }
        }
        (Err(to), First::Other) => {
            let named_port = |host: &Host| rules.names_port(host, to.port());
            match gate.by_address(*to, named_port).await {
                Ok(way) if named_port(&way.host) => Ok(Plan::Relay(way)),
                Ok(_) | Err(_) => {
                    let way = gate.by_address(*to, |_| true).await?;
                    Err(refuse(&way.host, way.port, unnamed))
                }
            }
        }
        (Err(to), First::Silence | First::Closed) => gate.by_address(*to, |_| true).await.map(Plan::Relay),
    }
}

async fn perform<S: Side>(gate: &Arc<Gate>, mut client: Client<S>, plan: Plan, made: Option<Outbound>) {
    let after = match plan {
        Plan::Relay(way) => {
            let made = match made {
                Some(made) => Ok(made),
                None => gate.connect(&way).await,
            };
            match made {
                // A side that breaks ends both; there is nobody left to tell.
                Ok(mut server) => drop(tokio::io::copy_bidirectional(&mut client, &mut server).await),
                Err(stop) => {
                    client.inner().reset();
                    tracing::debug!(?stop, "a sandbox's connection was not made");
                }
            }
            None
        }
        Plan::Requests(aim) => http::serve(gate, client, aim, Speech::Plain, made).await,
        Plan::Intercept(way, vault) => intercept(gate, client, way, vault, made).await,
    };
    if let Some(After::Splice(client, server, scrubber)) = after {
        http::splice(client, server, scrubber).await;
    }
}

/// Ends the sandbox's TLS here, with a certificate of the sandbox's own authority.
async fn intercept<S: Side>(
    gate: &Arc<Gate>,
    client: Client<S>,
    way: Way,
    vault: Arc<Vault>,
    made: Option<Outbound>,
) -> Option<After> {
    let configs = (vault.server_config(&way.host), gate.upstream_tls());
    let (server, speech) = match configs {
        (Ok(server), Ok(upstream)) => (server, Speech::Tls(upstream)),
        (Err(error), _) => {
            tracing::warn!(%error, host = %way.host, "a sandbox's TLS cannot be answered");
            return None;
        }
        (_, Err(error)) => {
            tracing::warn!(%error, host = %way.host, "servers cannot be spoken to with TLS");
            return None;
        }
    };
    match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(server).accept(client)).await {
        Ok(Ok(stream)) => http::serve(gate, stream, Aim::Secret(way, vault), speech, made).await,
        Ok(Err(error)) => {
            // Most often a program that does not trust the sandbox's authority.
            tracing::debug!(%error, host = %way.host, rule = way.rule(), "a sandbox's TLS broke");
            None
        }
        Err(_) => None,
    }
}
