//! The floor of a restart: an axum program with one SQLite file, a row for each session. It lists them, and sends each
//! one's request to the model again. There is no log, no sandbox and nobody who watches.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rusqlite::Connection;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use crate::served::Served;

/// First argument of such a process: this program, run again.
pub(crate) const ARGUMENT: &str = "plain-server";

/// Writes the file: what is listed of each session, and its request.
pub(crate) fn write(path: &Path, sessions: &[(Value, Value)]) -> anyhow::Result<()> {
    let mut file = Connection::open(path)?;
    file.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE sessions (row TEXT NOT NULL, request TEXT NOT NULL);",
    )?;
    let transaction = file.transaction()?;
    for (row, request) in sessions {
        transaction
            .execute("INSERT INTO sessions VALUES (?1, ?2)", (row.to_string(), request.to_string()))?;
    }
    Ok(transaction.commit()?)
}

/// Starts the process.
pub(crate) async fn start(path: &Path, model: SocketAddr) -> anyhow::Result<Served> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg(ARGUMENT).arg(path).arg(model.to_string());
    Served::start(command).await
}

/// The life of the process.
pub(crate) fn main(arguments: Vec<std::ffi::OsString>) -> anyhow::Result<ExitCode> {
    let [path, model] = &arguments[..] else { anyhow::bail!("a file and an address are needed") };
    let (path, model) = (PathBuf::from(path), model.to_str().context("no address")?.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&path, model))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(path: &Path, model: SocketAddr) -> anyhow::Result<()> {
    let file = Connection::open(path)?;
    for request in column(&file, "SELECT request FROM sessions")? {
        drop(tokio::spawn(async move { ask(model, request).await }));
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let said = serde_json::json!({ "url": format!("http://{}", listener.local_addr()?) });
    let line = format!("{said}\n");
    tokio::io::AsyncWriteExt::write_all(&mut tokio::io::stdout(), line.as_bytes()).await?;
    let router = Router::new().route("/sessions", get(list)).with_state(Arc::new(Mutex::new(file)));
    Ok(axum::serve(listener, router).await?)
}

async fn list(State(file): State<Arc<Mutex<Connection>>>) -> Result<Json<Value>, String> {
    let file = file.lock().unwrap_or_else(PoisonError::into_inner);
    let rows = column(&file, "SELECT row FROM sessions").map_err(|error| error.to_string())?;
    let rows: Result<Vec<Value>, _> = rows.iter().map(|row| serde_json::from_str(row)).collect();
    Ok(Json(serde_json::json!({ "sessions": rows.map_err(|error| error.to_string())? })))
}

fn column(file: &Connection, query: &str) -> rusqlite::Result<Vec<String>> {
    file.prepare(query)?.query_map((), |row| row.get(0))?.collect()
}

/// One model call, to its end.
async fn ask(model: SocketAddr, request: String) -> anyhow::Result<()> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(TcpStream::connect(model).await?)).await?;
    drop(tokio::spawn(async move { drop(connection.await) }));
    let request = Request::post("/v1/chat/completions")
        .header("host", model.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(request)))?;
    sender.send_request(request).await?.into_body().collect().await?;
    Ok(())
}
