//! `AGENTS.md` below the root. It is read from the workspace as it is, beside the calls that name files there, and what the
//! model is given of it is a notice in the log.

use std::sync::PoisonError;

use agent::nearby::{FILES, Given, Guide, directories, directories_of, told};
use agent::policy::{self, Decision, Known};
use agent::tools::Invocation;
use protocol::Policy;
use protocol::chat::Message;
use sandbox::WORKSPACE;

use super::Runner;
use crate::failure::Failure;

/// Most bytes of one file, and how much of what a model's window bears of an output it may be at most.
const MOST: usize = 16 * 1024;
const SHARE: usize = 2;
/// Most directories that are looked into for one call; those nearest to its files.
const LOOKED: usize = 12;

/// Whether a file has instructions for a directory below the root.
pub(super) fn is_guide(name: &str) -> bool {
    name.rsplit_once('/').is_some_and(|(_, file)| FILES.contains(&file))
}

impl Runner {
    /// Knows from here on what the conversation has.
    pub(super) fn known_nearby(&self, messages: &[Message]) {
        *self.nearby.lock().unwrap_or_else(PoisonError::into_inner) = Given::of(messages);
    }

    /// Gives the model the instructions of the directories that a call was in, if it does not have them.
    pub(super) async fn guide(&self, call: &Invocation) -> Result<(), Failure> {
        // Who works in rounds is shown them with the files.
        if self.in_rounds {
            return Ok(());
        }
        let directories = directories(call);
        for guide in self.guides(&directories).await? {
            let text = told(&guide, self.guide_bytes());
            let new = self.nearby.lock().unwrap_or_else(PoisonError::into_inner).note(&text);
            if new {
                self.notice(text).await?;
            }
        }
        Ok(())
    }

    /// The instructions that hold for files which a model is shown, in at most so many bytes. The names are those of all files.
    pub(super) async fn guides_for(
        &self,
        files: &[&str],
        names: &[String],
        most: usize,
    ) -> Result<Vec<String>, Failure> {
        let mut directories = directories_of(files.iter().copied());
        let has_guide = |directory: &String| {
            names
                .iter()
                .any(|name| is_guide(name) && name.rsplit_once('/').is_some_and(|(of, _)| of == directory))
        };
        directories.retain(has_guide);
        let guides = self.guides(&directories).await?;
        let each = (most / guides.len().max(1)).min(MOST);
        Ok(guides.iter().map(|guide| told(guide, each)).collect())
    }

    fn guide_bytes(&self) -> usize {
        (self.window.output_bytes(self.task.len()) / SHARE).min(MOST)
    }

    /// The files of these directories that have instructions, from the root on. Links are not followed, and a policy that lets
    /// the model not read one is kept to.
    async fn guides(&self, directories: &[String]) -> Result<Vec<Guide>, Failure> {
        let Some(sandbox) = &self.sandbox else { return Ok(Vec::new()) };
        let guest = sandbox.guest().exact();
        let first = directories.len().saturating_sub(LOOKED);
        let mut guides = Vec::new();
        // Those of the repositories themselves are instructions from the beginning.
        let places = self.context.workspace.places();
        for directory in directories[first..].iter().filter(|directory| !places.contains(directory)) {
            for file in FILES {
                let path = format!("{WORKSPACE}/{directory}/{file}");
                let bytes = match guest.read_file(&path, 0, MOST as u64 + 1).await {
                    Ok((bytes, _)) => bytes,
                    Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => continue,
                    // Whoever needs it next finds that it is gone.
                    Err(guest::Error::Unavailable(_)) => return Ok(guides),
                };
                if !self.may_read(&path) {
                    break;
                }
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if !text.trim().is_empty() {
                    guides.push(Guide { directory: directory.clone(), file: file.to_owned(), text });
                }
                break;
            }
        }
        Ok(guides)
    }

    /// Whether the model could read a file without anybody being asked.
    pub(super) fn may_read(&self, path: &str) -> bool {
        let stream = self.context.recorder.stream();
        let (own, granted) = stream.with_state(|state| (state.policy().clone(), state.granted().to_vec()));
        let policies = self.context.workspace.policies(&own);
        let policies: Vec<&Policy> = policies.iter().collect();
        let read = Invocation::Read { path: path.to_owned(), offset: 1, limit: 1, column: 1 };
        let real = [path.to_owned()];
        let known = Known { granted: &granted, real: Some(&real), leads: None, below: None, actions: None };
        policy::decide(&policies, &read, known) == Decision::Allow
    }
}
