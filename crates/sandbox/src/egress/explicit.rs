//! The explicit proxy: programs that are told of it ask for hosts by name.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::decide::Gate;
use super::http::{self, After, Aim};
use super::stream::Client;
use super::tunnel::{self, Target};
use super::upstream::Speech;

/// Serves one connection of a program in the sandbox.
pub(super) async fn serve(gate: Arc<Gate>, stream: TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a sandbox's connection is slower than it could be");
    }
    speak(gate, stream).await;
}

/// Serves one connection, whatever it is made of.
pub(super) async fn speak<S>(gate: Arc<Gate>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = Client::new(stream);
    let idle = client.idle();
    let served = async {
        match http::serve(&gate, client, Aim::Any, Speech::Plain, None).await {
            Some(After::Tunnel(upgrade, made)) => match upgrade.await {
                Ok(upgraded) => {
                    let client = Client::new(TokioIo::new(upgraded));
                    let (way, outbound) = *made;
                    tunnel::run(&gate, client, Target::Named(way, outbound)).await;
                }
                Err(error) => tracing::debug!(%error, "a tunnel was not taken up"),
            },
            Some(After::Splice(client, server, scrubber)) => http::splice(client, server, scrubber).await,
            None => {}
        }
    };
    tokio::select! {
        () = served => {}
        () = idle => {}
    }
}
