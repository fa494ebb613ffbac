//! The server: takes requests, decides whether to fail, and writes the ledger.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::asked::{Asked, Decided};
use super::hooks::{Event, Hooks, Kind, Order};
use super::ledger::{Entry, Login, PullRequest, Status, Store};
use super::{device, git, gitea, github, gitlab, merge, receiver, record};
use crate::repo::Repo;

/// The most bytes of a request.
const REQUEST_LIMIT: usize = 64 * 1024 * 1024;
/// How long the tokens of the app last, unless a test says otherwise.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// Who has the token that the server was started with.
const BOT: &str = "slipway-bot";

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The pull requests of a branch.
    LookUp,
    /// A new pull request.
    Open,
    /// A pull request, a comment, a label or a person that is there.
    Read,
    /// Another title, body or state; at GitLab also labels and reviewers.
    Update,
    /// A new comment.
    Comment,
    /// Labels and reviewers.
    Mark,
    /// The checks of a commit.
    Checks,
    /// The log of a job.
    Log,
    /// Whose token it is.
    Who,
    /// A token of the app.
    Mint,
    /// Signing in by device.
    SignIn,
    /// Git reads.
    Fetch,
    /// Git pushes.
    Push,
    /// Large files that git keeps elsewhere.
    Large,
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
    /// This status, and nothing is done; the words repeat what the request logs in with, in several spellings.
    Echo(u16),
    /// It is done, and this status says otherwise.
    ActThenRefuse(u16),
    /// It is done, and the connection breaks off before the answer is whole.
    ActThenDrop,
    /// There were too many requests: come back in so many seconds. Nothing is done.
    Limit(u64),
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
    url: String,
    /// Where the repositories are.
    root: PathBuf,
    hooks: Hooks,
    store: Mutex<Store>,
    faults: Mutex<VecDeque<(On, Fault)>>,
    count: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let directory = TempDir::new().expect("room for a directory");
        let store =
            Store { token_life: TOKEN_LIFE, device_life: 8 * TOKEN_LIFE, interval: 5, ..Store::default() };
        let shared = Arc::new(Shared {
            url: format!("http://{address}"),
            root: directory.path().to_owned(),
            hooks: Hooks::start(),
            store: Mutex::new(store),
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
        let server = Self { address, directory, shared };
        server.let_in(BOT, token);
        server
    }

    /// Somebody who is known here, with a token of theirs that reaches everything.
    pub fn let_in(&self, user: &str, token: &str) {
        let mut store = lock(&self.shared.store);
        if store.person(user).is_none() {
            store.people.push(user.to_owned());
        }
        let (token, user) = (token.to_owned(), user.to_owned());
        store.logins.push(Login { token, user, ends: None, reach: None });
    }

    /// Takes a token back.
    pub fn revoke(&self, token: &str) {
        lock(&self.shared.store).logins.retain(|login| login.token != token);
    }

    /// Somebody may look and no more from now on: the forge takes no pull request of theirs.
    pub fn keep_out(&self, user: &str) {
        lock(&self.shared.store).kept_out.push(user.to_owned());
    }

    /// So many pull requests of others, into `main` from these branches in turn and all with this text. They are closed.
    pub fn fill(&self, repository: &str, branches: &[String], body: &str, count: usize) {
        let mut store = lock(&self.shared.store);
        for branch in branches.iter().cycle().take(count) {
            let number = store.pull_requests.len() as u64 + 1;
            store.pull_requests.push(PullRequest {
                number,
                repository: repository.to_owned(),
                branch: branch.clone(),
                base: "main".to_owned(),
                title: "Something else".to_owned(),
                body: body.to_owned(),
                author: BOT.to_owned(),
                ..PullRequest::default()
            });
        }
    }

    /// The tokens of the app last so long from now on.
    pub fn tokens_last(&self, life: Duration) {
        lock(&self.shared.store).token_life = life;
    }

    /// How many tokens of the app were minted.
    pub fn minted(&self) -> usize {
        lock(&self.shared.store).minted
    }

    /// Somebody types in the code that a device shows. False when there is no such code.
    pub fn approve(&self, user_code: &str, user: &str) -> bool {
        let mut store = lock(&self.shared.store);
        let device = store.devices.iter_mut().find(|device| device.user_code == user_code);
        device.map(|device| device.user = Some(user.to_owned())).is_some()
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

    /// The address of a repository for git over HTTP.
    pub fn git_url(&self, owner: &str, name: &str) -> String {
        format!("{}/{owner}/{name}.git", self.shared.url)
    }

    /// The address of the server itself.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// The address of its API in GitHub's manner.
    pub fn api_url(&self) -> String {
        self.api_of(Kind::GitHub)
    }

    /// The address of its API in the manner of this forge.
    pub fn api_of(&self, kind: Kind) -> String {
        let version = match kind {
            Kind::GitHub => "v3",
            Kind::GitLab => "v4",
            Kind::Gitea => "v1",
        };
        format!("http://{}/api/{version}", self.address)
    }

    /// Renames a repository. Its old name leads to the new one.
    pub fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        let path = |name: &str| self.directory.path().join(format!("{name}.git"));
        std::fs::rename(path(old), path(new))?;
        let mut store = lock(&self.shared.store);
        if let Some(repository) = store.repositories.remove(old) {
            store.repositories.insert(new.to_owned(), repository);
        }
        store.moved.insert(old.to_owned(), new.to_owned());
        Ok(())
    }

    /// Old names lead nowhere any more.
    pub fn forget_moves(&self) {
        lock(&self.shared.store).moved.clear();
    }

    /// Reports a check of a commit: `success`, `failure` or `pending`.
    /// Gives the number of the job that did it.
    pub fn report(&self, repository: &str, commit: &str, name: &str, state: &str) -> u64 {
        let mut store = lock(&self.shared.store);
        let job = store.statuses.len() as u64 + 1;
        store.statuses.retain(|known| {
            (known.repository.as_str(), known.commit.as_str(), known.name.as_str())
                != (repository, commit, name)
        });
        store.statuses.push(Status {
            repository: repository.to_owned(),
            commit: commit.to_owned(),
            name: name.to_owned(),
            state: state.to_owned(),
            job,
        });
        let ended = store.statuses.last().filter(|known| known.state != "pending").map(Event::checked);
        store.events.extend(ended);
        let events = std::mem::take(&mut store.events);
        drop(store);
        self.shared.hooks.tell(events, &self.shared.url);
        job
    }

    /// The log that a job is to have.
    pub fn log(&self, job: u64, text: &str) {
        lock(&self.shared.store).logs.insert(job, text.to_owned());
    }

    /// The tokens of people who sign in by device last so long from now on, and devices may ask each so many seconds.
    pub fn devices(&self, life: Duration, interval: u64) {
        let mut store = lock(&self.shared.store);
        (store.device_life, store.interval) = (life, interval);
    }

    /// Says something about a line of a pull request, as a person does in a review.
    pub fn say_at(&self, number: u64, author: &str, text: &str, place: (&str, u64)) {
        let events = {
            let mut store = lock(&self.shared.store);
            let pull = store.pull_requests.iter_mut().find(|pull| pull.number == number);
            let event = pull.map(|pull| {
                let said = pull.say(author, text, None);
                (said.thread, said.place) = (Some(said.id), Some((place.0.to_owned(), place.1)));
                Event::commented(pull)
            });
            store.events.extend(event);
            std::mem::take(&mut store.events)
        };
        self.shared.hooks.tell(events, &self.shared.url);
    }

    /// Tells this address what happens, in the manner of this forge and signed with this secret.
    pub fn tell(&self, kind: Kind, url: &str, secret: &str) {
        self.shared.hooks.add(kind, url, secret);
    }

    /// How webhooks come from now on. Those that were held go out, newest first, unless they are to be held on.
    pub fn order(&self, order: Order) {
        self.shared.hooks.order(order);
    }

    /// Merges a pull request, as a person does: with git, and the base moves. Gives the commit that the base has then.
    pub fn merge(&self, number: u64) -> Result<String, String> {
        self.merged(number, |path, pull| {
            merge::merge(path, &pull.base, &pull.commit, &format!("Merge {}", pull.branch))
        })
    }

    /// The same as one commit, after which the branch is removed.
    pub fn squash(&self, number: u64) -> Result<String, String> {
        self.merged(number, |path, pull| {
            merge::squash(path, (&pull.base, &pull.branch), &pull.commit, &pull.title)
        })
    }

    fn merged(
        &self,
        number: u64,
        merge: impl FnOnce(&Path, &PullRequest) -> Result<String, String>,
    ) -> Result<String, String> {
        let (merged, events) = {
            let mut store = lock(&self.shared.store);
            store.refresh();
            let repositories = store.repositories.clone();
            let pull = store.pull_requests.iter_mut().find(|pull| pull.number == number && pull.open);
            let pull = pull.ok_or("there is no such open pull request")?;
            let path = repositories.get(&pull.repository).ok_or("its repository is gone")?;
            let merged = merge(path, pull)?;
            (pull.open, pull.merged) = (false, true);
            let event = Event::closed(pull);
            store.events.push(event);
            (merged, std::mem::take(&mut store.events))
        };
        self.shared.hooks.tell(events, &self.shared.url);
        Ok(merged)
    }

    /// Says something below a pull request, as a person does.
    pub fn say(&self, number: u64, author: &str, text: &str) {
        let events = {
            let mut store = lock(&self.shared.store);
            let pull = store.pull_requests.iter_mut().find(|pull| pull.number == number);
            let event = pull.map(|pull| {
                pull.say(author, text, None);
                Event::commented(pull)
            });
            store.events.extend(event);
            std::mem::take(&mut store.events)
        };
        self.shared.hooks.tell(events, &self.shared.url);
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
        let events = {
            let mut store = lock(&self.shared.store);
            store.refresh();
            let pull = store.pull_requests.iter_mut().find(|pull| pull.number == number && pull.open);
            let event = pull.map(|pull| {
                pull.open = false;
                Event::closed(pull)
            });
            store.events.extend(event);
            std::mem::take(&mut store.events)
        };
        self.shared.hooks.tell(events, &self.shared.url);
    }

    /// Opens a pull request again that was closed, as a person does.
    pub fn reopen(&self, number: u64) {
        let events = {
            let mut store = lock(&self.shared.store);
            let pull = store.pull_requests.iter_mut().find(|pull| pull.number == number && !pull.merged);
            let event = pull.map(|pull| {
                pull.open = true;
                Event::reopened(pull)
            });
            store.events.extend(event);
            std::mem::take(&mut store.events)
        };
        self.shared.hooks.tell(events, &self.shared.url);
    }

    /// What receivers of webhooks answered so far, oldest first. Those that are on their way are waited for.
    pub async fn hook_answers(&self) -> Vec<String> {
        self.shared.hooks.answers().await
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

async fn answer(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, REQUEST_LIMIT).await else {
        return respond(Decided::new(413, json!({"message": "the request is too large or broke off"})));
    };
    let asked = Asked::new(&head, &body, &shared.url);
    let (face, on) = route(&asked);
    let fault = {
        let mut faults = lock(&shared.faults);
        let place = faults.iter().position(|(wanted, _)| *wanted == on);
        place.and_then(|place| faults.remove(place)).map(|(_, fault)| fault)
    };
    let decided = match fault {
        Some(Fault::Refuse(status)) => Decided::new(status, json!({"message": "a fault"})),
        Some(Fault::Echo(status)) => echo(&asked, status),
        Some(Fault::Limit(seconds)) => limited(face, seconds),
        Some(Fault::Hang) => Decided::new(0, Value::Null),
        _ => match face {
            Face::Git => git::serve(&shared.store, &shared.root, &asked).await,
            Face::GitHub => github::answer(&mut lock(&shared.store), &asked),
            Face::GitLab => gitlab::answer(&mut lock(&shared.store), &asked),
            Face::Gitea => gitea::answer(&mut lock(&shared.store), &asked),
            Face::Device => device::answer(&mut lock(&shared.store), &asked),
            Face::Log => log_of(&mut lock(&shared.store), &asked, asked.parts()[1]),
            Face::Receiver => receiver::take(&mut lock(&shared.store), &asked),
            Face::None => nothing(&mut lock(&shared.store), &asked),
        },
    };
    let events = {
        let mut store = lock(&shared.store);
        let query = head.uri.query().map(|query| Value::String(query.to_owned()));
        store.entries.push(Entry {
            on,
            asked: query.or_else(|| serde_json::from_slice(&body).ok()).unwrap_or_default(),
            key: asked.header("idempotency-key").map(str::to_owned),
            signature: asked.header("x-slipway-signature-256").map(str::to_owned),
            status: decided.status,
            acted: decided.acted,
        });
        std::mem::take(&mut store.events)
    };
    shared.hooks.tell(events, &shared.url);
    if fault.is_none() {
        record::record(face, &asked, &decided);
    }
    shared.count.send_modify(|count| *count += 1);
    match fault {
        Some(Fault::Hang | Fault::ActThenHang) => {
            let mut stop = shared.stop.subscribe();
            // An error means that the server is gone, which is a stop as well.
            drop(stop.wait_for(|stop| *stop).await);
            respond(Decided::new(503, json!({"message": "the forge stops"})))
        }
        Some(Fault::ActThenDrop) => {
            let broken = futures_util::stream::iter([Err::<bytes::Bytes, _>(io::Error::other("a fault"))]);
            let mut response = respond(Decided::new(decided.status, Value::Null));
            *response.body_mut() = Body::from_stream(broken);
            response
        }
        Some(Fault::ActThenRefuse(status)) => respond(Decided::new(status, json!({"message": "a fault"}))),
        Some(Fault::Refuse(_) | Fault::Echo(_) | Fault::Limit(_) | Fault::Pass) | None => respond(decided),
    }
}

/// Which part of the server a request is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Face {
    Git,
    GitHub,
    GitLab,
    Gitea,
    Device,
    /// Where GitHub keeps logs: elsewhere, and without tokens.
    Log,
    Receiver,
    None,
}

