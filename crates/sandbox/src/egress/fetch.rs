//! A page that is fetched for a sandbox from here, by a program that is not in it. It goes the way of any program inside: over
//! a connection to the explicit proxy, which decides on every host that it is led to, tells of it, and searches what comes
//! back for secrets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::proxy::Proxy;
use super::tls;

/// All of it, with redirections, must be there within this time.
pub const FETCH_TIME: Duration = Duration::from_secs(30);
/// Most redirections that are followed.
const REDIRECTIONS: usize = 5;
/// Bytes on their way between the two sides.
const PIPE: usize = 64 << 10;
/// Most bytes of what the proxy has to say.
const SAID: usize = 4 << 10;
/// What is asked for.
const ACCEPTED: &str = "text/html, text/plain, text/markdown, application/json, */*;q=0.5";

/// What a server gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it is from, after redirections.
    pub url: String,
    /// The status.
    pub status: u16,
    /// What the server says that it is.
    pub content_type: Option<String>,
    /// The bytes, as many as were wanted.
    pub body: Vec<u8>,
    /// Whether there were more.
    pub cut: bool,
}

/// Why nothing was fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The address is none that can be fetched.
    #[error("{0}")]
    Address(String),
    /// The environment's rules, or a policy, do not allow a host on the way.
    #[error("{0}")]
    Refused(String),
    /// No server answered as one should.
    #[error("{0}")]
    Failed(String),
}

impl Proxy {
    /// Fetches a page as a program in the sandbox could, and at most this many bytes of it.
    pub async fn fetch(&self, address: &str, most: usize) -> Result<Fetched, FetchError> {
        match tokio::time::timeout(FETCH_TIME, self.follow(address, most)).await {
            Ok(fetched) => fetched,
            Err(_) => {
                Err(FetchError::Failed(format!("it did not come whole within {} s", FETCH_TIME.as_secs())))
            }
        }
    }

    async fn follow(&self, address: &str, most: usize) -> Result<Fetched, FetchError> {
        let mut url = read(address)?;
        for _ in 0..=REDIRECTIONS {
            let response = self.get(&url).await?;
            let next = location(&response).map(|to| url.join(&to));
            match next {
                Some(Ok(next)) => url = allowed(next)?,
                Some(Err(error)) => {
                    return Err(FetchError::Failed(format!("{url} leads to no address: {error}")));
                }
                None => return take(url, response, most).await,
            }
        }
        Err(FetchError::Failed(format!("it leads on more than {REDIRECTIONS} times, the last time to {url}")))
    }

    /// One request, on connections of its own.
    async fn get(&self, url: &Url) -> Result<Answer, FetchError> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let (mut sender, connection) = shake(self.dial()).await?;
        let to_proxy = drive(connection);
        let authority = format!("{host}:{port}");
        let connect =
            Request::builder().method(Method::CONNECT).uri(&authority).header(header::HOST, &authority);
        let mut answer = send(&mut sender, connect).await?;
        if answer.status() != StatusCode::OK {
            let (said, _) = limited(answer.body_mut(), SAID).await?;
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            return Err(match answer.status() {
                StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => FetchError::Refused(said),
                _ => FetchError::Failed(said),
            });
        }
        let tunnel = TokioIo::new(hyper::upgrade::on(answer).await.map_err(failed)?);
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let standard = url.port().is_none();
        let get = Request::builder()
            .method(Method::GET)
            .uri(target.parse::<Uri>().map_err(|error| FetchError::Address(error.to_string()))?)
            .header(header::HOST, if standard { host.clone() } else { authority })
            .header(header::USER_AGENT, "slipway")
            .header(header::ACCEPT, ACCEPTED)
            .header(header::ACCEPT_ENCODING, "identity");
        let (response, to_server) = match url.scheme() {
            "https" => {
                let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name =
                    ServerName::try_from(name).map_err(|error| FetchError::Address(error.to_string()))?;
                let config = tls::client_config(Arc::new(self.trusted())).map_err(failed)?;
                let stream = TlsConnector::from(Arc::new(config)).connect(name, tunnel).await;
                speak(
                    stream.map_err(|error| FetchError::Failed(format!("TLS with {host} failed: {error}")))?,
                    get,
                )
                .await?
            }
            _ => speak(tunnel, get).await?,
        };
        Ok(Answer { response, _connections: [to_proxy, to_server] })
    }

    /// A connection to the explicit proxy, as a program inside has one.
    fn dial(&self) -> tokio::io::DuplexStream {
        let (near, far) = tokio::io::duplex(PIPE);
        self.serve_explicit(far);
        near
    }

    /// What programs inside trust.
    fn trusted(&self) -> RootCertStore {
        let mut roots = (*self.gate().roots()).clone();
        let (_added, _unusable) = roots.add_parsable_certificates(self.gate().more_authorities());
        roots
    }
}

