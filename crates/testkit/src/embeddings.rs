//! An embedding server over real HTTP, strict about what it is sent. What a text means to it is the words that it has, where
//! words that are told to mean the same are one; so a test knows what is near to what.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How many numbers a text has, unless a request asks for another number.
const DIMENSIONS: usize = 256;
/// Most texts of one request, and most bytes of one.
const TEXTS: usize = 32;
const BYTES: usize = 4096;

/// A server that answers until it is dropped.
#[derive(Debug)]
pub struct Embeddings {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    key: Option<String>,
    same: BTreeMap<String, String>,
    down: Mutex<bool>,
    requests: watch::Sender<Vec<Value>>,
    violations: Mutex<Vec<String>>,
    stop: watch::Sender<bool>,
}

impl Embeddings {
    /// Starts on a free port of 127.0.0.1. Each pair of words means the same. With a key it takes no other.
    ///
    /// # Panics
    ///
    /// When this machine has no free port.
    #[expect(clippy::expect_used, reason = "a test can do nothing without a port")]
    pub async fn start(same: &[(&str, &str)], key: Option<&str>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port on 127.0.0.1");
        let address = listener.local_addr().expect("a listener has an address");
        let same = same.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned()));
        let shared = Arc::new(Shared {
            key: key.map(str::to_owned),
            same: same.collect(),
            down: Mutex::new(false),
            requests: watch::Sender::new(Vec::new()),
            violations: Mutex::default(),
            stop: watch::Sender::new(false),
        });
        let router = Router::new()
            .route("/v1/embeddings", post(answer))
            .fallback(refuse)
            .with_state(Arc::clone(&shared));
        let mut stop = shared.stop.subscribe();
        tokio::spawn(async move {
            let stopped = async move {
                // An error means that the server was dropped, which is a stop as well.
                drop(stop.wait_for(|stop| *stop).await);
            };
            // Serving has no error of its own: failed connections are their clients' business.
            drop(axum::serve(listener, router).with_graceful_shutdown(stopped).await);
        });
        Self { address, shared }
    }

    /// The base URL.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// From now on every request is refused, with the key in the message; until it is put up again.
    pub fn put_down(&self) {
        *lock(&self.shared.down) = true;
    }

    /// From now on requests are answered.
    pub fn put_up(&self) {
        *lock(&self.shared.down) = false;
    }

    /// The bodies of all requests so far, also of those that were refused.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.borrow().clone()
    }

    /// Every text that it was sent and answered for.
    pub fn texts(&self) -> Vec<String> {
        let texts = |request: &Value| {
            let input = request["input"].as_array().cloned().unwrap_or_default();
            input.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        self.requests().iter().flat_map(texts).collect()
    }

    /// Waits until a text was sent that has this in it.
    pub async fn wait_for_text(&self, part: &str) {
        let has = |requests: &Vec<Value>| requests.iter().any(|request| request.to_string().contains(part));
        // The sender lives as long as `self`, so the wait ends only with a value.
        drop(self.shared.requests.subscribe().wait_for(has).await);
    }

    /// What clients did wrong.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.shared.violations).clone()
    }
}

impl Drop for Embeddings {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn refuse(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response {
    let message = format!("there is no {} {}", request.method(), request.uri().path());
    lock(&shared.violations).push(message.clone());
    failure(StatusCode::NOT_FOUND, &message)
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let request: Value = serde_json::from_str(&body).unwrap_or_default();
    shared.requests.send_modify(|requests| requests.push(request.clone()));
    let bearer = header("authorization");
    if *lock(&shared.down) {
        let message = format!("down for maintenance; you came with {bearer}");
        return failure(StatusCode::SERVICE_UNAVAILABLE, &message);
    }
    if let Some(key) = &shared.key
        && bearer != format!("Bearer {key}")
    {
        return failure(StatusCode::UNAUTHORIZED, &format!("{bearer} is no key"));
    }
    let checked = match header("content-type").starts_with("application/json") {
        true => check(&request),
        false => Err("the content-type header must be application/json".to_owned()),
    };
    let (texts, dimensions) = match checked {
        Ok(checked) => checked,
        Err(violation) => {
            lock(&shared.violations).push(violation.clone());
            return failure(StatusCode::BAD_REQUEST, &violation);
        }
    };
    let entry = |(index, text): (usize, &String)| json!({"object": "embedding", "index": index, "embedding": shared.vector(text, dimensions)});
    // Nobody promises that they come in order.
    let data: Vec<Value> = texts.iter().enumerate().map(entry).rev().collect();
    let answer =
        json!({"object": "list", "data": data, "model": request["model"], "usage": {"prompt_tokens": 1}});
    axum::Json(answer).into_response()
}

fn failure(status: StatusCode, message: &str) -> Response {
    (status, axum::Json(json!({"error": {"message": message}}))).into_response()
}

/// The texts of a request and the numbers that each is to have, or what is wrong with it.
fn check(request: &Value) -> Result<(Vec<String>, usize), String> {
    let fields = request.as_object().ok_or("the body is no JSON object")?;
    if let Some(field) = fields
        .keys()
        .find(|name| !["model", "input", "encoding_format", "dimensions"].contains(&name.as_str()))
    {
        return Err(format!("there is no field {field}"));
    }
    if request["model"].as_str().is_none_or(str::is_empty) {
        return Err("model must be a name".to_owned());
    }
    if fields.get("encoding_format").is_some_and(|format| format != "float") {
        return Err("encoding_format must be float".to_owned());
    }
    let dimensions = match fields.get("dimensions") {
        None => DIMENSIONS,
        Some(count) => count.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or_default(),
    };
    if !(8..=4096).contains(&dimensions) {
        return Err("dimensions must be between 8 and 4096".to_owned());
    }
    let input = request["input"].as_array().ok_or("input must be a list of texts")?;
    let texts: Vec<String> = input.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect();
    if texts.is_empty() || texts.len() > TEXTS || texts.len() != input.len() {
        return Err(format!("input must have between one and {TEXTS} texts"));
    }
    match texts.iter().find(|text| text.trim().is_empty() || text.len() > BYTES) {
        Some(_) => Err(format!("a text must have between one and {BYTES} bytes")),
        None => Ok((texts, dimensions)),
    }
}

impl Shared {
    /// How often each word stands in a text, each at a place of its own; not of length one, as of some servers.
    fn vector(&self, text: &str, dimensions: usize) -> Vec<f32> {
        let mut vector = vec![0.01; dimensions];
        for word in text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 2) {
            let word = word.to_lowercase();
            let meant = self.same.get(&word).unwrap_or(&word);
            let stem = meant.get(..5).unwrap_or(meant);
            let hash =
                stem.bytes().fold(7_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            vector[hash % dimensions] += 1.0;
        }
        vector
    }
}
