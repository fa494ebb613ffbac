//! A registry on loopback that is strict about what it is asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;

use super::images::{Image, digest};

type Body = BoxBody<Bytes, std::io::Error>;

/// What the registry has, and what it was asked.
#[derive(Default)]
pub(crate) struct Stock {
    /// Manifests, by tag or digest.
    manifests: HashMap<String, Vec<u8>>,
    pub(crate) blobs: HashMap<String, Vec<u8>>,
    /// A blob of which only the half comes, so many times.
    pub(crate) broken: HashMap<String, u32>,
    /// Who may ask, as `user:password` in base64; empty for anybody with a token; None for anybody.
    pub(crate) login: Option<String>,
    pub(crate) asked: Vec<String>,
}

/// The registry. It ends with this value.
pub(crate) struct Registry {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) stock: Arc<Mutex<Stock>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Registry {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stock = Arc::new(Mutex::new(Stock::default()));
        let shared = stock.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = shared.clone();
                connections.spawn(async move {
                    let service = hyper::service::service_fn(move |request| {
                        let answer = answer(&shared, address, &request);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    // A connection that we break off ourselves is an error, too.
                    drop(
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        });
        Self { address, stock, task }
    }

    pub(crate) fn put(&self, tag: &str, image: &Image) {
        let mut stock = self.stock.lock().unwrap();
        stock.blobs.extend(image.blobs.clone());
        stock.manifests.insert(tag.to_owned(), image.manifest.clone());
        stock.manifests.insert(image.digest(), image.manifest.clone());
    }

    pub(crate) fn put_manifest(&self, tag: &str, manifest: Vec<u8>) {
        self.stock.lock().unwrap().manifests.insert(tag.to_owned(), manifest);
    }

    /// The base of a tag here.
    pub(crate) fn base(&self, tag: &str) -> String {
        format!("oci:{}/team/image:{tag}", self.address)
    }

    /// How often something was asked for since the last time.
    pub(crate) fn asked(&self, what: &str) -> usize {
        std::mem::take(&mut self.stock.lock().unwrap().asked)
            .iter()
            .filter(|path| path.contains(what))
            .count()
    }
}

fn reply(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed();
    Response::builder().status(status).body(body).unwrap()
}

fn answer(
    stock: &Mutex<Stock>,
    address: std::net::SocketAddr,
    request: &Request<Incoming>,
) -> Response<Body> {
    let mut stock = stock.lock().unwrap();
    let path = request.uri().path().to_owned();
    stock.asked.push(path.clone());
    let sent = |name: header::HeaderName| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    if request.method() != hyper::Method::GET {
        return reply(StatusCode::METHOD_NOT_ALLOWED, "");
    }
    if path == "/token" {
        let query = request.uri().query().unwrap_or_default();
        let good = query.contains("scope=repository%3Ateam%2Fimage%3Apull") && query.contains("service=test");
        let login = stock.login.clone().unwrap_or_default();
        if !good || (!login.is_empty() && sent(header::AUTHORIZATION) != format!("Basic {login}")) {
            return reply(StatusCode::UNAUTHORIZED, "no");
        }
        return reply(StatusCode::OK, r#"{"token":"let-me-in"}"#);
    }
    if stock.login.is_some() && sent(header::AUTHORIZATION) != "Bearer let-me-in" {
        let mut response = reply(StatusCode::UNAUTHORIZED, "");
        let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"test\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.parse().unwrap());
        return response;
    }
    if path == "/v2/" {
        return reply(StatusCode::OK, "{}");
    }
    let Some(rest) = path.strip_prefix("/v2/team/image/") else { return reply(StatusCode::NOT_FOUND, "") };
    if let Some(name) = rest.strip_prefix("manifests/") {
        let Some(manifest) = stock.manifests.get(name).cloned() else {
            return reply(
                StatusCode::NOT_FOUND,
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such manifest","detail":null}]}"#,
            );
        };
        let value: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let kind = value["mediaType"].as_str().unwrap();
        if !sent(header::ACCEPT).split(", ").any(|accepted| accepted == kind) {
            return reply(StatusCode::NOT_ACCEPTABLE, "");
        }
        let mut response = reply(StatusCode::OK, manifest.clone());
        response.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        response.headers_mut().insert("docker-content-digest", digest(&manifest).parse().unwrap());
        return response;
    }
    let Some(name) = rest.strip_prefix("blobs/") else { return reply(StatusCode::NOT_FOUND, "") };
    let Some(blob) = stock.blobs.get(name).cloned() else { return reply(StatusCode::NOT_FOUND, "") };
    if let Some(times) = stock.broken.get_mut(name).filter(|times| **times > 0) {
        *times -= 1;
        let half = Bytes::from(blob[..blob.len() / 2].to_vec());
        let frames = [Ok(Frame::data(half)), Err(std::io::Error::other("broken off"))];
        let body = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
        return Response::builder().header(header::CONTENT_LENGTH, blob.len()).body(body).unwrap();
    }
    reply(StatusCode::OK, blob)
}
