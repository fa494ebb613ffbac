//! A question of the model to a person. The turn waits for the answer as it waits for an approval: it is in the log and
//! nowhere else, and the answer, whenever it comes, is the result of the call.

use std::time::Instant;

use agent::Input;
use agent::tools::{NOBODY_ANSWERS, Offers};
use protocol::{AskedCall, Decision, Gate, Item, ItemKind};

use super::Runner;
use super::tools::{Done, ToolEnd};
use crate::failure::Failure;

impl Runner {
    /// Tools that this session has beside those that every session has.
    pub(super) fn offers(&self) -> Offers {
        let workspace = &self.context.workspace;
        let memory = workspace.remembers();
        let skills = self.pinned_skills().is_some_and(|skills| !skills.is_empty());
        Offers { ask: workspace.may_ask(), web: workspace.reaches_out(), memory, skills }
    }

    /// Asks a person, and lets the turn wait; where nobody answers, the model is told so at once.
    pub(super) async fn ask_person(
        &mut self,
        item: Item,
        question: String,
        options: Vec<String>,
    ) -> Result<Input, Failure> {
        let ItemKind::ToolCall(call) = &item.kind else {
            return self.close_call(item, Instant::now(), Ok(nobody())).await;
        };
        if !self.context.workspace.may_ask() {
            return self.close_call(item, Instant::now(), Ok(nobody())).await;
        }
        let asked = AskedCall {
            item: item.id,
            tool: call.tool.clone(),
            input: call.input.clone(),
            why: "the agent asks".to_owned(),
            kind: Vec::new(),
            after_every: false,
            options,
            diff: None,
        };
        self.ask_for(Gate::Question, asked, None, |_, _| question).await
    }

    /// Ends a question with what a person said.
    pub(super) async fn take_answer(&mut self, item: &Item, decision: &Decision) -> Result<(), Failure> {
        let by = &decision.by;
        let text = match (decision.approved, decision.comment.as_deref()) {
            (true, Some(answer)) => format!("{by} answered: {answer}"),
            (false, Some(said)) => {
                format!("{by} did not answer, and said: {said}\nDecide yourself, and name what you assumed.")
            }
            (_, None) => format!("{by} did not answer. Decide yourself, and name what you assumed."),
        };
        let ended = Ok(ToolEnd::Ended(Done::ok(text)));
        self.close_call(item.clone(), Instant::now(), ended).await.map(drop)
    }
}

fn nobody() -> ToolEnd {
    ToolEnd::Ended(Done::error(NOBODY_ANSWERS))
}
