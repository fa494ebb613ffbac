//! An MCP server behind an address that gives nothing away without a token, and its authorization server, over real HTTP. Both
//! are strict about everything that the protocols ask of a client, and say what was wrong.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Json, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A server that answers until the test ends.
#[derive(Debug)]
pub struct Shop {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
}

/// What both servers know.
#[derive(Debug, Default)]
struct Books {
    base: String,
    life: Duration,
    count: u32,
    /// Clients by their id, with where they are sent back to.
    clients: BTreeMap<String, Vec<String>>,
    /// Codes that were given and not used: challenge, client, and where it was sent.
    codes: BTreeMap<String, (String, String, String)>,
    access: BTreeMap<String, Instant>,
    refresh: Vec<String>,
    renewed: usize,
    sessions: Vec<String>,
    calls: usize,
    violations: Vec<String>,
}

type Shared = State<Arc<Mutex<Books>>>;

impl Shop {
    /// Starts on a free port of 127.0.0.1; its tokens live as long as said.
    ///
    /// # Panics
    ///
    /// When this machine has no free port.
    #[expect(clippy::expect_used, reason = "a test can do nothing without a port")]
    pub async fn start(life: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port on 127.0.0.1");
        let address = listener.local_addr().expect("a listener has an address");
        let books = Books { base: format!("http://{address}"), life, ..Books::default() };
        let books = Arc::new(Mutex::new(books));
        let router = Router::new()
            .route("/mcp", any(speak))
            .route("/.well-known/oauth-protected-resource/mcp", get(about_resource))
            .route("/.well-known/oauth-authorization-server", get(about_issuer))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&books));
        // Serving has no error of its own: failed connections are their clients' business.
        tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Self { address, books }
    }

    /// The address of its tools.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Takes back every token.
    pub fn revoke(&self) {
        let mut books = lock(&self.books);
        books.access.clear();
        books.refresh.clear();
    }

    /// Forgets with whom it spoke, as a server does that was started again.
    pub fn forget(&self) {
        lock(&self.books).sessions.clear();
    }

    /// How often a token was renewed.
    pub fn renewed(&self) -> usize {
        lock(&self.books).renewed
    }

    /// How many clients were registered.
    pub fn registered(&self) -> usize {
        lock(&self.books).clients.len()
    }

    /// How often its tool was called.
    pub fn calls(&self) -> usize {
        lock(&self.books).calls
    }

    /// Every token that it gave and that still holds.
    pub fn tokens(&self) -> Vec<String> {
        let books = lock(&self.books);
        books.access.keys().chain(&books.refresh).cloned().collect()
    }

    /// What clients did wrong.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.books).violations.clone()
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Books {
    fn refuse(&mut self, status: StatusCode, why: &str) -> Response {
        self.violations.push(why.to_owned());
        (status, Json(json!({"error": "invalid_request", "error_description": why}))).into_response()
    }
}

async fn about_resource(State(books): Shared) -> Json<Value> {
    let base = lock(&books).base.clone();
    Json(
        json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["read"]}),
    )
}

