//! Which model works on a turn: the session's own, or the one that took over from it. The log says which, so a server that
//! comes later goes on with the same; what changes there takes effect before the next call.

use std::sync::PoisonError;

use agent::Input;
use llm::Model;
use protocol::{Actor, Budgets, Code, EventBody, Problem, SessionId, ToolMode};

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

    /// Tells people, once for each model, that a limit on money does not hold because nobody knows what the model costs.
    pub(crate) async fn tell_unpriced(&self, model: &Model) -> Result<(), store::Error> {
        let in_vain = self.recorder.stream().with_state(|state| {
            let calls = state.spent().iter().filter(|spent| spent.model == model.name);
            let unpriced = calls.map(|spent| spent.spend.unpriced_calls).any(|calls| calls > 0);
            state.budgets().is_some_and(|budgets| holds_in_vain(budgets, model, unpriced))
        });
        if !in_vain {
            return Ok(());
        }
        let note = format!(
            "the limit on money does not hold, because no price is known of it: set price in [models.{}] of slipway.toml, \
             or a limit on tokens",
            model.name
        );
        self.tell_adapted(model, vec![note]).await
    }

    /// Tells people what had to be left out or done differently for this model, each thing once.
    pub(crate) async fn tell_adapted(&self, model: &Model, notes: Vec<String>) -> Result<(), store::Error> {
        for note in notes {
            // The numbers in it grow with the conversation.
            let thing =
                format!("{} {}", model.name, note.replace(|letter: char| letter.is_ascii_digit(), ""));
            let told = !self.adapted.lock().unwrap_or_else(PoisonError::into_inner).insert(thing);
            if !told {
                let problem = Problem::new(Code::ModelAdapted, format!("{}: {note}", model.name))
                    .hint("the work goes on");
                self.raise(&problem).await?;
            }
        }
        Ok(())
    }
}

/// Whether there is a limit on money that the calls of this model never come to. OpenRouter tells what each call cost, so its
/// models are not known to have no price before one was without.
fn holds_in_vain(budgets: &Budgets, model: &Model, unpriced_before: bool) -> bool {
    let limited = budgets.session.usd.is_some() || budgets.turn.usd.is_some();
    let told_by_calls = model.provider == llm::Provider::OpenRouter && !unpriced_before;
    limited && !told_by_calls && llm::price(model).is_none()
}

/// The session's model is configured no more. All of it is in the title, which is the reason of the turn.
fn gone(name: &str, models: &[Model], session: SessionId) -> Problem {
    let mut problem = crate::environments::no_model(name, models);
    if let Some(hint) = problem.hint.take() {
        problem.title = format!("{}; {hint}", problem.title);
    }
    if !models.is_empty() {
        problem.title.push_str(&format!("; to go on with another one: slipway edit {session} --model NAME"));
    }
    problem
}

impl Runner {
    /// The model that the log says is to work. One that took over and is configured no more gives way to the session's own.
    pub(super) fn find_model(&self) -> Result<Model, Problem> {
        let models = &self.context.options.models;
        let find = |name: &str| models.iter().find(|model| model.name == name).cloned();
        let own = self.context.own_model();
        find(&self.context.model())
            .or_else(|| find(&own))
            .ok_or_else(|| gone(&own, models, self.context.recorder.session()))
    }

    /// The model that is to work instead of this one, if somebody chose another.
    pub(super) fn chosen(&self, now: &Model) -> Result<Option<Model>, Problem> {
        Ok(Some(self.find_model()?).filter(|model| model.name != now.name))
    }

    /// Waits until somebody chooses another model than this one; for ever where there is none.
    pub(super) async fn another_is_chosen(&self, now: Option<&str>) {
        let Some(now) = now else { return std::future::pending().await };
        loop {
            let mut edited = std::pin::pin!(self.context.edited.notified());
            // From here on no change is missed.
            edited.as_mut().enable();
            if self.find_model().is_ok_and(|model| model.name != now) {
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

    /// Whether another one can take over from this model.
    pub(super) fn has_successor(&self, model: &Model) -> bool {
        routes::successor(&self.context.options.models, &self.context.own_model(), &model.name).is_some()
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
        Ok(self.context.tell_adapted(model, notes).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, provider: llm::Provider) -> Model {
        Model {
            name: name.into(),
            provider,
            model: "m".into(),
            base_url: None,
            key: None,
            headers: Default::default(),
            price: None,
            overrides: llm::Overrides::default(),
        }
    }

    #[test]
    fn a_model_that_is_gone_says_which_there_are_and_how_to_choose_one() {
        let session = SessionId::new();
        let models = ["a", "b"].map(|name| model(name, llm::Provider::Ollama));
        let said = gone("c", &models, session).title;
        assert_eq!(
            said,
            format!(
                "there is no model \"c\"; the models are: a, b; to go on with another one: slipway edit {session} --model NAME"
            )
        );
        assert!(gone("c", &[], session).title.starts_with("no model is configured; set "));
    }

    #[test]
    fn a_limit_on_money_needs_a_price() {
        let limit = |usd| Budgets {
            turn: protocol::Budget { usd, ..Default::default() },
            session: protocol::Budget { tokens: Some(1), ..Default::default() },
        };
        let server = model("a", llm::Provider::OpenAiCompatible);
        assert!(holds_in_vain(&limit(Some(1.0)), &server, false));
        assert!(!holds_in_vain(&limit(None), &server, true));
        let priced = Model { price: llm::price(&model("a", llm::Provider::Ollama)), ..server };
        assert!(!holds_in_vain(&limit(Some(1.0)), &priced, true));
        let router = model("a", llm::Provider::OpenRouter);
        assert!(!holds_in_vain(&limit(Some(1.0)), &router, false));
        assert!(holds_in_vain(&limit(Some(1.0)), &router, true));
    }
}
