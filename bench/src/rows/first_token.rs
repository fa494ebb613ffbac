//! From a prompt to the first token of its answer, at somebody who follows the session: the real server with its log, its
//! sandbox and its feed, beside a client that sends the same request to the model and reads the answer itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use protocol::{PromptCreated, Session};
use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::{Settings, ms};
use crate::report::Table;
use crate::served::{self, Served};

const ROUNDS: usize = 30;
/// What a finished turn leaves to be done, such as its snapshot, is over by then.
const SETTLE: Duration = Duration::from_millis(300);

/// When the last request came to the model.
type Arrived = Arc<Mutex<Option<Instant>>>;

#[derive(Default)]
struct Samples {
    whole: Vec<f64>,
    there: Vec<f64>,
    back: Vec<f64>,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let arrived = Arrived::default();
    let model = Server::start(script(Arc::clone(&arrived))).await;
    let repo = Repo::plain();
    let dir = served::home(&model.url(), &repo.url())?;
    let server = Served::slipway(&served::program()?, dir.path()).await?;
    let measured = measure(settings, &server, &model, &arrived).await;
    server.end().await?;
    served::remove_sandboxes(dir.path()).await?;
    let (ours, theirs) = measured?;
    let violations = model.violations();
    ensure!(violations.is_empty(), "the scripted model was asked wrongly: {}", violations.join("; "));
    const BARE: &str = "bare client";
    let added = ours.whole.iter().zip(&theirs.whole).map(|(ours, theirs)| ours - theirs).collect();
    Ok(vec![
        Table::new("prompt → first token", "ms", "slipway serve, at a follower", ours.whole)
            .against(BARE, theirs.whole)
            .also("slipway less bare client", added),
        Table::new("prompt → request at the model", "ms", "slipway serve", ours.there)
            .against(BARE, theirs.there),
        Table::new("request at the model → first token", "ms", "slipway serve, at a follower", ours.back)
            .against(BARE, theirs.back),
    ])
}

async fn measure(
    settings: &Settings,
    server: &Served,
    model: &Server,
    arrived: &Arrived,
) -> anyhow::Result<(Samples, Samples)> {
    let request = json!({ "environment": "plain", "prompt": "Say hello." });
    let session: Session = server.post("/api/v1/sessions", &request).await?;
    let mut follower = Follower::open(server, &session).await?;
    follower.until(Seen::End).await?;
    let mut bare = Bare::connect(model).await?;
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for _ in 0..settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        tokio::time::sleep(SETTLE).await;
        let began = Instant::now();
        let path = format!("/api/v1/sessions/{}/prompts", session.id);
        let _created: PromptCreated = server.post(&path, &json!({ "prompt": "Say hello again." })).await?;
        let token = follower.until(Seen::Token).await?;
        ours.add(began, arrived, token)?;
        follower.until(Seen::End).await?;
        let last = model.requests().pop().context("the model was asked nothing")?;
        tokio::time::sleep(SETTLE).await;
        let began = Instant::now();
        let token = bare.first_token(&last.json).await?;
        theirs.add(began, arrived, token)?;
    }
    Ok((ours, theirs))
}

impl Samples {
    fn add(&mut self, began: Instant, arrived: &Arrived, token: Instant) -> anyhow::Result<()> {
        let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner).take();
        let arrived = arrived.context("the model was asked nothing")?;
        self.whole.push(ms(token - began));
        self.there.push(ms(arrived - began));
        self.back.push(ms(token - arrived));
        Ok(())
    }
}

/// How the answer begins, in both ways to read it.
const TOKEN: &str = "greetin";

fn script(arrived: Arrived) -> Script {
    Script::from_fn(move |_, _| {
        *arrived.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Reply::text(format!("{TOKEN}gs to everybody who reads this."))
    })
}

/// Somebody who follows the session.
struct Follower(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What a follower waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Token,
    End,
}

impl Follower {
    async fn open(server: &Served, session: &Session) -> anyhow::Result<Self> {
        let url = format!("ws://{}/api/v1/sessions/{}/socket?after=0", server.address, session.id);
        let (stream, _) = tokio_tungstenite::connect_async(url).await.context("following the session")?;
        Ok(Self(stream))
    }

    /// Reads on; gives when it was there.
    async fn until(&mut self, seen: Seen) -> anyhow::Result<Instant> {
        loop {
            let message = self.0.next().await.context("the server closed the socket")??;
            let now = Instant::now();
            let Message::Text(text) = message else { continue };
            let there = match seen {
                Seen::Token => text.contains(TOKEN),
                Seen::End => text.contains("\"turn.finished\""),
            };
            if there {
                return Ok(now);
            }
        }
    }
}

/// A client with an open connection, as ours has one.
struct Bare {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Bare {
    async fn connect(model: &Server) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(model.address()).await.context("reaching the scripted model")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // How the connection ends is told to whoever waits for an answer.
        drop(tokio::spawn(async move { drop(connection.await) }));
        Ok(Self { sender, host: model.address().to_string() })
    }

    async fn first_token(&mut self, body: &Value) -> anyhow::Result<Instant> {
        self.sender.ready().await?;
        let request = hyper::Request::post("/v1/chat/completions")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(serde_json::to_vec(body)?)))?;
        let mut response = self.sender.send_request(request).await?.into_body();
        let (mut text, mut token) = (Vec::new(), None);
        while let Some(frame) = response.frame().await {
            text.extend(frame?.into_data().unwrap_or_default());
            if token.is_none() && text.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()) {
                token = Some(Instant::now());
            }
        }
        token.context("the model did not say what it should")
    }
}
