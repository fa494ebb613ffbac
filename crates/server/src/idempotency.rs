//! Commands happen once. A command runs to its end even if its client hangs up, and an `Idempotency-Key` makes a
//! repeated one answer like the first instead of doing the work again. What a command with a key makes has an id that is
//! kept with the key before the work begins, so that it is found again when the server died before the answer was kept; what
//! it changes says so in the same step in which it is changed.
//! One that comes while the same is being worked on waits for its answer.

mod fingerprint;
mod holds;

use std::future::Future;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use failpoint::Point;
use protocol::{Actor, Code, CommandId, Problem, PromptId, SessionId};
use serde::{Deserialize, Serialize};
use session::{Before, Cause, Command};
use store::{Claim, Store};
use tokio_util::task::TaskTracker;

use self::fingerprint::fingerprint;
pub(crate) use self::holds::Holds;
use crate::authorize::Identity;
use crate::extract::{Room, read_body};
use crate::problem::{Failure, bad_request, caught, internal, storage};

/// The header that names a command.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks an answer as the one given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Longest key.
const MAX_KEY: usize = 200;

/// What commands need.
#[derive(Clone)]
pub(crate) struct Commands {
    /// Keeps the keys.
    pub(crate) store: Store,
    /// Keeps the server from ending under a command.
    pub(crate) tasks: TaskTracker,
    /// The keys that are being worked on.
    pub(crate) holds: Holds,
}

/// An answer as it is kept under a key.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Where the new thing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    /// The body.
    body: String,
}

/// What a command makes, if it makes something, and the command itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    value: u128,
    /// What is known of a command with a key from before.
    before: Option<Before>,
}

impl Made {
    fn new(before: Option<Before>) -> Self {
        Self { value: CommandId::new().to_u128(), before }
    }

    /// That of a command which was begun before.
    fn known(name: &str, before: Before) -> Result<Self, Problem> {
        let value = name.parse().map_err(|error| {
            tracing::error!(%error, name, "the id that is kept with an idempotency key cannot be read");
            internal()
        })?;
        Ok(Self { value, before: Some(before) })
    }

    /// Whether the same command was begun before.
    pub(crate) fn again(self) -> bool {
        self.before.is_some_and(|before| before != Before::Never)
    }

    /// The command, if it has a key.
    pub(crate) fn command(self) -> Option<Command> {
        self.before.map(|before| Command { id: CommandId::from_u128(self.value), before })
    }

    /// The command, and who sent it.
    pub(crate) fn cause(self, actor: Actor) -> Cause {
        Cause { actor, command: self.command() }
    }

    /// As a session.
    pub(crate) fn session(self) -> SessionId {
        SessionId::from_u128(self.value)
    }

    /// As a prompt.
    pub(crate) fn prompt(self) -> PromptId {
        PromptId::from_u128(self.value)
    }
}

impl<S: Sync> FromRequestParts<S> for Made {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        // A command without a key is a new one each time.
        Ok(parts.extensions.get().copied().unwrap_or_else(|| Self::new(None)))
    }
}

/// Runs commands on a task of their own, once for each key; lets reads pass.
pub(crate) async fn commands(State(commands): State<Commands>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    command(commands, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn command(commands: Commands, request: Request, next: Next) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let body = read_body(&parts.headers, body, Room::of(parts.uri.path())).await?;
    let key = match key(&parts.headers)? {
        Some(key) => {
            // Another person's answer is never given out, even under the same key.
            let actor = parts.extensions.get::<Identity>();
            let actor = actor.and_then(|identity| identity.0.as_ref()).ok_or_else(internal)?;
            Some(format!("{} {} {} {key}", actor.id, parts.method, parts.uri.path()))
        }
        None => None,
    };
    let fingerprint = fingerprint(&body);
    let mut request = Request::from_parts(parts, Body::from(body));
    let tasks = commands.tasks.clone();
    let work = async move {
        match key {
            Some(key) => {
                let run = |made: Made| {
                    request.extensions_mut().insert(made);
                    caught(next.run(request))
                };
                once(&commands, &key, &fingerprint, run).await
            }
            None => Ok(caught(next.run(request)).await),
        }
    };
    tasks.spawn(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a command was broken off");
        Err(internal().into())
    })
}

/// Does the work unless it was done before under this key.
async fn once<F: Future<Output = Response>>(
    Commands { store, holds, .. }: &Commands,
    key: &str,
    fingerprint: &str,
    work: impl FnOnce(Made) -> F,
) -> Result<Response, Failure> {
    // Without it the claim says that somebody is at work.
    let _hold = holds.take(key).await;
    let new = Made::new(Some(Before::Never));
    let claim = store.claim_key(key, fingerprint, &new.value.to_string()).await;
    let made = match claim.map_err(|error| storage(&error))? {
        Claim::New => new,
        Claim::Again { name } => Made::known(&name, Before::Perhaps)?,
        Claim::Done { name } => Made::known(&name, Before::Done)?,
        Claim::Settled { status, body } => return replay(status, &body),
        Claim::Pending => {
            return Err(Failure::from(Problem::new(
                Code::Conflict,
                "the same request is still being worked on",
            ))
            .retry_after(1));
        }
        Claim::Mismatch => {
            return Err(Problem::new(
                Code::IdempotencyMismatch,
                "this idempotency key was used for another request",
            )
            .hint("use a new key for each new request")
            .into());
        }
    };
    failpoint::hit(Point::KeyClaimed);
    let response = work(made).await;
    if !response.status().is_success() {
        // Nothing was done, so the client may correct the request or try again; unless something broke on the way.
        let nothing_done = response.status().is_client_error() && !made.again();
        let given_back =
            if nothing_done { store.release_key(key).await } else { store.abandon_key(key).await };
        if let Err(error) = given_back {
            tracing::error!(%error, "an idempotency key could not be given back");
        }
        return Ok(response);
    }
    failpoint::hit(Point::CommandDone);
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| {
        tracing::error!(%error, "an answer could not be kept");
        internal()
    })?;
    // The work is done: the client hears so even if the key cannot be settled. The key then stays taken, which
    // keeps a repetition from doing the work twice.
    match kept(&parts.headers, &body) {
        Ok(kept) => {
            if let Err(error) = store.settle_key(key, parts.status.as_u16(), &kept).await {
                tracing::error!(%error, "an idempotency key could not be settled");
            }
        }
        Err(error) => tracing::error!(%error, "an answer could not be kept"),
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn kept(headers: &HeaderMap, body: &[u8]) -> Result<String, serde_json::Error> {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    serde_json::to_string(&Kept { location, body: String::from_utf8_lossy(body).into_owned() })
}

fn replay(status: u16, kept: &str) -> Result<Response, Failure> {
    let broken = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "a kept answer cannot be read");
        Failure::from(internal())
    };
    let kept: Kept = serde_json::from_str(kept).map_err(|error| broken(&error))?;
    let status = StatusCode::from_u16(status).map_err(|error| broken(&error))?;
    let mut response = (status, kept.body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    if let Some(location) = kept.location {
        headers.insert(header::LOCATION, location.parse().map_err(|error| broken(&error))?);
    }
    Ok(response)
}

/// The request's key, if it has one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let wrong = || bad_request("the Idempotency-Key must be one header of 1 to 200 visible ASCII characters");
    let text = value.to_str().map_err(|_| wrong())?;
    let fits = (1..=MAX_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits && values.next().is_none() { Ok(Some(text)) } else { Err(wrong()) }
}
