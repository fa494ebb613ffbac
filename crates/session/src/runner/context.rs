//! The model's context: making it shorter when the agent asks for it, and showing the workspace to models that are shown it
//! anew in each round. What is decided is in the log first; the agent goes on with what the log then gives.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use agent::compaction::{Shortening, WorkState};
use agent::{FileText, Input, Window};
use llm::Model;
use protocol::event::{Compaction, CompactionLevel};
use protocol::{Actor, EventBody};
use sandbox::WORKSPACE;

use super::model::{Called, Kind, usage};
use super::{Runner, nearby};
use crate::failure::Failure;
use crate::joint::of;
use crate::process::Command;
use crate::routes::Task;
use crate::state::Retry;
use crate::workspace::directory;

/// How long git may take to tell what changed.
const LOOK: Duration = Duration::from_secs(20);
/// Most bytes of names that are looked at.
pub(super) const NAMES: usize = 64 * 1024;
/// How much of what is shown of files may be instructions for their directories: one part in so many.
const GUIDED: usize = 8;
/// Most names that a model is shown beside the files.
const NAMED: usize = 100;

/// What has changed since commit `$1`, which the session began with, committed or not: one file on each line, then files that
/// git does not know yet.
const CHANGED: &str = r#"
g() { git -c safe.directory='*' -c core.fsmonitor=false --no-pager "$@"; }
g rev-parse -q --verify "$1^{commit}" >/dev/null || set -- HEAD
g diff --stat=100 --no-color "$1"
g ls-files --others --exclude-standard | head -n 40 | sed 's/$/ (new)/'
"#;

/// The names of files, without what git ignores.
pub(super) const NAMES_OF_FILES: &str = r"
git -c safe.directory='*' -c core.fsmonitor=false ls-files --cached --others --exclude-standard 2>/dev/null ||
  find . -type f -not -path '*/.git/*' | sed 's|^\./||'
";

/// How a model is worked with that gives answers of so many tokens. What it thinks comes on top and takes room too.
pub(super) fn profile(model: &Model, answer: u32) -> agent::Profile {
    let profile = model.profile();
    agent::Profile {
        context: profile.context.saturating_sub(model.thinking(answer).into()),
        max_output: Some(profile.max_output),
        tool_mode: profile.tool_mode,
        edit_format: profile.edit_format,
        cuts_in_silence: model.provider == llm::Provider::Ollama,
    }
}

/// What a model can read.
pub(super) fn window(model: &Model) -> Window {
    let profile = model.profile();
    Window::new(profile.context, profile.max_output.into())
}

/// What came of asking for a summary.
enum Summary {
    Written(String),
    /// Nobody could write one, which was told.
    None,
    /// Another model was chosen meanwhile, or nothing more may be used.
    GivenUp,
    /// The model that works cannot be used, and there is another one.
    Failed(llm::Error),
}

/// Who sums up what a model could not.
#[derive(Clone, Copy)]
enum Instead<'a> {
    /// The model of this name, or the one that works.
    Model(Option<&'a str>),
    Nobody,
}

/// Whether a failure would be the same with any other request.
fn is_of_the_model(class: llm::Class) -> bool {
    !matches!(
        class,
        llm::Class::BadRequest
            | llm::Class::BadResponse
            | llm::Class::ContextOverflow
            | llm::Class::Unsupported
    )
}

impl Runner {
    /// Makes the context shorter, beside so many prompts in force, and records how. Without messages in the answer it could not be done. With the model comes what
    /// it turned out to read.
    pub(super) async fn compact(
        &mut self,
        (model, reads): (&mut Model, u64),
        level: CompactionLevel,
        tokens: u64,
        (room, prompts): (u64, usize),
    ) -> Result<Input, Failure> {
        // Where another server waited here, it waited for the summary.
        let resumed = if level == CompactionLevel::Summarised { self.retry.take() } else { None };
        let history = self.context.history().await?;
        let shortening = Shortening { history: &history, turn: self.turn, tokens, room, prompts };
        let compaction: Option<Compaction> = match level {
            CompactionLevel::Masked => shortening.mask(),
            CompactionLevel::Summarised => match self.summary((model, reads), &shortening, resumed).await? {
                Summary::Written(summary) => shortening.summarise(&summary, &self.work_state().await?),
                Summary::None => None,
                Summary::GivenUp => {
                    *model = self.find_model()?;
                    return Ok(self.take_on(model));
                }
                Summary::Failed(error) => return self.give_way(model, error).await,
            },
            CompactionLevel::Fresh => Some(shortening.fresh(&self.work_state().await?)),
        };
        let Some(compaction) = compaction else { return Ok(Input::Compacted { messages: None }) };
        if let Some((name, prompt)) = shortening.long_prompt() {
            let kept = tokio::fs::write(self.context.workspace.dir().join(name), prompt).await;
            if let Err(error) = kept {
                tracing::warn!(%error, "a prompt that is cut could not be kept in a file");
            }
        }
        self.append(&Actor::system(), vec![EventBody::ContextCompacted(compaction)]).await?;
        let messages = self.context.history().await?.into_messages();
        // What was left out is given again when the work comes there.
        self.known_nearby(&messages);
        Ok(Input::Compacted { messages: Some(messages) })
    }

