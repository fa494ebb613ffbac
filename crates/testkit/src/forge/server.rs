//! The server: takes requests, decides whether to fail, and writes the ledger.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, header};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::ledger::{Entry, PullRequest, Store};
use super::{github, receiver};
use crate::repo::Repo;

/// The most bytes of a request.
const REQUEST_LIMIT: usize = 1024 * 1024;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The pull requests of a branch.
    LookUp,
    /// A new pull request.
    Open,
    /// A notification.
    Notify,
    /// Nothing that there is.
    Other,
}

/// How to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None: this request is let through, and the next fault is for the one after it.
    Pass,
    /// This status, and nothing is done.
    Refuse(u16),
    /// It is done, and this status says otherwise.
    ActThenRefuse(u16),
    /// It is done, and the connection breaks off before the answer is whole.
    ActThenDrop,
    /// Nothing is done, and no answer comes as long as the server lives.
    Hang,
    /// It is done, and no answer comes as long as the server lives.
    ActThenHang,
}

/// A forge that serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    directory: TempDir,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    token: String,
    url: String,
    store: Mutex<Store>,
    faults: Mutex<VecDeque<(On, Fault)>>,
    count: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts on a free port of 127.0.0.1; it takes this token and no other.
    ///
    /// # Panics
    ///
    /// When this machine has no free port or no room for a directory.
    #[expect(clippy::expect_used, reason = "a test can do nothing without a port and a directory")]
    pub async fn start(token: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port on 127.0.0.1");
        let address = listener.local_addr().expect("a socket that is bound has an address");
        let shared = Arc::new(Shared {
            token: token.to_owned(),
            url: format!("http://{address}"),
            store: Mutex::default(),
            faults: Mutex::default(),
            count: watch::Sender::new(0),
            stop: watch::Sender::new(false),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let mut stop = shared.stop.subscribe();
        tokio::spawn(async move {
            let stopped = async move {
                // An error means that the server was dropped, which is a stop as well.
                drop(stop.wait_for(|stop| *stop).await);
            };
            // Serving has no error of its own: failed connections are their clients' business.
            drop(axum::serve(listener, router).with_graceful_shutdown(stopped).await);
        });
        Self { address, directory: TempDir::new().expect("room for a directory"), shared }
    }

    /// Serves a repository as `owner/name`, and gives the address that it is cloned from and pushed to.
    ///
    /// # Panics
    ///
    /// When there is one of that name.
    #[expect(clippy::expect_used, reason = "a test can do nothing without its repository")]
    pub fn serve(&self, owner: &str, name: &str, repo: &Repo) -> String {
        let directory = self.directory.path().join(owner);
        std::fs::create_dir_all(&directory).expect("room for a directory");
        let path = directory.join(format!("{name}.git"));
        std::os::unix::fs::symlink(repo.path(), &path).expect("a new name");
        lock(&self.shared.store).repositories.insert(format!("{owner}/{name}"), repo.path().to_owned());
        path.to_string_lossy().into_owned()
    }

    /// What the addresses of its repositories begin with.
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    /// The address of its API.
    pub fn api_url(&self) -> String {
        format!("http://{}/api", self.address)
    }

    /// The address that takes notifications.
    pub fn hook_url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Fails once with a request of this kind; faults are used up in their order.
    pub fn fail(&self, on: On, fault: Fault) {
        lock(&self.shared.faults).push_back((on, fault));
    }

    /// Fails with the next requests of this kind.
    pub fn fail_times(&self, on: On, fault: Fault, times: usize) {
        (0..times).for_each(|_| self.fail(on, fault));
    }

    /// Fails no more.
    pub fn heal(&self) {
        lock(&self.shared.faults).clear();
    }

    /// Every request so far.
    pub fn entries(&self) -> Vec<Entry> {
        lock(&self.shared.store).entries.clone()
    }

    /// The requests of one kind so far.
    pub fn requests(&self, on: On) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.on == on).collect()
    }

    /// Waits until there were this many requests of one kind.
    pub async fn wait_for(&self, on: On, count: usize) -> Vec<Entry> {
        let mut changed = self.shared.count.subscribe();
        loop {
            changed.mark_unchanged();
            let requests = self.requests(on);
            if requests.len() >= count {
                return requests;
            }
            // The sender lives as long as `self`, so the wait ends only with a change.
            drop(changed.changed().await);
        }
    }

    /// Every pull request, oldest first.
    pub fn pull_requests(&self) -> Vec<PullRequest> {
        lock(&self.shared.store).pull_requests.clone()
    }

    /// Closes a pull request, as a person does.
    pub fn close(&self, number: u64) {
        for pull in lock(&self.shared.store).pull_requests.iter_mut().filter(|pull| pull.number == number) {
            pull.open = false;
        }
    }

    /// Every notification that was taken, by key, with how often it came.
    pub fn received(&self) -> Vec<(String, Value, usize)> {
        let store = lock(&self.shared.store);
        store.received.iter().map(|(key, (body, count))| (key.clone(), body.clone(), *count)).collect()
    }

    /// What clients did wrong: requests that the real forge or a careful receiver would not understand.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.shared.store).violations.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
    }
}

