//! Connections: accept, speak HTTP/1.1, end in bounded time. Written over hyper rather than `axum::serve`, because
//! that one can neither time out a client that never finishes its headers nor cut connections off at a deadline.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::patience::Patient;

/// How long the end may take once it was asked for.
const GRACE: Duration = Duration::from_secs(5);
/// A client has this long for its request line and headers, and may stay idle this long between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest request line with headers.
const MAX_HEAD: usize = 64 * 1024;
/// Wait after the system refused a connection, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The server's life, shared with whatever outlives a single request.
#[derive(Clone, Default)]
pub(crate) struct Life {
    /// Cancelled when the server is to end.
    pub(crate) stop: CancellationToken,
    /// What the end waits for beside the connections: WebSockets and commands.
    pub(crate) tasks: TaskTracker,
}

/// The two ends of the connection that a request came over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The client.
    pub(crate) peer: SocketAddr,
    /// The address the client reached us at.
    pub(crate) local: SocketAddr,
}

/// Accepts until `shutdown` completes, then ends within [`GRACE`].
pub(crate) async fn run(listener: TcpListener, router: Router, life: Life, shutdown: impl Future) {
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, peer, router.clone(), life.stop.clone()));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; trying again");
                    tokio::select! {
                        _ = &mut shutdown => break,
                        () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    }
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    life.stop.cancel();
    life.tasks.close();
    let ended = async {
        while connections.join_next().await.is_some() {}
        life.tasks.wait().await;
    };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections did not end in time and are cut off");
    }
}

/// Whether the error belongs to the connection that was just taken from the queue, so that the next one may work.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, stop: CancellationToken) {
    let local = match stream.local_addr() {
        Ok(local) => local,
        Err(error) => {
            tracing::debug!(%error, "the connection was gone before it was served");
            return;
        }
    };
    // Events are small and each one should leave at once.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off delayed sending");
    }
    let ends = Ends { peer, local };
    let routes = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ends);
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}
