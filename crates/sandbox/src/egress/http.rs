//! Requests: each one is read, decided on, and written anew, so that nothing two readers could read differently gets
//! through.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::decide::{Gate, Refusal, Remedy, Stop, Way};
use super::rules::{Host, harmless, parse_port, split_port};
use super::scrub::{self, Scrubbed, Scrubber};
use super::stream::Outbound;
use super::upstream::{Speech, Upstream};
use super::vault::Vault;
use super::{UNKNOWN, with_port};

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A request's head must be whole within this time; also how long a kept connection may say nothing.
const HEAD: Duration = Duration::from_secs(300);

/// The most that a request's head may have.
const HEAD_BYTES: usize = 128 << 10;

/// Headers that are for one connection only.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Where the requests of a connection may go.
pub(super) enum Aim {
    /// Each request says where: this is the explicit proxy.
    Any,
    /// To one host, which was asked for by name.
    Named(Way),
    /// To one address; the first request's host must have it.
    Address(SocketAddr),
    /// To one host, with secrets.
    Secret(Way, Arc<Vault>),
}

/// What a connection becomes when it is no longer HTTP.
pub(super) enum After {
    /// A tunnel to a host.
    Tunnel(OnUpgrade, Box<(Way, Outbound)>),
    /// Bytes in both directions, such as a WebSocket's; those of a server that got secrets are searched for them.
    Splice(OnUpgrade, OnUpgrade, Option<Scrubber>),
}

/// What the requests of one connection share.
struct Exchange {
    gate: Arc<Gate>,
    aim: Aim,
    upstream: tokio::sync::Mutex<Upstream>,
    /// The way that the first request of a connection to an address led to.
    settled: Mutex<Option<(Host, Way)>>,
    after: Mutex<Option<After>>,
}

/// Why a request gets no answer from a server.
enum Unanswered {
    Stopped(Stop),
    /// It cannot be understood, or in two ways.
    Wrong(Refusal),
}

impl From<Stop> for Unanswered {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        Self::Stopped(refusal.into())
    }
}

