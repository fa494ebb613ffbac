//! A repository that moved while a session works on it: renamed, given to somebody else. The session goes on at the address that its
//! environment has now, where that is known to be the same repository. Its recipe and the host's copy stay as they are.

use super::{Saved, Workspace};
use crate::environments;
use crate::joint::of;

/// Where a repository was, and where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) was: String,
    pub(crate) now: String,
}

impl Workspace {
    /// Goes on with what an earlier server found out.
    pub(super) fn go_on_moved(&self) {
        let Some(saved) = self.saved() else { return };
        for (repo, now) in self.recipe.repos.iter().zip(saved.remote.lines()) {
            if forge::public_url(&repo.url) != now {
                self.copies.follow(&repo.url, now);
            }
        }
    }

    /// Looks whether the environment has other addresses than the session, and goes on at those that are of the same repository.
    /// Gives what is new.
    pub(crate) async fn follow(&self) -> Vec<Moved> {
        let Some(saved) = self.saved() else { return Vec::new() };
        let Ok(environment) = environments::find(&self.options, &self.environment).await else {
            return Vec::new();
        };
        let now = environment.recipe.repos;
        if now.len() != self.recipe.repos.len() {
            return Vec::new();
        }
        let mut remotes: Vec<String> = saved.remote.lines().map(str::to_owned).collect();
        let mut moved = Vec::new();
        for (number, (repo, now)) in self.recipe.repos.iter().zip(&now).enumerate() {
            let Some(known) = remotes.get_mut(number) else { continue };
            let public = forge::public_url(&now.url);
            if *known == public {
                // As the environment has it, with the login that it may bring.
                if forge::public_url(&repo.url) != public {
                    self.copies.follow(&repo.url, &now.url);
                }
                continue;
            }
            let base = of(&saved.base, number);
            let there = Box::pin(self.options.mirrors.is_now(known, &now.url, base));
            if there.await {
                tracing::info!(session = %self.session, was = *known, now = public, "a repository has moved");
                self.copies.follow(&repo.url, &now.url);
                moved.push(Moved { was: std::mem::replace(known, public.clone()), now: public });
            }
        }
        if !moved.is_empty() {
            let saved = Saved { remote: remotes.join("\n"), ..self.saved().unwrap_or(saved) };
            if let Err(error) = self.record.put(saved) {
                tracing::warn!(session = %self.session, %error, "that a repository has moved will be found out again");
            }
        }
        moved
    }
}
