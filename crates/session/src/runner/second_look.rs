//! A second look at work whose checks passed, by the model that the route `judge` names, or by those that take over from it. What it doubts goes back to the model
//! that works, once in a turn; after that people are told. It never keeps work from being handed over: it may be wrong, and
//! whoever wants a person's word before that has approvals.

use agent::judgement;
use llm::Model;
use protocol::event::{Judgement, Verdict};
use protocol::{Actor, EventBody};

use super::context::profile;
use super::model::{Called, Kind, usage};
use super::{Runner, checks};
use crate::failure::Failure;
use crate::routes::Task;
use crate::workspace::Patience;

/// What this is called where failing checks are named.
const CHECK: &str = "judge";
/// Why a turn that is over its budget is not judged.
const NOTHING_LEFT: &str = "nothing is left of the budget";

/// What came of asking for a judgement.
enum Judged {
    Said(Verdict, String),
    /// Why there is none.
    Not(String),
}

impl Runner {
    /// Has a tree judged that passed its checks. Gives what the model that works is to be told of it.
    pub(super) async fn look_again(&mut self, tree: &str) -> Result<Option<agent::CheckResult>, Failure> {
        let line = self.context.options.line(Task::Judge);
        let Some(first) = line.first() else { return Ok(None) };
        let sandbox = self.sandbox()?;
        let patience = Patience::unless(&self.stop);
        let patch = match self.context.workspace.patch(&*sandbox, tree, patience).await {
            Ok(patch) if !patch.is_empty() => patch,
            Ok(_) | Err(Failure::Problem(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        // While it is judged, its time can be over: that ends the call, and the work is finished all the same.
        let for_judge = self.stop.child();
        let before = std::mem::replace(&mut self.stop, for_judge);
        let clock = self.clock();
        let judged = Box::pin(self.ask_judges(&line, &patch)).await;
        drop(clock);
        let judge = std::mem::replace(&mut self.stop, before);
        let verdict = match judged {
            Err(Failure::Stopped) if judge.is_given() && !self.stop.is_given() => {
                self.told_of_no_judgement(first, None, NOTHING_LEFT).await?;
                None
            }
            other => other?,
        };
        // Once in a turn, also where another server was told it: the step after that is in the log.
        let told = self.context.turn().is_some_and(|turn| turn.doubt_was_told());
        Ok(match verdict {
            Some((Verdict::Doubtful, words)) if !told => {
                Some(checks::failed(CHECK.to_owned(), doubt(&words)))
            }
            Some(_) | None => None,
        })
    }

    /// Asks one model after the other, each until it has failed for good. None where there is no judgement, which is told.
    async fn ask_judges(
        &mut self,
        line: &[Model],
        patch: &str,
    ) -> Result<Option<(Verdict, String)>, Failure> {
        // Where another server waited here, it waited for one of them.
        let mut resumed = self.retry.take();
        for (place, model) in line.iter().enumerate() {
            // Of a turn that is over its budget nothing is left to judge with.
            if self.context.limits_reached().is_some() {
                self.told_of_no_judgement(model, None, NOTHING_LEFT).await?;
                return Ok(None);
            }
            let resumed = resumed.take_if(|retry| retry.model == model.name);
            let reads = profile(model, judgement::ANSWER).context;
            let request = |reads| Some(judgement::request(&self.task, patch, reads));
            let called = self.ask_shortened(model, reads, Kind::Verdict, resumed, request).await?;
            let why = match called {
                Some(Called::Answered(answer)) => match self.said(model, answer).await? {
                    Judged::Said(verdict, words) => return Ok(Some((verdict, words))),
                    Judged::Not(why) => why,
                },
                Some(Called::Failed(error)) => error.message,
                Some(Called::GivenUp) | None => continue,
            };
            self.told_of_no_judgement(model, line.get(place + 1), &why).await?;
        }
        Ok(None)
    }

    /// Records what a model said of the work.
    async fn said(&self, model: &Model, answer: llm::Answer) -> Result<Judged, Failure> {
        // It is paid for and is no step of the turn.
        let used = usage(self.turn, model, &answer, 0, self.context.elapsed_ms());
        let actor = Actor::agent(model.name.clone());
        let (verdict, words) = match judgement::read(&answer.completion) {
            Ok(read) => read,
            Err(why) => {
                self.append(&actor, vec![used]).await?;
                return Ok(Judged::Not(why.to_owned()));
            }
        };
        let judgement = Judgement { model: model.name.clone(), verdict, words: words.clone() };
        let judged = EventBody::WorkJudged { turn: self.turn, judgement };
        self.append(&actor, vec![used, judged]).await?;
        Ok(Judged::Said(verdict, words))
    }

    async fn told_of_no_judgement(
        &self,
        model: &Model,
        next: Option<&Model>,
        why: &str,
    ) -> Result<(), Failure> {
        let instead = match next {
            Some(next) => format!("so {} does it", next.name),
            None => "which is handed over without that".to_owned(),
        };
        self.tell_adapted(model, vec![format!("it could not judge the work, {instead}: {why}")]).await
    }
}

/// What the model that works is told.
fn doubt(words: &str) -> String {
    format!(
        "The checks passed. A model that was shown the task and your changes doubts that they do what was asked for:\n\n{}\n\nIt \
         may be wrong. Mend what is right of this; where it is wrong, leave the work as it is and say why.",
        words.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
    )
}
