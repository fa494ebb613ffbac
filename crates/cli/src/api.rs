//! The HTTP API as the commands use it: requests with their bodies, problems as errors, and a session's stream that
//! comes back by itself when the connection breaks.

mod forge;

use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::StreamExt;
use protocol::*;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

/// How long a server may be away before a stream is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// One server.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

impl Api {
    /// A server at an address such as `http://127.0.0.1:7717`.
    pub(crate) fn new(url: &str, token: Option<String>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("cannot make HTTP requests")?;
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), token })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> anyhow::Result<Vec<u8>> {
        let mut request = self.http.request(method.clone(), format!("{}/api/v1{path}", self.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if method != Method::GET {
            // Lists show where a session came from.
            request = request.header("Slipway-Client", SessionOrigin::Cli.as_str());
            // A request that is sent twice is carried out once.
            request = request.header("Idempotency-Key", PromptId::new().to_string());
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        if status.is_success() {
            return Ok(bytes.into());
        }
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => Err(problem.into()),
            Err(_) => Err(anyhow!("{} answered {status}: is it a slipway server?", self.url)),
        }
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> anyhow::Error {
        let mut cause = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        anyhow!(
            "cannot reach the server at {}: {cause}\n  is it running? start it with: slipway serve",
            self.url
        )
    }

    /// The pieces of an archive of everything.
    pub(crate) async fn backup(
        &self,
    ) -> anyhow::Result<impl futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin + use<>> {
        let request = self.http.get(format!("{}/api/v1/backup", self.url));
        let response = self.accepted(request).await?;
        Ok(Box::pin(response.bytes_stream()))
    }

    /// Sends an archive whose content is to be added.
    pub(crate) async fn restore(&self, archive: reqwest::Body) -> anyhow::Result<RestoreReport> {
        let request = self.http.put(format!("{}/api/v1/backup", self.url)).body(archive);
        let response = self.accepted(request.header("Content-Type", "application/x-tar")).await?;
        response.json().await.map_err(|error| self.unreachable(&error))
    }

    /// The answer, if it is not a refusal.
    async fn accepted(&self, mut request: reqwest::RequestBuilder) -> anyhow::Result<reqwest::Response> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => Err(problem.into()),
            Err(_) => Err(anyhow!("{} answered {status}: is it a slipway server?", self.url)),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.ask(Method::GET, path, None::<()>).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<impl Serialize>,
    ) -> anyhow::Result<T> {
        let body = body.map(serde_json::to_value).transpose()?;
        let bytes = self.send(method, path, body).await?;
        serde_json::from_slice(&bytes)
            .context("the server's answer is not understood: is it another version?")
    }

    pub(crate) async fn health(&self) -> anyhow::Result<Health> {
        tokio::time::timeout(Duration::from_secs(3), self.get("/health")).await.context("no answer")?
    }

    pub(crate) async fn create_session(&self, request: &CreateSession) -> anyhow::Result<Session> {
        self.ask(Method::POST, "/sessions", Some(request)).await
    }

    pub(crate) async fn sessions(&self) -> anyhow::Result<SessionList> {
        self.get("/sessions").await
    }

    pub(crate) async fn edit_session(&self, id: SessionId, edit: &EditSession) -> anyhow::Result<Session> {
        self.ask(Method::PATCH, &format!("/sessions/{id}"), Some(edit)).await
    }

    pub(crate) async fn session(&self, id: SessionId) -> anyhow::Result<Session> {
        self.get(&format!("/sessions/{id}")).await
    }

    pub(crate) async fn prompt(&self, id: SessionId, body: &CreatePrompt) -> anyhow::Result<PromptCreated> {
        self.ask(Method::POST, &format!("/sessions/{id}/prompts"), Some(body)).await
    }

    pub(crate) async fn queue(&self, id: SessionId) -> anyhow::Result<Queue> {
        self.get(&format!("/sessions/{id}/queue")).await
    }

    pub(crate) async fn set_queue(&self, id: SessionId, paused: bool) -> anyhow::Result<Queue> {
        self.ask(Method::PUT, &format!("/sessions/{id}/queue"), Some(SetQueue { paused })).await
    }

    pub(crate) async fn edit_prompt(
        &self,
        id: SessionId,
        prompt: PromptId,
        edit: &EditPrompt,
    ) -> anyhow::Result<Queue> {
        self.ask(Method::PATCH, &format!("/sessions/{id}/prompts/{prompt}"), Some(edit)).await
    }

    pub(crate) async fn remove_prompt(&self, id: SessionId, prompt: PromptId) -> anyhow::Result<Queue> {
        self.ask(Method::DELETE, &format!("/sessions/{id}/prompts/{prompt}"), None::<()>).await
    }

    pub(crate) async fn stop(&self, id: SessionId, pause: bool) -> anyhow::Result<Stopped> {
        self.ask(Method::POST, &format!("/sessions/{id}/stop"), Some(StopSession { pause })).await
    }

    pub(crate) async fn decide(
        &self,
        id: SessionId,
        approval: ApprovalId,
        decide: &Decide,
    ) -> anyhow::Result<Decision> {
        self.ask(Method::POST, &format!("/sessions/{id}/approvals/{approval}"), Some(decide)).await
    }

    pub(crate) async fn diff(&self, id: SessionId) -> anyhow::Result<Diff> {
        self.get(&format!("/sessions/{id}/diff")).await
    }

    pub(crate) async fn deliver(
        &self,
        id: SessionId,
        request: DeliverSession,
    ) -> anyhow::Result<event::Delivery> {
        self.ask(Method::POST, &format!("/sessions/{id}/deliver"), Some(request)).await
    }

    pub(crate) async fn environments(&self) -> anyhow::Result<EnvironmentList> {
        self.get("/environments").await
    }

    pub(crate) async fn environment(&self, name: &str) -> anyhow::Result<NamedEnvironment> {
        self.get(&format!("/environments/{}", segment(name))).await
    }

    pub(crate) async fn put_environment(
        &self,
        name: &str,
        recipe: &Environment,
    ) -> anyhow::Result<NamedEnvironment> {
        self.ask(Method::PUT, &format!("/environments/{}", segment(name)), Some(recipe)).await
    }

    pub(crate) async fn remove_environment(&self, name: &str) -> anyhow::Result<()> {
        self.send(Method::DELETE, &format!("/environments/{}", segment(name)), None).await.map(|_| ())
    }

    pub(crate) async fn image(&self, name: &str) -> anyhow::Result<ImageStatus> {
        self.get(&format!("/environments/{}/image", segment(name))).await
    }

    pub(crate) async fn build(&self, name: &str) -> anyhow::Result<ImageStatus> {
        self.ask(Method::POST, &format!("/environments/{}/build", segment(name)), None::<()>).await
    }

    pub(crate) async fn egress(&self, name: &str) -> anyhow::Result<EgressStatus> {
        self.get(&format!("/environments/{}/egress", segment(name))).await
    }

    pub(crate) async fn note_egress(
        &self,
        name: &str,
        decisions: Vec<EgressDecision>,
    ) -> anyhow::Result<EgressStatus> {
        let path = format!("/environments/{}/egress/decisions", segment(name));
        self.ask(Method::POST, &path, Some(NoteEgress { decisions })).await
    }

    pub(crate) async fn allow(&self, name: &str, rules: Vec<String>) -> anyhow::Result<EgressStatus> {
        let body = AllowEgress { allow: rules };
        self.ask(Method::POST, &format!("/environments/{}/egress", segment(name)), Some(body)).await
    }

    pub(crate) async fn collect_garbage(&self, dry_run: bool) -> anyhow::Result<GarbageReport> {
        self.ask(Method::POST, "/gc", Some(CollectGarbage { dry_run })).await
    }

    pub(crate) async fn snapshots(&self, id: SessionId) -> anyhow::Result<SnapshotList> {
        self.get(&format!("/sessions/{id}/snapshots")).await
    }

    pub(crate) async fn fork(&self, id: SessionId, request: &ForkSession) -> anyhow::Result<Session> {
        self.ask(Method::POST, &format!("/sessions/{id}/fork"), Some(request)).await
    }

    pub(crate) async fn notes(&self, scope: Option<&NoteScope>) -> anyhow::Result<NoteList> {
        let query = scope.map(|scope| format!("?scope={}", segment(&scope.to_string()))).unwrap_or_default();
        self.get(&format!("/memory{query}")).await
    }

    pub(crate) async fn search_notes(
        &self,
        text: &str,
        scope: Option<&NoteScope>,
    ) -> anyhow::Result<FoundNotes> {
        let scope = scope.map(|scope| format!("&scope={}", segment(&scope.to_string()))).unwrap_or_default();
        self.get(&format!("/memory/search?text={}{scope}", segment(text))).await
    }

    pub(crate) async fn note(&self, id: NoteId) -> anyhow::Result<Note> {
        self.get(&format!("/memory/{id}")).await
    }

    pub(crate) async fn remember(&self, note: &NewNote) -> anyhow::Result<Remembered> {
        self.ask(Method::POST, "/memory", Some(note)).await
    }

    pub(crate) async fn edit_note(&self, id: NoteId, edit: &EditNote) -> anyhow::Result<Note> {
        self.ask(Method::PATCH, &format!("/memory/{id}"), Some(edit)).await
    }

    pub(crate) async fn remove_note(&self, id: NoteId) -> anyhow::Result<()> {
        self.send(Method::DELETE, &format!("/memory/{id}"), None).await.map(|_| ())
    }

    pub(crate) async fn secrets(&self) -> anyhow::Result<SecretList> {
        self.get("/secrets").await
    }

    pub(crate) async fn set_secret(&self, name: &str, value: String) -> anyhow::Result<StoredSecret> {
        self.ask(Method::PUT, &format!("/secrets/{}", segment(name)), Some(SetSecret { value })).await
    }

    pub(crate) async fn remove_secret(&self, name: &str) -> anyhow::Result<()> {
        self.send(Method::DELETE, &format!("/secrets/{}", segment(name)), None).await.map(|_| ())
    }

    /// What was spent, of those sessions, days and models that the parameters name.
    pub(crate) async fn spend(&self, parameters: &[(&str, Option<String>)]) -> anyhow::Result<SpendReport> {
        let given = parameters.iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let query: Vec<String> = given.map(|(name, value)| format!("{name}={}", segment(value))).collect();
        self.get(&format!("/spend?{}", query.join("&"))).await
    }

    pub(crate) async fn models(&self) -> anyhow::Result<ModelList> {
        self.get("/models").await
    }

    /// The next events of a session after one of them, of a lineage if that is known.
    pub(crate) async fn events_after(
        &self,
        id: SessionId,
        after: u64,
        lineage: Option<LineageId>,
    ) -> anyhow::Result<EventPage> {
        let request = self
            .http
            .get(format!("{}/api/v1/sessions/{id}/events?{}", self.url, position(after, lineage)))
            .header("Accept", "application/json");
        let response = self.accepted(request).await?;
        response.json().await.map_err(|error| self.unreachable(&error))
    }

    /// Every event of a session in the log now; of a damaged log, those before the damage, which is told.
    pub(crate) async fn events(&self, id: SessionId) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut lineage = None;
        loop {
            let after = events.last().map_or(0, |event: &Event| event.seq);
            let page = match self.events_after(id, after, lineage).await {
                Ok(page) => page,
                // The server was restored from a backup meanwhile.
                Err(error) if after > 0 && error.downcast_ref().is_some_and(is_elsewhere) => {
                    (events, lineage) = (Vec::new(), None);
                    continue;
                }
                Err(error) if !events.is_empty() && is_damage(&error) => {
                    crate::render::style::error(&format!("after event {after}: {error}"));
                    return Ok(events);
                }
                Err(error) => return Err(error),
            };
            let more = page.more;
            lineage = page.lineage;
            events.extend(page.events);
            if !more {
                return Ok(events);
            }
        }
    }

    /// Follows a session after an event, of a lineage if that is known.
    pub(crate) fn follow(&self, session: SessionId, after: u64, lineage: Option<LineageId>) -> Stream {
        Stream {
            api: self.clone(),
            session,
            begun_after: after,
            after,
            lineage,
            socket: None,
            broken_since: None,
        }
    }
}

