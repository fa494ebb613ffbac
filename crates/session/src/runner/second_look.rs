//! A second look at work whose checks passed, by the model that the route `judge` names. What it doubts goes back to the model
//! that works, once in a turn; after that people are told. It never keeps work from being handed over: it may be wrong, and
//! whoever wants a person's word before that has approvals.

use agent::judgement;
use protocol::event::{Judgement, Verdict};
use protocol::{Actor, EventBody};

use super::context::window;
use super::model::{Called, Kind, usage};
use super::{Runner, checks};
use crate::failure::Failure;
use crate::routes::Task;
use crate::workspace::Patience;

/// What this is called where failing checks are named.
const CHECK: &str = "judge";

impl Runner {
    /// Has a tree judged that passed its checks. Gives what the model that works is to be told of it.
    pub(super) async fn look_again(&mut self, tree: &str) -> Result<Option<agent::CheckResult>, Failure> {
        let Some(model) = self.context.options.routed(Task::Judge).cloned() else { return Ok(None) };
        // Of a turn that is nearly over its budget nothing is left to judge with.
        if self.context.limits_reached().is_some() {
            return Ok(None);
        }
        let sandbox = self.sandbox()?;
        let patience = Patience::unless(&self.stop);
        let patch = match self.context.workspace.patch(&*sandbox, tree, patience).await {
            Ok(patch) if !patch.is_empty() => patch,
            Ok(_) | Err(Failure::Problem(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let request = judgement::request(&self.task, &patch, window(&model));
        let answer = match self.ask_aside(&model, &request, Kind::AsideOnce, None).await? {
            Called::Answered(answer) => answer,
            Called::GivenUp => return Ok(None),
            Called::Failed(error) => {
                self.told_of_no_judgement(&model, &error.message).await?;
                return Ok(None);
            }
        };
        // It is paid for and is no step of the turn.
        let used = usage(self.turn, &model, &answer, 0, self.context.elapsed_ms());
        let (verdict, words) = match judgement::read(&answer.completion) {
            Ok(read) => read,
            Err(why) => {
                self.append(&Actor::agent(model.name.clone()), vec![used]).await?;
                self.told_of_no_judgement(&model, why).await?;
                return Ok(None);
            }
        };
        let judgement = Judgement { model: model.name.clone(), verdict, words: words.clone() };
        let judged = EventBody::WorkJudged { turn: self.turn, judgement };
        self.append(&Actor::agent(model.name.clone()), vec![used, judged]).await?;
        if verdict == Verdict::Good || std::mem::replace(&mut self.doubt_told, true) {
            return Ok(None);
        }
        Ok(Some(checks::failed(CHECK.to_owned(), doubt(&words))))
    }

    async fn told_of_no_judgement(&self, model: &llm::Model, why: &str) -> Result<(), Failure> {
        self.tell_adapted(
            model,
            vec![format!("it could not judge the work, which is handed over without that: {why}")],
        )
        .await
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
