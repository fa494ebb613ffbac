//! The server's side of requests: one connection at a time, kept while it is of use.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::decide::{Gate, Stop, Way};
use super::rules::Host;
use super::stream::Outbound;

/// A server must have agreed on TLS within this time.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How a server is spoken to.
#[derive(Clone)]
pub(super) enum Speech {
    Plain,
    Tls(Arc<rustls::ClientConfig>),
}

/// Where requests of one client's connection go.
pub(super) struct Upstream {
    speech: Speech,
    /// A connection that was made before it was known that requests will go over it.
    made: Option<Outbound>,
    open: Option<Open>,
}

struct Open {
    way: Way,
    sender: SendRequest<Incoming>,
    /// Moves the bytes; ends with this value.
    _driver: AbortOnDropHandle<()>,
}

impl Upstream {
    pub(super) fn new(speech: Speech, made: Option<Outbound>) -> Self {
        Self { speech, made, open: None }
    }

    /// The connection that was made before, if no request has gone over it.
    pub(super) fn made(&self) -> Option<&Outbound> {
        self.made.as_ref()
    }

    /// The way to this host, if there is a connection along it that is of use.
    pub(super) fn way(&self, host: &Host, port: u16) -> Option<Way> {
        let open = self.open.as_ref()?;
        let same = open.way.host == *host && open.way.port == port;
        (same && !open.sender.is_closed()).then(|| open.way.clone())
    }

    /// Sends a request along a way. A kept connection that turns out to be closed is replaced once.
    pub(super) async fn send(
        &mut self,
        gate: &Gate,
        way: &Way,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Stop> {
        let broken = |error: hyper::Error| {
            Stop::Unreachable(format!("{} does not answer as a server does: {error}", way.target()))
        };
        if self.way(&way.host, way.port).is_some()
            && let Some(open) = &mut self.open
            && open.sender.ready().await.is_ok()
        {
            match open.sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(failed.into_error())),
                },
            }
        }
        self.open = None;
        let mut open = self.open(gate, way).await?;
        let response = open.sender.send_request(request).await.map_err(broken);
        self.open = Some(open);
        response
    }

    async fn open(&mut self, gate: &Gate, way: &Way) -> Result<Open, Stop> {
        let outbound = match self.made.take() {
            Some(made) => made,
            None => gate.connect(way).await?,
        };
        let failed = |why: String| Stop::Unreachable(format!("{}: {why}", way.target()));
        match &self.speech {
            Speech::Plain => speak(way, outbound).await,
            Speech::Tls(config) => {
                let name =
                    ServerName::try_from(way.host.to_string()).map_err(|error| failed(error.to_string()))?;
                let connecting = TlsConnector::from(config.clone()).connect(name, outbound);
                let stream = match tokio::time::timeout(HANDSHAKE, connecting).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return Err(failed(format!("TLS with the server failed: {error}"))),
                    Err(_) => return Err(failed("the server does not answer to TLS".to_owned())),
                };
                speak(way, stream).await
            }
        }
    }
}

async fn speak<S>(way: &Way, stream: S) -> Result<Open, Stop>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_headers(256)
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Stop::Unreachable(format!("{}: {error}", way.target())))?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            // Whoever waits for the response gets the error too.
            tracing::debug!(%error, "a server's connection broke");
        }
    });
    Ok(Open { way: way.clone(), sender, _driver: AbortOnDropHandle::new(driver) })
}