/// Where to begin, as it is written in an address.
fn position(after: u64, lineage: Option<LineageId>) -> String {
    let lineage = lineage.map(|lineage| format!("&lineage={lineage}")).unwrap_or_default();
    format!("after={after}{lineage}")
}

/// Whether what we have of a session is not what its log has.
fn is_elsewhere(problem: &Problem) -> bool {
    matches!(problem.code, Code::AfterEnd | Code::OtherLineage)
}

fn is_damage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Problem>().is_some_and(|problem| problem.code == Code::StorageDamaged)
}

/// A name as one part of a path, whatever is in it.
fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// A session's stream of frames.
pub(crate) struct Stream {
    api: Api,
    session: SessionId,
    begun_after: u64,
    after: u64,
    lineage: Option<LineageId>,
    socket: Option<Socket>,
    broken_since: Option<tokio::time::Instant>,
}

/// One frame: the text as it came, and what it means where this version knows it.
pub(crate) struct Frame {
    pub(crate) text: String,
    pub(crate) meaning: Option<Meaning>,
}

/// What a frame means.
pub(crate) enum Meaning {
    Event(Box<Event>),
    Ephemeral(Ephemeral),
    /// What came so far is not what the log has now; it comes again from the beginning.
    StartOver,
}

impl Stream {
    /// The next frame. A broken connection is made again and goes on after the last event, so nothing is lost or seen
    /// twice, unless the log is another one by then; a server that stays away is an error.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Frame> {
        loop {
            let socket = match &mut self.socket {
                Some(socket) => socket,
                None => {
                    let socket = self.connect().await?;
                    self.socket.insert(socket)
                }
            };
            match socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    self.broken_since = None;
                    if let Some(frame) = self.read(text.to_string())? {
                        return Ok(frame);
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => self.socket = None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// What a message is to whoever follows, if it is anything.
    fn read(&mut self, text: String) -> anyhow::Result<Option<Frame>> {
        let meaning = match serde_json::from_str::<Event>(&text) {
            Ok(event) => {
                self.after = event.seq;
                Some(Meaning::Event(Box::new(event)))
            }
            Err(_) => serde_json::from_str(&text).ok().map(Meaning::Ephemeral),
        };
        if meaning.is_some() {
            return Ok(Some(Frame { text, meaning }));
        }
        match serde_json::from_str::<ServerMessage>(&text).map(|message| message.body) {
            Ok(ServerBody::Subscribed { lineage }) => {
                self.lineage = lineage;
                Ok(None)
            }
            Ok(ServerBody::Unsubscribed { problem: Some(problem) }) if self.is_to_start_over(&problem) => {
                (self.begun_after, self.after, self.lineage, self.socket) = (0, 0, None, None);
                Ok(Some(Frame { text, meaning: Some(Meaning::StartOver) }))
            }
            Ok(ServerBody::Unsubscribed { problem: Some(problem) }) => Err(problem.into()),
            _ => Ok(Some(Frame { text, meaning })),
        }
    }

    /// Who asks for too much at first typed it; later it is the server that has less than before, or something else.
    fn is_to_start_over(&self, problem: &Problem) -> bool {
        match problem.code {
            Code::OtherLineage => self.after > 0,
            Code::AfterEnd => self.after != self.begun_after,
            _ => false,
        }
    }

    async fn connect(&mut self) -> anyhow::Result<Socket> {
        let since = *self.broken_since.get_or_insert_with(tokio::time::Instant::now);
        loop {
            let error = match self.try_connect().await {
                Ok(socket) => return Ok(socket),
                Err(error) => error,
            };
            // An answer that is a refusal stays one.
            if let tungstenite::Error::Http(response) = &error {
                let problem =
                    response.body().as_deref().and_then(|body| serde_json::from_slice::<Problem>(body).ok());
                return Err(problem.map_or_else(|| error.into(), Into::into));
            }
            if since.elapsed() > PATIENCE {
                return Err(self.api.unreachable(&error));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn try_connect(&self) -> Result<Socket, tungstenite::Error> {
        let url = self.api.url.replacen("http", "ws", 1);
        let position = position(self.after, self.lineage);
        let mut request =
            format!("{url}/api/v1/sessions/{}/socket?{position}", self.session).into_client_request()?;
        if let Some(token) = &self.api.token
            && let Ok(value) = format!("Bearer {token}").parse()
        {
            request.headers_mut().insert("Authorization", value);
        }
        Ok(tokio_tungstenite::connect_async(request).await?.0)
    }
}
