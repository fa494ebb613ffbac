//! Webhooks of forges: what comes is verified with the secret that the forge and we share, and read into what of it matters.
//! Nothing is taken from a body before its signature is known to be good.

use protocol::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Kind, Repository, State};
use crate::Token;
use crate::http::tame;

/// Most characters of a comment, and of what a check says of itself.
const TEXT: usize = 32 * 1024;

/// Takes webhooks of one forge.
#[derive(Debug, Clone)]
pub struct Hook {
    kind: Kind,
    secret: Token,
}

/// Something that a forge told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// What the forge calls this telling; the same when it tells it again.
    pub id: String,
    /// Where it happened; None where it happened in no repository.
    pub repository: Option<Repository>,
    /// What happened.
    pub news: News,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// A pull request was opened, changed, closed or merged.
    Pull(PullNews),
    /// Somebody said something below one.
    Comment(CommentNews),
    /// A check of a commit failed.
    Failed(CheckNews),
    /// Nothing that matters here, in a word.
    Other(String),
}

/// A pull request as it was then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullNews {
    /// Its number.
    pub number: u64,
    /// What became of it.
    pub state: State,
    /// Whether it is a draft.
    pub draft: bool,
    /// When it last changed, by the forge's clock.
    pub at: Option<Timestamp>,
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentNews {
    /// What names it in its repository, whichever kind of comment it is.
    pub id: String,
    /// The pull request's number.
    pub number: u64,
    /// Who said it, by the name that they log in with.
    pub author: String,
    /// Whether the forge says that they belong to the repository. Only GitHub tells it.
    pub member: bool,
    /// What they said.
    pub text: String,
    /// The file and line that they spoke of.
    pub place: Option<String>,
    /// The thread that it belongs to, as the forge names it.
    pub thread: Option<String>,
}

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckNews {
    /// What it is called.
    pub name: String,
    /// The commit that it looked at.
    pub commit: String,
    /// The branch of that commit, where the forge says it.
    pub branch: Option<String>,
    /// The job that has its log, where there is one.
    pub job: Option<String>,
    /// Where people read more.
    pub url: Option<String>,
    /// What it says of itself.
    pub summary: String,
}

/// Why a webhook is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unheard {
    /// It is not signed with our secret.
    #[error("{0}")]
    Unsigned(&'static str),
    /// It is, and is not what this forge sends.
    #[error("{0}")]
    Unreadable(String),
}

