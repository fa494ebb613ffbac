//! The demo model's server: chat completions over real HTTP on loopback, streamed as every other model's answers are.

use std::convert::Infallible;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::script::{self, Reply};

/// Name of the model.
pub(crate) const NAME: &str = "demo";

/// Longest request that is read.
const LIMIT: usize = 16 << 20;

/// A running demo model; ends when dropped.
pub(crate) struct DemoModel {
    url: String,
    serving: JoinHandle<()>,
}

impl DemoModel {
    /// Serves on a free port of loopback.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot start the demo model")?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        Ok(Self { url, serving: tokio::spawn(serve(listener)) })
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for DemoModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files for a moment; a busy loop would make it worse.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        tokio::spawn(async move {
            let service = hyper::service::service_fn(answer);
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!("a connection to the demo model broke: {error}");
            }
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::POST || request.uri().path() != "/v1/chat/completions" {
        return Ok(refuse(StatusCode::NOT_FOUND, "the demo model has only POST /v1/chat/completions"));
    }
    let body = match Limited::new(request.into_body(), LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Ok(refuse(StatusCode::BAD_REQUEST, &error.to_string())),
    };
    let messages =
        serde_json::from_slice::<Value>(&body).ok().and_then(|body| body["messages"].as_array().cloned());
    let Some(messages) = messages else {
        return Ok(refuse(StatusCode::BAD_REQUEST, "the request has no messages"));
    };
    let reply = script::next(&messages);
    let stream = stream(&reply, body.len(), messages.len());
    let response = Response::builder().header("Content-Type", "text/event-stream").body(Full::from(stream));
    Ok(response.unwrap_or_else(|_| refuse(StatusCode::INTERNAL_SERVER_ERROR, "no answer")))
}

fn refuse(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(json!({"error": {"message": message}}).to_string()));
    *response.status_mut() = status;
    response
}

/// The answer as server-sent events. A script has no tokens; four bytes are counted as one, as is usual for estimates.
fn stream(reply: &Reply, prompt_bytes: usize, number: usize) -> String {
    let chunk = |delta: Value, finish: Value| json!({"object": "chat.completion.chunk", "model": NAME, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut chunks = vec![chunk(json!({"role": "assistant"}), Value::Null)];
    chunks.extend(reply.text.split_inclusive(' ').map(|word| chunk(json!({"content": word}), Value::Null)));
    for (index, (tool, arguments)) in reply.calls.iter().enumerate() {
        // The number of messages makes the id unique in the conversation.
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        let call = json!({"index": index, "id": format!("call_{number}_{index}"), "type": "function", "function": function});
        chunks.push(chunk(json!({"tool_calls": [call]}), Value::Null));
    }
    let finish = if reply.calls.is_empty() { "stop" } else { "tool_calls" };
    chunks.push(chunk(json!({}), json!(finish)));
    let answer_bytes: usize = reply.text.len()
        + reply.calls.iter().map(|(_, arguments)| arguments.to_string().len()).sum::<usize>();
    let usage =
        json!({"prompt_tokens": prompt_bytes.div_ceil(4), "completion_tokens": answer_bytes.div_ceil(4)});
    chunks.push(json!({"object": "chat.completion.chunk", "model": NAME, "choices": [], "usage": usage}));
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    text
}
