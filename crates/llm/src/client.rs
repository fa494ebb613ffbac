//! The client: sends one request and reads the answer as it streams. It follows no redirect, which could carry the key
//! away, and uses no proxy for this machine's own addresses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::chat::{Completion, Request};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, Url, redirect};

use crate::body::{Body, Trouble};
use crate::error::{Class, Complaint, Error, excerpt};
use crate::model::{Model, is_loopback};
use crate::wire::{self, Fault, Fold, Progress, Quirks, Sink};

/// The most bytes of one answer; more than any model writes, and less than would hurt.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

/// The most bytes read of the body of a failure.
const COMPLAINT_LIMIT: usize = 64 * 1024;

/// How long to wait for the usage after the answer itself is whole.
const SETTLED_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for the end of the body after the end of the answer, which usually comes with it.
const DRAIN_WAIT: Duration = Duration::from_millis(100);

/// A piece of the answer while it streams.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A call begins or grows; its arguments are not whole yet.
    Call {
        /// The call's number in this answer.
        index: usize,
        /// The tool's name, once.
        tool: Option<String>,
        /// More of the arguments.
        arguments: String,
    },
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What the model said.
    pub completion: Completion,
    /// Until the first piece of the answer came.
    pub first_token: Duration,
    /// Until the last piece came.
    pub duration: Duration,
}

/// How long to wait. There is no limit for a whole answer: a model may think for long, as long as it shows life.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), idle: Duration::from_secs(300) }
    }
}

/// Calls models. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    /// For this machine's own addresses.
    direct: reqwest::Client,
    /// For all others, through the system's proxy if it has one.
    outward: reqwest::Client,
    timeouts: Timeouts,
    /// What servers turned out not to understand, so that only their first call pays for it.
    quirks: Arc<Mutex<HashMap<(String, String), Quirks>>>,
}

impl Client {
    /// A client with the usual timeouts.
    pub fn new() -> Result<Self, Error> {
        Self::with_timeouts(Timeouts::default())
    }