/// A response with the connections that it comes over.
struct Answer {
    response: Response<Incoming>,
    _connections: [AbortOnDropHandle<()>; 2],
}

fn failed(error: impl std::fmt::Display) -> FetchError {
    FetchError::Failed(error.to_string())
}

/// An address that can be fetched.
fn read(address: &str) -> Result<Url, FetchError> {
    let url = Url::parse(address.trim())
        .map_err(|error| FetchError::Address(format!("{address:?} is no address: {error}")))?;
    allowed(url)
}

fn allowed(url: Url) -> Result<Url, FetchError> {
    let wrong = |why: &str| Err(FetchError::Address(format!("{url} cannot be fetched: {why}")));
    if !matches!(url.scheme(), "http" | "https") {
        return wrong("only http and https can be");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("it has a name or a password in it");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return wrong("it names no host");
    }
    Ok(url)
}

async fn shake<S>(
    stream: S,
) -> Result<(http1::SendRequest<Empty<Bytes>>, http1::Connection<TokioIo<S>, Empty<Bytes>>), FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    http1::Builder::new().max_headers(256).handshake(TokioIo::new(stream)).await.map_err(failed)
}

fn drive<S>(connection: http1::Connection<TokioIo<S>, Empty<Bytes>>) -> AbortOnDropHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            // Whoever waits for the response gets the error too.
            tracing::debug!(%error, "a connection for a page broke");
        }
    }))
}

async fn send(
    sender: &mut http1::SendRequest<Empty<Bytes>>,
    request: hyper::http::request::Builder,
) -> Result<Response<Incoming>, FetchError> {
    let request = request.body(Empty::new()).map_err(|error| FetchError::Address(error.to_string()))?;
    sender.send_request(request).await.map_err(failed)
}

async fn speak<S>(
    stream: S,
    request: hyper::http::request::Builder,
) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = shake(stream).await?;
    let driver = drive(connection);
    Ok((send(&mut sender, request).await?, driver))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Where a response leads on to.
fn location(answer: &Answer) -> Option<String> {
    let leads = [301, 302, 303, 307, 308].contains(&answer.response.status().as_u16());
    text(answer.response.headers(), header::LOCATION).filter(|_| leads)
}

async fn take(url: Url, mut answer: Answer, most: usize) -> Result<Fetched, FetchError> {
    let headers = answer.response.headers();
    let encoding = text(headers, header::CONTENT_ENCODING).filter(|encoding| encoding != "identity");
    if let Some(encoding) = encoding {
        return Err(FetchError::Failed(format!("{url} is compressed ({encoding}), which was not asked for")));
    }
    let content_type = text(headers, header::CONTENT_TYPE);
    let status = answer.response.status().as_u16();
    let (body, cut) = limited(answer.response.body_mut(), most).await?;
    Ok(Fetched { url: url.into(), status, content_type, body, cut })
}

/// The bytes of a body, and whether there were more.
async fn limited(body: &mut Incoming, most: usize) -> Result<(Vec<u8>, bool), FetchError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(failed)?.into_data() else { continue };
        let room = (most - bytes.len()).min(data.len());
        bytes.extend_from_slice(&data[..room]);
        if room < data.len() {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// Where a link of a page leads; None where that is no page.
pub fn resolved(page: &str, link: &str) -> Option<String> {
    let url = Url::parse(page).ok()?.join(link.trim()).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.into())
}
