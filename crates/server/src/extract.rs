//! Extractors whose rejections are problems, so that no route answers with the framework's own error texts.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::StreamExt;
use protocol::{Code, Problem, SessionId};
use serde::de::DeserializeOwned;

use crate::problem::{Failure, bad_request, with_status};

/// Largest request body.
pub(crate) const MAX_BODY: usize = 1024 * 1024;
/// A client has this long to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a body that is too large is read and thrown away, so that the client gets to read the answer.
const DRAIN_LIMIT: usize = 8 * MAX_BODY;
/// How long that may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The whole body, if it is not too large and comes in time.
pub(crate) async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    let mut stream = body.into_data_stream();
    let mut collected = Vec::with_capacity(announced.min(MAX_BODY));
    let read = async {
        if announced > MAX_BODY {
            return Ok(false);
        }
        loop {
            let Some(chunk) = stream.next().await else { return Ok(true) };
            let chunk = chunk.map_err(|_| bad_request("the connection broke in the middle of the body"))?;
            if collected.len() + chunk.len() > MAX_BODY {
                return Ok(false);
            }
            collected.extend_from_slice(&chunk);
        }
    };
    let whole = tokio::time::timeout(BODY_TIMEOUT, read)
        .await
        .map_err(|_| with_status(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"))??;
    if whole {
        return Ok(collected.into());
    }
    // A client that asked first has not sent anything yet, and reading on would tell it to.
    if !headers.contains_key(header::EXPECT) {
        let drain = async {
            let mut drained = 0;
            while let Some(Ok(chunk)) = stream.next().await {
                drained += chunk.len();
                if drained > DRAIN_LIMIT {
                    break;
                }
            }
        };
        // Whether or not the client is done by then, it gets the same answer.
        tokio::time::timeout(DRAIN_TIMEOUT, drain).await.unwrap_or(());
    }
    Err(Problem::new(Code::TooLarge, "the body is larger than 1 MiB")
        .hint("put long texts into a file of the repository and name it in the prompt"))
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if !is_json(request.headers()) {
            return Err(bad_request("the body must be JSON")
                .hint("send the header \"Content-Type: application/json\"")
                .into());
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| bad_request(format!("the body could not be read: {rejection}")))?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| bad_request(format!("the body is not what this route takes: {error}")))?;
        Ok(Self(value))
    }
}

/// A JSON body that may be left out.
pub(crate) struct Optional<T>(pub(crate) Option<T>);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Optional<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let bytes = Bytes::from_request(Request::from_parts(parts.clone(), body), state)
            .await
            .map_err(|rejection| bad_request(format!("the body could not be read: {rejection}")))?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        let request = Request::from_parts(parts, Body::from(bytes));
        Json::from_request(request, state).await.map(|Json(value)| Self(Some(value)))
    }
}

/// Whether the content type is `application/json` or of its family.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(header::CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Parameters of the path.
pub(crate) struct Segments<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(bad_request(rejection.body_text()).into()),
        }
    }
}

/// Parameters of the query.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(bad_request(rejection.body_text()).into()),
        }
    }
}

/// The session of the path. What cannot be a session's id is a session that does not exist.
pub(crate) fn session_id(text: &str) -> Result<SessionId, Problem> {
    text.parse().map_err(|error: protocol::id::ParseIdError| {
        Problem::new(Code::NotFound, error.to_string()).hint("`slipway ls` shows the sessions there are")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_by_its_type() {
        let answer = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            is_json(&headers)
        };
        assert!(answer("application/json"));
        assert!(answer("Application/JSON; charset=utf-8"));
        assert!(answer("application/vnd.slipway+json"));
        assert!(!answer("text/plain"));
        assert!(!answer("application/x-www-form-urlencoded"));
        assert!(!is_json(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_body_without_a_length_is_cut_off_at_the_limit() {
        let chunk = Bytes::from(vec![b'x'; MAX_BODY / 2]);
        let body = |chunks: usize| {
            let chunk = chunk.clone();
            Body::from_stream(futures_util::stream::iter(
                (0..chunks).map(move |_| Ok::<_, std::convert::Infallible>(chunk.clone())),
            ))
        };
        let whole = read_body(&HeaderMap::new(), body(2)).await.unwrap();
        assert_eq!(whole.len(), MAX_BODY);
        let problem = read_body(&HeaderMap::new(), body(3)).await.unwrap_err();
        assert_eq!(problem.code, Code::TooLarge);
    }
}
