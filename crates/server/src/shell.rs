//! What surrounds every route: the door, the headers of every answer, the log line, and the answers for what is not
//! a route. It needs no sessions, so it can be tested without them.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use protocol::{Code, Problem};

use crate::access::{Door, guard};
use crate::authorize::{Action, Identity, Resource, authorize};
use crate::problem::{Failure, caught, with_status};
use crate::routes::{health, openapi, page};
use crate::site::{Site, is_public};

/// The whole router: the given routes, and those that need no sessions, behind the door; and the app where there is no route.
pub(crate) fn wrap(door: Arc<Door>, routes: Router, site: Site) -> Router {
    let elsewhere = move |Extension(identity): Extension<Identity>,
                          method: Method,
                          uri: Uri,
                          headers: HeaderMap| async move {
        authorize(identity.0.as_ref(), Action::Read, Resource::Page)?;
        match site.answer(&method, uri.path(), &headers) {
            Some(answer) => Ok(answer),
            None if uri.path() == "/" && is_public(&method, "/") => Ok(page::page()),
            None => Err(unknown_route(&uri)),
        }
    };
    routes
        .route("/api/v1/health", get(health::health))
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .method_not_allowed_fallback(wrong_method)
        .fallback(elsewhere)
        .layer(from_fn_with_state(door, guard))
        .layer(from_fn(surround))
}

/// Routes that are outside the door, with what surrounds every other.
pub(crate) fn surrounded(routes: Router) -> Router {
    routes.method_not_allowed_fallback(wrong_method).layer(from_fn(surround))
}

/// Headers of every answer: a browser takes it for what it says it is, tells nobody where it came from, and gives it to no page of
/// others.
const EVERYWHERE: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Headers of every answer that does not say otherwise. What the API gives is shown by no browser as a page with a life of its own.
const UNLESS_SAID: [(HeaderName, &str); 2] = [
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
    ),
];

/// Logs the request, answers for a panic, and sets the headers that every answer has.
async fn surround(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    // Only the path: a query may one day carry what a log should not.
    let path = request.uri().path().to_owned();
    let mut response = caught(next.run(request)).await;
    let headers = response.headers_mut();
    for (name, value) in EVERYWHERE {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in UNLESS_SAID {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    let status = response.status().as_u16();
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::debug!(%method, path, status, elapsed_ms, "request");
    response
}

fn unknown_route(uri: &Uri) -> Failure {
    Problem::new(Code::NotFound, format!("there is nothing at {}", uri.path()))
        .hint("/api/v1/openapi.json describes what there is")
        .into()
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    with_status(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        .hint("the Allow header says what it takes")
        .into()
}
