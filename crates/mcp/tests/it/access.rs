//! Signing in: a server that gives nothing away without a token, and an authorization server that is strict about everything
//! that the protocol asks of a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Json, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp::{Auth, Connection, Error, Http, Login, Vault};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::tower::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::shop::{Drawer, PATIENCE, Shop, arguments};

const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// What the authorization server knows.
#[derive(Default)]
struct Books {
    base: String,
    registered: Vec<String>,
    /// The challenge of each code that was given and not used.
    codes: BTreeMap<String, String>,
    access: Vec<String>,
    refresh: Vec<String>,
    count: u32,
    /// Seconds that a token lives.
    life: u64,
    renewed: u32,
}

type Shared = Arc<Mutex<Books>>;

async fn about_resource(State(books): State<Shared>) -> Json<Value> {
    let base = books.lock().unwrap().base.clone();
    Json(
        json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["read"]}),
    )
}

async fn about_issuer(State(books): State<Shared>) -> Json<Value> {
    let base = books.lock().unwrap().base.clone();
    Json(json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "scopes_supported": ["read"],
    }))
}

async fn register(State(books): State<Shared>, Json(wanted): Json<Value>) -> Response {
    if wanted["redirect_uris"] != json!([REDIRECT]) || wanted["client_name"] != "Slipway" {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_client_metadata"}))).into_response();
    }
    let mut books = books.lock().unwrap();
    let id = format!("client-{}", books.registered.len());
    books.registered.push(id.clone());
    let answer = json!({"client_id": id, "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"});
    (StatusCode::CREATED, Json(answer)).into_response()
}

/// What a person's browser does: it allows, and is sent back.
async fn authorize(State(books): State<Shared>, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    let of = |key: &str| asked.get(key).cloned().unwrap_or_default();
    let mut books = books.lock().unwrap();
    let good = of("response_type") == "code"
        && books.registered.contains(&of("client_id"))
        && of("redirect_uri") == REDIRECT
        && of("code_challenge_method") == "S256"
        && of("code_challenge").len() == 43
        && of("resource") == format!("{}/mcp", books.base)
        && !of("state").is_empty();
    if !good {
        return (StatusCode::BAD_REQUEST, format!("{asked:?}")).into_response();
    }
    books.count += 1;
    let code = format!("code-{}", books.count);
    books.codes.insert(code.clone(), of("code_challenge"));
    let back = format!("{REDIRECT}?code={code}&state={}", of("state"));
    (StatusCode::FOUND, [(header::LOCATION, back)]).into_response()
}

async fn token(State(books): State<Shared>, asked: String) -> Response {
    let asked: BTreeMap<String, String> =
        url::form_urlencoded::parse(asked.as_bytes()).into_owned().collect();
    let of = |key: &str| asked.get(key).cloned().unwrap_or_default();
    let mut books = books.lock().unwrap();
    let refused = || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    if of("resource") != format!("{}/mcp", books.base) || !books.registered.contains(&of("client_id")) {
        return refused();
    }
    match of("grant_type").as_str() {
        "authorization_code" => {
            let sum = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier").as_bytes()));
            // A code is used once, whatever comes of it.
            if books.codes.remove(&of("code")) != Some(sum) || of("redirect_uri") != REDIRECT {
                return refused();
            }
        }
        "refresh_token" => {
            let known = books.refresh.iter().position(|known| *known == of("refresh_token"));
            // One that was used is worth nothing any more.
            let Some(place) = known else { return refused() };
            books.refresh.remove(place);
            books.renewed += 1;
        }
        _ => return refused(),
    }
    books.count += 1;
    let (access, refresh) = (format!("access-{}", books.count), format!("refresh-{}", books.count));
    books.access = vec![access.clone()];
    books.refresh.push(refresh.clone());
    let answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": books.life, "refresh_token": refresh, "scope": "read"});
    Json(answer).into_response()
}

struct World {
    books: Shared,
    url: String,
    drawer: Arc<Drawer>,
}

