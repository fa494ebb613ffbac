//! The REST API of Gitea and of Forgejo, which came from it. Much is as at GitHub; drafts are a matter of the title, labels
//! go by number, and the pull requests of a branch cannot be asked for unless they are open.

use std::collections::HashSet;
use std::ops::ControlFlow;

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Api, End, List, Scheme};
use super::keys::{Key, Keyring, Keys, Login};
use super::text::{body_by_us, marker, plain_title, readiness, shortened, titled};
use super::{
    Change, Check, CheckState, Comment, Forge, Marks, NewPullRequest, PullRequest, Repository, State,
};
use crate::Token;
use crate::http::{Answer, Refusal};

/// Gitea takes titles of 255 characters; a body has the limits of its database.
const TITLE_LIMIT: usize = 255;
const BODY_LIMIT: usize = 60_000;
/// Most entries of a page as it is configured by default, and the most that are looked at.
const PAGE: usize = 50;
const MOST: usize = 1000;
/// What makes a draft; the first is what we write.
const DRAFT: &[&str] = &["WIP:", "[WIP]"];
/// The colour of a label that is new: grey.
const COLOUR: &str = "#ededed";

/// Where the API of the forge at this address is, unless somebody says otherwise. One of one's own may be below the root of
/// its host; these are known not to be, so that what follows their name is an owner.
pub fn api_url(address: &str) -> String {
    const AT_ROOT: &[&str] = &["https://codeberg.org", "https://gitea.com"];
    let root = super::root_of(address).filter(|root| AT_ROOT.contains(root));
    format!("{}/api/v1", root.unwrap_or(address.trim_end_matches('/')))
}

/// Gitea or Forgejo.
#[derive(Debug)]
pub struct Gitea {
    api: Api,
    keys: Keys,
}

/// What of a pull request matters here.
#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    html_url: String,
    state: String,
    #[serde(default)]
    merged: bool,
    title: String,
    #[serde(default)]
    body: Option<String>,
    head: Branch,
    base: Branch,
    #[serde(default)]
    user: Option<Author>,
}

#[derive(Debug, Deserialize)]
struct Author {
    login: String,
}

#[derive(Debug, Deserialize)]
struct Branch {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    repo_id: i64,
}

#[derive(Debug, Deserialize)]
struct Label {
    id: i64,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Said {
    body: String,
}

#[derive(Debug, Deserialize)]
struct Combined {
    /// Null when there are none.
    statuses: Option<Vec<Status>>,
}

#[derive(Debug, Deserialize)]
struct Status {
    context: String,
    status: String,
    target_url: Option<String>,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        let state = match (pull.merged, pull.state.as_str()) {
            (true, _) => State::Merged,
            (false, "open") => State::Open,
            (false, _) => State::Closed,
        };
        Self {
            number: pull.number,
            body: pull.body.unwrap_or_default(),
            url: pull.html_url,
            state,
            readiness: readiness(&pull.title, DRAFT),
            title: plain_title(&pull.title, DRAFT).to_owned(),
            commit: pull.head.sha,
        }
    }
}

impl From<Combined> for Vec<Status> {
    fn from(combined: Combined) -> Self {
        combined.statuses.unwrap_or_default()
    }
}

/// A list as Gitea gives it.
fn pages(url: Url) -> List {
    List { url, by: "limit", size: PAGE, most: MOST, end: End::Empty }
}

impl Gitea {
    /// A forge with this API and token; `source` says where the token comes from, such as the name of a variable. Without a
    /// token everything is refused with words that say so.
    pub fn new(api_url: &str, token: Option<Token>, source: &str) -> Result<Self, String> {
        let api = Api::new(api_url, Scheme::Token, &[("accept", "application/json")])?;
        Ok(Self { api, keys: Keys::Token { token, source: source.to_owned() } })
    }

    async fn key(&self, repository: &Repository) -> Result<Key, Refusal> {
        self.keys.of(&self.api.who, repository).await
    }

    fn url(&self, repository: &Repository, parts: &[&str]) -> Result<Url, Refusal> {
        let start = ["repos", repository.owner.as_str(), repository.name.as_str()];
        self.api.url(start.into_iter().chain(parts.iter().copied()))
    }

