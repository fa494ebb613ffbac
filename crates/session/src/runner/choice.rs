//! Which model works on a turn: the session's own, or the one that took over from it. The log says which, so a server that
//! comes later goes on with the same; what changes there takes effect before the next call.

use std::sync::PoisonError;

use agent::Input;
use llm::Model;
use protocol::{Actor, Code, EventBody, Problem, ToolMode};

use super::model::plain;
use super::{Context, Runner, context};
use crate::failure::Failure;
use crate::{problem, routes};

impl Context {
    /// Name of the model that works now.
    pub(crate) fn model(&self) -> String {
        self.recorder.stream().with_state(|state| state.model().to_owned())
    }

    /// Name of the session's own model.
    fn own_model(&self) -> String {
        let own = |state: &crate::state::State| state.created().map(|created| created.model.clone());
        self.recorder.stream().with_state(own).unwrap_or_default()
    }
}

impl Runner {
    /// The model that the log says is to work. One that took over and is configured no more gives way to the session's own.
    pub(super) fn find_model(&self) -> Result<Model, Problem> {
        let models = &self.context.options.models;
        let find = |name: &str| models.iter().find(|model| model.name == name).cloned();
        let own = self.context.own_model();
        find(&self.context.model())
            .or_else(|| find(&own))
            .ok_or_else(|| crate::environments::no_model(&own, models))
    }

    /// The model that is to work instead of this one, if somebody chose another.
    pub(super) fn chosen(&self, now: &Model) -> Result<Option<Model>, Problem> {
        Ok(Some(self.find_model()?).filter(|model| model.name != now.name))
    }

    /// Waits until somebody chooses another model than this one.
    pub(super) async fn another_is_chosen(&self, now: &Model) {
        loop {
            let mut edited = std::pin::pin!(self.context.edited.notified());
            // From here on no change is missed.
            edited.as_mut().enable();
            if matches!(self.chosen(now), Ok(Some(_))) {
                return;
            }
            edited.await;
        }
    }

    /// Works with this model from now on; gives what tells the agent.
    pub(super) fn take_on(&mut self, model: &Model) -> Input {
        self.agent = Actor::agent(model.name.clone());
        self.window = context::window(model);
        self.may_insist = model.profile().tool_mode == ToolMode::Native;
        self.in_rounds = model.profile().tool_mode == ToolMode::Fenced;
        Input::ModelChanged { profile: context::profile(model, self.context.options.turn.max_output_tokens) }
    }

    /// A model failed for good. The next of the list takes over for the rest of the turn; when there is none, the turn fails
    /// with what became of each, and what waits does not run into the same.
    pub(super) async fn give_way(&mut self, model: &mut Model, error: llm::Error) -> Result<Input, Failure> {
        let (from, reason) = (model.name.clone(), format!("{}: {}", plain(error.class), error.message));
        let own = self.context.own_model();
        let next = routes::successor(&self.context.options.models, &own, &from);
        let Some(next) = next else {
            return self.all_failed(from, reason, error).await;
        };
        let changed = EventBody::ModelChanged {
            model: next.name.clone(),
            from: from.clone(),
            turn: Some(self.turn),
            reason: Some(reason),
            command: None,
        };
        // Somebody may have chosen another one meanwhile, and that counts.
        let decide = move |state: &crate::state::State| {
            (Vec::from_iter((state.model() == from).then_some(changed)), ())
        };
        self.context.recorder.append_if(&Actor::system(), decide).await?;
        *model = self.find_model()?;
        Ok(self.take_on(model))
    }

    async fn all_failed(
        &mut self,
        name: String,
        reason: String,
        error: llm::Error,
    ) -> Result<Input, Failure> {
        self.models_failed = true;
        let mut tried = self.context.turn().map(|turn| turn.failed_models).unwrap_or_default();
        let message = if tried.is_empty() {
            error.message
        } else {
            tried.push((name, reason));
            let each = tried.iter().map(|(name, reason)| format!("{name}: {}", reason.trim_end_matches('.')));
            format!("no model could do the work. {}", each.collect::<Vec<_>>().join("; "))
        };
        let mut problem = problem::model(&llm::Error { message: message.clone(), ..error });
        let another = format!("slipway edit {} --model NAME", self.context.recorder.session());
        problem.hint = problem.hint.map(|hint| format!("{hint}; to go on with another model: {another}"));
        self.context.raise(&problem).await?;
        Ok(Input::ModelFailed { message })
    }

    /// Tells people what had to be left out or written differently for this model, each thing once.
    pub(super) async fn tell_adapted(&self, model: &Model, notes: Vec<String>) -> Result<(), Failure> {
        for note in notes {
            // The numbers in it grow with the conversation.
            let thing =
                format!("{} {}", model.name, note.replace(|letter: char| letter.is_ascii_digit(), ""));
            let told = !self.context.adapted.lock().unwrap_or_else(PoisonError::into_inner).insert(thing);
            if !told {
                let problem = Problem::new(Code::ModelAdapted, format!("{}: {note}", model.name))
                    .hint("the work goes on");
                self.context.raise(&problem).await?;
            }
        }
        Ok(())
    }
}
