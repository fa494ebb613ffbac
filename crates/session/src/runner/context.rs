//! The model's context: making it shorter when the agent asks for it, and showing the workspace to models that are shown it
//! anew in each round. What is decided is in the log first; the agent goes on with what the log then gives.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::compaction::{Shortening, WorkState};
use agent::{FileText, Input, Window};
use llm::Model;
use protocol::chat::{Part, Request, Stop};
use protocol::event::{Compaction, CompactionLevel};
use protocol::{Actor, EventBody};
use sandbox::WORKSPACE;

use super::model::usage;
use super::{Runner, nearby};
use crate::failure::Failure;
use crate::process::Command;
use crate::routes::Task;

/// How long git may take to tell what changed.
const LOOK: Duration = Duration::from_secs(20);
/// Most bytes of names that are looked at.
pub(super) const NAMES: usize = 64 * 1024;
/// How much of what is shown of files may be instructions for their directories: one part in so many.
const GUIDED: usize = 8;
/// Most names that a model is shown beside the files.
const NAMED: usize = 100;

/// What the turn has changed, one file on each line, then files that are new.
const CHANGED: &str = r#"
g() { git -c safe.directory='*' -c core.fsmonitor=false --no-pager "$@"; }
g diff --stat=100 --no-color HEAD
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

impl Runner {
    /// Makes the context shorter, beside so many prompts in force, and records how. Without messages in the answer it could not be done. With the model comes what
    /// it turned out to read.
    pub(super) async fn compact(
        &self,
        model: (&Model, u64),
        level: CompactionLevel,
        tokens: u64,
        (room, prompts): (u64, usize),
    ) -> Result<Input, Failure> {
        let history = self.context.history().await?;
        let shortening = Shortening { history: &history, turn: self.turn, tokens, room, prompts };
        let compaction: Option<Compaction> = match level {
            CompactionLevel::Masked => shortening.mask(),
            CompactionLevel::Summarised => {
                let summary = self.summary(model, &shortening).await?;
                match summary {
                    Some(summary) => shortening.summarise(&summary, &self.work_state().await?),
                    None => None,
                }
            }
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

    /// Has the older part summed up, by the model for summaries if there is one, and else, or if that one cannot, by the one
    /// that works. None when nobody did.
    async fn summary(
        &self,
        (model, reads): (&Model, u64),
        shortening: &Shortening<'_>,
    ) -> Result<Option<String>, Failure> {
        let routed = self.context.options.routed(Task::Summarise).filter(|routed| routed.name != model.name);
        // Nobody waits for a model while there is another.
        let asked = routed.map(|routed| (routed, u64::MAX, false)).into_iter().chain([(model, reads, true)]);
        for (model, most, patient) in asked {
            let known = window(model);
            let window = Window::new(known.context.min(most), known.answer);
            let Some(request) = shortening.summary_request(window) else { continue };
            if let Some(summary) = self.summed_up(model, &request, patient).await? {
                return Ok(Some(summary));
            }
        }
        Ok(None)
    }

    async fn summed_up(
        &self,
        model: &Model,
        request: &Request,
        patient: bool,
    ) -> Result<Option<String>, Failure> {
        let mut failures = llm::Failures::default();
        let answer = loop {
            let mut meter = llm::Meter::default();
            let mut unseen = |delta| meter.push(&delta);
            let call = self.context.client.complete(model, request, &mut unseen);
            let result = tokio::select! {
                biased;
                () = self.stop.given() => {
                    self.record_in_vain(model, meter.used()).await?;
                    return Err(Failure::Stopped);
                }
                result = call => result,
            };
            match result {
                Ok(answer) => break answer,
                Err(error) => {
                    self.record_in_vain(model, error.usage).await?;
                    if !patient || !self.wait_to_retry(model, &error, &mut failures).await? {
                        self.told_of_no_summary(model, patient, &error.message).await?;
                        return Ok(None);
                    }
                }
            }
        };
        // It is paid for and is no step of the turn.
        let usage = usage(self.turn, model, &answer, 0, self.context.elapsed_ms());
        self.append(&Actor::agent(model.name.clone()), vec![usage]).await?;
        // The words of a refusal tell nothing of what was done.
        if answer.completion.stop == Stop::Refusal {
            self.told_of_no_summary(model, patient, "it refused to").await?;
            return Ok(None);
        }
        let parts = answer.completion.parts.into_iter();
        let text: Vec<String> = parts
            .filter_map(|part| match part {
                Part::Text { text } => Some(text),
                Part::Reasoning { .. } | Part::Call(_) => None,
            })
            .collect();
        let summary = agent::beside_thoughts(&text.join("\n")).map(str::to_owned);
        if summary.is_none() {
            self.told_of_no_summary(model, patient, "its answer has no words in it").await?;
        }
        Ok(summary)
    }

    /// Tells why there is no summary of this model. Where another one is asked for it, people are told too: they named this one.
    async fn told_of_no_summary(&self, model: &Model, is_last: bool, why: &str) -> Result<(), Failure> {
        tracing::warn!(model = model.name, why, "the conversation could not be summed up");
        if !is_last {
            let note =
                format!("it could not sum up the conversation, so the model that works does it: {why}");
            self.tell_adapted(model, vec![note]).await?;
        }
        Ok(())
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
        let diff = self.in_workspace(CHANGED, 16 * 1024).await?;
        let skills = self.context.history().await?.loaded_skills();
        Ok(WorkState { plan, diagnostics, diff, skills })
    }

    /// The files of the workspace, with the text of those that matter most.
    pub(super) async fn survey(&self, hints: &str, room: usize) -> Result<Input, Failure> {
        let names: Vec<String> =
            self.in_workspace(NAMES_OF_FILES, NAMES).await?.lines().map(str::to_owned).collect();
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

    /// What a script prints in the workspace; nothing where it fails, because it is only for show.
    async fn in_workspace(&self, script: &str, limit: usize) -> Result<String, Failure> {
        let env = BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
        let command = Command { script, args: &[], env, cwd: WORKSPACE, timeout: LOOK, limit };
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
