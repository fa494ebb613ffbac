//! Answers: JSON, a file, or the output of a process.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::files::FileBody;
use super::follow::Follow;
use crate::wire::{Failure, FailureCode};

/// The body of an answer.
pub(super) enum Reply {
    /// All of it at once.
    Whole(Option<Bytes>),
    /// A range of a file.
    File(FileBody),
    /// Frames of a process.
    Follow(Follow),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::File(file) => Poll::Ready(file.next().map(|piece| piece.map(Frame::data))),
            Self::Follow(follow) => Pin::new(follow).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::File(_) | Self::Follow(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// 204.
pub(super) fn done() -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// 200 with JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<Response<Reply>, Failure> {
    let body = serde_json::to_vec(value).map_err(|error| Failure {
        code: FailureCode::Unavailable,
        message: format!("the answer cannot be written: {error}"),
    })?;
    let mut response = Response::new(Reply::Whole(Some(body.into())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// 200 with bytes.
pub(super) fn raw(body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

/// The status of the failure, with the failure as JSON.
pub(super) fn failure(failure: &Failure) -> Response<Reply> {
    // Two plain fields are always written; an empty body would still carry the status.
    let mut response = json(failure).unwrap_or_else(|_| Response::new(Reply::Whole(None)));
    *response.status_mut() = match failure.code {
        FailureCode::NotFound => StatusCode::NOT_FOUND,
        FailureCode::Refused => StatusCode::UNPROCESSABLE_ENTITY,
        FailureCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    response
}
