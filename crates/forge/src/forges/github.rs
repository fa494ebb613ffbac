//! GitHub's REST API, as github.com and its enterprise server speak it. Only drafts are GraphQL's: REST cannot change them.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Api, End, List, Scheme, Seen};
use super::app::App;
use super::keys::{Key, Keyring, Keys, Login};
use super::text::{body_by_us, cut, marker, shortened};
use super::{
    Change, Check, CheckState, Comment, Forge, Marks, NewPullRequest, PullRequest, Readiness, Repository,
    State,
};
use crate::Token;
use crate::http::{Answer, Refusal};

/// What GitHub wants in every request; the second is the version of the API that this speaks.
const HEADERS: &[(&str, &str)] =
    &[("accept", "application/vnd.github+json"), ("x-github-api-version", "2022-11-28")];
/// GitHub takes titles of 256 characters and bodies of 65,536.
const TITLE_LIMIT: usize = 256;
const BODY_LIMIT: usize = 60_000;
/// Most entries of a page, and the most that are looked at.
const PAGE: usize = 100;
const MOST: usize = 3000;

/// Where the API of the forge at this address is, unless somebody says otherwise. The address may be that of one owner: GitHub
/// and its enterprise server are at the root of their host.
pub fn api_url(address: &str) -> String {
    match super::root_of(address) {
        Some("https://github.com") => "https://api.github.com".to_owned(),
        root => format!("{}/api/v3", root.unwrap_or(address.trim_end_matches('/'))),
    }
}

pub(super) fn api(api_url: &str) -> Result<Api, String> {
    Api::new(api_url, Scheme::Bearer, HEADERS)
}

/// GitHub.
#[derive(Debug)]
pub struct GitHub {
    api: Api,
    keys: Keys,
}

/// What of a pull request matters here.
#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    node_id: String,
    html_url: String,
    state: String,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    merged_at: Option<String>,
    title: String,
    #[serde(default)]
    body: Option<String>,
    head: Head,
    #[serde(default)]
    user: Option<Author>,
}

#[derive(Debug, Deserialize)]
struct Author {
    login: String,
}

#[derive(Debug, Deserialize)]
struct Head {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        let state = match (pull.merged_at, pull.state.as_str()) {
            (Some(_), _) => State::Merged,
            (None, "open") => State::Open,
            (None, _) => State::Closed,
        };
        let readiness = if pull.draft { Readiness::Draft } else { Readiness::Ready };
        Self {
            number: pull.number,
            body: pull.body.unwrap_or_default(),
            url: pull.html_url,
            state,
            readiness,
            title: pull.title,
            commit: pull.head.sha,
        }
    }
}

/// What GitHub says when it does not like a request.
#[derive(Debug, Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    errors: Vec<Detail>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Detail {
    Said { message: String },
    Field { field: String, code: String },
    Other(Value),
}