    /// Has the older part summed up, by the model for summaries if there is one, or by those that take over from it, and else, or
    /// if they cannot, by the one that works. Each is waited for until it has failed for good once in the turn.
    async fn summary(
        &self,
        (model, reads): (&Model, u64),
        shortening: &Shortening<'_>,
        mut resumed: Option<Retry>,
    ) -> Result<Summary, Failure> {
        let mut line = self.context.options.line(Task::Summarise);
        line.retain(|routed| routed.name != model.name);
        for place in 0..=line.len() {
            let is_last = place == line.len();
            let asked = line.get(place).unwrap_or(model);
            let instead = line.get(place + 1).map(|next| next.name.as_str());
            let instead = if is_last { Instead::Nobody } else { Instead::Model(instead) };
            // The one before it may have used what was left, and another may have been chosen meanwhile.
            if self.is_over(model)? {
                return Ok(Summary::GivenUp);
            }
            let known = window(asked);
            let most = if is_last { reads } else { u64::MAX };
            let resumed = resumed.take_if(|retry| retry.model == asked.name);
            let kind = if self.sums_badly(asked) { Kind::AsideOnce } else { Kind::Aside };
            let request = |reads| shortening.summary_request(Window::new(reads, known.answer));
            let called = self.ask_shortened(asked, known.context.min(most), kind, resumed, request).await?;
            let Some(called) = called else { continue };
            let answer = match called {
                Called::Answered(answer) => answer,
                Called::GivenUp if self.is_over(model)? => return Ok(Summary::GivenUp),
                // It was for another than the one that works, and nothing changed for that one.
                Called::GivenUp => continue,
                Called::Failed(error) => {
                    if is_last && is_of_the_model(error.class) && self.has_successor(model) {
                        return Ok(Summary::Failed(error));
                    }
                    self.told_of_no_summary(asked, instead, &error.message).await?;
                    continue;
                }
            };
            if let Some(summary) = self.words_of(asked, answer, instead).await? {
                return Ok(Summary::Written(summary));
            }
        }
        Ok(Summary::None)
    }

    /// Whether this model is not to go on: another one was chosen, or nothing more may be used.
    fn is_over(&self, model: &Model) -> Result<bool, Failure> {
        Ok(self.chosen(model)?.is_some() || self.context.limits_reached().is_some())
    }

    /// Whether this turn had to do without a summary of this model before.
    fn sums_badly(&self, model: &Model) -> bool {
        self.sums_badly.lock().unwrap_or_else(PoisonError::into_inner).contains(&model.name)
    }

    /// The words of a summary; None where it has none, which is told.
    async fn words_of(
        &self,
        model: &Model,
        answer: llm::Answer,
        instead: Instead<'_>,
    ) -> Result<Option<String>, Failure> {
        // It is paid for and is no step of the turn.
        let usage = usage(self.turn, model, &answer, 0, self.context.elapsed_ms());
        self.append(&Actor::agent(model.name.clone()), vec![usage]).await?;
        match agent::summary(&answer.completion) {
            Ok(summary) => Ok(Some(summary)),
            Err(why) => {
                self.told_of_no_summary(model, instead, why).await?;
                Ok(None)
            }
        }
    }

    /// Tells people why there is no summary of this model, and what is done instead.
    async fn told_of_no_summary(
        &self,
        model: &Model,
        instead: Instead<'_>,
        why: &str,
    ) -> Result<(), Failure> {
        tracing::warn!(model = model.name, why, "the conversation could not be summed up");
        self.sums_badly.lock().unwrap_or_else(PoisonError::into_inner).insert(model.name.clone());
        let instead = match instead {
            Instead::Model(Some(next)) => format!("so {next} does it"),
            Instead::Model(None) => "so the model that works does it".to_owned(),
            Instead::Nobody => {
                "so the work goes on with the prompts and the state of the work alone".to_owned()
            }
        };
        self.tell_adapted(model, vec![format!("it could not sum up the conversation, {instead}: {why}")])
            .await
    }

