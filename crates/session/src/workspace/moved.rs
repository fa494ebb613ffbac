//! A repository that moved while a session works on it: renamed, given to somebody else. The session goes on at the address that its
//! environment has now, where that is known to be the same repository. Its recipe and the host's copy stay as they are.

use super::{Saved, Workspace};
use crate::environments;
use crate::joint::of;

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
    /// Where that is not known, the session stays at its own, and git says what is wrong with it.
    pub(crate) async fn follow(&self) {
        let Some(saved) = self.saved() else { return };
        let now = match environments::find(&self.options, &self.environment).await {
            Ok(environment) => environment.recipe.repos,
            Err(problem) => {
                tracing::debug!(session = %self.session, %problem, "an environment is not there to say where its repositories are");
                return;
            }
        };
        if now.len() != self.recipe.repos.len() {
            return;
        }
        let mut remotes: Vec<String> = saved.remote.lines().map(str::to_owned).collect();
        let mut moved = false;
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
                *known = public;
                moved = true;
            }
        }
        if moved {
            let saved = Saved { remote: remotes.join("\n"), ..self.saved().unwrap_or(saved) };
            if let Err(error) = self.record.put(saved) {
                tracing::warn!(session = %self.session, %error, "that a repository has moved will be found out again");
            }
        }
    }
}