impl std::fmt::Display for Detail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Said { message } => f.write_str(message),
            Self::Field { field, code } => write!(f, "{field} is {code}"),
            Self::Other(value) => write!(f, "{value}"),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Said {
    body: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Runs {
    check_runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
struct Run {
    name: String,
    status: String,
    conclusion: Option<String>,
    html_url: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Combined {
    statuses: Vec<Status>,
}

#[derive(Debug, Deserialize)]
struct Status {
    context: String,
    state: String,
    target_url: Option<String>,
}

/// What GraphQL answers, which is a success also when it is none.
#[derive(Debug, Deserialize)]
struct GraphQl {
    #[serde(default)]
    errors: Vec<Detail>,
}

impl From<Runs> for Vec<Run> {
    fn from(runs: Runs) -> Self {
        runs.check_runs
    }
}

impl From<Combined> for Vec<Status> {
    fn from(combined: Combined) -> Self {
        combined.statuses
    }
}

/// A list as GitHub gives it.
fn pages(url: Url) -> List {
    List { url, by: "per_page", size: PAGE, most: MOST, end: End::Short }
}

impl GitHub {
    /// A forge with this API and token; `source` says where the token comes from, such as the name of a variable. Without a
    /// token everything is refused with words that say so.
    pub fn new(api_url: &str, token: Option<Token>, source: &str) -> Result<Self, String> {
        Ok(Self { api: api(api_url)?, keys: Keys::Token { token, source: source.to_owned() } })
    }

    /// A forge that an app is installed at: each repository has its own short-lived token.
    pub fn with_app(api_url: &str, app: App) -> Result<Self, String> {
        Ok(Self { api: api(api_url)?, keys: Keys::App(Arc::new(app)) })
    }

    async fn key(&self, repository: &Repository) -> Result<Key, Refusal> {
        self.keys.of(&self.api.who, repository).await
    }

    fn url(&self, repository: &Repository, parts: &[&str]) -> Result<Url, Refusal> {
        let start = ["repos", repository.owner.as_str(), repository.name.as_str()];
        self.api.url(start.into_iter().chain(parts.iter().copied()))
    }

    fn refusal(&self, answer: &Answer, key: &Key, repository: &Repository) -> Refusal {
        let complaint: Complaint = match answer.status.as_u16() {
            422 => serde_json::from_slice(&answer.body).unwrap_or_default(),
            _ => Complaint::default(),
        };
        let details: Vec<String> = complaint.errors.iter().map(Detail::to_string).collect();
        self.api.refusal(answer, key, repository, &details.join("; "))
    }

    /// Sends something that is a success with one of two statuses.
    async fn put(
        &self,
        method: Method,
        (repository, parts): (&Repository, &[&str]),
        key: &Key,
        body: &Value,
    ) -> Result<Answer, Refusal> {
        let answer = self.api.call(method, self.url(repository, parts)?, key, Some(body)).await?;
        match answer.status.as_u16() {
            200 | 201 => Ok(answer),
            _ => Err(self.refusal(&answer, key, repository)),
        }
    }

    async fn create(&self, wanted: &NewPullRequest, key: &Key, body: String) -> Result<Answer, Refusal> {
        let mut new = json!({
            "title": cut(&wanted.title, TITLE_LIMIT),
            "head": wanted.branch,
            "base": wanted.base,
            "body": body,
        });
        if wanted.readiness == Readiness::Draft {
            new["draft"] = json!(true);
        }
        self.api.call(Method::POST, self.url(&wanted.repository, &["pulls"])?, key, Some(&new)).await
    }

    async fn make(
        &self,
        readiness: Readiness,
        repository: &Repository,
        pull: &Pull,
        key: &Key,
    ) -> Result<(), Refusal> {
        let mutation = match readiness {
            Readiness::Draft => "convertPullRequestToDraft",
            Readiness::Ready => "markPullRequestReadyForReview",
        };
        let query = format!(
            "mutation($id: ID!) {{ {mutation}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft }} }} }}"
        );
        let body = json!({"query": query, "variables": {"id": pull.node_id}});
        let url = graphql_url(self.api.base());
        let answer = self.api.call(Method::POST, url, key, Some(&body)).await?;
        let graphql: GraphQl = self.api.expect(&answer, &[200], key, repository)?;
        match graphql.errors.first() {
            None => Ok(()),
            Some(error) => {
                let said = crate::http::tame(&error.to_string(), &[&key.token()]);
                Err(Refusal::last(format!("{} does not let {} do this: {said}", self.api.who, key.source)))
            }
        }
    }

    /// Asks all of these for a review. Where the forge refuses them together because of some of them, this is the pull request.
    async fn refused_together(
        &self,
        repository: &Repository,
        number: &str,
        reviewers: &[&str],
        key: &Key,
    ) -> Result<Option<Pull>, Refusal> {
        let url = self.url(repository, &["pulls", number, "requested_reviewers"])?;
        let body = json!({"reviewers": reviewers});
        let answer = self.api.call(Method::POST, url, key, Some(&body)).await?;
        match answer.status.as_u16() {
            200 | 201 => Ok(None),
            422 => self.read(repository, number, key).await.map(Some),
            _ => Err(self.refusal(&answer, key, repository)),
        }
    }

    async fn read(&self, repository: &Repository, number: &str, key: &Key) -> Result<Pull, Refusal> {
        let answer = self.api.get(self.url(repository, &["pulls", number])?, key).await?;
        self.api.expect(&answer, &[200], key, repository)
    }

    /// Whether a comment with this mark is there.
    async fn is_said(
        &self,
        (repository, parts): (&Repository, &[&str]),
        mark: &str,
        key: &Key,
    ) -> Result<bool, Refusal> {
        let list = pages(self.url(repository, parts)?);
        let see = |said: Said| match said.body.is_some_and(|body| body.contains(mark)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let seen = self.api.list::<Vec<Said>, _>(&list, (key, repository), see).await?;
        Ok(seen == Seen::Enough)
    }
}

#[async_trait]
impl Keyring for GitHub {
    async fn login(&self, repository: &Repository) -> Result<Login, Refusal> {
        let key = self.key(repository).await?;
        if self.keys.are_kept() {
            // Git cannot go on with another token, and a push is not begun with one that was taken back. What else is wrong with
            // the answer is git's to find out.
            drop(self.api.get(self.url(repository, &[])?, &key).await);
        }
        Ok(Login { user: "x-access-token".to_owned(), password: key.token() })
    }
}

#[async_trait]
impl Forge for GitHub {
    async fn look_up(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let key = self.key(&wanted.repository).await?;
        let head = format!("{}:{}", wanted.repository.owner, wanted.branch);
        let mut url = self.url(&wanted.repository, &["pulls"])?;
        url.query_pairs_mut().extend_pairs([
            ("state", "all"),
            ("head", &head),
            ("sort", "created"),
            ("direction", "desc"),
            ("per_page", "100"),
        ]);
        let answer = self.api.get(url, &key).await?;
        let pulls: Vec<Pull> = match answer.status.as_u16() {
            422 => return Err(self.refusal(&answer, &key, &wanted.repository)),
            _ => self.api.expect_there(&answer, &key, &wanted.repository).await?,
        };
        // A forge that does not know the filter gives all; then somebody else's would be taken for ours.
        let ours = pulls.into_iter().filter(|pull| pull.head.branch == wanted.branch);
        Ok(super::chosen(ours.map(PullRequest::from).collect(), wanted))
    }

    async fn open(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let (mut tried, mut theirs) = (None, None);
        if let Some(key) = super::key_of_person(wanted) {
            let answer = self.create(wanted, &key, shortened(&wanted.body, BODY_LIMIT)).await?;
            match super::is_refused(&answer) && !is_there(&answer) {
                true => theirs = Some(self.refusal(&answer, &key, &wanted.repository).to_string()),
                false => tried = Some((answer, key)),
            }
        }
        let (answer, key) = match tried {
            Some(tried) => tried,
            None => {
                let key = self.key(&wanted.repository).await;
                let key = key.map_err(|ours| super::beside(ours, theirs.clone()))?;
                (self.create(wanted, &key, body_by_us(wanted, BODY_LIMIT)).await?, key)
            }
        };
        match answer.status.as_u16() {
            201 => Ok(Some(self.api.read::<Pull>(&answer)?.into())),
            _ if is_there(&answer) => Ok(None),
            _ => Err(super::beside(self.refusal(&answer, &key, &wanted.repository), theirs)),
        }
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        change: &Change,
    ) -> Result<PullRequest, Refusal> {
        let key = self.key(repository).await?;
        let mut body = json!({});
        if let Some(title) = &change.title {
            body["title"] = json!(cut(title, TITLE_LIMIT));
        }
        if let Some(text) = &change.body {
            body["body"] = json!(shortened(text, BODY_LIMIT));
        }
        let parts = ["pulls", &number.to_string()];
        let answer = self.put(Method::PATCH, (repository, &parts), &key, &body).await?;
        let mut pull: Pull = self.api.read(&answer)?;
        if let Some(readiness) = change.readiness
            && pull.draft != (readiness == Readiness::Draft)
        {
            self.make(readiness, repository, &pull, &key).await?;
            pull.draft = readiness == Readiness::Draft;
        }
        Ok(pull.into())
    }

    async fn comment(&self, repository: &Repository, number: u64, comment: &Comment) -> Result<(), Refusal> {
        let (key, number, mark) = (self.key(repository).await?, number.to_string(), marker(&comment.key));
        let body = json!({"body": format!("{}\n\n{mark}", shortened(&comment.text, BODY_LIMIT))});
        if let Some(thread) = &comment.thread {
            let said = ["pulls", number.as_str(), "comments"];
            if self.is_said((repository, &said), &mark, &key).await? {
                return Ok(());
            }
            let replies = ["pulls", number.as_str(), "comments", thread.as_str(), "replies"];
            let answer =
                self.api.call(Method::POST, self.url(repository, &replies)?, &key, Some(&body)).await?;
            match answer.status.as_u16() {
                201 => return Ok(()),
                // The thread was removed: it is said where everybody sees it.
                404 | 422 => {}
                _ => return Err(self.refusal(&answer, &key, repository)),
            }
        }
        if self.is_said((repository, &["issues", &number, "comments"]), &mark, &key).await? {
            return Ok(());
        }
        self.put(Method::POST, (repository, &["issues", &number, "comments"]), &key, &body).await.map(drop)
    }

    async fn mark(&self, repository: &Repository, number: u64, marks: &Marks) -> Result<(), Refusal> {
        let (key, number) = (self.key(repository).await?, number.to_string());
        let mut refused = super::Refused::default();
        if !marks.labels.is_empty() {
            let body = json!({"labels": marks.labels});
            let put = self.put(Method::POST, (repository, &["issues", &number, "labels"]), &key, &body).await;
            refused.note("the labels", put);
        }
        let reviewers: Vec<&str> = marks.reviewers.iter().map(String::as_str).collect();
        let asked = match reviewers.is_empty() {
            true => Ok(None),
            false => self.refused_together(repository, &number, &reviewers, &key).await,
        };
        if let Ok(Some(pull)) = &asked {
            // One who cannot be asked keeps the others from being asked.
            let author = pull.user.as_ref().map(|author| author.login.as_str());
            for name in reviewers.into_iter().filter(|name| !super::is_by(author, name)) {
                let parts = ["pulls", &number, "requested_reviewers"];
                let body = json!({"reviewers": [name]});
                let asked = self.put(Method::POST, (repository, &parts), &key, &body).await;
                refused.note(&format!("the reviewer {name}"), asked);
            }
        }
        refused.note("the reviewers", asked);
        refused.end()
    }

    async fn checks(&self, repository: &Repository, commit: &str) -> Result<Vec<Check>, Refusal> {
        let key = self.key(repository).await?;
        let mut url = self.url(repository, &["commits", commit, "check-runs"])?;
        url.query_pairs_mut().append_pair("filter", "latest");
        let mut checks = Vec::new();
        let see = |run: Run| {
            let state = match (run.status.as_str(), run.conclusion.as_deref()) {
                ("completed", Some("success" | "neutral" | "skipped")) => CheckState::Passed,
                ("completed", _) => CheckState::Failed,
                _ => CheckState::Pending,
            };
            checks.push(Check { name: run.name, state, url: run.html_url });
            ControlFlow::Continue(())
        };
        let runs = self.api.list::<Runs, _>(&pages(url), (&key, repository), see).await?;
        let url = self.url(repository, &["commits", commit, "status"])?;
        let see = |status: Status| {
            let state = match status.state.as_str() {
                "success" => CheckState::Passed,
                "pending" => CheckState::Pending,
                _ => CheckState::Failed,
            };
            checks.push(Check { name: status.context, state, url: status.target_url });
            ControlFlow::Continue(())
        };
        let statuses = self.api.list::<Combined, _>(&pages(url), (&key, repository), see).await?;
        let seen = if runs == Seen::Bound { runs } else { statuses };
        Ok(super::told(checks, seen))
    }

    async fn log(&self, repository: &Repository, job: &str) -> Result<Option<String>, Refusal> {
        let key = self.key(repository).await?;
        self.api.log(self.url(repository, &["actions", "jobs", job, "logs"])?, &key).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest, Refusal> {
        let key = self.key(repository).await?;
        let number = number.to_string();
        let parts = ["pulls", number.as_str()];
        let pull = self.read(repository, &number, &key).await?;
        if pull.state != "open" {
            return Ok(pull.into());
        }
        let body = json!({"state": "closed"});
        let answer = self.put(Method::PATCH, (repository, &parts), &key, &body).await?;
        Ok(self.api.read::<Pull>(&answer)?.into())
    }

    async fn moved(&self, repository: &Repository) -> Result<Option<String>, Refusal> {
        let key = self.key(repository).await?;
        self.api.moved(self.url(repository, &[])?, &key, repository).await
    }

    fn api_url(&self) -> &str {
        self.api.base().as_str()
    }

    fn is_told_in(&self, text: &str) -> bool {
        self.keys.is_told_in(text)
    }
}

/// Where GraphQL is, which an enterprise server has beside the REST API and not below it.
fn graphql_url(base: &Url) -> Url {
    let mut url = base.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{}/graphql", path.strip_suffix("/v3").unwrap_or(&path)));
    url
}

/// Whether GitHub says that there is such a pull request.
fn is_there(answer: &Answer) -> bool {
    answer.status.as_u16() == 422 && already_exists(&answer.body)
}

fn already_exists(body: &[u8]) -> bool {
    let complaint: Complaint = serde_json::from_slice(body).unwrap_or_default();
    complaint.errors.iter().any(|detail| detail.to_string().contains("already exists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_of_github_is_somewhere_else_than_that_of_others() {
        assert_eq!(api_url("https://github.com/"), "https://api.github.com");
        assert_eq!(api_url("https://github.com/acme"), "https://api.github.com");
        assert_eq!(api_url("https://git.example"), "https://git.example/api/v3");
        assert_eq!(api_url("https://git.example:8443/acme/"), "https://git.example:8443/api/v3");
    }

    #[test]
    fn graphql_is_beside_rest() {
        let of = |url: &str| graphql_url(&Url::parse(url).unwrap()).to_string();
        assert_eq!(of("https://api.github.com/"), "https://api.github.com/graphql");
        assert_eq!(of("https://git.example/api/v3"), "https://git.example/api/graphql");
    }

    #[test]
    fn complaints_are_read() {
        let exists = br#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"A pull request already exists for acme:x."}]}"#;
        assert!(already_exists(exists));
        let invalid = br#"{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"head","code":"invalid"}]}"#;
        assert!(!already_exists(invalid) && !already_exists(b"<html>"));
    }
}
