//! Code that a model's text leaves out: what it was told of that, and what is gone only as long as the checks pass without it.
//! Small models repeat themselves without meaning it, so what nobody asked for must at least do no harm.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{MutexGuard, PoisonError};

use agent::policy::absolute;
use bytes::Bytes;

use super::Runner;
use crate::failure::Failure;

/// What a turn knows of texts that leave code out.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// What the model was told of, as the hash of a file with a text or with what would be lost.
    told: HashSet<u64>,
    on_trial: Vec<Removed>,
    /// Whole texts that were written, by the path from the root.
    wrote: BTreeMap<String, String>,
}

/// Code that went without being asked for.
#[derive(Debug)]
pub(super) struct Removed {
    /// As the model wrote it, and inside the sandbox.
    pub(super) path: String,
    pub(super) inside: String,
    /// What went, in words.
    pub(super) lost: String,
    /// The file with it, and without it.
    pub(super) before: String,
    pub(super) after: String,
}

impl Removals {
    /// The model is told what this text leaves out.
    pub(super) fn tell(&mut self, path: &str, text: &str, lost: &str) {
        self.told.extend([hash(("text", path, text)), hash(("lost", path, lost))]);
    }

    /// Whether it was told that of this text, and of this loss.
    pub(super) fn known(&self, path: &str, text: &str, lost: &str) -> (bool, bool) {
        (self.told.contains(&hash(("text", path, text))), self.told.contains(&hash(("lost", path, lost))))
    }

    /// The file has this text now.
    pub(super) fn wrote(&mut self, path: &str, text: &str) {
        self.wrote.insert(absolute(path), text.to_owned());
    }

    /// The whole texts of other files than this one.
    pub(super) fn elsewhere(&self, path: &str) -> Vec<String> {
        let own = absolute(path);
        self.wrote.iter().filter(|(other, _)| **other != own).map(|(_, text)| text.clone()).collect()
    }

    /// Keeps what went until the checks have passed.
    pub(super) fn on_trial(&mut self, removed: Removed) {
        self.on_trial.push(removed);
    }
}

fn hash(key: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Runner {
    pub(super) fn removals(&self) -> MutexGuard<'_, Removals> {
        self.removals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checks were run. What went without being asked for stays gone if all of them pass, and comes back if not, unless
    /// the file was changed since.
    pub(super) async fn settle_removals(&self, passed: bool) -> Result<(), Failure> {
        let on_trial = std::mem::take(&mut self.removals().on_trial);
        if passed {
            return Ok(());
        }
        let sandbox = self.sandbox()?;
        // The last first, so that a file that lost something twice is whole again.
        for Removed { path, inside, lost, before, after } in on_trial.into_iter().rev() {
            let now = sandbox.guest().read_file(&inside, 0, after.len() as u64 + 1).await;
            if !matches!(now, Ok((bytes, _)) if bytes == after.as_bytes()) {
                continue;
            }
            match sandbox.guest().write_file(&inside, Bytes::from(before)).await {
                Ok(()) => {
                    let text = format!(
                        "{path} has {lost} again: your text left it out, the task does not name it, and the checks fail. Write the whole file with it."
                    );
                    self.notice(text).await?;
                }
                Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
                Err(error) => tracing::warn!(%error, path, "what a model left out could not be put back"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known_of_the_text_and_of_the_loss() {
        let mut removals = Removals::default();
        assert_eq!(removals.known("a.py", "x", "`sub`"), (false, false));
        removals.tell("a.py", "x", "`sub`");
        assert_eq!(removals.known("a.py", "x", "`sub`"), (true, true));
        assert_eq!(removals.known("a.py", "y", "`sub`"), (false, true));
        assert_eq!(removals.known("b.py", "x", "`sub`"), (false, false));
    }

    #[test]
    fn what_other_files_have_is_elsewhere() {
        let mut removals = Removals::default();
        removals.wrote("a.py", "x");
        removals.wrote("b.py", "y");
        removals.wrote("b.py", "z");
        assert_eq!(removals.elsewhere("./a.py"), ["z"]);
    }
}