impl World {
    async fn new(life: u64) -> Self {
        let books: Shared = Arc::default();
        let shop = Shop::default();
        let service = StreamableHttpService::new(
            move || Ok(shop.clone()),
            Arc::new(LocalSessionManager::default()),
            StreamableHttpServerConfig::default(),
        );
        let doors = Arc::clone(&books);
        let guard = move |request: Request, next: Next| {
            let books = Arc::clone(&doors);
            async move {
                let given =
                    request.headers().get(header::AUTHORIZATION).and_then(|given| given.to_str().ok());
                let token =
                    given.and_then(|given| given.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
                let (known, base) = {
                    let books = books.lock().unwrap();
                    (books.access.contains(&token), books.base.clone())
                };
                if known {
                    return next.run(request).await;
                }
                let where_to =
                    format!("Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"");
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, where_to)]).into_response()
            }
        };
        let router = Router::new()
            .nest_service("/mcp", service)
            .layer(middleware::from_fn(guard))
            .route("/.well-known/oauth-protected-resource/mcp", get(about_resource))
            .route("/.well-known/oauth-authorization-server", get(about_issuer))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&books));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        {
            let mut books = books.lock().unwrap();
            (books.base, books.life) = (base.clone(), life);
        }
        Self { books, url: format!("{base}/mcp"), drawer: Arc::default() }
    }

    fn vault(&self) -> Arc<dyn Vault> {
        Arc::clone(&self.drawer) as Arc<dyn Vault>
    }

    async fn begin(&self) -> Login {
        Login::begin("shop", &self.url, (None, &[]), REDIRECT, self.vault()).await.unwrap()
    }

    /// What a person does with the address: gives where they are sent back to.
    async fn allow(&self, login: &Login) -> String {
        let browser = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        let answer = browser.get(login.address()).send().await.unwrap();
        assert_eq!(answer.status(), 302, "{}", answer.text().await.unwrap());
        answer.headers()["location"].to_str().unwrap().to_owned()
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let auth = Auth::OAuth { client_id: None, scopes: Vec::new() };
        let http = Http { url: self.url.clone(), headers: BTreeMap::new(), auth };
        Connection::http("shop", &http, self.vault(), PATIENCE).await
    }

    async fn echo(&self) -> Result<String, Error> {
        let connection = self.connect().await?;
        let said = connection.call("echo", arguments(json!({"text": "in"}))).await?;
        connection.close().await;
        Ok(said.text)
    }
}

#[tokio::test]
async fn a_person_signs_in_once() {
    let world = World::new(3600).await;
    let nobody = world.echo().await.unwrap_err();
    assert!(
        matches!(&nobody, Error::SignIn(_)) && nobody.hint("shop").contains("slipway mcp login shop"),
        "{nobody}"
    );
    let login = world.begin().await;
    let back = world.allow(&login).await;
    login.finish(&back).await.unwrap();
    assert_eq!(world.echo().await.unwrap(), "in");
    assert_eq!(world.echo().await.unwrap(), "in");
    {
        let books = world.books.lock().unwrap();
        assert_eq!((books.renewed, books.registered.len()), (0, 1));
    }
    let kept: Vec<String> = world.drawer.0.lock().unwrap().keys().cloned().collect();
    assert_eq!(kept, ["mcp.shop"], "one secret holds all of it");
}

#[tokio::test]
async fn a_token_that_ends_is_renewed_and_kept() {
    // It ends at once, so each use renews it; the server takes each refresh token once.
    let world = World::new(1).await;
    let login = world.begin().await;
    let back = world.allow(&login).await;
    login.finish(&back).await.unwrap();
    for _ in 0..2 {
        assert_eq!(world.echo().await.unwrap(), "in");
    }
    assert!(world.books.lock().unwrap().renewed >= 2);
}

#[tokio::test]
async fn a_token_that_was_revoked_is_renewed_and_one_that_cannot_be_is_told() {
    let world = World::new(3600).await;
    let login = world.begin().await;
    let back = world.allow(&login).await;
    login.finish(&back).await.unwrap();
    world.books.lock().unwrap().access.clear();
    assert_eq!(world.echo().await.unwrap(), "in", "the refresh token still holds");
    {
        let mut books = world.books.lock().unwrap();
        books.access.clear();
        books.refresh.clear();
    }
    let error = world.echo().await.unwrap_err();
    assert!(matches!(error, Error::SignIn(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_for_us_is_refused() {
    let world = World::new(3600).await;
    let login = world.begin().await;
    let back = world.allow(&login).await;
    let forged = back.replace("state=", "state=x");
    assert!(login.finish(&forged).await.is_err());
    let login = world.begin().await;
    let denied = format!("{REDIRECT}?error=access_denied&error_description=not+today&state=x");
    let error = login.finish(&denied).await.unwrap_err();
    assert!(error.to_string().contains("not today"), "{error}");
    assert!(world.drawer.0.lock().unwrap().is_empty(), "nothing is kept");
}