fn route(asked: &Asked<'_>) -> (Face, On) {
    if let Some(on) = git::on(asked) {
        return (Face::Git, on);
    }
    if device::is_here(asked) {
        return (Face::Device, On::SignIn);
    }
    if let ("GET", ["logs", _]) = (asked.method(), &asked.parts()[..]) {
        return (Face::Log, On::Log);
    }
    match asked.parts()[..] {
        ["hook"] if asked.method() == "POST" => (Face::Receiver, On::Notify),
        ["api", "v3", ..] | ["api", "graphql"] => (Face::GitHub, github::on(asked)),
        ["api", "v4", ..] => (Face::GitLab, gitlab::on(asked)),
        ["api", "v1", ..] => (Face::Gitea, gitea::on(asked)),
        _ => (Face::None, On::Other),
    }
}

/// The log of a job, to whoever asks where it is kept.
pub(super) fn log_of(store: &mut Store, asked: &Asked<'_>, job: &str) -> Decided {
    if asked.parts()[0] == "logs" && asked.header("authorization").is_some() {
        store.violation("a token was carried to where logs are kept");
    }
    match job.parse().ok().and_then(|job: u64| store.logs.get(&job)) {
        Some(text) => {
            let mut decided = Decided::new(200, Value::Null).header("content-type", "text/plain");
            decided.raw = Some(text.clone().into_bytes());
            decided
        }
        None => Decided::new(404, json!({"message": "Not Found"})),
    }
}

