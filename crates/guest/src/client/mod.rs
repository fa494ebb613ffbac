//! The host side: one method per request, one connection per request.
//!
//! A connection to a Unix socket costs a few microseconds, so there is no pool, and nothing to go stale when a sandbox
//! is stopped and another takes its place. Only for a sandbox that waits one can be made ahead of time.

mod connect;
mod process;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;

use self::connect::{Answer, Line};
pub use self::process::{Output, Process};
use crate::query::encode;
use crate::wire::{
    FILE_SIZE, Failure, FailureCode, Health, ProcessSpec, ProcessState, PtySize, Signalled, Stat,
};

/// How long a guest that is alive can take to answer a question that needs no work.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the guest did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The guest does not answer: the sandbox is gone or going.
    #[error("the sandbox does not answer: {0}")]
    Unavailable(String),
    /// There is no such file or process.
    #[error("{0}")]
    NotFound(String),
    /// The guest refused the request: a bad path, a program that does not exist, a full disk.
    #[error("{0}")]
    Refused(String),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.code {
            FailureCode::NotFound => Self::NotFound(failure.message),
            FailureCode::Refused => Self::Refused(failure.message),
            FailureCode::Unavailable => Self::Unavailable(failure.message),
        }
    }
}

/// A connection factory to one guest. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    socket: Arc<Path>,
    /// What [`Client::prepare`] made and nobody has used yet.
    prepared: Arc<Mutex<Option<Line>>>,
    /// Added to what is asked of files.
    exact: &'static str,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Client {
    /// To a guest on a Unix socket. Works with paths longer than `sun_path`.
    pub fn unix(socket: impl AsRef<Path>) -> Self {
        Self { socket: socket.as_ref().into(), prepared: Arc::default(), exact: "" }
    }

    /// The same, with files only by paths in which nothing is a link: one that became a link since somebody looked is refused.
    #[must_use]
    pub fn exact(&self) -> Self {
        Self { exact: "&exact=1", ..self.clone() }
    }

    /// Whether it answers.
    pub async fn ping(&self) -> Result<(), Error> {
        let _: Health = self.ask("/health").await?;
        Ok(())
    }

    /// Connects ahead of time, for the next request, whoever makes it: for a sandbox that waits for its first command.
    pub async fn prepare(&self) -> Result<(), Error> {
        let line = Line::open(&self.socket).await?;
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        Ok(())
    }

    /// Merges variables into the environment of every process that is started later.
    pub async fn set_env(&self, variables: &BTreeMap<String, String>) -> Result<(), Error> {
        self.quick(Method::PUT, "/env", json(variables)?).await?;
        Ok(())
    }

    /// Starts a process under this id (or attaches to it) and follows its output from the start, in one round trip.
    pub async fn start(&self, id: &str, spec: &ProcessSpec) -> Result<Process, Error> {
        let body = json(spec)?;
        let target = format!("/processes/{}?follow=1", encode(id));
        Ok(Process::new(self.quick(Method::PUT, &target, body).await?))
    }

    /// Follows a process from byte `after` of its combined output.
    pub async fn attach(&self, id: &str, after: u64) -> Result<Process, Error> {
        let target = format!("/processes/{}/output?after={after}", encode(id));
        Ok(Process::new(self.quick(Method::GET, &target, Bytes::new()).await?))
    }

    /// Every process the guest knows, by id.
    pub async fn processes(&self) -> Result<Vec<ProcessState>, Error> {
        self.ask("/processes").await
    }

    /// Sends a signal to the process and everything it started, also after its own end. Gives how many processes it
    /// reached.
    pub async fn signal(&self, id: &str, signal: i32) -> Result<usize, Error> {
        let target = format!("/processes/{}/signal?n={signal}", encode(id));
        let body = self.quick(Method::POST, &target, Bytes::new()).await?.bytes().await?;
        // An older guest does not say.
        Ok(serde_json::from_slice::<Signalled>(&body).unwrap_or_default().reached)
    }

    /// Writes to standard input; returns when the process (or the pipe to it) has taken all of it.
    pub async fn write_stdin(&self, id: &str, data: Bytes) -> Result<(), Error> {
        self.send(Method::POST, &format!("/processes/{}/stdin", encode(id)), data).await?;
        Ok(())
    }

    /// Ends standard input, after what was written before.
    pub async fn close_stdin(&self, id: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &format!("/processes/{}/stdin", encode(id)), Bytes::new()).await?;
        Ok(())
    }

    /// Changes the size of its terminal.
    pub async fn resize(&self, id: &str, size: PtySize) -> Result<(), Error> {
        self.quick(Method::POST, &format!("/processes/{}/resize", encode(id)), json(&size)?).await?;
        Ok(())
    }

    /// Forgets an ended process.
    pub async fn forget(&self, id: &str) -> Result<(), Error> {
        self.quick(Method::DELETE, &format!("/processes/{}", encode(id)), Bytes::new()).await?;
        Ok(())
    }

    /// A file's bytes from `offset`, at most `limit`; with the file's whole size.
    pub async fn read_file(&self, path: &str, offset: u64, limit: u64) -> Result<(Bytes, u64), Error> {
        let target = format!("/files?path={}&offset={offset}&limit={limit}{}", encode(path), self.exact);
        let answer = self.quick(Method::GET, &target, Bytes::new()).await?;
        let size = answer.response.headers().get(FILE_SIZE);
        let size = size.and_then(|size| size.to_str().ok()?.parse().ok());
        let size = size.ok_or_else(|| Error::Unavailable("it sent a file without its size".into()))?;
        Ok((answer.bytes().await?, size))
    }

    /// Writes a whole file: to a new name beside it, then renamed over it; parents are made; an existing file keeps its mode.
    pub async fn write_file(&self, path: &str, data: Bytes) -> Result<(), Error> {
        self.send(Method::PUT, &format!("/files?path={}{}", encode(path), self.exact), data).await?;
        Ok(())
    }

    /// Entries of a directory, by name. Links are shown as links.
    pub async fn list(&self, path: &str) -> Result<Vec<Stat>, Error> {
        self.ask(&format!("/list?path={}{}", encode(path), self.exact)).await
    }

    /// What a path is, at the end of any links.
    pub async fn stat(&self, path: &str) -> Result<Stat, Error> {
        self.ask(&format!("/stat?path={}{}", encode(path), self.exact)).await
    }

    /// A question with a JSON answer.
    async fn ask<T: DeserializeOwned>(&self, target: &str) -> Result<T, Error> {
        let body = self.quick(Method::GET, target, Bytes::new()).await?.bytes().await?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::Unavailable(format!("it sent an answer we do not understand: {error}")))
    }

    /// A request that a living guest answers at once.
    async fn quick(&self, method: Method, target: &str, body: Bytes) -> Result<Answer, Error> {
        let answer = tokio::time::timeout(PATIENCE, self.send(method, target, body)).await;
        answer.unwrap_or_else(|_| {
            Err(Error::Unavailable(format!("no answer to a simple question in {} s", PATIENCE.as_secs())))
        })
    }

    async fn send(&self, method: Method, target: &str, body: Bytes) -> Result<Answer, Error> {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let line = match prepared {
            Some(line) => line,
            None => Line::open(&self.socket).await?,
        };
        let answer = line.request(method, target, body).await?;
        let status = answer.response.status();
        if status.is_success() {
            return Ok(answer);
        }
        let body = answer.bytes().await?;
        Err(match serde_json::from_slice::<Failure>(&body) {
            Ok(failure) => failure.into(),
            Err(_) if status == StatusCode::NOT_FOUND => {
                Error::NotFound(format!("the guest has no {target}"))
            }
            Err(_) => Error::Unavailable(format!("it answered {status}")),
        })
    }
}

fn json(value: &impl serde::Serialize) -> Result<Bytes, Error> {
    let body = serde_json::to_vec(value);
    body.map(Bytes::from)
        .map_err(|error| Error::Refused(format!("the request cannot be written as JSON: {error}")))
}

impl Answer {
    /// The whole body.
    async fn bytes(mut self) -> Result<Bytes, Error> {
        let body = self.connection.drive(self.response.into_body().collect()).await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(|error| Error::Unavailable(format!("the answer broke off: {error}")))
    }
}
