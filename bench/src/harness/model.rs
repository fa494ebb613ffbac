//! A scripted model that takes requests as every harness writes them, in chat completions and in responses: it calls the
//! shell that it is offered, one command for each step, looks at what each printed, and ends. The strict one of the tests
//! would refuse what others send.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
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
    /// The first result of the turn that is not what its command prints.
    failed: Arc<Mutex<Option<String>>>,
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
        let script = Script { steps, marks: Arc::default(), failed: Arc::default() };
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
        self.script.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// From each answer to the next request of the turn, which must have had every step and run every command.
    pub(crate) fn gaps(&self) -> anyhow::Result<Vec<Duration>> {
        if let Some(failed) = self.script.failed.lock().unwrap_or_else(PoisonError::into_inner).as_deref() {
            bail!("{failed}");
        }
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
            let results = list(json, "messages").iter().filter(tool).map(|message| &message["content"]);
            let done = script.ran(results);
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
        let results = list(json, "input").iter().filter(output).map(|item| &item["output"]);
        let done = script.ran(results);
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

/// The command of a step. Only a shell that ran it knows what it prints: who merely repeats or refuses it does not. The number
/// makes each call a new one, because whoever goes in circles is stopped.
fn command(step: usize) -> String {
    format!("echo ran-$((1000 + {step}))")
}

/// What it prints.
fn printed(step: usize) -> String {
    format!("ran-{}", 1000 + step)
}

impl Script {
    /// How many steps are over. The last one's result must have what its command prints; each was the last one once.
    fn ran<'a>(&self, results: impl Iterator<Item = &'a Value>) -> usize {
        let results: Vec<&Value> = results.collect();
        if let Some((result, before)) = results.split_last() {
            let (step, text) = (before.len(), result.to_string());
            if !text.contains(&printed(step)) {
                let said: String = text.chars().take(300).collect();
                let failed = format!("the command of step {} did not run: {said}", step + 1);
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failed);
            }
        }
        results.len()
    }

    /// The next call: the name of a shell that is offered, and arguments as its schema wants them. None after the last
    /// step, and for requests without tools, such as for a title.
    fn call<'a>(&self, done: usize, tools: impl Iterator<Item = &'a Value>) -> Option<(String, String)> {
        let mut shells = tools.filter(|tool| SHELLS.iter().any(|name| tool["name"] == *name));
        let shell = shells.next().filter(|_| done < self.steps)?;
        let has = |name: &str| shell["parameters"]["properties"][name].is_object();
        let name = if has("cmd") { "cmd" } else { "command" };
        let mut arguments = json!({ (name): command(done) });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_did_not_run_ends_the_measurement() {
        let script = |results: &[Value]| {
            let script = Script { steps: 2, marks: Arc::default(), failed: Arc::default() };
            assert_eq!(script.ran(results.iter()), results.len());
            script.failed.lock().unwrap().take()
        };
        assert_eq!(script(&[]), None);
        assert_eq!(script(&[json!("exit status 0\nran-1000\n")]), None);
        assert_eq!(script(&[json!("ran-1000"), json!([{"type": "text", "text": "ran-1001\n"}])]), None);
        for refused in [command(0), "exit status 127".to_owned(), "ran-1001".to_owned(), String::new()] {
            let failed = script(&[json!(refused)]).unwrap();
            assert!(failed.starts_with("the command of step 1 did not run"), "{failed}");
        }
    }

    #[test]
    fn the_shell_prints_what_is_looked_for() {
        let output = std::process::Command::new("sh").args(["-c", &command(7)]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), printed(7));
    }
}
