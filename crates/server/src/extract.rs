//! Extractors whose rejections are problems, so that no route answers with the framework's own error texts.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::StreamExt;
use protocol::{Code, IMAGE_LIMIT, IMAGES_PER_PROMPT, Problem, SessionId};
use serde::de::DeserializeOwned;

use crate::problem::{Failure, bad_request, with_status};

/// Largest request body without images.
pub(crate) const MAX_BODY: usize = 1024 * 1024;
/// Largest body of a prompt, with all images that it may have in base64.
const MAX_BODY_WITH_IMAGES: usize = MAX_BODY + IMAGES_PER_PROMPT * IMAGE_LIMIT.div_ceil(3) * 4;
/// Largest body of a webhook.
const MAX_WEBHOOK: usize = 4 * MAX_BODY;
/// A client has this long to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a body with images.
const IMAGES_TIMEOUT: Duration = Duration::from_secs(300);
/// How much of a body that is too large is read and thrown away, so that the client gets to read the answer.
const DRAIN_LIMIT: usize = 8 * MAX_BODY;
/// How long that may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How much may be sent to a route, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    bytes: usize,
    time: Duration,
    /// What whoever sends more can do instead.
    hint: &'static str,
}

impl Room {
    /// That of a path: where prompts are taken there is room for their images.
    pub(crate) fn of(path: &str) -> Self {
        let place = path.strip_prefix("/api/v1/sessions").map(|rest| rest.split('/').collect::<Vec<_>>());
        match place.as_deref() {
            Some([""] | ["", _, "prompts" | "fork"]) => {
                let hint = "a prompt has at most 8 images of 5 MiB; put more into the repository and name them in the prompt";
                Self { bytes: MAX_BODY_WITH_IMAGES, time: IMAGES_TIMEOUT, hint }
            }
            _ => {
                let hint = "put long texts into a file of the repository and name it in the prompt";
                Self { bytes: MAX_BODY, time: BODY_TIMEOUT, hint }
            }
        }
    }

    /// That of what forges tell. One event is far below it, but for pushes, which do not matter here.
    pub(crate) fn of_webhook() -> Self {
        let hint = "let the webhook send pull requests, comments and checks only";
        Self { bytes: MAX_WEBHOOK, time: BODY_TIMEOUT, hint }
    }
}

/// The whole body, if it is not too large and comes in time.
pub(crate) async fn read_body(headers: &HeaderMap, body: Body, room: Room) -> Result<Bytes, Problem> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    let mut stream = body.into_data_stream();
    let mut collected = Vec::with_capacity(announced.min(MAX_BODY));
    let read = async {
        if announced > room.bytes {
            return Ok(false);
        }
        loop {
            let Some(chunk) = stream.next().await else { return Ok(true) };
            let chunk = chunk.map_err(|_| bad_request("the connection broke in the middle of the body"))?;
            if collected.len() + chunk.len() > room.bytes {
                return Ok(false);
            }
            collected.extend_from_slice(&chunk);
        }
    };
    let whole = tokio::time::timeout(room.time, read)
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
    let title = format!("the body is larger than {} MiB", room.bytes / MAX_BODY);
    Err(Problem::new(Code::TooLarge, title).hint(room.hint))
}

/// A body that was read before, and had to fit then.
async fn read_whole(body: Body) -> Result<Bytes, Problem> {
    let read = axum::body::to_bytes(body, MAX_BODY_WITH_IMAGES).await;
    read.map_err(|error| bad_request(format!("the body could not be read: {error}")))
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        if !is_json(request.headers()) {
            return Err(bad_request("the body must be JSON")
                .hint("send the header \"Content-Type: application/json\"")
                .into());
        }
        let bytes = read_whole(request.into_body()).await?;
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
        let bytes = read_whole(body).await?;
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
        let (usual, prompts) = (Room::of("/api/v1/environments/a"), Room::of("/api/v1/sessions"));
        let whole = read_body(&HeaderMap::new(), body(2), usual).await.unwrap();
        assert_eq!(whole.len(), MAX_BODY);
        let problem = read_body(&HeaderMap::new(), body(3), usual).await.unwrap_err();
        assert_eq!((problem.code, problem.title.as_str()), (Code::TooLarge, "the body is larger than 1 MiB"));
        assert!(read_body(&HeaderMap::new(), body(3), prompts).await.is_ok());
    }

    #[test]
    fn only_where_prompts_are_taken_there_is_room_for_images() {
        let large = |path: &str| Room::of(path).bytes > MAX_BODY;
        let session = "/api/v1/sessions/ses_1";
        assert!(
            large("/api/v1/sessions")
                && large(&format!("{session}/prompts"))
                && large(&format!("{session}/fork"))
        );
        for path in
            [session, &format!("{session}/queue"), &format!("{session}/prompts/prm_1"), "/api/v1/sessions2"]
        {
            assert!(!large(path), "{path}");
        }
    }
}
