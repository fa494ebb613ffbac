//! The floor of an agent loop: the same conversation over the same HTTP, each command run by `sh -c` right here. No
//! sandbox, no events, nobody who watches; optionally a log that survives a crash, since that is what costs most of ours.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// What the loop keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// Nothing.
    None,
    /// Each answer before its command runs, and each result before the next request, written through to the disk.
    Synced,
}

/// Runs a conversation to its end, from this first request on; gives how long each command took.
pub(crate) async fn run(
    model: SocketAddr,
    first: &Value,
    log: Log,
    dir: &Path,
) -> anyhow::Result<Vec<Duration>> {
    let mut log = match log {
        Log::None => None,
        Log::Synced => Some(File::create(dir.join("bare-loop.log"))?),
    };
    let stream = TcpStream::connect(model).await.context("reaching the scripted model")?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // How the connection ends is told to whoever waits for an answer.
    let connection = tokio::spawn(async move { drop(connection.await) });
    let mut body = first.clone();
    let mut commands = Vec::new();
    loop {
        let answer = ask(&mut sender, model, &body).await?;
        keep(log.as_mut(), &answer)?;
        let Some(call) = answer.get("tool_calls").and_then(|calls| calls.get(0)).cloned() else { break };
        let arguments = call["function"]["arguments"].as_str().context("a call without arguments")?;
        let arguments: Value = serde_json::from_str(arguments)?;
        let command = arguments["command"].as_str().context("a call without a command")?;
        let began = Instant::now();
        let output = tokio::process::Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .output()
            .await
            .context("running sh")?;
        commands.push(began.elapsed());
        ensure!(output.status.success(), "{command} failed");
        let text = String::from_utf8_lossy(&output.stdout);
        let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": text });
        keep(log.as_mut(), &result)?;
        let messages = body["messages"].as_array_mut().context("a request without messages")?;
        messages.extend([answer, result]);
    }
    connection.abort();
    Ok(commands)
}

fn keep(log: Option<&mut File>, message: &Value) -> std::io::Result<()> {
    let Some(log) = log else { return Ok(()) };
    writeln!(log, "{message}")?;
    log.sync_data()
}

/// One model call; gives the assistant's message.
async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    model: SocketAddr,
    body: &Value,
) -> anyhow::Result<Value> {
    sender.ready().await?;
    let request = Request::post("/v1/chat/completions")
        .header("host", model.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(serde_json::to_vec(body)?)))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let text = response.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "the scripted model answered {status}: {}", String::from_utf8_lossy(&text));
    let mut message = json!({ "role": "assistant", "content": null });
    for line in std::str::from_utf8(&text)?.lines() {
        let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") else { continue };
        let event: Value = serde_json::from_str(data)?;
        let delta = &event["choices"][0]["delta"];
        if let Some(text) = delta["content"].as_str() {
            append(&mut message["content"], text);
        }
        // The script makes one call at a time, so pieces need no sorting by their number.
        if let Some(piece) = delta["tool_calls"].get(0) {
            if message.get("tool_calls").is_none() {
                message["tool_calls"] =
                    json!([{ "type": "function", "id": "", "function": { "name": "", "arguments": "" } }]);
            }
            let call = &mut message["tool_calls"][0];
            append(&mut call["id"], piece["id"].as_str().unwrap_or_default());
            for field in ["name", "arguments"] {
                let text = piece["function"][field].as_str().unwrap_or_default();
                append(&mut call["function"][field], text);
            }
        }
    }
    Ok(message)
}

fn append(to: &mut Value, text: &str) {
    let mut whole = to.as_str().unwrap_or_default().to_owned();
    whole.push_str(text);
    *to = Value::String(whole);
}
