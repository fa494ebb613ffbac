//! What people do to a session's queue and its turn: change the queue, stop, decide.

use protocol::event::Delivery;
use protocol::{
    Actor, ApprovalId, Code, CreatePrompt, Decide, Decision, DeliverSession, EditPrompt, EditSession, Event,
    EventBody, Place, Problem, PromptId, Queue, Session, SessionId, SetQueue, StopSession, Stopped,
};

use crate::actor::{Change, Changed, Handle};
use crate::command::Cause;
use crate::registry::check_prompt;
use crate::runner::delivery;
use crate::{Sessions, problem};

/// Longest title that a person gives, in characters.
const TITLE_LIMIT: usize = 200;

/// Longest comment of a decision.
const COMMENT_LIMIT: usize = 64 * 1024;

impl Sessions {
    /// Queues a prompt. With `now` it goes before all others that wait and the turn under way is stopped for it, in one
    /// step; of several of these the latest is the first. A paused queue stays paused.
    pub async fn send(
        &self,
        id: SessionId,
        actor: Actor,
        request: CreatePrompt,
    ) -> Result<PromptId, Problem> {
        self.send_as(PromptId::new(), id, actor, request).await
    }

    /// The same with an id that was chosen before. Whoever does not know whether this was done asks
    /// [`Self::has_prompt`] first.
    pub async fn send_as(
        &self,
        prompt: PromptId,
        id: SessionId,
        actor: Actor,
        request: CreatePrompt,
    ) -> Result<PromptId, Problem> {
        self.registry.prompt(id, prompt, actor, request).await
    }

    /// Whether this prompt was ever queued in the session.
    pub async fn has_prompt(&self, id: SessionId, wanted: PromptId) -> Result<bool, Problem> {
        let queues =
            |body: &EventBody| matches!(body, EventBody::PromptQueued { prompt, .. } if *prompt == wanted);
        let (mut found, handle) = (false, self.registry.open(id).await?);
        handle.recorder().visit(|event| found |= queues(&event.body)).await.map_err(problem::store)?;
        Ok(found)
    }

    /// The prompts that wait.
    pub async fn queue(&self, id: SessionId) -> Result<Queue, Problem> {
        Ok(queue(&self.registry.open(id).await?))
    }

    /// Gives a waiting prompt another text or place.
    pub async fn edit_prompt(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        prompt: PromptId,
        edit: EditPrompt,
    ) -> Result<Queue, Problem> {
        if edit == EditPrompt::default() {
            return Err(Problem::new(Code::BadRequest, "nothing is to be changed")
                .hint("give a new text as prompt, a new place, or both"));
        }
        if edit.place == Some(Place::Before(prompt)) {
            return Err(Problem::new(Code::BadRequest, "a prompt cannot come before itself"));
        }
        if let Some(text) = &edit.prompt {
            check_prompt(text)?;
        }
        let (handle, cause) = (self.registry.open(id).await?, cause.into());
        if let Some(then) = cause.done(&handle).await? {
            return Ok(then.queue());
        }
        match handle.change(cause, Change::Edit { prompt, edit }).await? {
            Changed::Queue(queue) => Ok(queue),
            Changed::NotWaiting(prompt) => Err(match fate(&handle, prompt).await? {
                Fate::Unknown => no_prompt(prompt),
                Fate::Begun => begun(prompt),
                Fate::Removed => Problem::new(Code::Conflict, format!("the prompt {prompt} was removed"))
                    .hint("queue it again as a new one"),
            }),
        }
    }

    /// Takes a waiting prompt out of the queue. One that was taken out before is no error.
    pub async fn remove_prompt(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        prompt: PromptId,
    ) -> Result<Queue, Problem> {
        let (handle, cause) = (self.registry.open(id).await?, cause.into());
        if let Some(then) = cause.done(&handle).await? {
            return Ok(then.queue());
        }
        match handle.change(cause, Change::Remove { prompt }).await? {
            Changed::Queue(queue) => Ok(queue),
            Changed::NotWaiting(prompt) => match fate(&handle, prompt).await? {
                Fate::Unknown => Err(no_prompt(prompt)),
                Fate::Begun => Err(begun(prompt)),
                Fate::Removed => Ok(queue(&handle)),
            },
        }
    }

    /// Pauses the queue or lets it go on. What is under way is not touched.
    pub async fn set_queue(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        set: SetQueue,
    ) -> Result<Queue, Problem> {
        let (handle, cause) = (self.registry.open(id).await?, cause.into());
        if let Some(then) = cause.done(&handle).await? {
            return Ok(then.queue());
        }
        handle.change(cause, Change::Pause { paused: set.paused }).await?;
        Ok(queue(&handle))
    }

    /// Gives a session another title, model, budget or policy. The model works from the next step on, also in a turn under way.
    pub async fn edit(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        edit: EditSession,
    ) -> Result<Session, Problem> {
        let edit = self.check_edit(edit)?;
        let (handle, cause) = (self.registry.open(id).await?, cause.into());
        if let Some(then) = cause.done(&handle).await? {
            return then.to_session().ok_or_else(|| problem::no_session(id));
        }
        handle.edit(cause, edit).await
    }

