//! Forges: where a branch becomes a pull request. Which one serves a repository is told by the repository's address.

mod api;
pub mod app;
pub mod gitea;
pub mod github;
pub mod gitlab;
mod hook;
mod keys;
mod once;
mod place;
mod said;
mod sign_in;
mod site;
mod text;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::Token;
use crate::http::{Answer, Refusal};
use api::Seen;
pub use hook::{CheckNews, CommentNews, Hook, News, PullNews, Told, Unheard};
use keys::Key;
pub use keys::{Keyring, Login};
pub use once::open_once;
use place::Place;
pub use sign_in::{Device, Grant, SignIn, Typed};
pub use site::{Comments, Site};

/// Kinds of forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// GitHub and its enterprise server.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea and Forgejo.
    Gitea,
}

impl Kind {
    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Gitea => "gitea",
        }
    }
}

/// A repository of a forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// The user, organisation, or group of groups.
    pub owner: String,
    /// Its name there, without `.git`.
    pub name: String,
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// A pull request that is there. GitLab's word for it is merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Where people look at it.
    pub url: String,
    /// What became of it.
    pub state: State,
    /// Whether it waits for its author or for reviewers.
    pub readiness: Readiness,
    /// Its title, without what marks a draft.
    pub title: String,
    /// What it is about, as Markdown, as it is now.
    pub body: String,
    /// The commit at the tip of its branch.
    pub commit: String,
}

/// What became of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It is there to be merged.
    Open,
    /// Somebody decided against it.
    Closed,
    /// Its commits are in the base.
    Merged,
}

/// Whether a pull request is ready for review.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It is not finished; nobody is asked to look at it.
    Draft,
    /// Reviewers may begin.
    #[default]
    Ready,
}

/// A pull request that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The repository that has both branches.
    pub repository: Repository,
    /// The branch with the work.
    pub branch: String,
    /// The commit at its tip.
    pub commit: String,
    /// The branch that it is to be merged into.
    pub base: String,
    /// One line.
    pub title: String,
    /// What it is about, as Markdown.
    pub body: String,
    /// Whether it is opened as a draft.
    pub readiness: Readiness,
    /// Whose prompt caused it. With their token it is theirs, so that nobody approves their own change; without one, or with
    /// one that the forge does not take any more, it is ours, and its body names them.
    pub person: Option<Person>,
}

/// Somebody for whom a pull request is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// What people call them.
    pub name: String,
    /// Their own token for this forge.
    pub token: Option<Token>,
}

/// What is to be different about a pull request; what is None stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// One line.
    pub title: Option<String>,
    /// Markdown.
    pub body: Option<String>,
    /// A draft or not.
    pub readiness: Option<Readiness>,
}

/// Something to say below a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// What names it: the same key is never said twice on the same pull request.
    pub key: String,
    /// Markdown.
    pub text: String,
    /// The thread of a review that it goes into, as the forge names it. One that the forge does not have, or whose threads
    /// cannot be answered, gets it below the pull request.
    pub thread: Option<String>,
}

/// What is put on a pull request beside what it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels by name; one that the repository lacks is made.
    pub labels: Vec<String>,
    /// People by the name that they log in with, who are asked for a review.
    pub reviewers: Vec<String>,
}

/// How far the forge's checks of a commit are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    /// It went well, or does not count.
    Passed,
    /// It has no result yet.
    Pending,
    /// It did not go well.
    Failed,
}

/// One check of a commit, as the forge's own machinery reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is called there.
    pub name: String,
    /// How far it is.
    pub state: CheckState,
    /// Where people read more.
    pub url: Option<String>,
}

/// The state of all checks together: that of the worst. None when there are none.
pub fn state_of(checks: &[Check]) -> Option<CheckState> {
    checks.iter().map(|check| check.state).max()
}

