//! What a command means for a session, as events that follow from its state: pure, and decided in the same step in which
//! it is appended, so that whoever asks second finds what the first one did.

use agent::policy;
use protocol::event::Reply;
use protocol::{
    ApprovalId, Code, CommandId, Decide, Decision, EditFormat, EditPrompt, EditSession, EventBody, Gate,
    ImageFile, Item, ItemId, ItemKind, ItemStatus, PendingApproval, Place, Policy, Problem, PromptId, Queue,
    TurnId,
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

/// What a person asks.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// What is to be done.
    pub(crate) text: String,
    /// Images that belong to it; their files are there.
    pub(crate) images: Vec<ImageFile>,
    /// Whether it comes before all others.
    pub(crate) now: bool,
    /// What is said to it where it comes from.
    pub(crate) replies: Vec<Reply>,
}

/// A new prompt; with `now` it comes before all others, and the turn under way is stopped in the same step, so that no
/// other prompt comes between. Of several of these the latest is the first. Where nothing is under way, its turn begins in the
/// same step too, so that the disk is waited for once.
pub(super) fn prompt(
    state: &State,
    prompt: PromptId,
    Asked { text, images, now, replies }: Asked,
    nothing_under_way: bool,
) -> Vec<EventBody> {
    let begun = match nothing_under_way && state.is_free() {
        true => begin(prompt, text.clone(), images.clone()).to_vec(),
        false => Vec::new(),
    };
    let mut bodies = vec![EventBody::PromptQueued { prompt, text, now, images }];
    bodies.extend(replies.into_iter().map(EventBody::ReplyUpdated));
    if now {
        bodies.extend(stop(state, None, None).0);
    }
    bodies.extend(begun);
    bodies
}

