//! A small HTTP client for tests: one connection for each request, so that nothing is hidden by a pool.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::request::Builder;
use hyper::{HeaderMap, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of a problem, after a look at its form.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16(), "{self:?}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn get(path: &str) -> Builder {
    Request::get(path)
}

pub(crate) fn post(path: &str) -> Builder {
    Request::post(path).header(header::CONTENT_TYPE, "application/json")
}

/// Sends a request and waits for its headers.
pub(crate) async fn open(to: SocketAddr, request: Builder, body: impl Into<Bytes>) -> Response<Incoming> {
    let mut request = request.body(Full::new(body.into())).unwrap();
    request.headers_mut().entry(header::HOST).or_insert_with(|| to.to_string().parse().unwrap());
    let stream = TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

/// Sends a request and waits for the whole answer.
pub(crate) async fn send(to: SocketAddr, request: Builder, body: impl Into<Bytes>) -> Answer {
    let (parts, body) = open(to, request, body).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}