/// Answers the requests of a connection until it ends or becomes something else.
pub(super) async fn serve<S>(
    gate: &Arc<Gate>,
    client: S,
    aim: Aim,
    speech: Speech,
    made: Option<Outbound>,
) -> Option<After>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let exchange = Arc::new(Exchange {
        gate: gate.clone(),
        aim,
        upstream: tokio::sync::Mutex::new(Upstream::new(speech, made)),
        settled: Mutex::default(),
        after: Mutex::default(),
    });
    let service = service_fn(|request| {
        let exchange = exchange.clone();
        async move { Ok::<_, std::convert::Infallible>(exchange.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_header_size(HEAD_BYTES)
        .half_close(true)
        // Some old servers know their headers in one spelling only.
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        if error.is_parse() {
            // It was answered by hyper, without us.
            let (host, port) = exchange.aim.meant();
            gate.tell(&Refusal::new(host, port, "its request is malformed", Remedy::AskAgain));
        }
        tracing::debug!(%error, "a sandbox's connection broke");
    }
    exchange.after.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Moves the bytes of a connection that was HTTP.
pub(super) async fn splice(client: OnUpgrade, server: OnUpgrade, scrubber: Option<Scrubber>) {
    let moved = async {
        let (client, server) = tokio::try_join!(client, server)?;
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // A side that breaks ends both; there is nobody left to tell.
        match scrubber {
            None => drop(tokio::io::copy_bidirectional(&mut client, &mut server).await),
            Some(scrubber) => {
                let (mut from_client, mut to_client) = tokio::io::split(client);
                let (mut from_server, mut to_server) = tokio::io::split(server);
                let up = async {
                    tokio::io::copy(&mut from_client, &mut to_server).await?;
                    to_server.shutdown().await
                };
                drop(tokio::try_join!(up, scrub::copy(&mut from_server, &mut to_client, &scrubber)));
            }
        }
        Ok::<_, hyper::Error>(())
    };
    if let Err(error) = moved.await {
        tracing::debug!(%error, "a connection did not become another");
    }
}

impl Exchange {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let answered = match *request.method() {
            Method::CONNECT => self.connect(request).await,
            _ => self.forward(request).await,
        };
        match answered {
            Ok(response) => response,
            Err(Unanswered::Stopped(Stop::Refused(refusal))) => {
                self.gate.tell(&refusal);
                text(StatusCode::FORBIDDEN, &self.gate.explain(&refusal))
            }
            Err(Unanswered::Stopped(Stop::Unreachable(why))) => {
                text(StatusCode::BAD_GATEWAY, &format!("slipway: {why}"))
            }
            Err(Unanswered::Wrong(refusal)) => {
                self.gate.tell(&refusal);
                text(StatusCode::BAD_REQUEST, &self.gate.explain(&refusal))
            }
        }
    }

    /// CONNECT host:port.
    async fn connect(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Unanswered> {
        let authority = request.uri().authority().map(|authority| authority.as_str()).unwrap_or_default();
        let read = match Host::parse_with_port(authority) {
            _ if !matches!(self.aim, Aim::Any) => {
                Err("CONNECT is for the proxy at 127.0.0.1:3128".to_owned())
            }
            Ok((host, Some(port))) => Ok((host, port)),
            Ok((_, None)) => Err("CONNECT needs a port too, such as example.com:443".to_owned()),
            Err(malformed) => Err(malformed.why(authority)),
        };
        let (host, port) = read.map_err(|why| wrong(&self.aim, &request, why))?;
        let way = self.gate.reach(&host, port).await?;
        let outbound = self.gate.connect(&way).await?;
        let upgrade = hyper::upgrade::on(&mut request);
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(After::Tunnel(upgrade, Box::new((way, outbound))));
        Ok(Response::new(empty()))
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Unanswered> {
        let (host, port) = target(&self.aim, &request).map_err(|why| wrong(&self.aim, &request, why))?;
        let mut upstream = self.upstream.lock().await;
        let way = match self.way(&host, port, &upstream).await {
            Ok(way) => way,
            Err(stop) => {
                // The connection that was made in advance is told as refused, not as allowed.
                if let (Stop::Refused(_), Some(made)) = (&stop, upstream.made()) {
                    made.ticket().cancel();
                }
                return Err(stop.into());
            }
        };
        let upgrade = wants_websocket(request.headers()).then(|| hyper::upgrade::on(&mut request));
        prepare(&mut request, &way, upgrade.is_some())?;
        let scrubber = match &self.aim {
            Aim::Secret(_, vault) => {
                // What is compressed cannot be searched.
                request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
                request.headers_mut().remove(header::SEC_WEBSOCKET_EXTENSIONS);
                Some(vault.put(&way.host, request.headers_mut()))
            }
            Aim::Any | Aim::Named(_) | Aim::Address(_) => None,
        };
        let mut response = upstream.send(&self.gate, &way, request).await?;
        // It holds what the server said beside the number.
        let switched =
            (response.status() == StatusCode::SWITCHING_PROTOCOLS).then(|| hyper::upgrade::on(&mut response));
        response.extensions_mut().clear();
        if let Some(server) = switched {
            let Some(client) = upgrade else {
                return Err(Stop::Unreachable(format!(
                    "{} switches to what was not asked for",
                    way.target()
                ))
                .into());
            };
            strip(response.headers_mut(), true);
            if let Some(scrubber) = &scrubber {
                scrubber.headers(response.headers_mut());
            }
            *self.after.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(After::Splice(client, server, scrubber));
            return Ok(response.map(|_| empty()));
        }
        finish(response, scrubber, &way)
    }

    /// The way for a request, if where it goes agrees with what the connection is.
    async fn way(&self, host: &Host, port: u16, upstream: &Upstream) -> Result<Way, Stop> {
        let other = |meant: &Host| {
            let why = format!("the connection is for {meant}, and the request says otherwise");
            Stop::from(Refusal::new(host, port, why, Remedy::Nothing))
        };
        match &self.aim {
            Aim::Any => match upstream.way(host, port) {
                Some(way) => {
                    // The connection is there and its address was checked; the rules may have changed since.
                    self.gate.permit(host, port)?;
                    Ok(way)
                }
                None => self.gate.reach(host, port).await,
            },
            Aim::Named(way) | Aim::Secret(way, _) if way.host == *host && way.port == port => Ok(way.clone()),
            Aim::Named(way) | Aim::Secret(way, _) => Err(other(&way.host)),
            Aim::Address(to) => {
                let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some((first, way)) = settled {
                    return if first == *host && way.port == port { Ok(way) } else { Err(other(&first)) };
                }
                if port != to.port() {
                    return Err(other(&Host::Address(to.ip())));
                }
                let way = match self.gate.agree(host, *to).await {
                    Ok(way) => way,
                    // Where the address itself is allowed, it does not matter what it is called.
                    Err(stop) => self.gate.literally(*to).await.map_err(|_| stop)?,
                };
                let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(settled.get_or_insert((host.clone(), way)).1.clone())
            }
        }
    }
}

impl Aim {
    /// Where a request goes that does not say it in a way that can be read.
    fn meant(&self) -> (String, u16) {
        match self {
            Self::Any => (UNKNOWN.to_owned(), 0),
            Self::Named(way) | Self::Secret(way, _) => (way.host.to_string(), way.port),
            Self::Address(to) => (to.ip().to_string(), to.port()),
        }
    }
}

/// A request that is wrong is told with what it says of its host, whatever that is.
fn wrong(aim: &Aim, request: &Request<Incoming>, why: String) -> Unanswered {
    let in_header = || request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let said = request.uri().authority().map(|authority| authority.as_str()).or_else(in_header);
    let (host, port) = match said {
        None => aim.meant(),
        Some(said) => {
            // Who the user is, and with which password, is nobody's business.
            let said = said.rsplit('@').next().unwrap_or_default();
            let usual = match request.uri().scheme_str() {
                Some("https") => 443,
                Some(_) => 80,
                None => aim.meant().1,
            };
            match split_port(said) {
                Ok((host, Some(port))) => (harmless(host), parse_port(port).unwrap_or_default()),
                Ok((host, None)) => (harmless(host), usual),
                Err(_) => (harmless(said), 0),
            }
        }
    };
    Unanswered::Wrong(Refusal::new(host, port, why, Remedy::AskAgain))
}

/// The host and port that a request is for, or what is wrong with it. What it says twice must agree.
fn target(aim: &Aim, request: &Request<Incoming>) -> Result<(Host, u16), String> {
    let uri = request.uri();
    let usual = match aim {
        Aim::Any => 80,
        Aim::Named(way) | Aim::Secret(way, _) => way.port,
        Aim::Address(to) => to.port(),
    };
    let read = |text: &str| match Host::parse_with_port(text) {
        Ok((host, port)) => Ok((host, port.unwrap_or(usual))),
        Err(malformed) => Err(malformed.why(text)),
    };
    let mut named = request.headers().get_all(header::HOST).iter();
    let in_header = match (named.next(), named.next()) {
        (_, Some(_)) => return Err("the request has more than one Host header".to_owned()),
        (Some(value), None) => Some(value.to_str().map_err(|_| "the request's host is no host".to_owned())?),
        (None, None) => None,
    };
    let in_uri = match (uri.scheme_str(), uri.authority()) {
        (Some(_), Some(authority)) if authority.as_str().contains('@') => {
            return Err("the request's address has a user in it".to_owned());
        }
        (Some("http"), Some(authority)) => Some(read(authority.as_str())?),
        (Some("https"), Some(authority)) if matches!(aim, Aim::Secret(..)) => Some(read(authority.as_str())?),
        (Some(_), _) => return Err("only http:// is forwarded; for https:// use CONNECT".to_owned()),
        (None, _) => None,
    };
    match (aim, in_uri, in_header.map(|text| (text, read(text)))) {
        (Aim::Any, None, _) => Err("this is a proxy: a request needs a whole address, http://…".to_owned()),
        (_, Some(uri), Some((_, Ok(header)))) if uri == header => Ok(uri),
        (_, Some(_), Some((text, _))) => {
            Err(format!("the request's address and its Host header ({}) do not agree", harmless(text)))
        }
        (_, Some(said), None) => Ok(said),
        (_, None, Some((_, said))) => said,
        (_, None, None) => Err("the request does not say its host".to_owned()),
    }
}

/// Makes of a client's request the one that the server gets.
fn prepare(request: &mut Request<Incoming>, way: &Way, websocket: bool) -> Result<(), Unanswered> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.is_empty() { "/" } else { path };
    let wrong = |why: &str| Unanswered::Wrong(Refusal::new(&way.host, way.port, why, Remedy::AskAgain));
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| wrong("the request's path is malformed"))?;
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut(), websocket);
    if !request.headers().contains_key(header::HOST) {
        let port = if way.port == 80 { 0 } else { way.port };
        let text = with_port(&way.host.to_string(), port);
        let value = HeaderValue::from_str(&text).map_err(|_| wrong("the request's host is no host"))?;
        request.headers_mut().insert(header::HOST, value);
    }
    Ok(())
}

/// Removes headers that are for one connection only, except those that ask for a WebSocket.
fn strip(headers: &mut HeaderMap, websocket: bool) {
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .filter_map(|name| name.trim().to_ascii_lowercase().parse().ok())
        // Some name their own headers here to have proxies remove them; these carry the request itself.
        .filter(|name: &HeaderName| {
            ![header::HOST, header::CONTENT_LENGTH, header::AUTHORIZATION].contains(name)
        })
        .collect();
    for name in listed {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if websocket {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
}

fn wants_websocket(headers: &HeaderMap) -> bool {
    let mut upgrades = headers.get_all(header::UPGRADE).iter();
    let websocket = upgrades.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    websocket && upgrades.next().is_none()
}

/// The server's answer as the client gets it.
fn finish(
    mut response: Response<Incoming>,
    scrubber: Option<Scrubber>,
    way: &Way,
) -> Result<Response<Body>, Unanswered> {
    // Looked at first: a server can name any header as one that is to be removed.
    let searchable = searchable(response.headers());
    strip(response.headers_mut(), false);
    let Some(scrubber) = scrubber else { return Ok(response.map(BodyExt::boxed_unsync)) };
    if !searchable {
        let why = "compresses its answer although it was asked not to, so it cannot be searched for secrets";
        return Err(Stop::Unreachable(format!("{} {why}", way.host)).into());
    }
    let mut response = response.map(|body| Scrubbed::new(body, scrubber.clone()).boxed_unsync());
    scrubber.headers(response.headers_mut());
    Ok(response)
}

/// Whether a body is what it says, and not compressed: neither itself, nor for the transport.
fn searchable(headers: &HeaderMap) -> bool {
    let is = |value: &HeaderValue, word: &[u8]| value.as_bytes().trim_ascii().eq_ignore_ascii_case(word);
    let mut transfer = headers.get_all(header::TRANSFER_ENCODING).iter();
    let chunked = transfer.next().is_none_or(|value| is(value, b"chunked")) && transfer.next().is_none();
    chunked && headers.get_all(header::CONTENT_ENCODING).iter().all(|value| is(value, b"identity"))
}

fn empty() -> Body {
    Full::default().map_err(|never| match never {}).boxed_unsync()
}

/// An answer of our own; the connection ends with it.
fn text(status: StatusCode, message: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{message}\n"))).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