/// What every forge can do. Whoever implements it owes this:
///
/// - Acting twice is avoided by looking first, with what names the act: branch and commit of a pull request, the key of a
///   comment. Everything else says how something is to be, so that saying it again changes nothing.
/// - A refusal says whether it may work later, whether the act may have happened, and how long the forge asks to wait. Its
///   words name what is wrong and what to do, and hold no token.
/// - No redirect is followed: it could carry a token away.
#[async_trait]
pub trait Forge: Send + Sync + fmt::Debug {
    /// The pull request that is there for this one: an open one of the branch; else one of this very commit, whatever became
    /// of it.
    async fn look_up(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal>;

    /// Opens it. None when the forge says that there is one already.
    async fn open(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal>;

    /// Changes its title, body or readiness, and gives it as it is now.
    async fn update(
        &self,
        repository: &Repository,
        number: u64,
        change: &Change,
    ) -> Result<PullRequest, Refusal>;

    /// Says something below it, unless a comment of this key is there.
    async fn comment(&self, repository: &Repository, number: u64, comment: &Comment) -> Result<(), Refusal>;

    /// Adds labels and asks for reviews. What is there stays.
    async fn mark(&self, repository: &Repository, number: u64, marks: &Marks) -> Result<(), Refusal>;

    /// The checks of a commit, each once, with its newest result, and those first that failed.
    async fn checks(&self, repository: &Repository, commit: &str) -> Result<Vec<Check>, Refusal>;

    /// The log of a job of the forge's own machinery; None where it has none that can be read. Of a long one it is the end, and
    /// says so at its beginning.
    async fn log(&self, repository: &Repository, job: &str) -> Result<Option<String>, Refusal>;

    /// Closes it without merging it. One that is closed or merged stays as it is.
    async fn close(&self, repository: &Repository, number: u64) -> Result<PullRequest, Refusal>;

    /// Where a repository is now, if it is not where this says any more: its address, or its name there.
    async fn moved(&self, repository: &Repository) -> Result<Option<String>, Refusal>;

    /// The address of its API.
    fn api_url(&self) -> &str;

    /// Whether something that it is let in with stands in a text.
    fn is_told_in(&self, text: &str) -> bool;
}

/// What of a text would not end with it: the line that closes a block of code which is open.
pub fn open_fence(text: &str) -> Option<String> {
    said::open_fence(text)
}

/// What of some marks a forge did not take, with why. The others are there: one that is refused keeps none of them from being
/// put.
#[derive(Debug, Default)]
struct Refused {
    finally: Vec<String>,
    /// What may pass, and the first refusal of it.
    later: Option<Refusal>,
}

impl Refused {
    /// Remembers a refusal.
    fn note<T>(&mut self, what: &str, done: Result<T, Refusal>) {
        match done {
            Ok(_) => {}
            Err(Refusal::Final { message }) => self.finally.push(format!("{what} ({message})")),
            Err(Refusal::Later { message, doubtful, wait }) => {
                let message = format!("{what}: {message}");
                self.later.get_or_insert(Refusal::Later { message, doubtful, wait });
            }
        }
    }

    /// One that may pass comes first: all of it is asked for again then, which changes nothing of what is there.
    fn end(self) -> Result<(), Refusal> {
        match (self.later, self.finally.is_empty()) {
            (Some(later), _) => Err(later),
            (None, true) => Ok(()),
            (None, false) => Err(Refusal::last(format!("not taken: {}", self.finally.join("; ")))),
        }
    }
}

/// Whether somebody wrote a pull request. Nobody reviews their own, and a forge that is asked for it refuses all of the others.
fn is_by(author: Option<&str>, name: &str) -> bool {
    author.is_some_and(|author| author.eq_ignore_ascii_case(name))
}

/// Which of a branch's pull requests is meant: an open one, else one of this very commit. The newest comes first.
fn chosen(mut ours: Vec<PullRequest>, wanted: &NewPullRequest) -> Option<PullRequest> {
    let place = ours
        .iter()
        .position(|pull| pull.state == State::Open)
        .or_else(|| ours.iter().position(|pull| pull.commit == wanted.commit));
    place.map(|place| ours.swap_remove(place))
}

/// The key of the person whose prompt it was.
fn key_of_person(wanted: &NewPullRequest) -> Option<Key> {
    let person = wanted.person.as_ref()?;
    let token = person.token.clone()?;
    Some(Key::new(token, format!("the token of {}", person.name)))
}

/// Checks as they are told: the worst first, so that what failed is seen however many there are, and that there are more than
/// were read, which nobody takes for a success.
fn told(mut checks: Vec<Check>, seen: Seen) -> Vec<Check> {
    checks.sort_by_key(|check| std::cmp::Reverse(check.state));
    if seen == Seen::Bound {
        let name = format!("(there are more than these {}, which were not read)", checks.len());
        checks.push(Check { name, state: CheckState::Pending, url: None });
    }
    checks
}

/// Whether it is worth a try with our own key after a person's was refused: it was revoked, they may not open pull requests in
/// this repository, or the forge has words of its own for that. What is wrong with the request itself is wrong with ours too.
fn is_refused(answer: &Answer) -> bool {
    answer.status.is_client_error() && !answer.limited && !matches!(answer.status.as_u16(), 408 | 425 | 429)
}

/// A refusal of ours, and why the person's token was of no use before.
fn beside(ours: Refusal, theirs: Option<String>) -> Refusal {
    match (ours, theirs) {
        (Refusal::Final { message }, Some(theirs)) => {
            Refusal::last(format!("{message}; and before, {theirs}"))
        }
        (ours, _) => ours,
    }
}

/// The forges that are configured, each with the addresses that it serves.
#[derive(Debug, Clone, Default)]
pub struct Forges {
    known: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    place: Place,
    /// Its address as it was given.
    address: String,
    /// The scheme of its address, which its logins are not sent without.
    scheme: String,
    forge: Arc<dyn Forge>,
    /// Where git's logins come from; None leaves git to the host's own.
    keyring: Option<Arc<dyn Keyring>>,
}

impl Forges {
    /// Adds a forge that serves the repositories below this address: `https://github.com`, or a directory of this machine.
    pub fn add(&mut self, address: &str, forge: Arc<dyn Forge>) -> Result<(), String> {
        self.put(address, forge, None)
    }

    /// Adds a forge that also lets git in.
    pub fn add_with_logins<F: Forge + Keyring + 'static>(
        &mut self,
        address: &str,
        forge: Arc<F>,
    ) -> Result<(), String> {
        let keyring: Arc<dyn Keyring> = Arc::clone(&forge) as Arc<dyn Keyring>;
        self.put(address, forge, Some(keyring))
    }

    fn put(
        &mut self,
        address: &str,
        forge: Arc<dyn Forge>,
        keyring: Option<Arc<dyn Keyring>>,
    ) -> Result<(), String> {
        let place = Place::of_forge(address, forge.api_url())
            .ok_or_else(|| format!("\"{address}\" is no address of a forge, such as https://github.com"))?;
        let (address, scheme) = (crate::public_url(address), scheme(address));
        self.known.push(Known { place, address, scheme, forge, keyring });
        Ok(())
    }

    /// The forge that serves a repository, and what the repository is called there. The longest address wins.
    pub fn of(&self, url: &str) -> Option<(Arc<dyn Forge>, Repository)> {
        let (known, repository) = self.serving(url)?;
        Some((Arc::clone(&known.forge), repository))
    }

    /// Why the repository at this address has no pull requests, where forges are configured and none of them serves it; a
    /// directory of this machine is served by none, and that is no surprise.
    pub fn unserved(&self, url: &str) -> Option<String> {
        let place = Place::parse(url).filter(|place| !place.host().is_empty())?;
        if self.known.is_empty() || self.serving(url).is_some() {
            return None;
        }
        let known: Vec<&str> = self.known.iter().map(|known| known.address.as_str()).collect();
        Some(format!(
            "no forge of slipway.toml serves {}, so that it gets a branch and no pull request: the addresses in [forges] are {}",
            place,
            known.join(", ")
        ))
    }

    /// The address of the forge whose own login stands in a text.
    pub fn told_in(&self, text: &str) -> Option<String> {
        let known = self.known.iter().find(|known| known.forge.is_told_in(text))?;
        Some(known.place.host().to_owned())
    }

    /// What git logs in with at this address; None leaves it to the host's own credential helpers. A login goes over the
    /// scheme of the forge's address and over no other: not in the clear where the forge has https.
    pub(crate) async fn login(&self, url: &str) -> Result<Option<Login>, Refusal> {
        let Some((known, repository)) = self.serving(url) else { return Ok(None) };
        match &known.keyring {
            Some(keyring)
                if matches!(scheme(url).as_str(), "http" | "https") && scheme(url) == known.scheme =>
            {
                keyring.login(&repository).await.map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Where the repository at this address is now, if the forge that serves it knows it under another name.
    pub(crate) async fn moved(&self, url: &str) -> Option<String> {
        let (known, repository) = self.serving(url)?;
        match known.forge.moved(&repository).await {
            Ok(now) => now,
            Err(refusal) => {
                tracing::debug!(%repository, %refusal, "the forge does not say where the repository is");
                None
            }
        }
    }

    /// Whether one forge serves both addresses, and calls the repository at the second one as it says here: by its name, or by an
    /// address, which can be at another host than that at which git reaches it.
    pub fn is_called(&self, url: &str, now: &str, told: &str) -> bool {
        let (Some((before, _)), Some((known, repository))) = (self.serving(url), self.serving(now)) else {
            return false;
        };
        let beyond_host = |(_, rest): (&str, &str)| rest.split_once('/').map(|(_, path)| path.to_owned());
        let path = told.split_once("://").map_or(Some(told.to_owned()), beyond_host);
        let is_name =
            |path: String| path.trim_end_matches(".git").eq_ignore_ascii_case(&repository.to_string());
        let there = Place::parse(told).and_then(|place| place.below(&known.place));
        before.place == known.place && (path.is_some_and(is_name) || there.as_ref() == Some(&repository))
    }

    fn serving(&self, url: &str) -> Option<(&Known, Repository)> {
        let repository = Place::parse(url)?;
        self.known
            .iter()
            .filter_map(|known| Some((known, repository.below(&known.place)?)))
            .max_by_key(|(known, _)| known.place.depth())
    }
}

/// Scheme and host of an address of the web.
fn root_of(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())?;
    matches!(scheme, "http" | "https").then(|| &address[..scheme.len() + 3 + host.len()])
}

fn scheme(address: &str) -> String {
    address.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_goes_only_where_the_forge_is() {
        let mut forges = Forges::default();
        let token = Some(Token::new("t0ken"));
        let forge = gitlab::GitLab::new("https://git.example/api/v4", token, "T").unwrap();
        forges.add_with_logins("https://git.example", Arc::new(forge)).unwrap();
        for url in
            ["http://git.example/a/b.git", "git@git.example:a/b.git", "https://git.example.evil/a/b.git"]
        {
            assert!(forges.login(url).await.unwrap().is_none(), "{url}");
        }
        let login = forges.login("https://git.example/a/b.git").await.unwrap().unwrap();
        assert_eq!((login.user.as_str(), login.password.expose()), ("oauth2", "t0ken"));
        assert!(!format!("{login:?}").contains("t0ken"));
    }

    #[test]
    fn the_worst_check_counts() {
        let check = |state| Check { name: "x".to_owned(), state, url: None };
        assert_eq!(state_of(&[]), None);
        let mixed = [check(CheckState::Passed), check(CheckState::Failed), check(CheckState::Pending)];
        assert_eq!(state_of(&mixed), Some(CheckState::Failed));
        assert_eq!(state_of(&mixed[..1]), Some(CheckState::Passed));
    }
}
