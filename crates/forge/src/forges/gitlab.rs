//! GitLab's REST API, version 4. A project is named by its whole path, a merge request by its number in the project, and a
//! draft by the beginning of its title.

use std::ops::ControlFlow;

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Api, End, List, Scheme, Seen};
use super::keys::{Key, Keyring, Keys, Login};
use super::text::{body_by_us, marker, plain_title, readiness, shortened, titled};
use super::{
    Change, Check, CheckState, Comment, Forge, Marks, NewPullRequest, PullRequest, Readiness, Repository,
    State,
};
use crate::Token;
use crate::http::{Answer, Refusal};

/// GitLab takes titles of 255 characters. It takes descriptions of a million, which nobody would read.
const TITLE_LIMIT: usize = 255;
const BODY_LIMIT: usize = 100_000;
/// Most entries of a page, and the most that are looked at.
const PAGE: usize = 100;
const MOST: usize = 3000;
/// What makes a draft; the first is what we write.
const DRAFT: &[&str] = &["Draft:", "[Draft]", "(Draft)"];

/// Where the API of the forge at this address is, unless somebody says otherwise. One of one's own may be below the root of
/// its host; these are known not to be, so that what follows their name is an owner.
pub fn api_url(address: &str) -> String {
    const AT_ROOT: &[&str] = &["https://gitlab.com"];
    let root = super::root_of(address).filter(|root| AT_ROOT.contains(root));
    format!("{}/api/v4", root.unwrap_or(address.trim_end_matches('/')))
}

/// GitLab.
#[derive(Debug)]
pub struct GitLab {
    api: Api,
    keys: Keys,
}

/// What of a merge request matters here.
#[derive(Debug, Deserialize)]
struct Merge {
    iid: u64,
    web_url: String,
    state: String,
    title: String,
    #[serde(default)]
    description: Option<String>,
    /// None while GitLab has not looked at the branch yet.
    sha: Option<String>,
    source_branch: String,
    source_project_id: Option<u64>,
    target_project_id: u64,
    #[serde(default)]
    reviewers: Vec<User>,
    #[serde(default)]
    author: Option<Author>,
}

#[derive(Debug, Deserialize)]
struct Author {
    username: String,
}

#[derive(Debug, Deserialize)]
struct User {
    id: u64,
    username: String,
}

#[derive(Debug, Deserialize)]
struct Note {
    body: String,
}

#[derive(Debug, Deserialize)]
struct Status {
    name: String,
    status: String,
    #[serde(default)]
    allow_failure: bool,
    target_url: Option<String>,
}

impl From<Merge> for PullRequest {
    fn from(merge: Merge) -> Self {
        let state = match merge.state.as_str() {
            // A locked one is about to be merged.
            "opened" | "locked" => State::Open,
            "merged" => State::Merged,
            _ => State::Closed,
        };
        Self {
            number: merge.iid,
            body: merge.description.unwrap_or_default(),
            url: merge.web_url,
            state,
            readiness: readiness(&merge.title, DRAFT),
            title: plain_title(&merge.title, DRAFT).to_owned(),
            commit: merge.sha.unwrap_or_default(),
        }
    }
}

/// A list as GitLab gives it.
fn pages(url: Url) -> List {
    List { url, by: "per_page", size: PAGE, most: MOST, end: End::Short }
}

impl GitLab {
    /// A forge with this API and token; `source` says where the token comes from, such as the name of a variable. Without a
    /// token everything is refused with words that say so.
    pub fn new(api_url: &str, token: Option<Token>, source: &str) -> Result<Self, String> {
        let api = Api::new(api_url, Scheme::Bearer, &[("accept", "application/json")])?;
        Ok(Self { api, keys: Keys::Token { token, source: source.to_owned() } })
    }

    async fn key(&self, repository: &Repository) -> Result<Key, Refusal> {
        self.keys.of(&self.api.who, repository).await
    }

    fn url(&self, repository: &Repository, parts: &[&str]) -> Result<Url, Refusal> {
        let project = repository.to_string();
        self.api.url(["projects", &project].into_iter().chain(parts.iter().copied()))
    }

    async fn create(&self, wanted: &NewPullRequest, key: &Key, body: String) -> Result<Answer, Refusal> {
        let new = json!({
            "title": titled(&wanted.title, wanted.readiness, DRAFT, TITLE_LIMIT),
            "source_branch": wanted.branch,
            "target_branch": wanted.base,
            "description": body,
        });
        let url = self.url(&wanted.repository, &["merge_requests"])?;
        self.api.call(Method::POST, url, key, Some(&new)).await
    }

