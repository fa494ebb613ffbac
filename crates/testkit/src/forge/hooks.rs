//! Webhooks, as the forges sign and send them. On demand each comes twice, or those that are held come newest first.

use std::sync::{Arc, Mutex};

use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::ledger::{PullRequest, Status};
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
    check: Option<Status>,
}

impl Event {
    pub(super) fn opened(pull: &PullRequest) -> Self {
        Self { what: "opened", pull: pull.clone(), check: None }
    }

    pub(super) fn updated(pull: &PullRequest) -> Self {
        Self { what: "updated", pull: pull.clone(), check: None }
    }

    pub(super) fn reopened(pull: &PullRequest) -> Self {
        Self { what: "reopened", pull: pull.clone(), check: None }
    }

    pub(super) fn closed(pull: &PullRequest) -> Self {
        Self { what: "closed", pull: pull.clone(), check: None }
    }

    pub(super) fn commented(pull: &PullRequest) -> Self {
        Self { what: "commented", pull: pull.clone(), check: None }
    }

    /// A check of a commit ended.
    pub(super) fn checked(check: &Status) -> Self {
        let pull = PullRequest { repository: check.repository.clone(), ..PullRequest::default() };
        Self { what: "checked", pull, check: Some(check.clone()) }
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
    answers: Arc<Mutex<Vec<String>>>,
    /// How many are on their way.
    pending: watch::Sender<usize>,
}

impl Hooks {
    pub(super) fn start() -> Self {
        let (line, mut posts) = mpsc::unbounded_channel::<Post>();
        let (answers, pending) = (Arc::<Mutex<Vec<String>>>::default(), watch::Sender::new(0));
        let (given, done) = (Arc::clone(&answers), pending.clone());
        tokio::spawn(async move {
            while let Some(post) = posts.recv().await {
                // The forges do not mind either when nobody is there.
                let answer = post.send().await.unwrap_or_else(|error| error.to_string());
                lock(&given).push(answer);
                done.send_modify(|pending| *pending -= 1);
            }
        });
        Self {
            targets: Mutex::default(),
            order: Mutex::default(),
            held: Mutex::default(),
            count: Mutex::default(),
            line,
            answers,
            pending,
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

    /// What was answered, once nothing is on its way.
    pub(super) async fn answers(&self) -> Vec<String> {
        // The sender is ours, so that it cannot be gone.
        drop(self.pending.subscribe().wait_for(|pending| *pending == 0).await);
        lock(&self.answers).clone()
    }

    fn send(&self, post: Post) {
        self.pending.send_modify(|pending| *pending += 1);
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
    async fn send(&self) -> std::io::Result<String> {
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
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    }
}

impl Target {
    fn post(&self, event: &Event, number: u64, url: &str) -> Option<Post> {
        let (name, body) = match self.kind {
            Kind::GitHub => as_github(event, url)?,
            Kind::GitLab => as_gitlab(event, url)?,
            Kind::Gitea => as_gitea(event, url)?,
        };
        let mut body = body;
        // Each event is a second after the one before it.
        let at = json!(format!(
            "2026-01-01T{:02}:{:02}:{:02}Z",
            number / 3600 % 24,
            number / 60 % 60,
            number % 60
        ));
        for part in ["pull_request", "object_attributes"] {
            if let Some(part) = body.get_mut(part).filter(|_| event.what != "commented") {
                part["updated_at"] = at.clone();
            }
        }
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
    if let Some(check) = &event.check {
        let run = json!({
            "id": check.job, "name": check.name, "head_sha": check.commit, "status": "completed",
            "conclusion": check.state, "html_url": format!("{url}/checks/{}", check.job),
            "output": {"title": format!("{} ended with {}", check.name, check.state), "summary": null, "text": null},
            "check_suite": {"head_branch": null},
        });
        return Some((
            "check_run",
            json!({"action": "completed", "check_run": run, "repository": repository, "sender": sender}),
        ));
    }
    if event.what == "commented" {
        let said = pull.comments.last()?;
        let issue = json!({"number": pull.number, "title": pull.title, "pull_request": {}});
        let association = if said.author == "stranger" { "NONE" } else { "MEMBER" };
        let mut comment = json!({
            "id": said.id, "body": said.text, "user": {"login": said.author}, "author_association": association,
        });
        let sender = json!({"login": said.author});
        if let (Some(thread), Some((path, line))) = (said.thread, &said.place) {
            comment["path"] = json!(path);
            comment["line"] = json!(line);
            if thread != said.id {
                comment["in_reply_to_id"] = json!(thread);
            }
            let shown = super::github::shown(pull, url);
            let body = json!({"action": "created", "comment": comment, "pull_request": shown, "repository": repository, "sender": sender});
            return Some(("pull_request_review_comment", body));
        }
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
    if let Some(run) = body.as_object_mut().and_then(|body| body.remove("check_run")) {
        body["workflow_job"] = run;
        return Some(("workflow_job", body));
    }
    if name == "pull_request_review_comment" {
        // It tells only that there is one, without its words.
        return None;
    }
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
    if let Some(check) = &event.check {
        let status = if check.state == "failure" { "failed" } else { "success" };
        let pipeline =
            json!({"id": check.job, "ref": "work", "sha": check.commit, "status": status, "url": url});
        let build = json!({"id": check.job, "name": check.name, "status": status, "allow_failure": false});
        return Some((
            "Pipeline Hook",
            json!({
                "object_kind": "pipeline", "object_attributes": pipeline, "project": project, "builds": [build], "user": user,
            }),
        ));
    }
    let request = super::gitlab::shown(pull, url);
    if event.what == "commented" {
        let said = pull.comments.last()?;
        let mut note = json!({
            "id": said.id, "note": said.text, "noteable_type": "MergeRequest", "action": "create", "system": false,
            "discussion_id": format!("d{}", said.thread.unwrap_or(said.id)),
        });
        if let Some((path, line)) = &said.place {
            note["position"] = json!({"new_path": path, "new_line": line});
        }
        let body = json!({
            "object_kind": "note", "event_type": "note", "user": {"username": said.author}, "project": project,
            "object_attributes": note, "merge_request": request,
        });
        return Some(("Note Hook", body));
    }
    let action = match event.what {
        "opened" => "open",
        "reopened" => "reopen",
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