    /// A client with other timeouts.
    pub fn with_timeouts(timeouts: Timeouts) -> Result<Self, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // It fails only if another thread has just installed one, which is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(timeouts.connect)
                .redirect(redirect::Policy::none())
                .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")))
        };
        let failed = |error: reqwest::Error| {
            Error::new(
                Class::BadRequest,
                format!("The HTTP client cannot be set up: {}.", root_cause(&error)),
            )
        };
        // Local servers are called in plain text or with a certificate of their own making, and a machine without any
        // root certificates must still be able to call them.
        let direct =
            builder().no_proxy().build().or_else(|_| builder().no_proxy().tls_certs_only([]).build());
        let outward = builder().build().or_else(|error| {
            tracing::warn!(
                cause = root_cause(&error),
                "no root certificates were found, so https model servers cannot be verified; install ca-certificates"
            );
            builder().tls_certs_only([]).build()
        });
        Ok(Self {
            direct: direct.map_err(failed)?,
            outward: outward.map_err(failed)?,
            timeouts,
            quirks: Arc::default(),
        })
    }

    /// One call. Pieces of the answer go to the sink as they come; after an error they are to be thrown away. Dropping
    /// the future closes the connection.
    pub async fn complete(
        &self,
        model: &Model,
        request: &Request,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let answer = self.call(model, request, sink).await;
        answer.map_err(|error| error.redact(&model.secrets()))
    }

    async fn call(&self, model: &Model, request: &Request, sink: &mut Sink<'_>) -> Result<Answer, Error> {
        let started = Instant::now();
        let response = self.open(model, request).await?;
        tracing::debug!(model = model.name, elapsed = ?started.elapsed(), "the model server accepted the call");
        let mut first_token = None;
        let mut timed = |delta: Delta| {
            first_token.get_or_insert_with(|| started.elapsed());
            sink(delta);
        };
        let mut fold = wire::fold(model, request);
        let read = self.read(response, fold.as_mut(), &mut timed).await;
        let completion = read.and_then(|()| fold.finish().map_err(Trouble::Fault));
        let completion = completion.map_err(|trouble| self.explain(trouble, model))?;
        let duration = started.elapsed();
        Ok(Answer { completion, first_token: first_token.unwrap_or(duration), duration })
    }

    /// Sends the request, at most once more for each thing that the server turns out not to understand.
    async fn open(&self, model: &Model, request: &Request) -> Result<Response, Error> {
        let url = model.endpoint()?;
        let headers = model.request_headers()?;
        let place = (url.to_string(), model.model.clone());
        let first = Quirks::of(model);
        let mut quirks = {
            let known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&place).copied().unwrap_or(first)
        };
        loop {
            let body = wire::body(model, request, quirks).to_string();
            let response = self.send(model, url.clone(), headers.clone(), body).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            let retry_after = retry_after(response.headers());
            let body = self.complaint(response).await;
            let complaint = Complaint::from_body(status.as_u16(), &body);
            match quirks.adapt(first, &complaint) {
                Some(adapted) => {
                    quirks = adapted;
                    let mut known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
                    known.insert(place.clone(), adapted);
                }
                None => return Err(complaint.into_error(model, retry_after)),
            }
        }
    }

    async fn send(
        &self,
        model: &Model,
        url: Url,
        headers: HeaderMap,
        body: String,
    ) -> Result<Response, Error> {
        let client = if is_loopback(&url) { &self.direct } else { &self.outward };
        let request = client.post(url).header(CONTENT_TYPE, "application/json").headers(headers).body(body);
        match tokio::time::timeout(self.timeouts.idle, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(model, &error)),
            Err(_) => Err(self.explain(Trouble::Silent, model)),
        }
    }

    /// The beginning of a failure's body; what cannot be read is left out, as the status alone already tells much.
    async fn complaint(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        let read = async {
            while let Ok(Some(piece)) = response.chunk().await {
                body.extend_from_slice(&piece);
                if body.len() > COMPLAINT_LIMIT {
                    break;
                }
            }
        };
        if tokio::time::timeout(self.timeouts.idle.min(Duration::from_secs(10)), read).await.is_err() {
            tracing::debug!("the model server did not finish the body of its refusal");
        }
        body.truncate(COMPLAINT_LIMIT);
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Reads the answer to its end, streamed or whole.
    async fn read(
        &self,
        mut response: Response,
        fold: &mut dyn Fold,
        sink: &mut Sink<'_>,
    ) -> Result<(), Trouble> {
        let mut body = Body::default();
        let mut progress = Progress::Open;
        let mut received = 0;
        loop {
            let wait = match progress {
                Progress::Open => self.timeouts.idle,
                Progress::Settled => SETTLED_WAIT.min(self.timeouts.idle),
                Progress::Closed => {
                    drain(response).await;
                    return Ok(());
                }
            };
            let piece = match tokio::time::timeout(wait, response.chunk()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => return body.end(fold, sink),
                // The answer itself is whole; only its usage is lost.
                Ok(Err(_)) | Err(_) if progress == Progress::Settled => return Ok(()),
                Ok(Err(error)) => {
                    tracing::debug!(cause = root_cause(&error), "the connection to the model server broke");
                    return Err(Trouble::Fault(Fault::BrokeOff));
                }
                Err(_) => return Err(Trouble::Silent),
            };
            received += piece.len();
            if received > ANSWER_LIMIT {
                return Err(Trouble::Fault(Fault::malformed("does not end")));
            }
            progress = body.push(&piece, fold, sink)?.max(progress);
        }
    }

    fn explain(&self, trouble: Trouble, model: &Model) -> Error {
        match trouble {
            Trouble::Silent => Error::new(
                Class::TimedOut,
                format!(
                    "The model server at {} sent nothing for {:?}. Check that it is not stuck, or choose a faster model.",
                    model.address(),
                    self.timeouts.idle
                ),
            ),
            Trouble::Fault(Fault::Server(complaint)) => complaint.into_error(model, None),
            Trouble::Fault(Fault::BrokeOff) => Error::new(
                Class::BadResponse,
                format!(
                    "The answer broke off before its end. Try again; if it happens often, look into the log of the model \
                     server at {}.",
                    model.address()
                ),
            ),
            Trouble::Fault(Fault::Malformed(text)) => Error::new(
                Class::BadResponse,
                format!(
                    "The answer of the model server at {} {}. Check that base_url of [models.{}] in slipway.toml is the \
                     address of a model API, and the server's own log.",
                    model.address(),
                    text.trim_end_matches('.'),
                    model.name
                ),
            ),
        }
    }
}

/// Reads the end of a body that has nothing more to say: only then can the connection serve the next call.
async fn drain(mut response: Response) {
    let end = async { while let Ok(Some(_)) = response.chunk().await {} };
    if tokio::time::timeout(DRAIN_WAIT, end).await.is_err() {
        tracing::debug!("the model server holds the connection after its answer, so it is closed");
    }
}

/// An error for a request that was not answered at all.
fn unreachable(model: &Model, error: &reqwest::Error) -> Error {
    if error.is_builder() {
        return Error::new(
            Class::BadRequest,
            format!(
                "The request cannot be made: {}. Check [models.{}] in slipway.toml.",
                root_cause(error),
                model.name
            ),
        );
    }
    let address = model.address();
    let cause = root_cause(error);
    let advice = if model.base_url.is_some() {
        format!("is it running? Check base_url of [models.{}] in slipway.toml.", model.name)
    } else {
        "check this machine's network and proxy.".to_owned()
    };
    Error::new(
        Class::Unreachable,
        format!("Cannot reach the model server at {address} ({}): {advice}", excerpt(&cause)),
    )
}

/// The innermost cause, which is the one that says something.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// How long the server asks us to wait: milliseconds, seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number / unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| seconds(text, 1000.0)) {
        return Some(wait);
    }
    let value = text("retry-after")?;
    seconds(value, 1.0).or_else(|| {
        let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
        Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or(Duration::ZERO))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(name: &'static str, value: &str) -> Option<Duration> {
        retry_after(&HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]))
    }

    #[test]
    fn the_wait_is_read_in_every_form() {
        assert_eq!(wait("retry-after-ms", "1500"), Some(Duration::from_millis(1500)));
        assert_eq!(wait("retry-after", " 7 "), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(wait("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT").unwrap() > Duration::from_secs(86_400));
        for nonsense in ["soon", "-3", "inf", "NaN", ""] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
    }
}