/// The fields that the three forges have in common, or each for itself. What is absent is None.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    action: Option<String>,
    repository: Option<Where>,
    project: Option<Where>,
    pull_request: Option<Pull>,
    issue: Option<Issue>,
    is_pull: bool,
    comment: Option<Comment>,
    review: Option<Comment>,
    sender: Option<User>,
    user: Option<User>,
    check_run: Option<Run>,
    workflow_job: Option<Run>,
    object_attributes: Option<Attributes>,
    merge_request: Option<Attributes>,
    builds: Vec<Build>,
    // A status of a commit.
    sha: Option<String>,
    state: Option<String>,
    context: Option<String>,
    description: Option<String>,
    target_url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Where {
    full_name: Option<String>,
    path_with_namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pull {
    number: u64,
    state: String,
    draft: bool,
    merged: bool,
    merged_at: Option<String>,
    updated_at: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Issue {
    number: u64,
    pull_request: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Comment {
    id: u64,
    body: Option<String>,
    content: Option<String>,
    user: Option<User>,
    author_association: Option<String>,
    in_reply_to_id: Option<u64>,
    path: Option<String>,
    line: Option<u64>,
    original_line: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User {
    login: Option<String>,
    username: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Run {
    id: u64,
    name: String,
    head_sha: String,
    head_branch: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
    output: Option<Output>,
    check_suite: Option<Suite>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Suite {
    head_branch: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Output {
    title: Option<String>,
    summary: Option<String>,
    text: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Attributes {
    id: u64,
    iid: u64,
    state: Option<String>,
    draft: bool,
    work_in_progress: bool,
    updated_at: Option<String>,
    note: Option<String>,
    noteable_type: Option<String>,
    discussion_id: Option<String>,
    action: Option<String>,
    system: bool,
    position: Option<Position>,
    // A pipeline.
    status: Option<String>,
    sha: Option<String>,
    #[serde(rename = "ref")]
    branch: Option<String>,
    url: Option<String>,
    // The merge request of a pipeline.
    source_branch: Option<String>,
    last_commit: Option<Commit>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Commit {
    id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Position {
    new_path: Option<String>,
    new_line: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Build {
    id: u64,
    name: String,
    status: String,
    allow_failure: bool,
}

impl Hook {
    /// Takes what this forge signs with this secret.
    pub fn new(kind: Kind, secret: Token) -> Result<Self, String> {
        if secret.expose().len() < 16 {
            return Err("the secret of a webhook has at least 16 characters, such as the output of `openssl rand -hex 32`".into());
        }
        Ok(Self { kind, secret })
    }

    /// Whether its secret stands in a text.
    pub fn is_told_in(&self, text: &str) -> bool {
        self.secret.is_told_in(text)
    }

    /// Reads a webhook, if it is signed with our secret.
    pub fn read(&self, header: &dyn Fn(&str) -> Option<String>, body: &[u8]) -> Result<Told, Unheard> {
        self.verify(header, body)?;
        let missing = |name: &str| Unheard::Unreadable(format!("the header {name} is missing"));
        let (event, id) = match self.kind {
            Kind::GitHub => ("x-github-event", "x-github-delivery"),
            Kind::GitLab => ("x-gitlab-event", "x-gitlab-event-uuid"),
            Kind::Gitea => ("x-gitea-event", "x-gitea-delivery"),
        };
        let told = header(event).ok_or_else(|| missing(event))?;
        // GitLab tells the same event to several webhooks under one name, and a repeated one under its own key.
        let key = if self.kind == Kind::GitLab { header("idempotency-key") } else { None };
        let id = key.or_else(|| header(id)).ok_or_else(|| missing(id))?;
        if id.is_empty() || id.len() > 100 || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Unheard::Unreadable("what names this webhook is no name".to_owned()));
        }
        let body: Result<serde_json::Map<String, Value>, _> = serde_json::from_slice(body);
        let body: Body =
            body.and_then(|body| serde_json::from_value(without_nulls(body.into()))).map_err(|error| {
                Unheard::Unreadable(format!("the body is not what the forge publishes: {error}"))
            })?;
        let repository = body.repository();
        let news = match self.kind {
            Kind::GitHub | Kind::Gitea => body.of_github(&told, self.kind),
            Kind::GitLab => body.of_gitlab(&told),
        };
        Ok(Told { id, repository, news: news.unwrap_or_else(|| News::Other(tame(&told, &[]))) })
    }

    fn verify(&self, header: &dyn Fn(&str) -> Option<String>, body: &[u8]) -> Result<(), Unheard> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.expose().as_bytes());
        let unsigned = |name: &'static str| Unheard::Unsigned(name);
        let good = match self.kind {
            Kind::GitHub => {
                let given = header("x-hub-signature-256")
                    .ok_or(unsigned("there is no header X-Hub-Signature-256: give the webhook its secret"))?;
                given
                    .strip_prefix("sha256=")
                    .and_then(unhex)
                    .is_some_and(|sum| hmac::verify(&key, body, &sum).is_ok())
            }
            Kind::Gitea => {
                let given = header("x-gitea-signature")
                    .or_else(|| header("x-forgejo-signature"))
                    .ok_or(unsigned("there is no header X-Gitea-Signature: give the webhook its secret"))?;
                unhex(&given).is_some_and(|sum| hmac::verify(&key, body, &sum).is_ok())
            }
            Kind::GitLab => {
                let given = header("x-gitlab-token").ok_or(unsigned(
                    "there is no header X-Gitlab-Token: give the webhook its secret token",
                ))?;
                // Sums of the two are compared, so that the time it takes tells nothing.
                let ours = hmac::sign(&key, self.secret.expose().as_bytes());
                hmac::verify(&key, given.as_bytes(), ours.as_ref()).is_ok()
            }
        };
        if good { Ok(()) } else { Err(unsigned("the signature is not one of our secret")) }
    }
}

impl Body {
    fn repository(&self) -> Option<Repository> {
        let place = self.project.as_ref().or(self.repository.as_ref())?;
        let name = place.path_with_namespace.as_ref().or(place.full_name.as_ref())?;
        let (owner, name) = name.rsplit_once('/')?;
        Some(Repository { owner: owner.to_owned(), name: name.to_owned() })
    }

    fn of_github(&self, event: &str, kind: Kind) -> Option<News> {
        let action = self.action.as_deref().unwrap_or_default();
        match event {
            "pull_request" => self.pull_request.as_ref()?.news().map(News::Pull),
            "issue_comment" | "pull_request_comment" if action == "created" => {
                let is_pull =
                    self.is_pull || self.issue.as_ref().is_some_and(|issue| issue.pull_request.is_some());
                let number = match (&self.issue, &self.pull_request) {
                    (Some(issue), _) if is_pull => issue.number,
                    (None, Some(pull)) => pull.number,
                    _ => return None,
                };
                self.comment.as_ref()?.news("c", number, None).map(News::Comment)
            }
            "pull_request_review_comment" if action == "created" => {
                let (comment, number) = (self.comment.as_ref()?, self.pull_request.as_ref()?.number);
                // A thread goes by its first comment.
                let thread = comment.in_reply_to_id.unwrap_or(comment.id);
                let thread = (kind == Kind::GitHub).then(|| thread.to_string());
                comment.news("r", number, thread).map(News::Comment)
            }
            // Gitea calls them by the last three, and in its settings by those before them.
            "pull_request_review"
            | "pull_request_review_approved"
            | "pull_request_review_rejected"
            | "pull_request_review_comment"
            | "pull_request_approved"
            | "pull_request_rejected"
            | "pull_request_comment"
                if matches!(action, "submitted" | "reviewed") =>
            {
                let (review, pull) = (self.review.as_ref()?, self.pull_request.as_ref()?);
                let mut news = review.news("v", pull.number, None)?;
                if review.id == 0 {
                    // Gitea gives it no number: it is known by what it says, and when.
                    let at = pull.updated_at.as_deref().unwrap_or_default();
                    let sum = Sha256::digest(format!("{}\0{at}\0{}", pull.number, news.text));
                    news.id = sum.iter().take(12).fold("w".to_owned(), |id, byte| format!("{id}{byte:02x}"));
                }
                if let (true, Some(sender)) = (news.author.is_empty(), &self.sender) {
                    news.author = sender.name();
                }
                Some(News::Comment(news))
            }
            "check_run" | "workflow_job" if action == "completed" => {
                self.check_run.as_ref().or(self.workflow_job.as_ref())?.news().map(News::Failed)
            }
            "status" if matches!(self.state.as_deref(), Some("failure" | "error")) => {
                Some(News::Failed(CheckNews {
                    name: tame(self.context.as_deref().unwrap_or("status"), &[]),
                    commit: self.sha.clone()?,
                    branch: None,
                    job: None,
                    url: self.target_url.clone(),
                    summary: bounded(self.description.clone().unwrap_or_default()),
                }))
            }
            _ => None,
        }
    }

    fn of_gitlab(&self, event: &str) -> Option<News> {
        let attributes = self.object_attributes.as_ref()?;
        match event {
            "Merge Request Hook" => {
                let state = match attributes.state.as_deref()? {
                    "merged" => State::Merged,
                    "closed" => State::Closed,
                    _ => State::Open,
                };
                let draft = attributes.draft || attributes.work_in_progress;
                let at = attributes.updated_at.as_deref().and_then(moment);
                Some(News::Pull(PullNews { number: attributes.iid, state, draft, at }))
            }
            "Note Hook" if attributes.noteable_type.as_deref() == Some("MergeRequest") => {
                let is_new = attributes.action.as_deref().is_none_or(|action| action == "create");
                if attributes.system || !is_new {
                    return None;
                }
                let place = attributes.position.as_ref().and_then(|position| {
                    let path = position.new_path.as_ref()?;
                    Some(placed(path, position.new_line))
                });
                Some(News::Comment(CommentNews {
                    id: format!("n{}", attributes.id),
                    number: self.merge_request.as_ref()?.iid,
                    author: self.user.as_ref()?.name(),
                    member: false,
                    text: bounded(attributes.note.clone()?),
                    place,
                    thread: attributes.discussion_id.clone().filter(|id| is_name(id)),
                }))
            }
            "Pipeline Hook" if attributes.status.as_deref() == Some("failed") => {
                let failed =
                    self.builds.iter().find(|build| build.status == "failed" && !build.allow_failure);
                // A pipeline of a merge request may look at what merging it would give: that commit is nobody's, and the one
                // that it is about is told beside it.
                let merge = self.merge_request.as_ref();
                let commit = merge.and_then(|merge| merge.last_commit.as_ref()).map(|last| &last.id);
                let commit = commit.filter(|commit| !commit.is_empty()).or(attributes.sha.as_ref());
                let branch = merge.and_then(|merge| merge.source_branch.clone());
                Some(News::Failed(CheckNews {
                    name: failed.map_or_else(|| "pipeline".to_owned(), |build| tame(&build.name, &[])),
                    commit: commit.cloned()?,
                    branch: branch.or_else(|| attributes.branch.clone()),
                    job: failed.map(|build| build.id.to_string()),
                    url: attributes.url.clone(),
                    summary: String::new(),
                }))
            }
            _ => None,
        }
    }
}

impl Pull {
    fn news(&self) -> Option<PullNews> {
        let state = match (self.merged || self.merged_at.is_some(), self.state.as_str()) {
            (true, _) => State::Merged,
            (false, "open") => State::Open,
            (false, "closed") => State::Closed,
            (false, _) => return None,
        };
        let at = self.updated_at.as_deref().and_then(moment);
        Some(PullNews { number: self.number, state, draft: self.draft, at })
    }
}

impl Comment {
    fn news(&self, kind: &str, number: u64, thread: Option<String>) -> Option<CommentNews> {
        let text = self.body.clone().or_else(|| self.content.clone())?;
        let place = self.path.as_ref().map(|path| placed(path, self.line.or(self.original_line)));
        let association = self.author_association.as_deref().unwrap_or_default();
        Some(CommentNews {
            id: format!("{kind}{}", self.id),
            number,
            author: self.user.as_ref().map(User::name).unwrap_or_default(),
            member: matches!(association, "OWNER" | "MEMBER" | "COLLABORATOR"),
            text: bounded(text),
            place,
            thread,
        })
    }
}

impl User {
    fn name(&self) -> String {
        self.login.as_ref().or(self.username.as_ref()).cloned().unwrap_or_default()
    }
}

impl Run {
    fn news(&self) -> Option<CheckNews> {
        let failed = matches!(self.conclusion.as_deref(), Some("failure" | "timed_out" | "startup_failure"));
        if !failed || self.head_sha.is_empty() {
            return None;
        }
        let Output { title, summary, text } = self.output.as_ref().map_or_else(Output::default, |output| {
            Output { title: output.title.clone(), summary: output.summary.clone(), text: output.text.clone() }
        });
        let said: Vec<String> =
            [title, summary, text].into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let suite = self.check_suite.as_ref().and_then(|suite| suite.head_branch.clone());
        Some(CheckNews {
            name: tame(&self.name, &[]),
            commit: self.head_sha.clone(),
            branch: self.head_branch.clone().or(suite),
            job: Some(self.id.to_string()),
            url: self.html_url.clone(),
            summary: bounded(said.join("\n\n")),
        })
    }
}

/// What is null is as if it were absent: forges write either.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let there = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(there.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn placed(path: &str, line: Option<u64>) -> String {
    let path = tame(path, &[]);
    line.map_or_else(|| path.clone(), |line| format!("{path}:{line}"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 100 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn bounded(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT) {
        text.truncate(at);
    }
    text
}

/// A moment as forges write it: by the standard, or as older versions of GitLab do.
fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| {
        let (date, rest) = text.strip_suffix(" UTC")?.split_once(' ')?;
        format!("{date}T{rest}Z").parse().ok()
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123";

    fn signed(body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(kind: Kind, headers: &[(&str, &str)], body: &str) -> Result<Told, Unheard> {
        let header = |name: &str| {
            headers.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Hook::new(kind, Token::new(SECRET)).unwrap().read(&header, body.as_bytes())
    }

    fn github(event: &str, body: &str) -> Told {
        let signature = format!("sha256={}", signed(body));
        let headers = [
            ("x-github-event", event),
            ("x-github-delivery", "d1"),
            ("x-hub-signature-256", signature.as_str()),
        ];
        read(Kind::GitHub, &headers, body).unwrap()
    }

    #[test]
    fn only_what_is_signed_with_the_secret_is_read() {
        let body = r#"{"zen":"x"}"#;
        let good = format!("sha256={}", signed(body));
        let with = |signature: &str, body: &str| {
            let headers =
                [("x-github-event", "ping"), ("x-github-delivery", "d1"), ("x-hub-signature-256", signature)];
            read(Kind::GitHub, &headers, body)
        };
        assert_eq!(with(&good, body).unwrap().news, News::Other("ping".into()));
        for bad in
            [&good[..good.len() - 2], "sha256=", "sha256=zz", "", &format!("sha256={}", "0".repeat(64))]
        {
            assert!(matches!(with(bad, body), Err(Unheard::Unsigned(_))), "{bad}");
        }
        assert!(matches!(with(&good, r#"{"zen":"y"}"#), Err(Unheard::Unsigned(_))));
        assert!(matches!(read(Kind::GitHub, &[("x-github-event", "ping")], body), Err(Unheard::Unsigned(_))));
        let gitlab = |token: &str| {
            let headers =
                [("x-gitlab-event", "Push Hook"), ("x-gitlab-event-uuid", "u"), ("x-gitlab-token", token)];
            read(Kind::GitLab, &headers, "{}")
        };
        assert!(gitlab(SECRET).is_ok());
        assert!(gitlab("0123456789abcdef0124").is_err() && gitlab("").is_err());
        assert!(Hook::new(Kind::GitHub, Token::new("short")).is_err());
    }

    #[test]
    fn a_signed_body_that_is_none_is_told_apart() {
        let signature = signed("[]");
        let headers =
            [("x-gitea-event", "push"), ("x-gitea-delivery", "d"), ("x-gitea-signature", signature.as_str())];
        assert!(matches!(read(Kind::Gitea, &headers, "[]"), Err(Unheard::Unreadable(_))));
        let unnamed = [("x-gitea-event", "push"), ("x-gitea-signature", signature.as_str())];
        assert!(matches!(read(Kind::Gitea, &unnamed, "[]"), Err(Unheard::Unreadable(_))));
    }

    #[test]
    fn what_matters_is_read() {
        let pull = r#"{"action":"closed","pull_request":{"number":7,"state":"closed","merged_at":"2026-01-02T03:04:05Z",
            "updated_at":"2026-01-02T03:04:06Z"},"repository":{"full_name":"acme/shop"}}"#;
        let told = github("pull_request", pull);
        let at = Some("2026-01-02T03:04:06Z".parse().unwrap());
        assert_eq!(told.repository.unwrap().to_string(), "acme/shop");
        assert_eq!(told.news, News::Pull(PullNews { number: 7, state: State::Merged, draft: false, at }));

        let comment = r#"{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":3,"body":"hi",
            "author_association":"MEMBER","user":{"login":"ann"}}}"#;
        let News::Comment(said) = github("issue_comment", comment).news else { panic!() };
        assert_eq!((said.id.as_str(), said.author.as_str(), said.member), ("c3", "ann", true));
        let edited = comment.replace("created", "edited");
        assert!(matches!(github("issue_comment", &edited).news, News::Other(_)));
        let issue = comment.replace(r#","pull_request":{}"#, "");
        assert!(matches!(github("issue_comment", &issue).news, News::Other(_)), "no pull request");

        let run = r#"{"action":"completed","check_run":{"id":9,"name":"ci","head_sha":"abc","conclusion":"failure",
            "output":{"title":"1 failed","summary":null}}}"#;
        let News::Failed(check) = github("check_run", run).news else { panic!() };
        assert_eq!((check.job.as_deref(), check.summary.as_str()), (Some("9"), "1 failed"));
        let fine = run.replace("failure", "success");
        assert!(matches!(github("check_run", &fine).news, News::Other(_)));
    }

    #[test]
    fn reviews_of_gitea_are_told_apart_by_what_they_say_and_when() {
        let review = |content: &str, at: &str| {
            let body = format!(
                r#"{{"action":"reviewed","number":7,"pull_request":{{"number":7,"state":"open","updated_at":"{at}"}},
                "review":{{"type":"pull_request_review_comment","content":"{content}"}},"sender":{{"login":"ann"}}}}"#
            );
            let signature = signed(&body);
            let headers = [
                ("x-gitea-event", "pull_request_comment"),
                ("x-gitea-delivery", "d"),
                ("x-gitea-signature", signature.as_str()),
            ];
            match read(Kind::Gitea, &headers, &body).unwrap().news {
                News::Comment(said) => said,
                other => panic!("{other:?}"),
            }
        };
        let (one, again) =
            (review("fix it", "2026-01-02T03:04:05Z"), review("fix it", "2026-01-02T03:04:05Z"));
        assert_eq!((one.author.as_str(), one.number, one.text.as_str()), ("ann", 7, "fix it"));
        assert_eq!(one, again);
        assert_ne!(one.id, review("that too", "2026-01-02T03:04:05Z").id);
        assert_ne!(one.id, review("fix it", "2026-01-02T03:04:06Z").id);
    }

    #[test]
    fn a_pipeline_of_what_merging_would_give_is_about_the_commit_of_the_branch() {
        let body = |merge: &str| {
            format!(
                r#"{{"object_kind":"pipeline","project":{{"path_with_namespace":"acme/shop"}},
                "object_attributes":{{"id":31,"ref":"refs/merge-requests/1/merge","sha":"bcbb5ec3","status":"failed",
                "source":"merge_request_event"}},{merge}"builds":[{{"id":380,"name":"test","status":"failed"}}]}}"#
            )
        };
        let failed = |body: &str| {
            let headers = [
                ("x-gitlab-event", "Pipeline Hook"),
                ("x-gitlab-event-uuid", "u"),
                ("x-gitlab-token", SECRET),
            ];
            match read(Kind::GitLab, &headers, body).unwrap().news {
                News::Failed(check) => check,
                other => panic!("{other:?}"),
            }
        };
        let merge = r#""merge_request":{"id":1,"iid":1,"source_branch":"slipway/x","last_commit":{"id":"ac7f7bc1"}},"#;
        let of_merge = failed(&body(merge));
        assert_eq!((of_merge.commit.as_str(), of_merge.branch.as_deref()), ("ac7f7bc1", Some("slipway/x")));
        let plain = failed(&body(r#""merge_request":null,"#));
        assert_eq!(
            (plain.commit.as_str(), plain.branch.as_deref()),
            ("bcbb5ec3", Some("refs/merge-requests/1/merge"))
        );
    }

    #[test]
    fn what_is_null_is_as_if_it_were_absent() {
        let body = r#"{"action":"closed","number":7,"pull_request":{"number":7,"state":"closed","draft":null,"merged":null,
            "merged_at":null},"builds":null,"is_pull":null}"#;
        let told = github("pull_request", body);
        assert!(
            matches!(told.news, News::Pull(PullNews { number: 7, state: State::Closed, .. })),
            "{told:?}"
        );
    }

    #[test]
    fn moments_of_older_versions_are_read() {
        assert_eq!(moment("2015-04-08 21:00:25 UTC"), moment("2015-04-08T21:00:25Z"));
        assert!(moment("2015-04-08 21:00:25 UTC").is_some() && moment("yesterday").is_none());
    }
}
