//! A scripted model that takes requests as every harness writes them, in chat completions and in responses: it calls the
//! shell that it is offered, one command for each step, and ends. The strict one of the tests would refuse what others
//! send.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Names under which a shell is offered.
const SHELLS: [&str; 3] = ["shell", "bash", "exec_command"];
/// The most bytes of a request.
const LIMIT: usize = 16 << 20;

/// When a request came, and when its answer was handed out.
#[derive(Debug, Clone, Copy)]
struct Mark {
    arrived: Instant,
    answered: Instant,
}

#[derive(Clone)]
struct Script {
    steps: usize,
    marks: Arc<Mutex<Vec<Mark>>>,
}

/// The model; it serves until dropped.
pub(crate) struct Model {
    address: SocketAddr,
    script: Script,
    serving: JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Model {
    /// Serves on a free port of loopback.
    pub(crate) async fn start(steps: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let script = Script { steps, marks: Arc::default() };
        let router = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/responses", post(responses))
            .route("/v1/models", get(|| async { axum::Json(json!({ "object": "list", "data": [] })) }))
            .with_state(script.clone());
        // A socket that cannot be told so is merely slow.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { address, script, serving })
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Begins a new turn.
    pub(crate) fn forget(&self) {
        self.script.marks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// From each answer to the next request of the turn, which must have had every step.
    pub(crate) fn gaps(&self) -> anyhow::Result<Vec<Duration>> {
        let marks = self.script.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let gaps: Vec<_> = marks.windows(2).map(|pair| pair[1].arrived - pair[0].answered).collect();
        let steps = self.script.steps;
        ensure!(gaps.len() == steps, "a turn of {steps} steps had {}", gaps.len());
        Ok(gaps)
    }
}

async fn chat(State(script): State<Script>, request: Request) -> Response {
    script
        .answer(request, |json| {
            let tool = |message: &&Value| message["role"] == "tool";
            let done = list(json, "messages").iter().filter(tool).count();
            let tools = list(json, "tools").iter().map(|tool| &tool["function"]);
            let delta = match script.call(done, tools) {
                Some((name, arguments)) => {
                    json!({"role": "assistant", "tool_calls": [{"index": 0, "type": "function",
                "id": format!("call_{done}"), "function": {"name": name, "arguments": arguments}}]})
                }
                None => json!({"role": "assistant", "content": "There is nothing to do."}),
            };
            let finish = if delta["content"].is_null() { "tool_calls" } else { "stop" };
            let chunk = |choices: Value| {
                json!({"id": "c", "object": "chat.completion.chunk", "created": 0,
            "model": "scripted", "choices": choices})
            };
            let mut last = chunk(json!([]));
            last["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
            let choice =
                |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
            let chunks = [chunk(choice(delta, Value::Null)), chunk(choice(json!({}), json!(finish))), last];
            let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
            text.push_str("data: [DONE]\n\n");
            text
        })
        .await
}

async fn responses(State(script): State<Script>, request: Request) -> Response {
    script.answer(request, |json| {
        let output = |item: &&Value| item["type"] == "function_call_output";
        let done = list(json, "input").iter().filter(output).count();
        let item = match script.call(done, list(json, "tools").iter()) {
            Some((name, arguments)) => json!({"type": "function_call", "id": format!("fc_{done}"),
                "call_id": format!("call_{done}"), "name": name, "arguments": arguments, "status": "completed"}),
            None => json!({"type": "message", "id": "msg", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "There is nothing to do.", "annotations": []}]}),
        };
        let id = format!("resp_{done}");
        let usage = json!({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}});
        let events = [
            json!({"type": "response.created", "response": {"id": id, "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": id, "status": "completed",
                "output": [item], "usage": usage}}),
        ];
        let event = |event: &Value| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
        };
        events.iter().map(event).collect()
    })
    .await
}

fn list<'a>(json: &'a Value, field: &str) -> &'a [Value] {
    json[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Script {
    /// The next call: the name of a shell that is offered, and arguments as its schema wants them. None after the last
    /// step, and for requests without tools, such as for a title.
    fn call<'a>(&self, done: usize, tools: impl Iterator<Item = &'a Value>) -> Option<(String, String)> {
        let mut shells = tools.filter(|tool| SHELLS.iter().any(|name| tool["name"] == *name));
        let shell = shells.next().filter(|_| done < self.steps)?;
        let has = |name: &str| shell["parameters"]["properties"][name].is_object();
        // The number makes each call a new one: whoever goes in circles is stopped.
        let name = if has("cmd") { "cmd" } else { "command" };
        let mut arguments = json!({ (name): format!("true {done}") });
        if has("description") {
            arguments["description"] = json!("Does nothing");
        }
        Some((shell["name"].as_str()?.to_owned(), arguments.to_string()))
    }

    async fn answer(&self, request: Request, reply: impl FnOnce(&Value) -> String) -> Response {
        let arrived = Instant::now();
        let read = axum::body::to_bytes(request.into_body(), LIMIT).await.unwrap_or_default();
        let Ok(json) = serde_json::from_slice::<Value>(&read) else {
            return (StatusCode::BAD_REQUEST, "the body is not JSON").into_response();
        };
        let text = reply(&json);
        if !list(&json, "tools").is_empty() {
            let mark = Mark { arrived, answered: Instant::now() };
            self.marks.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        }
        ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(Bytes::from(text))).into_response()
    }
}