    /// The change with a title as titles are, if it can be made.
    fn check_edit(&self, mut edit: EditSession) -> Result<EditSession, Problem> {
        if edit == EditSession::default() {
            return Err(Problem::new(Code::BadRequest, "nothing is to be changed")
                .hint("give a new title, another model, other budgets, another policy, or say whether it is archived"));
        }
        if let Some(title) = &mut edit.title {
            *title = title
                .split(|letter: char| letter.is_whitespace() || letter.is_control())
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(" ");
            if title.is_empty() || title.chars().count() > TITLE_LIMIT {
                return Err(Problem::new(Code::BadRequest, "this is no title for a session")
                    .hint(format!("use one line of up to {TITLE_LIMIT} characters")));
            }
        }
        if let Some(budgets) = &edit.budgets {
            crate::budget::validate(budgets)?;
        }
        edit.policy.as_ref().map_or(Ok(()), crate::environments::check_policy)?;
        let models = &self.registry.options.models;
        if let Some(model) =
            edit.model.as_ref().filter(|name| !models.iter().any(|known| known.name == **name))
        {
            return Err(crate::environments::no_model(model, models));
        }
        Ok(edit)
    }

    /// Stops the turn under way, like [`Self::stop`]; with `pause` the queue stays where it is.
    pub async fn stop_with(
        &self,
        id: SessionId,
        cause: impl Into<Cause>,
        request: StopSession,
    ) -> Result<Stopped, Problem> {
        let (handle, cause) = (self.registry.open(id).await?, cause.into());
        if let Some(then) = cause.done(&handle).await? {
            let turn = then.turn().map(|turn| turn.id);
            let delivers = then.delivery().is_some_and(|delivery| delivery.state.is_pending());
            return Ok(Stopped { turn, delivery: turn.is_none() && delivers });
        }
        let came_later = cause.begun_before().is_some_and(|command| {
            handle.recorder().stream().with_state(|state| state.works_on_later_than(command))
        });
        if !came_later {
            return handle.stop(cause, request.pause).await;
        }
        // What was meant is over, and what came after it is not to suffer for it.
        if request.pause {
            handle.change(cause, Change::Pause { paused: true }).await?;
        }
        Ok(Stopped::default())
    }

    /// Delivers, unless the same command did so before: then what came of that is the answer.
    pub(crate) async fn deliver_once(
        &self,
        id: SessionId,
        cause: Cause,
        request: DeliverSession,
    ) -> Result<Delivery, Problem> {
        let handle = self.registry.open(id).await?;
        // Whoever delivers has put right what was wrong at the forge.
        handle.recorder().reply_again();
        if let Some(then) = cause.done(&handle).await?
            && let Some(ended) = then.delivery().filter(|delivery| !delivery.state.is_pending())
        {
            return delivery::answer(ended.clone());
        }
        handle.deliver(cause, request).await
    }

    /// Decides an approval. Whoever is first decides: the same decision again gives the first one, another one is a
    /// conflict that says who decided what.
    pub async fn decide(
        &self,
        id: SessionId,
        actor: Actor,
        approval: ApprovalId,
        decide: Decide,
    ) -> Result<Decision, Problem> {
        if let Some(comment) = decide.comment.as_ref().filter(|comment| comment.len() > COMMENT_LIMIT) {
            return Err(Problem::new(
                Code::TooLarge,
                format!("the comment has {} bytes; {COMMENT_LIMIT} are allowed", comment.len()),
            ));
        }
        self.registry.open(id).await?.decide(actor, approval, decide).await
    }
}

fn queue(handle: &Handle) -> Queue {
    handle.recorder().stream().with_state(|state| state.queue())
}

/// What became of a prompt that does not wait.
enum Fate {
    Unknown,
    Begun,
    Removed,
}

/// Looks it up in the log; nobody asks often.
async fn fate(handle: &Handle, wanted: PromptId) -> Result<Fate, Problem> {
    let mut fate = Fate::Unknown;
    let look = |event: &Event| match event.body {
        EventBody::TurnStarted { prompt, .. } if prompt == wanted => fate = Fate::Begun,
        EventBody::PromptRemoved { prompt, .. } if prompt == wanted => fate = Fate::Removed,
        _ => {}
    };
    handle.recorder().visit(look).await.map_err(problem::store)?;
    Ok(fate)
}

fn no_prompt(prompt: PromptId) -> Problem {
    Problem::new(Code::NotFound, format!("the session has no prompt {prompt}"))
        .hint("`slipway queue` lists those that wait")
}

fn begun(prompt: PromptId) -> Problem {
    Problem::new(Code::Conflict, format!("the prompt {prompt} does not wait any more: its turn has begun"))
        .hint("stop the turn, or send another prompt")
}
