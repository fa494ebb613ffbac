//! Servers behind an address.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use mcp::{Auth, Connection, Error, Http, Key, Value};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::tower::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use crate::shop::{Drawer, PATIENCE, Shop, arguments};

/// A server that only lets in who has the right header; gives its address.
async fn serve(shop: &Shop, wanted: Option<(&'static str, &'static str)>) -> String {
    let shop = shop.clone();
    let service = StreamableHttpService::new(
        move || Ok(shop.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let guard = move |request: Request, next: Next| async move {
        let Some((name, value)) = wanted else { return next.run(request).await };
        match request.headers().get(name) {
            Some(given) if given == value => next.run(request).await,
            // As those do that were not read to the end, and those that were.
            Some(_) => StatusCode::UNAUTHORIZED.into_response(),
            None => denied(),
        }
    };
    let router = Router::new().nest_service("/mcp", service).layer(middleware::from_fn(guard)).route(
        "/moved",
        axum::routing::any(|| async { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/mcp")]) }),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

fn denied() -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response()
}

async fn connect(url: String, auth: Auth, headers: &[(&str, Value)]) -> Result<Connection, Error> {
    let headers: BTreeMap<String, Value> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let drawer = Drawer::default();
    drawer.0.lock().unwrap().insert("shop".into(), "tok-1".into());
    Connection::http("shop", &Http { url, headers, auth }, Arc::new(drawer), PATIENCE).await
}

#[tokio::test]
async fn an_open_server_is_called_and_calls_are_cancelled() {
    let shop = Shop::default();
    let url = format!("{}/mcp", serve(&shop, None).await);
    let connection = connect(url, Auth::None, &[]).await.unwrap();
    assert_eq!(connection.tools().await.unwrap().len(), 4);
    let said = connection.call("echo", arguments(json!({"text": "x".repeat(100_000)}))).await.unwrap();
    assert_eq!(said.text.len(), 100_000);
    tokio::select! {
        _ = connection.call("slow", arguments(json!({}))) => panic!("it waits for ever"),
        () = shop.waiting.notified() => {}
    }
    tokio::time::timeout(PATIENCE, shop.cancelled.notified()).await.unwrap();
    connection.close().await;
}

#[tokio::test]
async fn a_token_is_sent_and_a_wrong_one_is_told() {
    let shop = Shop::default();
    let url = format!("{}/mcp", serve(&shop, Some(("authorization", "Bearer tok-1"))).await);
    let token = Auth::Token(Key::Secret("shop".into()));
    let connection = connect(url.clone(), token, &[]).await.unwrap();
    assert_eq!(connection.call("echo", arguments(json!({"text": "in"}))).await.unwrap().text, "in");
    let nobody = connect(url.clone(), Auth::None, &[]).await.unwrap_err();
    assert!(matches!(&nobody, Error::Key(why) if why.contains("token_env")), "{nobody}");
    let missing = connect(url, Auth::Token(Key::Secret("other".into())), &[]).await.unwrap_err();
    assert_eq!(missing, Error::Key("the secret \"other\" is not set".into()));
}

#[tokio::test]
async fn a_token_that_is_refused_is_told_by_where_it_comes_from() {
    let url = format!("{}/mcp", serve(&Shop::default(), Some(("authorization", "Bearer tok-2"))).await);
    let refused = connect(url.clone(), Auth::Token(Key::Secret("shop".into())), &[]).await.unwrap_err();
    assert_eq!(refused, Error::Key("it refused the token of the secret \"shop\"".into()));
    // Any variable that is set will do.
    let refused = connect(url.clone(), Auth::Token(Key::Env("PATH".into())), &[]).await.unwrap_err();
    assert!(refused.to_string().contains("the token of the variable PATH"), "{refused}");
    assert!(!refused.hint("shop").contains("login"), "nobody can sign in to it");
    let key = Value::Key(Key::Secret("shop".into()));
    let refused = connect(url, Auth::None, &[("X-Key", key)]).await.unwrap_err();
    assert!(refused.to_string().contains("X-Key (the secret \"shop\")"), "{refused}");
    assert!(!refused.to_string().contains("tok-"), "{refused}");
}

/// One that was started again knows nobody: the call fails, is not made again, and the connection is not used any more.
#[tokio::test]
async fn a_server_that_forgot_us_is_greeted_anew() {
    let shop = Shop::default();
    let forgot = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let inner = shop.clone();
    let service = StreamableHttpService::new(
        move || Ok(inner.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let forgetful = Arc::clone(&forgot);
    let guard = move |request: Request, next: Next| {
        let knows = !forgetful.load(std::sync::atomic::Ordering::SeqCst);
        async move {
            match request.headers().contains_key("mcp-session-id") && !knows {
                true => StatusCode::NOT_FOUND.into_response(),
                false => next.run(request).await,
            }
        }
    };
    let router = Router::new().nest_service("/mcp", service).layer(middleware::from_fn(guard));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let connection = connect(url.clone(), Auth::None, &[]).await.unwrap();
    assert_eq!(connection.call("echo", arguments(json!({"text": "in"}))).await.unwrap().text, "in");
    assert!(!connection.is_closed());
    forgot.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = connection.call("echo", arguments(json!({"text": "in"}))).await.unwrap_err();
    assert!(connection.is_closed(), "{error}: it would fail for ever");
    assert_eq!(shop.calls.lock().unwrap().len(), 1, "it is not made again");
    forgot.store(false, std::sync::atomic::Ordering::SeqCst);
    let connection = connect(url, Auth::None, &[]).await.unwrap();
    assert_eq!(connection.call("echo", arguments(json!({"text": "in"}))).await.unwrap().text, "in");
}

#[tokio::test]
async fn headers_are_sent() {
    let url = format!("{}/mcp", serve(&Shop::default(), Some(("dd-api-key", "tok-1"))).await);
    let key = Value::Key(Key::Secret("shop".into()));
    let connection = connect(url.clone(), Auth::None, &[("DD-API-KEY", key)]).await.unwrap();
    assert!(connection.tools().await.is_ok());
    let broken = connect(url, Auth::None, &[("DD-API-KEY", Value::Text("a\nb".into()))]).await.unwrap_err();
    assert!(matches!(broken, Error::Key(_)), "{broken}");
}

#[tokio::test]
async fn what_is_no_server_is_told() {
    let url = serve(&Shop::default(), None).await;
    // A redirect could carry the token away.
    for url in [format!("{url}/nothing"), format!("{url}/moved"), "http://127.0.0.1:1/mcp".to_owned()] {
        let http = Http { url: url.clone(), headers: BTreeMap::new(), auth: Auth::None };
        let error = Connection::http("shop", &http, Arc::new(Drawer::default()), PATIENCE).await.unwrap_err();
        assert!(
            matches!(error, Error::Unreachable(_) | Error::Rubbish(_) | Error::Refused(_)),
            "{url}: {error:?}"
        );
    }
}
