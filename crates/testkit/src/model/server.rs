//! The server: takes requests in all formats, records them, and answers from the script until it is dropped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{Request as HttpRequest, Response, StatusCode, header};
use axum::routing::post;
use axum::serve::ListenerExt;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::plan::{Guard, Plan, Waited, wait};
use super::reply::{At, Body, Reply};
use super::request::{Format, Request};
use super::script::Script;
use super::{anthropic, chat, clouds, gemini, responses};

/// The most bytes of a request.
const REQUEST_LIMIT: usize = 64 * 1024 * 1024;

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub address: SocketAddr,
    /// The only key that it accepts; any key or none when absent.
    pub key: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), key: None }
    }
}

/// A scripted model that serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    key: Option<String>,
    requests: watch::Sender<Vec<Request>>,
    violations: Mutex<Vec<String>>,
    abandoned: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

impl Shared {
    fn violate(&self, violation: String) {
        lock(&self.violations).push(violation);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// When this machine has no free port. [`Server::start_with`] gives an error instead.
    #[expect(clippy::expect_used, reason = "a test can do nothing without a port")]
    pub async fn start(script: Script) -> Self {
        Self::start_with(script, Options::default()).await.expect("a free port on 127.0.0.1")
    }

    /// Starts with other options, such as a fixed address.
    pub async fn start_with(script: Script, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            key: options.key,
            requests: watch::Sender::new(Vec::new()),
            violations: Mutex::default(),
            abandoned: watch::Sender::new(0),
            stop: watch::Sender::new(false),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(answer_chat))
            .route("/v1/responses", post(answer_responses))
            .route("/v1/messages", post(answer_anthropic))
            .route("/v1/models/{call}", post(answer_gemini))
            .route("/v1beta/models/{call}", post(answer_gemini))
            .route("/openai/v1/chat/completions", post(answer_chat))
            .route("/openai/v1/responses", post(answer_responses))
            .route("/anthropic/v1/messages", post(answer_anthropic))
            .route("/v1/projects/{*call}", post(answer_published))
            .fallback(refuse)
            .with_state(Arc::clone(&shared));
        // Small events must not wait for one another on their way out. A socket that cannot be told so is merely slow.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let mut stop = shared.stop.subscribe();
        tokio::spawn(async move {
            let stopped = async move {
                // An error means that the server was dropped, which is a stop as well.
                drop(stop.wait_for(|stop| *stop).await);
            };
            // Serving has no error of its own: failed connections are their clients' business.
            drop(axum::serve(listener, router).with_graceful_shutdown(stopped).await);
        });
        Ok(Self { address, shared })
    }

    /// The base URL, such as `http://127.0.0.1:40000/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, also those that were refused.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.borrow().clone()
    }

    /// Waits until there were this many requests, and gives them.
    pub async fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        let mut requests = self.shared.requests.subscribe();
        match requests.wait_for(|requests| requests.len() >= count).await {
            Ok(requests) => requests.clone(),
            // The sender lives as long as `self`.
            Err(_) => self.requests(),
        }
    }

    /// What clients did wrong: requests that a real server would refuse, and requests after the script's end.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.shared.violations).clone()
    }

    /// Waits until this many answers were abandoned: the client closed the connection before their end.
    pub async fn wait_for_abandoned(&self, count: usize) {
        // The sender lives as long as `self`, so the wait ends only with a value.
        drop(self.shared.abandoned.subscribe().wait_for(|abandoned| *abandoned >= count).await);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
    }
}

async fn answer_chat(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest<HttpBody>,
) -> Response<HttpBody> {
    answer(shared, Format::Chat, request).await
}

async fn answer_responses(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest<HttpBody>,
) -> Response<HttpBody> {
    answer(shared, Format::Responses, request).await
}

async fn answer_gemini(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest<HttpBody>,
) -> Response<HttpBody> {
    answer(shared, Format::Gemini, request).await
}

async fn answer_anthropic(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest<HttpBody>,
) -> Response<HttpBody> {
    answer(shared, Format::Anthropic, request).await
}

async fn answer_published(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest<HttpBody>,
) -> Response<HttpBody> {
    let path = request.uri().path();
    match clouds::format(path) {
        Some(format) => answer(shared, format, request).await,
        None if path.ends_with("/endpoints/openapi/chat/completions") => {
            answer(shared, Format::Chat, request).await
        }
        None => refuse(State(shared), request).await,
    }
}

/// Whatever is not a call of a model.
async fn refuse(State(shared): State<Arc<Shared>>, request: HttpRequest<HttpBody>) -> Response<HttpBody> {
    let message = format!("there is no {} {}", request.method(), request.uri().path());
    shared.violate(message.clone());
    json_response(404, &chat::error(404, &message))
}