    async fn create(&self, wanted: &NewPullRequest, key: &Key, body: String) -> Result<Answer, Refusal> {
        let new = json!({
            "title": titled(&wanted.title, wanted.readiness, DRAFT, TITLE_LIMIT),
            "head": wanted.branch,
            "base": wanted.base,
            "body": body,
        });
        let url = self.url(&wanted.repository, &["pulls"])?;
        self.api.call(Method::POST, url, key, Some(&new)).await
    }

    /// Sends something, and takes every other status than these two as a refusal.
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
            _ => Err(self.api.refusal(&answer, key, repository, "")),
        }
    }

    async fn read(&self, repository: &Repository, number: &str, key: &Key) -> Result<Pull, Refusal> {
        let answer = self.api.get(self.url(repository, &["pulls", number])?, key).await?;
        self.api.expect(&answer, &[200], key, repository)
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
            404 | 422 => self.read(repository, number, key).await.map(Some),
            _ => Err(self.api.refusal(&answer, key, repository, "")),
        }
    }

    /// One of these two branches.
    async fn of_branches(&self, wanted: &NewPullRequest, key: &Key) -> Result<Option<Pull>, Refusal> {
        let mut parts = vec!["pulls", wanted.base.as_str()];
        parts.extend(wanted.branch.split('/'));
        let answer = self.api.get(self.url(&wanted.repository, &parts)?, key).await?;
        match answer.status.as_u16() {
            404 => Ok(None),
            _ => self.api.expect_there(&answer, key, &wanted.repository).await.map(Some),
        }
    }

    async fn label(
        &self,
        repository: &Repository,
        number: &str,
        names: &[String],
        key: &Key,
    ) -> Result<(), Refusal> {
        let body = json!({"labels": self.labels(repository, names, key).await?});
        self.put(Method::POST, (repository, &["issues", number, "labels"]), key, &body).await.map(drop)
    }

    /// The numbers of labels by name; those that are missing are made.
    async fn labels(
        &self,
        repository: &Repository,
        names: &[String],
        key: &Key,
    ) -> Result<Vec<i64>, Refusal> {
        let mut known: Vec<Label> = Vec::new();
        let see = |label: Label| {
            known.push(label);
            ControlFlow::Continue(())
        };
        let list = pages(self.url(repository, &["labels"])?);
        self.api.list::<Vec<Label>, _>(&list, (key, repository), see).await?;
        let mut ids = Vec::new();
        for name in names {
            let id = match known.iter().find(|label| label.name == *name) {
                Some(label) => label.id,
                None => {
                    let body = json!({"name": name, "color": COLOUR});
                    let made = self.put(Method::POST, (repository, &["labels"]), key, &body).await?;
                    self.api.read::<Label>(&made)?.id
                }
            };
            ids.push(id);
        }
        Ok(ids)
    }
}

#[async_trait]
impl Keyring for Gitea {
    async fn login(&self, repository: &Repository) -> Result<Login, Refusal> {
        let key = self.key(repository).await?;
        // A token is taken as a password, whatever the name beside it.
        Ok(Login { user: "oauth2".to_owned(), password: key.token() })
    }
}

