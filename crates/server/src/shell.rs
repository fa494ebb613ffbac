//! What surrounds every route: the door, the headers of every answer, the log line, and the answers for what is not
//! a route. It needs no sessions, so it can be tested without them.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use protocol::{Code, Problem};

use crate::access::{Door, guard};
use crate::problem::{Failure, caught, with_status};
use crate::routes::{health, openapi, page};

/// The whole router: the given routes, and those that need no sessions, behind the door.
pub(crate) fn wrap(door: Arc<Door>, routes: Router) -> Router {
    routes
        .route("/", get(page::page))
        .route("/api/v1/health", get(health::health))
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_route)
        .layer(from_fn_with_state(door, guard))
        .layer(from_fn(surround))
}

/// Logs the request, answers for a panic, and sets the headers that every answer has.
async fn surround(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    // Only the path: a query may one day carry what a log should not.
    let path = request.uri().path().to_owned();
    let mut response = caught(next.run(request)).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    );
    let status = response.status().as_u16();
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(%method, path, status, elapsed_ms, "request");
    response
}

async fn unknown_route(uri: Uri) -> Failure {
    Problem::new(Code::NotFound, format!("there is nothing at {}", uri.path()))
        .hint("/api/v1/openapi.json describes what there is")
        .into()
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    with_status(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        .hint("the Allow header says what it takes")
        .into()
}