/// Begins the turn of a prompt.
pub(super) fn begin(prompt: PromptId, text: String, images: Vec<ImageFile>) -> [EventBody; 2] {
    let turn = TurnId::new();
    let kind = ItemKind::Prompt { prompt, text, images };
    let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
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
            input: None,
            all: false,
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

/// Changes what the session is called, which model works on it, what it may use, and its policy. What is so already stays unsaid.
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
    if let Some(policy) = edit.policy.filter(|policy| policy != state.policy()) {
        bodies.push(EventBody::PolicyChanged { policy, command });
    }
    match edit.archived {
        Some(true) if !state.is_archived() => bodies.push(EventBody::SessionArchived { command }),
        Some(false) if state.is_archived() => bodies.push(EventBody::SessionUnarchived { command }),
        Some(_) | None => {}
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
    policies: &[Policy],
) -> (Vec<EventBody>, Result<Decision, Problem>) {
    let Decide { approved, comment, input, all } = decide;
    let comment = comment.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    if let Some(known) = state.decision(approval) {
        // What somebody says must not be lost: with it, the same word is another decision.
        let said = comment.is_none() || comment == known.comment;
        let same = known.approved == approved && said && known.input == input && known.all == all;
        return (Vec::new(), if same { Ok(known.clone()) } else { Err(conflict(known)) });
    }
    let turn = state.turn().filter(|turn| turn.approval.as_ref().is_some_and(|known| known.id == approval));
    let Some((turn, pending)) = turn.and_then(|turn| Some((turn, turn.approval.as_ref()?))) else {
        let unknown = Problem::new(Code::NotFound, format!("the session has no approval {approval}"))
            .hint("`slipway show` says what waits for a decision");
        return (Vec::new(), Err(unknown));
    };
    if pending.gate == Gate::Question && approved && comment.is_none() {
        let unanswered = Problem::new(Code::BadRequest, "a question waits, and this is no answer to it")
            .hint("give the answer as the comment: `slipway answer SESSION TEXT`; or reject it, and the agent decides");
        return (Vec::new(), Err(unanswered));
    }
    if let Err(problem) =
        can_be(pending, approved, input.as_ref(), all, (policies, state.offered().as_deref()))
    {
        return (Vec::new(), Err(problem));
    }
    let mut bodies = vec![EventBody::ApprovalResolved {
        approval,
        approved,
        comment: comment.clone(),
        input: input.clone(),
        all,
    }];
    let told = match (pending.gate, approved, &comment) {
        // What is said of a call the model reads with its result.
        (Gate::Call | Gate::Question, _, _) | (Gate::Delivery, true, None) => None,
        (Gate::Host, approved, said) => Some(about_hosts(pending, by, approved, said.as_deref())),
        (Gate::Delivery, true, Some(comment)) => {
            Some(format!("{by} approved the delivery and said: {comment}"))
        }
        (Gate::Delivery, false, None) => Some(format!("{by} did not approve the delivery.")),
        (Gate::Delivery, false, Some(comment)) => Some(format!(
            "{by} did not approve the delivery and said: {comment}\nGo on with that. The checks run again when you are \
             finished, and then the delivery is put to a person again."
        )),
    };
    bodies.extend(told.map(|text| EventBody::ItemCompleted {
        turn: turn.id,
        item: Item { id: ItemId::new(), status: ItemStatus::Completed, kind: ItemKind::notice(text) },
    }));
    let (by, gate) = (by.to_owned(), pending.gate);
    (bodies, Ok(Decision { approval, approved, by, comment, gate, input, all }))
}

/// What the model is told of connections that it wanted.
fn about_hosts(pending: &PendingApproval, by: &str, approved: bool, said: Option<&str>) -> String {
    let rules = pending.call.iter().flat_map(|call| &call.kind);
    let hosts: Vec<&str> = rules.filter_map(|rule| rule.host.as_deref()).collect();
    let hosts = hosts.join(", ");
    let said = said.map(|said| format!(" and said: {said}")).unwrap_or_default();
    if approved {
        return format!(
            "{by} allowed connections to {hosts} for the rest of this session{said}\nRun what needs them again."
        );
    }
    format!("{by} did not allow connections to {hosts}{said}\nGo on without them, in the way that is wanted.")
}

/// Whether what waits can be decided so.
fn can_be(
    pending: &PendingApproval,
    approved: bool,
    input: Option<&serde_json::Value>,
    all: bool,
    (policies, offered): (&[Policy], Option<&Vec<protocol::McpTool>>),
) -> Result<(), Problem> {
    let refuse = |title: &str, hint: &str| Err(Problem::new(Code::BadRequest, title).hint(hint));
    if input.is_none() && !all {
        return Ok(());
    }
    let Some(call) = pending.call.as_ref().filter(|_| pending.gate == Gate::Call) else {
        return refuse(
            "no call of the model waits: there is nothing to edit, and no kind of it",
            "approve or reject it",
        );
    };
    if !approved {
        return refuse(
            "a call that is rejected does not run",
            "leave input and all out, and say in the comment what to do",
        );
    }
    if all && call.kind.is_empty() && !call.after_every {
        return refuse(
            "no rule can say what all of this kind is",
            "approve this one; or give the session another policy, or the environment",
        );
    }
    // What a server's tool takes only the server knows, and which tools there are only who has asked it.
    let of_server = agent::tools::is_of_server(&call.tool) && input.is_some_and(serde_json::Value::is_object);
    if of_server && offered.is_none() {
        return Ok(());
    }
    let offered = offered.map(Vec::as_slice).unwrap_or_default();
    let read = |input: &serde_json::Value| {
        agent::tools::parse_with(offered, EditFormat::Replace, &call.tool, &input.to_string())
    };
    match input.map(read) {
        Some(Err(why)) => refuse(
            &format!("the call cannot be run with this input: {why}"),
            "give all arguments of the tool",
        ),
        Some(Ok(edited)) => match policy::denies(&policies.iter().collect::<Vec<_>>(), &edited) {
            Some(rule) => refuse(
                &format!(
                    "the call as you changed it is denied, whoever approves it ({rule}); it still waits"
                ),
                "change it to something else, approve it as it is, or reject it with a comment",
            ),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

fn conflict(known: &Decision) -> Problem {
    let what = match (known.gate, known.approved) {
        (Gate::Question, true) => "answered",
        (Gate::Question, false) => "did not answer",
        (_, true) => "approved",
        (_, false) => "did not approve",
    };
    let said = known.comment.as_ref().map(|said| format!(" and said: {said}")).unwrap_or_default();
    Problem::new(Code::Conflict, format!("this is decided already: {} {what} it{said}", known.by))
        .hint("a decision stands; a prompt can ask for something else")
}
