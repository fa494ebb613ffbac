//! Webhooks, as the forges sign and send them. On demand each comes twice, or those that are held come newest first.

use std::sync::Mutex;

use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::ledger::PullRequest;
use super::server::lock;

/// Which forge it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// GitHub.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea or Forgejo.
    Gitea,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GitHub, Self::GitLab, Self::Gitea];
}

/// How webhooks come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Each once, as things happened.
    #[default]
    Straight,
    /// Each twice.
    Twice,
    /// Not before they are let go; then newest first.
    Held,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub(super) struct Event {
    what: &'static str,
    pull: PullRequest,
}

impl Event {
    pub(super) fn opened(pull: &PullRequest) -> Self {
        Self { what: "opened", pull: pull.clone() }
    }

    pub(super) fn updated(pull: &PullRequest) -> Self {
        Self { what: "updated", pull: pull.clone() }
    }

    pub(super) fn closed(pull: &PullRequest) -> Self {
        Self { what: "closed", pull: pull.clone() }
    }

    pub(super) fn commented(pull: &PullRequest) -> Self {
        Self { what: "commented", pull: pull.clone() }
    }
}

/// Who is told.
#[derive(Debug, Clone)]
struct Target {
    kind: Kind,
    url: String,
    secret: String,
}

/// A request that is to be sent.
#[derive(Debug, Clone)]
struct Post {
    url: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// Sends webhooks, one after the other.
#[derive(Debug)]
pub(super) struct Hooks {
    targets: Mutex<Vec<Target>>,
    order: Mutex<Order>,
    held: Mutex<Vec<Post>>,
    count: Mutex<u64>,
    line: mpsc::UnboundedSender<Post>,
}

impl Hooks {
    pub(super) fn start() -> Self {
        let (line, mut posts) = mpsc::unbounded_channel::<Post>();
        tokio::spawn(async move {
            while let Some(post) = posts.recv().await {
                // The forges do not mind either when nobody is there.
                drop(post.send().await);
            }
        });
        Self {
            targets: Mutex::default(),
            order: Mutex::default(),
            held: Mutex::default(),
            count: Mutex::default(),
            line,
        }
    }

    pub(super) fn add(&self, kind: Kind, url: &str, secret: &str) {
        lock(&self.targets).push(Target { kind, url: url.to_owned(), secret: secret.to_owned() });
    }

    pub(super) fn order(&self, order: Order) {
        *lock(&self.order) = order;
        if order != Order::Held {
            let held: Vec<Post> = lock(&self.held).drain(..).rev().collect();
            held.into_iter().for_each(|post| self.send(post));
        }
    }

    fn send(&self, post: Post) {
        // The other end is gone only when the runtime is.
        drop(self.line.send(post));
    }

    /// Tells everybody of what happened.
    pub(super) fn tell(&self, events: Vec<Event>, url: &str) {
        for event in events {
            for target in lock(&self.targets).iter() {
                let number = {
                    let mut count = lock(&self.count);
                    *count += 1;
                    *count
                };
                let Some(post) = target.post(&event, number, url) else { continue };
                match *lock(&self.order) {
                    Order::Straight => self.send(post),
                    Order::Twice => {
                        self.send(post.clone());
                        self.send(post);
                    }
                    Order::Held => lock(&self.held).push(post),
                }
            }
        }
    }
}

impl Post {
    /// By hand: it never goes further than to a test's own port.
    async fn send(&self) -> std::io::Result<()> {
        let rest =
            self.url.strip_prefix("http://").ok_or_else(|| std::io::Error::other("not a test's port"))?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut stream = TcpStream::connect(address).await?;
        let mut text = format!("POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("content-length: {}\r\n\r\n{}", self.body.len(), self.body);
        stream.write_all(text.as_bytes()).await?;
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    }
}

impl Target {
    fn post(&self, event: &Event, number: u64, url: &str) -> Option<Post> {
        let (name, body) = match self.kind {
            Kind::GitHub => as_github(event, url)?,
            Kind::GitLab => as_gitlab(event, url)?,
            Kind::Gitea => as_gitea(event, url)?,
        };
        let body = body.to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes());
        let signature: String =
            hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("00000000-0000-4000-8000-{number:012}");
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(match self.kind {
            Kind::GitHub => vec![
                ("x-github-event", name.to_owned()),
                ("x-github-delivery", id),
                ("x-hub-signature-256", format!("sha256={signature}")),
            ],
            Kind::GitLab => vec![
                ("x-gitlab-event", name.to_owned()),
                ("x-gitlab-event-uuid", id.clone()),
                ("idempotency-key", id),
                ("x-gitlab-token", self.secret.clone()),
            ],
            Kind::Gitea => vec![
                ("x-gitea-event", name.to_owned()),
                ("x-gitea-delivery", id),
                ("x-gitea-signature", signature),
            ],
        });
        Some(Post { url: self.url.clone(), headers, body })
    }
}

fn repository(pull: &PullRequest) -> Value {
    let name = pull.repository.rsplit('/').next().unwrap_or_default();
    json!({"name": name, "full_name": pull.repository})
}

fn as_github(event: &Event, url: &str) -> Option<(&'static str, Value)> {
    let (pull, sender) = (&event.pull, json!({"login": event.pull.author}));
    let repository = repository(pull);
    if event.what == "commented" {
        let said = pull.comments.last()?;
        let issue = json!({"number": pull.number, "title": pull.title, "pull_request": {}});
        let comment = json!({"id": pull.comments.len(), "body": said.text, "user": {"login": said.author}});
        let sender = json!({"login": said.author});
        let body = json!({"action": "created", "issue": issue, "comment": comment, "repository": repository, "sender": sender});
        return Some(("issue_comment", body));
    }
    let action = if event.what == "updated" { "synchronize" } else { event.what };
    let shown = super::github::shown(pull, url);
    let body = json!({
        "action": action, "number": pull.number, "pull_request": shown, "repository": repository, "sender": sender,
    });
    Some(("pull_request", body))
}

fn as_gitea(event: &Event, url: &str) -> Option<(&'static str, Value)> {
    let (name, mut body) = as_github(event, url)?;
    if event.what == "updated" {
        body["action"] = json!("synchronized");
    }
    if event.what == "commented" {
        body["is_pull"] = json!(true);
    } else {
        body["pull_request"] = super::gitea::shown(&event.pull, url);
    }
    Some((name, body))
}

fn as_gitlab(event: &Event, url: &str) -> Option<(&'static str, Value)> {
    let pull = &event.pull;
    let project = json!({"path_with_namespace": pull.repository});
    let user = json!({"username": pull.author});
    let request = super::gitlab::shown(pull, url);
    if event.what == "commented" {
        let said = pull.comments.last()?;
        let note = json!({"id": pull.comments.len(), "note": said.text, "noteable_type": "MergeRequest"});
        let body = json!({
            "object_kind": "note", "event_type": "note", "user": {"username": said.author}, "project": project,
            "object_attributes": note, "merge_request": request,
        });
        return Some(("Note Hook", body));
    }
    let action = match event.what {
        "opened" => "open",
        "updated" => "update",
        _ if pull.merged => "merge",
        _ => "close",
    };
    let mut attributes = request;
    attributes["action"] = json!(action);
    let body = json!({
        "object_kind": "merge_request", "event_type": "merge_request", "user": user, "project": project,
        "object_attributes": attributes,
    });
    Some(("Merge Request Hook", body))
}