    /// What is put back into a context that was made shorter.
    async fn work_state(&self) -> Result<WorkState, Failure> {
        let (plan, diagnostics) = match self.context.turn() {
            Some(turn) => {
                let failing = turn.failing.iter();
                let diagnostics =
                    failing.map(|(name, report)| (name.clone(), ::checks::digest(report))).collect();
                (turn.plan.clone(), diagnostics)
            }
            None => Default::default(),
        };
        let base = self.context.workspace.saved().map(|saved| saved.base).unwrap_or_default();
        let places = self.context.workspace.places();
        let mut diff = String::new();
        for (number, place) in places.iter().enumerate() {
            let changed = self.in_repository(place, CHANGED, &[of(&base, number)], 16 * 1024).await?;
            if places.len() > 1 && !changed.is_empty() {
                diff.push_str(&format!("In {place}/:\n"));
            }
            diff.push_str(&changed);
        }
        let skills = self.context.history().await?.loaded_skills();
        Ok(WorkState { plan, diagnostics, diff, skills })
    }

    /// The files of the workspace, with the text of those that matter most.
    pub(super) async fn survey(&self, hints: &str, room: usize) -> Result<Input, Failure> {
        let mut names: Vec<String> = Vec::new();
        for place in self.context.workspace.places() {
            let listed = self.in_repository(place, NAMES_OF_FILES, &[], NAMES).await?;
            names.extend(listed.lines().map(|name| forge::placed(place, name)));
        }
        super::tools::skill::bring_all(self).await?;
        let sandbox = self.sandbox()?;
        // What holds for the files is a part of what is shown of them.
        let guided = if names.iter().any(|name| nearby::is_guide(name)) { room / GUIDED } else { 0 };
        let mut left = room.saturating_sub(guided) as u64;
        let mut files = Vec::new();
        for path in agent::files_that_matter(&names, hints) {
            let mut text = None;
            // Instructions are told as such, unless the work is about them.
            let told = nearby::is_guide(&path) && !hints.contains(path.as_str());
            if left > 0 && !told && agent::is_worth_reading(&path, hints) {
                text = match sandbox.guest().read_file(&format!("{WORKSPACE}/{path}"), 0, left).await {
                    // A file that does not fit is not shown in part: it would be written back in part.
                    Ok((bytes, size)) if size <= left && !bytes.contains(&0) => {
                        String::from_utf8(bytes.to_vec()).ok()
                    }
                    Ok(_) | Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => None,
                    Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
                };
            }
            left -= text.as_ref().map_or(0, |text| (text.len() as u64).min(left));
            if text.is_some() || files.len() < NAMED {
                files.push(FileText { path, text });
            }
        }
        let shown: Vec<&str> =
            files.iter().filter(|file| file.text.is_some()).map(|file| file.path.as_str()).collect();
        let guides = self.guides_for(&shown, &names, guided).await?;
        Ok(Input::Surveyed { files, guides })
    }

    /// What a script prints in a repository; nothing where it fails, because it is only for show.
    async fn in_repository(
        &self,
        place: &str,
        script: &str,
        args: &[&str],
        limit: usize,
    ) -> Result<String, Failure> {
        let env = BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
        let cwd = directory(place);
        let command = Command { script, args, env, cwd: &cwd, timeout: LOOK, limit };
        match command.run(&*self.sandbox()?, Some(&self.stop)).await {
            Ok(captured) => Ok(String::from_utf8_lossy(&captured.stdout).into_owned()),
            Err(Failure::Problem(problem)) => {
                tracing::debug!(%problem, "the workspace could not be looked at");
                Ok(String::new())
            }
            Err(failure) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_thinks_takes_room_in_its_window() {
        let model = |name: &str| Model {
            name: "main".into(),
            provider: llm::Provider::OpenAi,
            model: name.into(),
            base_url: None,
            key: None,
            headers: BTreeMap::new(),
            price: None,
            overrides: llm::Overrides::default(),
        };
        assert_eq!(profile(&model("gpt-5"), 8192).context, 400_000 - 24_576);
        assert_eq!(profile(&model("gpt-4o"), 8192).context, 128_000);
    }
}