    async fn read(&self, repository: &Repository, number: u64, key: &Key) -> Result<Merge, Refusal> {
        let url = self.url(repository, &["merge_requests", &number.to_string()])?;
        self.api.expect(&self.api.get(url, key).await?, &[200], key, repository)
    }

    async fn edit(
        &self,
        repository: &Repository,
        number: u64,
        key: &Key,
        body: &Value,
    ) -> Result<Merge, Refusal> {
        let url = self.url(repository, &["merge_requests", &number.to_string()])?;
        let answer = self.api.call(Method::PUT, url, key, Some(body)).await?;
        self.api.expect(&answer, &[200], key, repository)
    }

    async fn user(&self, repository: &Repository, name: &str, key: &Key) -> Result<u64, Refusal> {
        let mut url = self.api.url(["users"])?;
        url.query_pairs_mut().append_pair("username", name);
        let users: Vec<User> = self.api.expect(&self.api.get(url, key).await?, &[200], key, repository)?;
        users
            .into_iter()
            .find(|user| user.username.eq_ignore_ascii_case(name))
            .map(|user| user.id)
            .ok_or_else(|| {
                Refusal::last(format!("{} has no user {name:?} to ask for a review", self.api.who))
            })
    }
}

#[async_trait]
impl Keyring for GitLab {
    async fn login(&self, repository: &Repository) -> Result<Login, Refusal> {
        let key = self.key(repository).await?;
        Ok(Login { user: "oauth2".to_owned(), password: key.token() })
    }
}

