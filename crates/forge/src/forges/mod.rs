//! Forges: where a branch becomes a pull request. Which one serves a repository is told by the repository's address.

pub mod github;
mod place;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::http::Refusal;
use place::Place;

/// A repository of a forge.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// What every forge can do. Acting twice is avoided by looking first, with what names the act: branch and commit.
#[async_trait]
pub trait Forge: Send + Sync + fmt::Debug {
    /// The pull request that is there for this one: an open one of the branch; else one of this very commit, whatever became
    /// of it.
    async fn look_up(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal>;

    /// Opens it. None when the forge says that there is one already.
    async fn open(&self, wanted: &NewPullRequest) -> Result<Option<PullRequest>, Refusal>;
}

/// The forges that are configured, each with the addresses that it serves.
#[derive(Debug, Clone, Default)]
pub struct Forges {
    known: Vec<(Place, Arc<dyn Forge>)>,
}

impl Forges {
    /// Adds a forge that serves the repositories below this address: `https://github.com`, or a directory of this machine.
    pub fn add(&mut self, address: &str, forge: Arc<dyn Forge>) -> Result<(), String> {
        let place = Place::parse(address)
            .ok_or_else(|| format!("\"{address}\" is no address of a forge, such as https://github.com"))?;
        self.known.push((place, forge));
        Ok(())
    }

    /// The forge that serves a repository, and what the repository is called there. The longest address wins.
    pub fn of(&self, url: &str) -> Option<(Arc<dyn Forge>, Repository)> {
        let repository = Place::parse(url)?;
        self.known
            .iter()
            .filter_map(|(place, forge)| Some((place, forge, repository.below(place)?)))
            .max_by_key(|(place, ..)| place.depth())
            .map(|(_, forge, repository)| (Arc::clone(forge), repository))
    }
}