async fn answer(shared: Arc<Shared>, format: Format, request: HttpRequest<HttpBody>) -> Response<HttpBody> {
    let mut guard = Guard::new(shared.abandoned.clone());
    let (head, body) = request.into_parts();
    let headers = head.headers.iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let headers: Vec<_> = headers.collect();
    let Ok(bytes) = axum::body::to_bytes(body, REQUEST_LIMIT).await else {
        guard.finish();
        shared.violate("a request was too large or broke off".to_owned());
        return json_response(413, &error(format, 413, "the request is too large or broke off"));
    };
    let parsed = serde_json::from_slice::<Value>(&bytes);
    let valid = parsed.is_ok();
    let json = parsed.unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    let mut request = Request::unread(format, headers, json);
    request.body = bytes.to_vec();
    let path = head.uri.path();
    let read = match request.header("content-type") {
        Some(kind) if kind.starts_with("application/json") && valid => clouds::plain(&request, path)
            .and_then(|plain| {
                let came = std::mem::replace(&mut request.json, plain);
                let read = match format {
                    Format::Chat => chat::read(&mut request),
                    Format::Responses => responses::read(&mut request),
                    Format::Anthropic => anthropic::read(&mut request),
                    Format::Gemini => gemini::read(&mut request, path, head.uri.query().unwrap_or_default()),
                };
                request.json = came;
                read
            }),
        Some(kind) if kind.starts_with("application/json") => Err("the body is not JSON".to_owned()),
        Some(_) | None => Err("the content-type header must be application/json".to_owned()),
    };
    shared.requests.send_modify(|requests| requests.push(request.clone()));
    let key = if clouds::is_cloud(path) { bearer(&request) } else { key(&request) };
    if shared.key.is_some() && key != shared.key.as_deref() {
        guard.finish();
        return json_response(401, &error(format, 401, "the key is wrong"));
    }
    if let Err(violation) = read {
        guard.finish();
        shared.violate(violation.clone());
        return json_response(400, &error(format, 400, &violation));
    }
    let next = lock(&shared.script).next(&request);
    let Some((number, reply)) = next else {
        guard.finish();
        let message = "script exhausted: there was a request after the last reply";
        shared.violate(message.to_owned());
        return json_response(500, &error(format, 500, message));
    };
    send(&shared, guard, &request, number, reply).await
}

/// Sends a reply with all its faults.
async fn send(
    shared: &Shared,
    mut guard: Guard,
    request: &Request,
    number: usize,
    reply: Reply,
) -> Response<HttpBody> {
    let mut stop = shared.stop.subscribe();
    for (_, until) in reply.faults.stalls.iter().filter(|(at, _)| *at == At::Response) {
        if wait(until, &mut stop).await == Waited::Stopped {
            guard.finish();
            return json_response(503, &error(request.format, 503, "the scripted model stops"));
        }
    }
    let (status, kind, events) = match reply.body {
        Body::Answer(answer) if answer.whole || !request.stream => {
            let whole = match request.format {
                Format::Chat => chat::whole(&answer, request, number),
                Format::Responses => responses::whole(&answer, request, number),
                Format::Anthropic => anthropic::whole(&answer, request, number),
                Format::Gemini => gemini::whole(&answer, request, number),
            };
            (200, "application/json".to_owned(), vec![whole.to_string().into_bytes()])
        }
        Body::Answer(answer) => {
            let events = match request.format {
                Format::Chat => chat::events(&answer, request, number),
                Format::Responses => responses::events(&answer, request, number),
                Format::Anthropic => anthropic::events(&answer, request, number),
                Format::Gemini => gemini::events(&answer, request, number),
            };
            (200, "text/event-stream".to_owned(), events)
        }
        Body::Events(events) => (200, "text/event-stream".to_owned(), events.iter().map(raw_event).collect()),
        Body::Raw { status, content_type, bytes } => (status, content_type, vec![bytes]),
        Body::Error { status, message } => {
            let error = error(request.format, status, &message).to_string();
            (status, "application/json".to_owned(), vec![error.into_bytes()])
        }
    };
    let body = HttpBody::from_stream(Plan::new(events, &reply.faults).stream(stop, guard));
    let mut builder = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    for (name, value) in reply.headers {
        builder = builder.header(name, value);
    }
    builder.body(body).unwrap_or_else(|fault| {
        let message = format!("the script's reply is no HTTP response: {fault}");
        shared.violate(message.clone());
        json_response(500, &error(request.format, 500, &message))
    })
}

fn raw_event((name, data): &(String, String)) -> Vec<u8> {
    let mut event = String::new();
    if !name.is_empty() {
        event.push_str(&format!("event: {name}\n"));
    }
    for line in data.split('\n') {
        event.push_str(&format!("data: {line}\n"));
    }
    event.push('\n');
    event.into_bytes()
}

fn key(request: &Request) -> Option<&str> {
    match request.format {
        Format::Chat | Format::Responses => bearer(request),
        Format::Gemini => request.header("x-goog-api-key"),
        Format::Anthropic => request.header("x-api-key"),
    }
}

fn bearer(request: &Request) -> Option<&str> {
    request.header("authorization").and_then(chat::bearer)
}

fn error(format: Format, status: u16, message: &str) -> Value {
    match format {
        Format::Chat | Format::Responses => chat::error(status, message),
        Format::Gemini => gemini::error(status, message),
        Format::Anthropic => anthropic::error(status, message),
    }
}

fn json_response(status: u16, value: &Value) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::from(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
