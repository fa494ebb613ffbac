//! A WebSocket server that sends back what it is sent, for conformance suites: the server's own settings and pump.
//! Prints where it listens.

#![allow(clippy::print_stdout, reason = "whoever started it reads where it listens")]

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("ws://{}/", listener.local_addr()?);
    server::serve_echoes(listener).await;
    Ok(())
}
