//! What the forge has and what it was asked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::device::Device;
use super::hooks::Event;
use super::merge;
use super::server::On;

/// A request and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What was asked for.
    pub on: On,
    /// The query or the body.
    pub asked: Value,
    /// The header `Idempotency-Key`.
    pub key: Option<String>,
    /// The header with the signature.
    pub signature: Option<String>,
    /// The status that was decided on, also if it was never sent.
    pub status: u16,
    /// Whether something is there now that was not there before.
    pub acted: bool,
}

/// A pull request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// `owner/name` of its repository.
    pub repository: String,
    /// The branch with the work.
    pub branch: String,
    /// The branch that it goes into.
    pub base: String,
    /// The commit that it had when it was opened, or last while it was open.
    pub commit: String,
    /// Its title.
    pub title: String,
    /// Its body.
    pub body: String,
    /// Whether it is open.
    pub open: bool,
    /// Whether it was merged.
    pub merged: bool,
    /// Whether it is a draft.
    pub draft: bool,
    /// Who opened it.
    pub author: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Who was asked for a review.
    pub reviewers: Vec<String>,
    /// What was said below it.
    pub comments: Vec<Said>,
}

/// A comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Its number.
    pub id: u64,
    /// Who said it.
    pub author: String,
    /// What was said.
    pub text: String,
    /// The first comment of its thread, where it is in one of a review.
    pub thread: Option<u64>,
    /// The file and line of that.
    pub place: Option<(String, u64)>,
}

impl PullRequest {
    /// Says something below it, or in a thread of it.
    pub(super) fn say(&mut self, author: &str, text: &str, thread: Option<u64>) -> &mut Said {
        let id = self.number * 1000 + self.comments.len() as u64 + 1;
        let place =
            self.comments.iter().find(|said| Some(said.id) == thread).and_then(|said| said.place.clone());
        let at = self.comments.len();
        self.comments.push(Said { id, author: author.to_owned(), text: text.to_owned(), thread, place });
        &mut self.comments[at]
    }

    /// Whether there is such a thread.
    pub(super) fn has_thread(&self, id: u64) -> bool {
        self.comments.iter().any(|said| said.id == id && said.thread == Some(id))
    }
}

/// The result of a check of a commit: name, and one of `success`, `failure`, `pending`.
#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    pub(super) repository: String,
    pub(super) commit: String,
    pub(super) name: String,
    pub(super) state: String,
    /// The job that has its log.
    pub(super) job: u64,
}

/// Something that lets somebody in.
#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) token: String,
    pub(super) user: String,
    pub(super) ends: Option<SystemTime>,
    /// What it reaches; None is everything.
    pub(super) reach: Option<Vec<String>>,
}

/// Everything that the forge has.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// The directories of the repositories by `owner/name`.
    pub(super) repositories: BTreeMap<String, PathBuf>,
    /// Where repositories went that are no longer where they were.
    pub(super) moved: BTreeMap<String, String>,
    pub(super) pull_requests: Vec<PullRequest>,
    /// Labels by name, in the order of their numbers, which count from one.
    pub(super) labels: Vec<String>,
    /// People by name, in the order of their numbers, which count from one.
    pub(super) people: Vec<String>,
    pub(super) statuses: Vec<Status>,
    pub(super) logins: Vec<Login>,
    /// People who may look and no more.
    pub(super) kept_out: Vec<String>,
    /// How long the tokens of the app last.
    pub(super) token_life: Duration,
    pub(super) minted: usize,
    pub(super) devices: Vec<Device>,
    /// How long the tokens of people last who signed in by device, and how often a device may ask.
    pub(super) device_life: Duration,
    pub(super) interval: u64,
    /// What renews such a token, with whose it is; each is good for once.
    pub(super) renewals: Vec<(String, String)>,
    /// The logs of jobs.
    pub(super) logs: BTreeMap<u64, String>,
    /// What is to be told by webhook, once the request that caused it is answered.
    pub(super) events: Vec<Event>,
    /// Notifications by key, with how often each came.
    pub(super) received: BTreeMap<String, (Value, usize)>,
    pub(super) entries: Vec<Entry>,
    pub(super) violations: Vec<String>,
}

impl Store {
    /// Who has this token, as long as it is good.
    pub(super) fn login(&self, token: &str) -> Option<&Login> {
        let login = self.logins.iter().find(|login| login.token == token)?;
        login.ends.is_none_or(|ends| ends > SystemTime::now()).then_some(login)
    }

    /// The directory of a repository that this login reaches.
    pub(super) fn repository(&self, name: &str, login: &Login) -> Option<PathBuf> {
        let reached = login.reach.as_ref().is_none_or(|reach| reach.iter().any(|known| known == name));
        self.repositories.get(name).filter(|_| reached).cloned()
    }

    /// The pull request of this number, with its branch as it is now.
    pub(super) fn pull(&mut self, repository: &str, number: &str) -> Option<&mut PullRequest> {
        self.refresh();
        let number: u64 = number.parse().ok()?;
        self.pull_requests.iter_mut().find(|pull| pull.repository == repository && pull.number == number)
    }

    /// Moves the open pull requests to where their branches are.
    pub(super) fn refresh(&mut self) {
        for pull in self.pull_requests.iter_mut().filter(|pull| pull.open) {
            let Some(path) = self.repositories.get(&pull.repository) else { continue };
            if let Some(tip) = merge::tip(path, &pull.branch)
                && tip != pull.commit
            {
                pull.commit = tip;
                self.events.push(Event::updated(pull));
            }
        }
    }

    /// Adds a pull request.
    pub(super) fn add(&mut self, mut pull: PullRequest) -> PullRequest {
        pull.number = self.pull_requests.len() as u64 + 1;
        pull.open = true;
        self.pull_requests.push(pull.clone());
        self.events.push(Event::opened(&pull));
        pull
    }

    /// The number of a label, which is made if need be.
    pub(super) fn label(&mut self, name: &str) -> usize {
        index(&mut self.labels, name)
    }

    /// The number of somebody, if they are known.
    pub(super) fn person(&self, name: &str) -> Option<usize> {
        self.people.iter().position(|known| known == name).map(|at| at + 1)
    }

    pub(super) fn violation(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }
}

fn index(list: &mut Vec<String>, name: &str) -> usize {
    match list.iter().position(|known| known == name) {
        Some(at) => at + 1,
        None => {
            list.push(name.to_owned());
            list.len()
        }
    }
}
