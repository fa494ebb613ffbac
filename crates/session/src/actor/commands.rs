//! What a command means for a session, as events that follow from its state: pure, and decided in the same step in which
//! it is appended, so that whoever asks second finds what the first one did.

use protocol::{
    ApprovalId, Code, CommandId, Decide, Decision, EditPrompt, EditSession, EventBody, Item, ItemId,
    ItemKind, ItemStatus, Place, Problem, PromptId, Queue, TurnId,
};

use crate::budget;
use crate::state::State;

/// A change of the queue.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A waiting prompt gets another text or place.
    Edit { prompt: PromptId, edit: EditPrompt },
    /// A waiting prompt goes.
    Remove { prompt: PromptId },
    /// Waiting prompts stay where they are, or go on.
    Pause { paused: bool },
}

/// What came of a change.
#[derive(Debug, Clone)]
pub(crate) enum Changed {
    /// The queue as it is now.
    Queue(Queue),
    /// The prompt does not wait: its turn has begun, it was removed, or it never was.
    NotWaiting(PromptId),
}

/// A new prompt; with `now` it comes before all others, and the turn under way is stopped in the same step, so that no
/// other prompt comes between. Of several of these the latest is the first. Where nothing is under way, its turn begins in the
/// same step too, so that the disk is waited for once.
pub(super) fn prompt(
    state: &State,
    prompt: PromptId,
    text: String,
    now: bool,
    nothing_under_way: bool,
) -> Vec<EventBody> {
    let begun =
        if nothing_under_way && state.is_free() { begin(prompt, text.clone()).to_vec() } else { Vec::new() };
    let mut bodies = vec![EventBody::PromptQueued { prompt, text, now }];
    if now {
        bodies.extend(stop(state, None, None).0);
    }
    bodies.extend(begun);
    bodies
}

/// Begins the turn of a prompt.
pub(super) fn begin(prompt: PromptId, text: String) -> [EventBody; 2] {
    let turn = TurnId::new();
    let item =
        Item { id: ItemId::new(), status: ItemStatus::Completed, kind: ItemKind::Prompt { prompt, text } };
    [EventBody::TurnStarted { turn, prompt }, EventBody::ItemCompleted { turn, item }]
}

/// Stops the turn under way, once, and pauses the queue if there is a reason to. What waits for a person's decision is
/// decided with it. The answer is the turn that is being stopped.
pub(super) fn stop(
    state: &State,
    pause: Option<String>,
    command: Option<CommandId>,
) -> (Vec<EventBody>, Option<TurnId>) {
    let mut bodies: Vec<EventBody> = pause
        .filter(|_| !state.is_paused())
        .map(|reason| EventBody::QueuePaused { reason, command })
        .into_iter()
        .collect();
    let Some(turn) = state.turn() else { return (bodies, None) };
    if turn.stopping.is_none() {
        bodies.extend(turn.approval.as_ref().map(|pending| EventBody::ApprovalResolved {
            approval: pending.id,
            approved: false,
            comment: None,
        }));
        bodies.push(EventBody::TurnStopping { turn: turn.id, command });
    }
    (bodies, Some(turn.id))
}

