//! A client that does not mind when its server dies: it repeats commands under their keys until they are answered, and
//! follows sessions from the last event that it saw.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::keeper::Keeper;
use crate::harness::Events;

/// How long anything may take, with servers that die meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

type Seen = Arc<Mutex<BTreeMap<(String, Way), Events>>>;

/// A way to follow a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// A WebSocket.
    Socket,
    /// JSON lines.
    Lines,
}

impl Way {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Socket, Self::Lines];
}

/// The client.
pub(super) struct Client {
    keeper: Arc<Keeper>,
    http: reqwest::Client,
    seen: Seen,
    followers: Mutex<Vec<JoinHandle<()>>>,
    keys: Mutex<usize>,
}

impl Client {
    pub(super) fn new(keeper: &Arc<Keeper>) -> Self {
        // Fails only when it is installed already.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        // A server that is held up is not gone.
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let (seen, followers, keys) = (Seen::default(), Mutex::default(), Mutex::default());
        Self { keeper: Arc::clone(keeper), http, seen, followers, keys }
    }

    /// A command under a key of its own, repeated until there is an answer.
    pub(super) async fn command(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let key = {
            let mut keys = self.keys.lock().unwrap();
            *keys += 1;
            format!("key-{keys}")
        };
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < end, "{method} {path} was never answered");
            let url = format!("{}/api/v1{path}", self.keeper.url().await);
            let request = self.http.request(method.clone(), url).header("idempotency-key", &key).json(body);
            if let Ok(response) = request.send().await {
                let status = response.status().as_u16();
                // What breaks off in the middle of an answer is no answer.
                if let Ok(text) = response.text().await {
                    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
                    let busy = answer["title"] == "the same request is still being worked on";
                    if status != 503 && !busy {
                        return (status, answer);
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// `GET`, repeated until there is an answer.
    pub(super) async fn get(&self, path: &str) -> Value {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < end, "GET {path} was never answered");
            let url = format!("{}/api/v1{path}", self.keeper.url().await);
            if let Ok(response) = self.http.get(url).header("accept", "application/json").send().await
                && response.status() == 200
                && let Ok(text) = response.text().await
            {
                return serde_json::from_str(&text).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Follows a session from now on, from its first event, in both ways.
    pub(super) fn follow(&self, session: &str) {
        for way in Way::ALL {
            let follower = Follower {
                keeper: Arc::clone(&self.keeper),
                http: self.http.clone(),
                session: session.to_owned(),
                way,
                seen: Arc::clone(&self.seen),
            };
            self.followers.lock().unwrap().push(tokio::spawn(follower.run()));
        }
    }

    /// What was seen of a session so far.
    pub(super) fn seen(&self, session: &str, way: Way) -> Events {
        self.seen.lock().unwrap().get(&(session.to_owned(), way)).cloned().unwrap_or_default()
    }

    /// Waits until what was seen of a session in either way gives something.
    pub(super) async fn until<T>(&self, session: &str, what: &str, find: impl Fn(&Events) -> Option<T>) -> T {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let [socket, lines] = Way::ALL.map(|way| self.seen(session, way));
            if let (Some(found), Some(_)) = (find(&socket), find(&lines)) {
                return found;
            }
            if tokio::time::Instant::now() > end {
                let (socket, lines) = (summary(&socket), lines.durable.len());
                panic!("never seen in {session}: {what}\n{socket}\nand {lines} lines");
            }
            self.keeper.check();
            // A follower that found something wrong has said what.
            let broken = self.followers.lock().unwrap().iter().any(JoinHandle::is_finished);
            assert!(!broken, "a follower gave up");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops following.
    pub(super) fn leave(&self) {
        self.followers.lock().unwrap().drain(..).for_each(|follower| follower.abort());
    }
}

/// The events in a line each, as much as tells what happened.
pub(super) fn summary(events: &Events) -> String {
    let line = |event: &Value| {
        let data: String = event["data"].to_string().chars().take(300).collect();
        format!("{} {} {} {data}", event["seq"], event["at"], event["type"])
    };
    events.durable.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Follows one session in one way.
struct Follower {
    keeper: Arc<Keeper>,
    http: reqwest::Client,
    session: String,
    way: Way,
    seen: Seen,
}

impl Follower {
    async fn run(self) {
        loop {
            let after = self.with(|events| events.durable.len());
            let url = self.keeper.url().await;
            match self.way {
                Way::Socket => self.socket(&url.replacen("http", "ws", 1), after).await,
                Way::Lines => self.lines(&url, after).await,
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn socket(&self, url: &str, after: usize) {
        let url = format!("{url}/api/v1/sessions/{}/socket?after={after}", self.session);
        let Ok((mut socket, _)) = tokio_tungstenite::connect_async(url).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Text(text) = message {
                self.take(text.as_str());
            }
        }
    }

    async fn lines(&self, url: &str, after: usize) {
        let url = format!("{url}/api/v1/sessions/{}/events?after={after}", self.session);
        let request = self.http.get(url).header("accept", "application/x-ndjson");
        let Ok(mut response) = request.send().await else { return };
        if response.status() != 200 {
            return;
        }
        let mut text = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            text.extend_from_slice(&chunk);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                self.take(std::str::from_utf8(&line).unwrap());
            }
        }
    }

    /// Takes note of a durable event, which must be the next one.
    fn take(&self, text: &str) {
        let frame: Value = serde_json::from_str(text).unwrap();
        let Some(seq) = frame["seq"].as_u64() else { return };
        let known = self.with(|events| {
            events.push(frame);
            events.durable.len() as u64
        });
        assert_eq!(seq, known, "a gap or a repetition in {} {:?}", self.session, self.way);
    }

    fn with<T>(&self, act: impl FnOnce(&mut Events) -> T) -> T {
        let mut seen = self.seen.lock().unwrap();
        act(seen.entry((self.session.clone(), self.way)).or_default())
    }
}
