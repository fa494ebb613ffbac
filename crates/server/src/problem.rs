//! Every error leaves as `application/problem+json` with a stable code. Routes return [`Failure`]; the conversions
//! from what the framework rejects are here.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use protocol::{Code, Problem};

/// Media type of every error body.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A problem on its way out.
#[derive(Debug)]
pub(crate) struct Failure {
    problem: Problem,
    retry_after: Option<u32>,
}

impl Failure {
    /// Tells the client to come back after so many seconds.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        // Whoever waits that long finds the next server, where there is one.
        let retry_after = (problem.code == Code::ShuttingDown).then_some(1);
        Self { problem, retry_after }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { problem, retry_after } = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = problem.code.as_str(), title = problem.title, "a request failed");
        }
        // A problem is plain strings and a number, so this cannot fail; an empty body would still be an error.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A malformed request.
pub(crate) fn bad_request(title: impl Into<String>) -> Problem {
    Problem::new(Code::BadRequest, title)
}

/// A fault of ours; the details go to the log, not to the client.
pub(crate) fn internal() -> Problem {
    Problem::new(Code::Internal, "the server made a mistake").hint("its log says more; please report it")
}

/// A problem for an HTTP status that has no code of its own.
pub(crate) fn with_status(status: StatusCode, title: impl Into<String>) -> Problem {
    Problem { status: status.as_u16(), ..bad_request(title) }
}

/// The store's errors in the words of the API.
pub(crate) fn storage(error: &store::Error) -> Problem {
    tracing::error!(%error, "the store failed");
    session::store_problem(error.clone())
}

/// Answers 500 instead of breaking the connection off when the work panics.
pub(crate) async fn caught(work: impl Future<Output = Response>) -> Response {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            tracing::error!(panic = panic_text(panic.as_ref()), "a request panicked");
            Failure::from(internal()).into_response()
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}