/// Changes the queue. The answer is a prompt that would have to wait for this and does not; then nothing is changed.
pub(super) fn change(
    state: &State,
    by: &str,
    command: Option<CommandId>,
    change: Change,
) -> (Vec<EventBody>, Option<PromptId>) {
    let queue = state.queue();
    let waits = |prompt: PromptId| queue.prompts.iter().any(|queued| queued.id == prompt);
    match change {
        Change::Pause { paused: true } if state.is_paused() => (Vec::new(), None),
        Change::Pause { paused: false } if !state.is_paused() && !state.is_held() => (Vec::new(), None),
        Change::Pause { paused: true } => {
            (vec![EventBody::QueuePaused { reason: format!("{by} paused it"), command }], None)
        }
        Change::Pause { paused: false } => (vec![EventBody::QueueResumed { command }], None),
        Change::Remove { prompt } if waits(prompt) => {
            (vec![EventBody::PromptRemoved { prompt, command }], None)
        }
        Change::Edit { prompt, edit } if waits(prompt) => {
            let mut bodies = Vec::new();
            if let Some(text) = edit.prompt {
                bodies.push(EventBody::PromptEdited { prompt, text, command });
            }
            let before = match edit.place {
                None => return (bodies, None),
                Some(Place::Last) => None,
                Some(Place::First) => queue.prompts.first().map(|first| first.id),
                Some(Place::Before(next)) if waits(next) => Some(next),
                Some(Place::Before(next)) => return (Vec::new(), Some(next)),
            };
            if before != Some(prompt) {
                bodies.push(EventBody::PromptMoved { prompt, before, command });
            }
            (bodies, None)
        }
        Change::Remove { prompt } | Change::Edit { prompt, .. } => (Vec::new(), Some(prompt)),
    }
}

/// Changes what the session is called, which model works on it, and what it may use. What is so already stays unsaid.
pub(super) fn edit(state: &State, command: Option<CommandId>, edit: EditSession) -> Vec<EventBody> {
    let Some(created) = state.created() else { return Vec::new() };
    let mut bodies = Vec::new();
    if let Some(title) = edit.title.filter(|title| *title != created.title) {
        bodies.push(EventBody::SessionRenamed { title, command });
    }
    // Choosing the session's own model ends what took over from it.
    if let Some(model) = edit.model.filter(|model| *model != created.model || *model != state.model()) {
        let from = state.model().to_owned();
        bodies.push(EventBody::ModelChanged { model, from, turn: None, reason: None, command });
    }
    bodies.extend(edit.budgets.into_iter().flat_map(|budgets| budget::changed(state, budgets, command)));
    bodies
}

/// Decides an approval. Whoever is first decides; the same decision once more is answered with the first one, another
/// one is refused with what was decided, and by whom.
pub(super) fn decide(
    state: &State,
    by: &str,
    approval: ApprovalId,
    decide: Decide,
) -> (Vec<EventBody>, Result<Decision, Problem>) {
    let Decide { approved, comment } = decide;
    let comment = comment.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    if let Some(known) = state.decision(approval) {
        // What somebody says must not be lost: with it, the same word is another decision.
        let same = known.approved == approved && (comment.is_none() || comment == known.comment);
        return (Vec::new(), if same { Ok(known.clone()) } else { Err(conflict(known)) });
    }
    let turn = state.turn().filter(|turn| turn.approval.as_ref().is_some_and(|known| known.id == approval));
    let Some(turn) = turn else {
        let unknown = Problem::new(Code::NotFound, format!("the session has no approval {approval}"))
            .hint("`slipway show` says what waits for a decision");
        return (Vec::new(), Err(unknown));
    };
    let mut bodies = vec![EventBody::ApprovalResolved { approval, approved, comment: comment.clone() }];
    let told = match (approved, &comment) {
        (true, None) => None,
        (true, Some(comment)) => Some(format!("{by} approved the delivery and said: {comment}")),
        (false, None) => Some(format!("{by} did not approve the delivery.")),
        (false, Some(comment)) => Some(format!(
            "{by} did not approve the delivery and said: {comment}\nGo on with that. The checks run again when you are \
             finished, and then the delivery is put to a person again."
        )),
    };
    bodies.extend(told.map(|text| EventBody::ItemCompleted {
        turn: turn.id,
        item: Item { id: ItemId::new(), status: ItemStatus::Completed, kind: ItemKind::Notice { text } },
    }));
    (bodies, Ok(Decision { approval, approved, by: by.to_owned(), comment }))
}

fn conflict(known: &Decision) -> Problem {
    let what = if known.approved { "approved" } else { "did not approve" };
    let said = known.comment.as_ref().map(|said| format!(" and said: {said}")).unwrap_or_default();
    Problem::new(Code::Conflict, format!("this is decided already: {} {what} it{said}", known.by))
        .hint("a decision stands; a prompt can ask for something else")
}