#[async_trait]
impl Forge for Gitea {
    async fn look_up(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let key = self.key(&wanted.repository).await?;
        // A server may give one here that is closed or merged, which decides about its own commit only.
        if let Some(open) = self.of_branches(wanted, &key).await?.filter(|pull| pull.state == "open") {
            return Ok(Some(open.into()));
        }
        // One of this commit that is closed is among the last that were touched, and so is an open one into another base.
        let mut url = self.url(&wanted.repository, &["pulls"])?;
        url.query_pairs_mut().extend_pairs([("state", "all"), ("sort", "recentupdate")]);
        let mut found = None;
        let see = |pull: Pull| {
            let is_ours = pull.head.branch == wanted.branch && pull.head.repo_id == pull.base.repo_id;
            let ours = is_ours.then(|| PullRequest::from(pull)).into_iter().collect();
            found = super::chosen(ours, wanted);
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.api.list::<Vec<Pull>, _>(&pages(url), (&key, &wanted.repository), see).await?;
        Ok(found)
    }

    async fn open(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let (mut tried, mut theirs) = (None, None);
        if let Some(key) = super::key_of_person(wanted) {
            let answer = self.create(wanted, &key, shortened(&wanted.body, BODY_LIMIT)).await?;
            match super::is_refused(&answer) && !is_there(&answer) {
                true => theirs = Some(self.api.refusal(&answer, &key, &wanted.repository, "").to_string()),
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
            // It was looked up right before, so that it is not the repository that is missing.
            404 => {
                let ours = Refusal::last(format!(
                    "{} does not find the branches {} and {} in {}, or {} may not open pull requests there",
                    self.api.who, wanted.branch, wanted.base, wanted.repository, key.source
                ));
                Err(super::beside(ours, theirs))
            }
            _ => Err(super::beside(self.api.refusal(&answer, &key, &wanted.repository, ""), theirs)),
        }
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        change: &Change,
    ) -> Result<PullRequest, Refusal> {
        let (key, number) = (self.key(repository).await?, number.to_string());
        let mut body = json!({});
        if change.title.is_some() || change.readiness.is_some() {
            // Whether it is a draft is part of the title, and stays unless it is to change.
            let now = self.read(repository, &number, &key).await?.title;
            let state = change.readiness.unwrap_or_else(|| readiness(&now, DRAFT));
            body["title"] = json!(titled(change.title.as_ref().unwrap_or(&now), state, DRAFT, TITLE_LIMIT));
        }
        if let Some(text) = &change.body {
            body["body"] = json!(shortened(text, BODY_LIMIT));
        }
        let answer = self.put(Method::PATCH, (repository, &["pulls", &number]), &key, &body).await?;
        Ok(self.api.read::<Pull>(&answer)?.into())
    }

    async fn comment(&self, repository: &Repository, number: u64, comment: &Comment) -> Result<(), Refusal> {
        let (key, number, mark) = (self.key(repository).await?, number.to_string(), marker(&comment.key));
        let parts = ["issues", &number, "comments"];
        let answer = self.api.get(self.url(repository, &parts)?, &key).await?;
        let said: Vec<Said> = self.api.expect(&answer, &[200], &key, repository)?;
        if said.iter().any(|said| said.body.contains(&mark)) {
            return Ok(());
        }
        let body = json!({"body": format!("{}\n\n{mark}", shortened(&comment.text, BODY_LIMIT))});
        self.put(Method::POST, (repository, &parts), &key, &body).await.map(drop)
    }

    async fn mark(&self, repository: &Repository, number: u64, marks: &Marks) -> Result<(), Refusal> {
        let (key, number) = (self.key(repository).await?, number.to_string());
        let mut refused = super::Refused::default();
        if !marks.labels.is_empty() {
            let put = self.label(repository, &number, &marks.labels, &key).await;
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
        let (mut checks, mut names) = (Vec::new(), HashSet::new());
        let see = |status: Status| {
            // Each is told once, and a server that has no pages here tells all of them again.
            if !names.insert(status.context.clone()) {
                return ControlFlow::Break(());
            }
            let state = match status.status.as_str() {
                "success" | "warning" | "skipped" => CheckState::Passed,
                "pending" => CheckState::Pending,
                _ => CheckState::Failed,
            };
            let url = status.target_url.filter(|url| !url.is_empty());
            checks.push(Check { name: status.context, state, url });
            ControlFlow::Continue(())
        };
        let list = pages(self.url(repository, &["commits", commit, "status"])?);
        let seen = self.api.list::<Combined, _>(&list, (&key, repository), see).await?;
        Ok(super::told(checks, seen))
    }

    async fn log(&self, repository: &Repository, job: &str) -> Result<Option<String>, Refusal> {
        let key = self.key(repository).await?;
        self.api.log(self.url(repository, &["actions", "jobs", job, "logs"])?, &key).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest, Refusal> {
        let (key, number) = (self.key(repository).await?, number.to_string());
        let now = self.read(repository, &number, &key).await?;
        if now.state != "open" {
            return Ok(now.into());
        }
        let body = json!({"state": "closed"});
        let answer = self.put(Method::PATCH, (repository, &["pulls", &number]), &key, &body).await?;
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

/// Whether Gitea says that there is such a pull request.
fn is_there(answer: &Answer) -> bool {
    answer.status.as_u16() == 409
}