/// A request that was read.
pub(super) struct Asked<'a> {
    pub(super) head: &'a axum::http::request::Parts,
    pub(super) body: &'a [u8],
    pub(super) token: &'a str,
    /// The server's own address.
    pub(super) url: &'a str,
}

impl Asked<'_> {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }
}

/// What was decided on.
pub(super) struct Decided {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) acted: bool,
}

impl Decided {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, body, acted: false }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, REQUEST_LIMIT).await else {
        return respond(413, &json!({"message": "the request is too large or broke off"}));
    };
    let asked = Asked { head: &head, body: &body, token: &shared.token, url: &shared.url };
    let on = match (head.method.as_str(), head.uri.path()) {
        ("POST", "/hook") => On::Notify,
        (method, path) if github::is_pulls(path) => match method {
            "GET" => On::LookUp,
            "POST" => On::Open,
            _ => On::Other,
        },
        _ => On::Other,
    };
    let fault = {
        let mut faults = lock(&shared.faults);
        let place = faults.iter().position(|(wanted, _)| *wanted == on);
        place.and_then(|place| faults.remove(place)).map(|(_, fault)| fault)
    };
    let acts = !matches!(fault, Some(Fault::Refuse(_) | Fault::Hang));
    let decided = {
        let mut store = lock(&shared.store);
        let decided = match (acts, fault) {
            (false, Some(Fault::Refuse(status))) => Decided::new(status, json!({"message": "a fault"})),
            (false, _) => Decided::new(0, Value::Null),
            (true, _) => match on {
                On::LookUp => github::look_up(&mut store, &asked),
                On::Open => github::open(&mut store, &asked),
                On::Notify => receiver::take(&mut store, &asked),
                On::Other => {
                    store.violations.push(format!("there is no {} {}", head.method, head.uri.path()));
                    Decided::new(404, json!({"message": "Not Found"}))
                }
            },
        };
        let query = head.uri.query().map(|query| Value::String(query.to_owned()));
        store.entries.push(Entry {
            on,
            asked: query.or_else(|| serde_json::from_slice(&body).ok()).unwrap_or_default(),
            key: asked.header("idempotency-key").map(str::to_owned),
            signature: asked.header("x-slipway-signature-256").map(str::to_owned),
            status: decided.status,
            acted: decided.acted,
        });
        decided
    };
    shared.count.send_modify(|count| *count += 1);
    match fault {
        Some(Fault::Hang | Fault::ActThenHang) => {
            let mut stop = shared.stop.subscribe();
            // An error means that the server is gone, which is a stop as well.
            drop(stop.wait_for(|stop| *stop).await);
            respond(503, &json!({"message": "the forge stops"}))
        }
        Some(Fault::ActThenDrop) => {
            let broken = futures_util::stream::iter([Err::<bytes::Bytes, _>(io::Error::other("a fault"))]);
            let mut response = respond(decided.status, &Value::Null);
            *response.body_mut() = Body::from_stream(broken);
            response
        }
        Some(Fault::ActThenRefuse(status)) => respond(status, &json!({"message": "a fault"})),
        Some(Fault::Refuse(_) | Fault::Pass) | None => respond(decided.status, &decided.body),
    }
}

fn respond(status: u16, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
