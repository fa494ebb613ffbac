//! The parts that need no sessions, over a real listener: the door, the shell, and commands with a real store.

#[path = "../tests/it/client.rs"]
mod client;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use self::client::{get as get_request, post as post_request, send};
use crate::access::{Access, Door, Secret};
use crate::idempotency::{Commands, Holds, commands};
use crate::listen::{self, Life};
use crate::site::{File, Site};
use crate::{extract, shell};

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn start(access: Access, routes: Router, life: Life) -> Server {
    start_with(access, routes, life, Site::of(&[])).await
}

async fn start_with(access: Access, routes: Router, life: Life, site: Site) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = Arc::new(Door::new(access, "local".into(), vec![], vec![], vec![]));
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(listen::run(listener, shell::wrap(door, routes, site), life, stopped));
    Server { address, stop, ended }
}

async fn start_bare(access: Access) -> Server {
    start(access, Router::new(), Life::default()).await
}

#[tokio::test]
async fn health_answers_with_the_headers_of_every_answer() {
    let server = start_bare(Access::Loopback).await;
    let answer = send(server.address, get_request("/api/v1/health"), "").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.json()["status"], "ok");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_turned_away() {
    let server = start_bare(Access::Loopback).await;
    let foreign = get_request("/api/v1/health").header("host", "rebound.example");
    assert_eq!(send(server.address, foreign, "").await.problem(), "forbidden");
    let page = get_request("/api/v1/health").header("origin", "http://evil.example");
    assert_eq!(send(server.address, page, "").await.problem(), "forbidden");
    let own = get_request("/api/v1/health").header("origin", format!("http://{}", server.address));
    assert_eq!(send(server.address, own, "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_is_demanded_everywhere_but_on_the_page() {
    let server = start_bare(Access::Token(Secret::new("tell-nobody").unwrap())).await;
    for path in ["/api/v1/health", "/api/v1/openapi.json", "/api/v1/nothing"] {
        let answer = send(server.address, get_request(path), "").await;
        assert_eq!(answer.problem(), "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let known = get_request("/api/v1/health").header("authorization", "Bearer tell-nobody");
    assert_eq!(send(server.address, known, "").await.status, StatusCode::OK);
    let page = send(server.address, get_request("/"), "").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(html.contains("Slipway is running") && !html.contains("<script"), "{html}");
}

/// What a build of the app leaves, in the order of names.
static APP: &[File] = &[
    File { name: "assets/index-abc.js", sum: "01", content: b"start()", brotli: Some(b"compressed") },
    File { name: "index.html", sum: "02", content: b"<!doctype html><title>app</title>", brotli: None },
    File { name: "manifest.webmanifest", sum: "03", content: b"{}", brotli: None },
    File { name: "sw.js", sum: "04", content: b"self", brotli: None },
];

#[tokio::test]
async fn the_app_is_served_to_everybody_and_only_the_api_demands_a_token() {
    let access = Access::Token(Secret::new("tell-nobody").unwrap());
    let server = start_with(access, Router::new(), Life::default(), Site::of(APP)).await;
    let to = server.address;
    for path in ["/", "/index.html", "/sessions/ses_1", "/statistics", "/sessions/a%2Fb?x=1.5"] {
        let page = send(to, get_request(path), "").await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (StatusCode::OK, Some("text/html; charset=utf-8"))
        );
        assert_eq!(page.header("cache-control"), Some("no-cache"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("script-src 'self' '"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    }
    for path in ["/api/v1/health", "/api/v1/nothing", "/api/index.html", "/api"] {
        assert_eq!(send(to, get_request(path), "").await.problem(), "unauthorized", "{path}");
    }
    assert_eq!(send(to, post_request("/"), "{}").await.problem(), "unauthorized");
    for path in ["/assets/gone.js", "/favicon.ico", "/../Cargo.toml", "/assets/..%2Findex.html"] {
        assert_eq!(send(to, get_request(path), "").await.problem(), "not_found", "{path}");
    }
    let foreign = get_request("/").header("host", "rebound.example");
    assert_eq!(send(to, foreign, "").await.problem(), "forbidden");
}

#[tokio::test]
async fn files_of_the_app_are_compressed_and_kept_by_those_who_have_them() {
    let server = start_with(Access::Loopback, Router::new(), Life::default(), Site::of(APP)).await;
    let to = server.address;
    let script = "/assets/index-abc.js";
    let plain = send(to, get_request(script), "").await;
    assert_eq!((&plain.body[..], plain.header("content-encoding")), (&b"start()"[..], None));
    assert_eq!(plain.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(plain.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
    let small = send(to, get_request(script).header("accept-encoding", "gzip, br"), "").await;
    assert_eq!((&small.body[..], small.header("content-encoding")), (&b"compressed"[..], Some("br")));
    assert_ne!(small.header("etag"), plain.header("etag"), "they are not the same bytes");

    let tag = plain.header("etag").unwrap().to_owned();
    let known = send(to, get_request(script).header("if-none-match", format!("\"x\", {tag}")), "").await;
    assert_eq!((known.status, known.body.len()), (StatusCode::NOT_MODIFIED, 0));
    let other = send(to, get_request(script).header("if-none-match", "\"x\""), "").await;
    assert_eq!(other.status, StatusCode::OK);

    let worker = send(to, get_request("/sw.js"), "").await;
    assert_eq!(worker.header("service-worker-allowed"), Some("/"));
    assert_eq!(worker.header("cache-control"), Some("no-cache"));
    let manifest = send(to, get_request("/manifest.webmanifest"), "").await;
    assert_eq!(manifest.header("content-type"), Some("application/manifest+json"));
    let head = hyper::Request::head("/").header("host", to.to_string());
    let head = send(to, head, "").await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
}

#[tokio::test]
async fn what_is_not_a_route_is_a_problem() {
    let server = start_bare(Access::Loopback).await;
    let unknown = send(server.address, get_request("/api/v1/nothing"), "").await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    let wrong = send(server.address, post_request("/api/v1/health"), "{}").await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (StatusCode::METHOD_NOT_ALLOWED, "bad_request"));
    assert_eq!(wrong.header("allow"), Some("GET,HEAD"));
}

#[tokio::test]
async fn a_panic_is_a_problem_and_the_server_lives_on() {
    let routes = Router::new().route("/api/v1/panic", get(|| async { panic!("on purpose") as () }));
    let server = start(Access::Loopback, routes, Life::default()).await;
    let answer = send(server.address, get_request("/api/v1/panic"), "").await;
    assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "internal"));
    assert_eq!(send(server.address, get_request("/api/v1/health"), "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_end_waits_for_what_is_under_way() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (begun, go_on) = (begun.clone(), go_on.clone());
        move || async move {
            begun.notify_one();
            go_on.notified().await;
            "done"
        }
    };
    let routes = Router::new().route("/api/v1/slow", get(handler));
    let server = start(Access::Loopback, routes, Life::default()).await;
    let address = server.address;
    let request = tokio::spawn(async move { send(address, get_request("/api/v1/slow"), "").await });
    begun.notified().await;
    server.stop.send(()).unwrap();
    go_on.notify_one();
    assert_eq!(request.await.unwrap().body, "done");
    server.ended.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

/// A command route that counts how often it worked, fails when the body says so, and can be held up.
struct Counter {
    server: Server,
    worked: Arc<AtomicUsize>,
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
    _directory: tempfile::TempDir,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Work,
    Refuse,
    Panic,
    Wait,
}

async fn counter() -> Counter {
    counter_with(Holds::default()).await
}

async fn counter_with(holds: Holds) -> Counter {
    let directory = tempfile::tempdir().unwrap();
    let life = Life::default();
    let store = store::Store::open(directory.path()).unwrap();
    let keys = Commands { store, tasks: life.tasks.clone(), holds };
    let worked = Arc::new(AtomicUsize::new(0));
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (worked, begun, go_on) = (worked.clone(), begun.clone(), go_on.clone());
        move |extract::Json(command): extract::Json<Command>| async move {
            match command {
                Command::Work => {}
                Command::Refuse => return Err(StatusCode::CONFLICT),
                Command::Panic => panic!("on purpose"),
                Command::Wait => {
                    begun.notify_one();
                    go_on.notified().await;
                }
            }
            let count = worked.fetch_add(1, Ordering::SeqCst) + 1;
            begun.notify_one();
            Ok((StatusCode::CREATED, [("location", "/there")], axum::Json(count)))
        }
    };
    let routes = Router::new()
        .route("/api/v1/work", post(handler.clone()))
        .route("/api/v1/other", post(handler))
        .layer(from_fn_with_state(keys, commands));
    let server = start(Access::Loopback, routes, life).await;
    Counter { server, worked, begun, go_on, _directory: directory }
}

fn keyed(path: &str, key: &str) -> hyper::http::request::Builder {
    post_request(path).header("idempotency-key", key)
}

#[tokio::test]
async fn a_repeated_command_answers_like_the_first() {
    let counter = counter().await;
    let to = counter.server.address;
    let first = send(to, keyed("/api/v1/work", "a"), r#""work""#).await;
    let second = send(to, keyed("/api/v1/work", "a"), r#""work""#).await;
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(second.header("location"), Some("/there"));
    assert_eq!(counter.worked.load(Ordering::SeqCst), 1);

    let same = send(to, keyed("/api/v1/work", "a"), r#" "work""#).await;
    assert_eq!(same.body, first.body, "spaces make no other request");
    let other_body = send(to, keyed("/api/v1/work", "a"), r#""refuse""#).await;
    assert_eq!((other_body.status.as_u16(), other_body.problem().as_str()), (422, "idempotency_mismatch"));
    let other_path = send(to, keyed("/api/v1/other", "a"), r#""work""#).await;
    assert_eq!(other_path.status, StatusCode::CREATED);
    assert_eq!(counter.worked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_command_that_did_nothing_gives_its_key_back() {
    let counter = counter().await;
    let to = counter.server.address;
    for (body, status) in [(r#""refuse""#, 409), ("rubbish", 400), (r#""work""#, 201)] {
        assert_eq!(send(to, keyed("/api/v1/work", "b"), body).await.status.as_u16(), status, "{body}");
    }
}

#[tokio::test]
async fn a_command_that_broke_keeps_its_key() {
    let counter = counter().await;
    let to = counter.server.address;
    // Nobody knows what it did, so it can be tried again, and nothing else can under its key.
    for (body, status) in [(r#""panic""#, 500), (r#""panic""#, 500), (r#""work""#, 422)] {
        assert_eq!(send(to, keyed("/api/v1/work", "d"), body).await.status.as_u16(), status, "{body}");
    }
}

#[tokio::test]
async fn a_command_goes_on_when_its_client_hangs_up() {
    let counter = counter_with(Holds::new(Duration::ZERO)).await;
    let to = counter.server.address;
    let client = tokio::spawn(async move { send(to, keyed("/api/v1/work", "c"), r#""wait""#).await });
    counter.begun.notified().await;
    let meanwhile = send(to, keyed("/api/v1/work", "c"), r#""wait""#).await;
    assert_eq!((meanwhile.status.as_u16(), meanwhile.problem().as_str()), (409, "conflict"));
    assert_eq!(meanwhile.header("retry-after"), Some("1"));

    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    counter.go_on.notify_one();
    counter.begun.notified().await;
    counter.server.stop.send(()).unwrap();
    counter.server.ended.await.unwrap();
    assert_eq!(counter.worked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_command_that_comes_twice_at_once_is_done_once_and_both_have_the_answer() {
    let counter = counter().await;
    let to = counter.server.address;
    let ask = move || tokio::spawn(async move { send(to, keyed("/api/v1/work", "e"), r#""wait""#).await });
    let first = ask();
    counter.begun.notified().await;
    let mut others = [ask(), ask(), ask()];
    let other = send(to, keyed("/api/v1/work", "f"), r#""work""#).await;
    assert_eq!(other.status, StatusCode::CREATED, "another key does not wait");
    counter.begun.notified().await;
    assert!(others.iter_mut().all(|other| !other.is_finished()));
    counter.go_on.notify_one();
    let first = first.await.unwrap();
    assert_eq!(first.header("idempotency-replayed"), None);
    for other in others {
        let other = other.await.unwrap();
        assert_eq!((other.status, &other.body), (first.status, &first.body));
        assert_eq!(other.header("idempotency-replayed"), Some("true"));
    }
    assert_eq!(counter.worked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn bad_commands_are_told_what_is_wrong() {
    let counter = counter().await;
    let to = counter.server.address;
    let rubbish = send(to, post_request("/api/v1/work"), r#""dance""#).await;
    assert_eq!(rubbish.problem(), "bad_request");
    assert!(rubbish.json()["title"].as_str().unwrap().contains("unknown variant `dance`"), "{rubbish:?}");
    let form = hyper::Request::post("/api/v1/work").header("content-type", "text/plain");
    assert_eq!(send(to, form, r#""work""#).await.problem(), "bad_request");
    let large = send(to, post_request("/api/v1/work"), vec![b' '; 3 * extract::MAX_BODY]).await;
    assert_eq!((large.status.as_u16(), large.problem().as_str()), (413, "too_large"));
    for key in ["", "two words", &"k".repeat(201)] {
        assert_eq!(send(to, keyed("/api/v1/work", key), r#""work""#).await.problem(), "bad_request");
    }
    assert_eq!(counter.worked.load(Ordering::SeqCst), 0);
}