async fn about_issuer(State(books): Shared) -> Json<Value> {
    let base = lock(&books).base.clone();
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

async fn register(State(books): Shared, Json(wanted): Json<Value>) -> Response {
    let mut books = lock(&books);
    let uris: Vec<String> = serde_json::from_value(wanted["redirect_uris"].clone()).unwrap_or_default();
    let own = |uri: &String| uri.starts_with("http://127.0.0.1:") && uri.ends_with("/callback");
    if uris.len() != 1 || !uris.iter().all(own) || wanted["client_name"] != "Slipway" {
        return books.refuse(StatusCode::BAD_REQUEST, &format!("registered as {wanted}"));
    }
    let id = format!("client-{}", books.clients.len());
    books.clients.insert(id.clone(), uris.clone());
    let answer = json!({"client_id": id, "redirect_uris": uris, "token_endpoint_auth_method": "none"});
    (StatusCode::CREATED, Json(answer)).into_response()
}

/// What a person's browser does: it allows, and is sent back.
async fn authorize(State(books): Shared, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    let of = |key: &str| asked.get(key).cloned().unwrap_or_default();
    let mut books = lock(&books);
    let (client, redirect) = (of("client_id"), of("redirect_uri"));
    let good = of("response_type") == "code"
        && books.clients.get(&client).is_some_and(|uris| uris.contains(&redirect))
        && of("code_challenge_method") == "S256"
        && of("code_challenge").len() == 43
        && of("resource") == format!("{}/mcp", books.base)
        && of("state").len() >= 16;
    if !good {
        return books.refuse(StatusCode::BAD_REQUEST, &format!("asked for {asked:?}"));
    }
    books.count += 1;
    let code = format!("code-{}", books.count);
    let back = format!("{redirect}?code={code}&state={}", of("state"));
    books.codes.insert(code, (of("code_challenge"), client, redirect));
    (StatusCode::FOUND, [(header::LOCATION, back)]).into_response()
}

async fn token(State(books): Shared, asked: String) -> Response {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.to_owned(), unescaped(value)))
    };
    let asked: BTreeMap<String, String> = asked.split('&').filter_map(pair).collect();
    let of = |key: &str| asked.get(key).cloned().unwrap_or_default();
    let mut books = lock(&books);
    let denied = || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    if of("resource") != format!("{}/mcp", books.base) || !books.clients.contains_key(&of("client_id")) {
        return books.refuse(StatusCode::BAD_REQUEST, "a token for another resource, or of nobody");
    }
    match of("grant_type").as_str() {
        "authorization_code" => {
            let sum = ring::digest::digest(&ring::digest::SHA256, of("code_verifier").as_bytes());
            let wanted = (URL_SAFE_NO_PAD.encode(sum), of("client_id"), of("redirect_uri"));
            // A code is used once, whatever comes of it.
            if books.codes.remove(&of("code")) != Some(wanted) {
                return books.refuse(StatusCode::BAD_REQUEST, "a code that is not for this client");
            }
        }
        "refresh_token" => {
            let known = books.refresh.iter().position(|known| *known == of("refresh_token"));
            // One that was used is worth nothing any more.
            let Some(place) = known else { return denied() };
            books.refresh.remove(place);
            books.renewed += 1;
        }
        _ => return denied(),
    }
    books.count += 1;
    let (access, refresh) =
        (format!("access-of-shop-{}", books.count), format!("refresh-of-shop-{}", books.count));
    let ends = Instant::now() + books.life;
    books.access.insert(access.clone(), ends);
    books.refresh.push(refresh.clone());
    let life = books.life.as_secs();
    let answer = json!({"access_token": access, "token_type": "Bearer", "expires_in": life, "refresh_token": refresh, "scope": "read"});
    Json(answer).into_response()
}

/// A value of a form as it is meant.
fn unescaped(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or_default(), rest.next().unwrap_or_default()];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or_default()
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn speak(State(books): Shared, method: Method, headers: HeaderMap, body: String) -> Response {
    let mut books = lock(&books);
    let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = of("authorization").strip_prefix("Bearer ").unwrap_or_default();
    if books.access.get(token).is_none_or(|ends| *ends < Instant::now()) {
        let place =
            format!("Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", books.base);
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, place)]).into_response();
    }
    if method != Method::POST {
        let ends = method == Method::DELETE;
        return if ends { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED }.into_response();
    }
    let accepts = of("accept");
    if !accepts.contains("application/json") || !accepts.contains("text/event-stream") {
        return books.refuse(StatusCode::NOT_ACCEPTABLE, "it does not take both kinds of answers");
    }
    let Ok(asked) = serde_json::from_str::<Value>(&body) else {
        return books.refuse(StatusCode::BAD_REQUEST, "no JSON");
    };
    let answer =
        |result: Value| Json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).into_response();
    if asked["method"] == "initialize" {
        books.count += 1;
        let session = format!("session-{}", books.count);
        books.sessions.push(session.clone());
        let version = asked["params"]["protocolVersion"].clone();
        let result = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}});
        let mut response = answer(result);
        if let Ok(session) = session.parse() {
            response.headers_mut().insert("mcp-session-id", session);
        }
        return response;
    }
    match of("mcp-session-id") {
        "" => return books.refuse(StatusCode::BAD_REQUEST, "nobody said hello"),
        session if books.sessions.iter().any(|known| known == session) => {}
        // One that it forgot.
        _ => return StatusCode::NOT_FOUND.into_response(),
    }
    if asked.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    match asked["method"].as_str().unwrap_or_default() {
        "tools/list" => answer(
            json!({"tools": [{"name": "price", "description": "Tells a price.", "inputSchema": {"type": "object"}}]}),
        ),
        "tools/call" => {
            books.calls += 1;
            answer(json!({"content": [{"type": "text", "text": "It costs 42."}]}))
        }
        _ => answer(json!({})),
    }
}
