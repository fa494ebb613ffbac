//! The HTTP API and the WebSocket as a foreign client would use them: paths and JSON, nothing of our own types.

use futures_util::{SinkExt, StreamExt};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::PATIENCE;
use super::events::Events;

/// A server.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body as JSON of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// The code of a problem with this status, after a look at its form.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        let problem = self.expect(status);
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        assert_eq!(problem["status"], status, "{self:?}");
        assert!(!problem["title"].as_str().unwrap().is_empty(), "{self:?}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

impl Api {
    /// The server at an address, with a token if it wants one.
    pub(crate) fn new(url: &str, token: Option<String>) -> Self {
        // Fails only when it is installed already.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { http, url: url.to_owned(), token }
    }

    /// The same server for someone without the token.
    pub(crate) fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// A request to a path under `/api/v1`.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}/api/v1{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// `GET`.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).header("accept", "application/json")).await
    }

    /// `POST` with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Makes a session and gives its id.
    pub(crate) async fn create(&self, environment: &str, prompt: &str) -> String {
        let body = serde_json::json!({"environment": environment, "prompt": prompt});
        let session = self.post("/sessions", &body).await.expect(201);
        session["id"].as_str().unwrap().to_owned()
    }

    /// Everything in a session's log, page by page.
    pub(crate) async fn log(&self, session: &str) -> Events {
        let mut events = Events::default();
        loop {
            let after = events.numbers().last().copied().unwrap_or(0);
            let page = self.get(&format!("/sessions/{session}/events?after={after}")).await.expect(200);
            page["events"].as_array().unwrap().iter().for_each(|event| events.push(event.clone()));
            if page["more"] == false {
                return events;
            }
        }
    }

    /// Follows a session through its WebSocket.
    pub(crate) async fn watch(&self, session: &str, after: u64) -> Watcher {
        match self.try_watch(session, after, &[]).await {
            Ok(watcher) => watcher,
            Err(error) => panic!("cannot follow {session}: {error}"),
        }
    }

    /// Follows a session with more headers.
    pub(crate) async fn try_watch(
        &self,
        session: &str,
        after: u64,
        headers: &[(&'static str, &str)],
    ) -> Result<Watcher, tungstenite::Error> {
        let url = self.url.replacen("http", "ws", 1);
        let mut request =
            format!("{url}/api/v1/sessions/{session}/socket?after={after}").into_client_request()?;
        let token = self.token.iter().map(|token| ("authorization", format!("Bearer {token}")));
        let others = headers.iter().map(|(name, value)| (*name, (*value).to_owned()));
        for (name, value) in token.chain(others) {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let (socket, _) = tokio_tungstenite::connect_async(request).await?;
        Ok(Watcher { socket, seen: Events::default() })
    }
}

/// One reader of a session.
pub(crate) struct Watcher {
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    /// What came so far.
    pub(crate) seen: Events,
}

impl Watcher {
    /// Reads until a frame fits, and gives it.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let next = tokio::time::timeout_at(end, self.socket.next()).await;
            let next = next.unwrap_or_else(|_| panic!("it did not come in time: {:?}", self.seen));
            match next {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    self.seen.push(frame.clone());
                    if fits(&frame) {
                        return frame;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("the stream ended with {other:?} after {:?}", self.seen),
            }
        }
    }

    /// Reads up to the first event of this type.
    pub(crate) async fn until_type(&mut self, name: &str) -> Value {
        self.until(|frame| frame["type"] == name).await
    }

    /// Asks for a sign of life, which comes after everything that was sent before it.
    pub(crate) async fn ping(&mut self) {
        self.socket.send(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
    }
}
