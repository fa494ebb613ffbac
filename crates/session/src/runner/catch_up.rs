//! What a turn takes in before its work begins: what others pushed to the branch once that is delivered; and, where that is asked
//! for, what the base has become. What others push while it works is taken in when the work is to be handed over.

use protocol::{Actor, Problem, PromptId, SessionId};

use super::Runner;
use crate::Sessions;
use crate::failure::Failure;
use crate::state::{State, TurnState};
use crate::workspace::Look;

/// How a prompt begins that wants the base in the work.
pub(crate) const UPDATE: &str = "Bring the branch up to date with its base.";

/// The whole of it.
const PROMPT: &str = " The platform merges it into the workspace before you begin, and tells you of conflicts. Resolve them, see \
                      that the work still does what it should, and run the checks. Change nothing else.";

impl Sessions {
    /// Queues a turn that brings the session's branch up to date with what it began from.
    pub async fn rebase(&self, id: SessionId, actor: Actor, prompt: PromptId) -> Result<PromptId, Problem> {
        let text = format!("{UPDATE}{PROMPT}");
        let request = protocol::CreatePrompt { prompt: text, now: false, images: Vec::new() };
        self.send_as(prompt, id, actor, request).await
    }
}

/// The prompt that a comment stands for which asks for nothing else.
pub(crate) fn update_prompt() -> String {
    format!("{UPDATE}{PROMPT}")
}

impl Runner {
    /// Whether the turn takes something in, so that it waits for the sandbox first.
    pub(super) fn catches_up(&self, turn: &TurnState) -> bool {
        turn.steps() == 0 && (wants_base(turn) || self.is_from_forge(turn) || self.is_delivered())
    }

    /// Whether the branch is where others can push to it.
    fn is_delivered(&self) -> bool {
        self.context.recorder.stream().with_state(|state| !state.all_deliveries().is_empty())
    }

    /// Takes in what others pushed while the turn worked. Gives what the model has to do about it.
    pub(super) async fn take_late(&self) -> Result<Option<String>, Failure> {
        if !self.is_delivered() {
            return Ok(None);
        }
        let sandbox = self.sandbox()?;
        match self.context.workspace.take_theirs(&*sandbox, Look::End, &self.stop).await {
            Ok(text) => {
                Ok(text.map(|text| format!("{text}\nSee that the work fits what came, and finish then.")))
            }
            // What cannot be had now is seen by the push.
            Err(Failure::Problem(problem)) => {
                tracing::info!(%problem, "what others pushed could not be taken in");
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    fn is_from_forge(&self, turn: &TurnState) -> bool {
        let system = Actor::system().id;
        turn.authors.first() == Some(&system)
            || self
                .context
                .recorder
                .stream()
                .with_state(|state| state.replies().iter().any(|reply| reply.prompt == turn.prompt))
    }

    /// Takes it in; what cannot be had now is told, and the work goes on.
    pub(super) async fn catch_up(&mut self, turn: &TurnState) -> Result<(), Failure> {
        let Some(sandbox) = self.sandbox.clone().filter(|_| self.catches_up(turn) && self.sync.is_none())
        else {
            return Ok(());
        };
        // Whoever stops the turn does not wait for a forge; what follows sees the stop.
        tokio::select! {
            () = crate::pull_requests::ask_again(&self.context) => {}
            () = self.stop.given() => {}
        }
        let workspace = &self.context.workspace;
        let asked = wants_base(turn) || self.is_from_forge(turn);
        let look = if asked { Look::Asked } else { Look::Begin };
        let theirs = workspace.take_theirs(&*sandbox, look, &self.stop).await;
        // What was merged is in the base, often as another commit: work on top of it goes on from there.
        let is_merged = self.context.recorder.stream().with_state(State::was_merged);
        let base = match (wants_base(turn) || is_merged) && theirs.is_ok() {
            true => workspace.take_base(&*sandbox, &self.stop).await,
            false => Ok(None),
        };
        for taken in [theirs, base] {
            match taken {
                Ok(Some(text)) => self.notice(text).await?,
                Ok(None) => {}
                Err(Failure::Problem(problem)) => {
                    self.notice(format!("What came about outside could not be taken in: {}", problem.title))
                        .await?;
                    self.context.raise(&problem).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

fn wants_base(turn: &TurnState) -> bool {
    turn.text.starts_with(UPDATE)
}