/// What a server says that tells too much.
fn echo(asked: &Asked<'_>, status: u16) -> Decided {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let header = asked.header("authorization").unwrap_or_default();
    let given = header.rsplit(' ').next().unwrap_or_default();
    let pair = STANDARD.decode(given).ok().and_then(|pair| String::from_utf8(pair).ok());
    let token = pair.as_deref().and_then(|pair| pair.split_once(':')).map_or(given, |(_, token)| token);
    let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
    let said = format!("do not know {token}, {hex}, {}, {header}", STANDARD.encode(token));
    // Git shows what is plain text.
    let mut decided = Decided::new(status, Value::Null).header("content-type", "text/plain");
    decided.raw = Some(said.into_bytes());
    decided
}

/// How the forges say that there were too many requests.
fn limited(face: Face, seconds: u64) -> Decided {
    let decided = match face {
        Face::GitHub => {
            let said =
                "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
            Decided::new(403, json!({"message": said}))
        }
        _ => {
            let mut decided = Decided::new(429, Value::Null);
            decided.raw = Some(b"Retry later\n".to_vec());
            decided.header("content-type", "text/plain")
        }
    };
    decided.header("retry-after", seconds.to_string())
}

/// There is no such thing here.
pub(super) fn nothing(store: &mut Store, asked: &Asked<'_>) -> Decided {
    store.violation(format!("there is no {} {}", asked.method(), asked.head.uri.path()));
    Decided::new(404, json!({"message": "Not Found"}))
}

fn respond(decided: Decided) -> Response<Body> {
    let bytes = decided.raw.unwrap_or_else(|| decided.body.to_string().into_bytes());
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() =
        StatusCode::from_u16(decided.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in decided.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