#[async_trait]
impl Forge for GitLab {
    async fn look_up(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal> {
        let key = self.key(&wanted.repository).await?;
        let mut url = self.url(&wanted.repository, &["merge_requests"])?;
        url.query_pairs_mut().extend_pairs([
            ("state", "all"),
            ("source_branch", &wanted.branch),
            ("order_by", "created_at"),
            ("sort", "desc"),
            ("per_page", "100"),
        ]);
        let answer = self.api.get(url, &key).await?;
        let merges: Vec<Merge> = self.api.expect_there(&answer, &key, &wanted.repository).await?;
        // A branch of the same name in somebody's fork is not ours.
        let ours = merges.into_iter().filter(|merge| {
            merge.source_branch == wanted.branch && merge.source_project_id == Some(merge.target_project_id)
        });
        Ok(super::chosen(ours.map(PullRequest::from).collect(), wanted))
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
            201 => Ok(Some(self.api.read::<Merge>(&answer)?.into())),
            _ if is_there(&answer) => Ok(None),
            _ => Err(super::beside(self.api.refusal(&answer, &key, &wanted.repository, ""), theirs)),
        }
    }

    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        change: &Change,
    ) -> Result<PullRequest, Refusal> {
        let key = self.key(repository).await?;
        let now = self.read(repository, number, &key).await?;
        let mut body = json!({});
        if change.title.is_some() || change.readiness.is_some() {
            // Whether it is a draft is part of the title, and stays unless it is to change.
            let state: Readiness = change.readiness.unwrap_or_else(|| readiness(&now.title, DRAFT));
            let title = titled(change.title.as_ref().unwrap_or(&now.title), state, DRAFT, TITLE_LIMIT);
            if title != now.title {
                body["title"] = json!(title);
            }
        }
        if let Some(text) = &change.body {
            body["description"] = json!(shortened(text, BODY_LIMIT));
        }
        // GitLab refuses a change of nothing.
        let nothing = body.as_object().is_none_or(serde_json::Map::is_empty);
        let merge = if nothing { now } else { self.edit(repository, number, &key, &body).await? };
        Ok(merge.into())
    }

    async fn comment(&self, repository: &Repository, number: u64, comment: &Comment) -> Result<(), Refusal> {
        let (key, number, mark) = (self.key(repository).await?, number.to_string(), marker(&comment.key));
        let parts = ["merge_requests", &number, "notes"];
        let see = |note: Note| match note.body.contains(&mark) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let list = pages(self.url(repository, &parts)?);
        if self.api.list::<Vec<Note>, _>(&list, (&key, repository), see).await? == Seen::Enough {
            return Ok(());
        }
        let body = json!({"body": format!("{}\n\n{mark}", shortened(&comment.text, BODY_LIMIT))});
        if let Some(thread) = &comment.thread {
            let parts = ["merge_requests", &number, "discussions", thread, "notes"];
            let answer =
                self.api.call(Method::POST, self.url(repository, &parts)?, &key, Some(&body)).await?;
            // The thread was removed, or takes no answers: it is said where everybody sees it.
            if !matches!(answer.status.as_u16(), 400 | 404) {
                return self.api.expect::<Value>(&answer, &[201], &key, repository).map(drop);
            }
        }
        let url = self.url(repository, &parts)?;
        let answer = self.api.call(Method::POST, url, &key, Some(&body)).await?;
        self.api.expect::<Value>(&answer, &[201], &key, repository).map(drop)
    }

    async fn mark(&self, repository: &Repository, number: u64, marks: &Marks) -> Result<(), Refusal> {
        let key = self.key(repository).await?;
        let (mut refused, mut wanted) = (super::Refused::default(), Vec::new());
        let mut body = json!({});
        if !marks.labels.is_empty() {
            body["add_labels"] = json!(marks.labels.join(","));
        }
        if !marks.reviewers.is_empty() {
            // The list replaces the one that is there.
            let there = self.read(repository, number, &key).await;
            let author = there.as_ref().ok().and_then(|there| there.author.as_ref());
            let author = author.map(|author| author.username.as_str());
            let ids = there.as_ref().map(|there| there.reviewers.iter().map(|user| user.id).collect());
            let mut ids: Vec<u64> = ids.unwrap_or_default();
            let names = marks.reviewers.iter().filter(|name| there.is_ok() && !super::is_by(author, name));
            for name in names {
                let found = self.user(repository, name, &key).await;
                if let Ok(id) = &found
                    && !ids.contains(id)
                {
                    ids.push(*id);
                }
                wanted.extend(found.as_ref().ok().map(|id| (name, *id)));
                refused.note(&format!("the reviewer {name}"), found);
            }
            if !wanted.is_empty() {
                body["reviewer_ids"] = json!(ids);
            }
            refused.note("the reviewers", there);
        }
        if !body.as_object().is_none_or(serde_json::Map::is_empty) {
            let done = self.edit(repository, number, &key, &body).await;
            let there = done.as_ref().map(|there| there.reviewers.as_slice());
            // Whoever may not review is passed over without a word, and so is a second one where only one can be.
            let passed_over = |id: u64| there.is_ok_and(|there| !there.iter().any(|user| user.id == id));
            for (name, _) in wanted.iter().filter(|(_, id)| passed_over(*id)) {
                let silent = Refusal::last("the forge passed over it without saying why");
                refused.note::<()>(&format!("the reviewer {name}"), Err(silent));
            }
            refused.note("the labels and reviewers", done);
        }
        refused.end()
    }

    async fn checks(&self, repository: &Repository, commit: &str) -> Result<Vec<Check>, Refusal> {
        let key = self.key(repository).await?;
        let mut checks = Vec::new();
        let see = |status: Status| {
            let state = match status.status.as_str() {
                "success" | "skipped" | "manual" => CheckState::Passed,
                "failed" | "canceled" if status.allow_failure => CheckState::Passed,
                "failed" | "canceled" => CheckState::Failed,
                _ => CheckState::Pending,
            };
            checks.push(Check { name: status.name, state, url: status.target_url });
            ControlFlow::Continue(())
        };
        let list = pages(self.url(repository, &["repository", "commits", commit, "statuses"])?);
        let seen = self.api.list::<Vec<Status>, _>(&list, (&key, repository), see).await?;
        Ok(super::told(checks, seen))
    }

    async fn log(&self, repository: &Repository, job: &str) -> Result<Option<String>, Refusal> {
        let key = self.key(repository).await?;
        self.api.log(self.url(repository, &["jobs", job, "trace"])?, &key).await
    }

    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest, Refusal> {
        let key = self.key(repository).await?;
        let now = self.read(repository, number, &key).await?;
        match now.state.as_str() {
            "opened" => {
                let body = json!({"state_event": "close"});
                Ok(self.edit(repository, number, &key, &body).await?.into())
            }
            _ => Ok(now.into()),
        }
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

/// Whether GitLab says that there is such a merge request: the only conflict of a new one is with another of the same branches.
fn is_there(answer: &Answer) -> bool {
    answer.status.as_u16() == 409
}
