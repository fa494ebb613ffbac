//! The log of a turn, written the way a session writes it, folds back to exactly the messages the turn holds.

use std::collections::VecDeque;

use agent::history::{self, CANCELLED, History, INTERRUPTED};
use agent::tools::recorded_input;
use agent::{Effect, Input, Turn, Verification};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use protocol::chat::{Completion, Message, Part, Stop, ToolResult};
use protocol::item::{CheckReport, Output, ToolCall};
use protocol::{
    Actor, Event, EventBody, Item, ItemId, ItemKind, ItemStatus, Outcome, PromptId, Receipt, SessionId,
    Timestamp, TurnId, Usage,
};

use crate::properties::{part, stop, verification};
use crate::script::*;

const SESSION: SessionId = SessionId::from_u128(1);

/// Writes events as a session does.
pub(crate) struct Recorder {
    pub(crate) turn: TurnId,
    events: Vec<Event>,
    items: u128,
    /// Calls that are not completed: item, call id, tool, arguments.
    open: Vec<(ItemId, ToolCall)>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { turn: TurnId::from_u128(1), events: Vec::new(), items: 0, open: Vec::new() }
    }

    pub(crate) fn push(&mut self, body: EventBody) {
        let seq = self.events.len() as u64 + 1;
        let (at, actor) = (Timestamp::UNIX_EPOCH, Actor::system());
        self.events.push(Event { v: 1, session: SESSION, seq, at, actor, body });
    }

    fn id(&mut self) -> ItemId {
        self.items += 1;
        ItemId::from_u128(self.items)
    }

    fn completed(&mut self, status: ItemStatus, kind: ItemKind) {
        let item = Item { id: self.id(), status, kind };
        self.push(EventBody::ItemCompleted { turn: self.turn, item });
    }

    pub(crate) fn prompt(&mut self, text: &str) {
        let prompt = PromptId::from_u128(1);
        self.push(EventBody::TurnStarted { turn: self.turn, prompt });
        self.completed(
            ItemStatus::Completed,
            ItemKind::Prompt { prompt, text: text.into(), images: Vec::new() },
        );
    }

    pub(crate) fn answer(&mut self, completion: &Completion) {
        for part in &completion.parts {
            match part.clone() {
                Part::Text { text } => self.completed(ItemStatus::Completed, ItemKind::Message { text }),
                Part::Reasoning { text, signature } => {
                    self.completed(ItemStatus::Completed, ItemKind::Reasoning { text, signature });
                }
                Part::Call(call) => {
                    let input = recorded_input(&call.arguments);
                    let call = ToolCall {
                        call_id: call.id,
                        tool: call.tool,
                        input,
                        limit_ms: None,
                        output: None,
                        exit_code: None,
                        duration_ms: None,
                        elapsed_ms: None,
                        process: None,
                        share: None,
                        hooks: Vec::new(),
                    };
                    let item = Item {
                        id: self.id(),
                        status: ItemStatus::InProgress,
                        kind: ItemKind::ToolCall(call.clone()),
                    };
                    self.open.push((item.id, call));
                    self.push(EventBody::ItemStarted { turn: self.turn, item });
                }
            }
        }
        self.usage(completion.usage);
    }

    fn usage(&mut self, usage: Usage) {
        self.push(EventBody::UsageRecorded {
            turn: self.turn,
            step: 1,
            model: "scripted".into(),
            usage,
            cost_usd: None,
            first_token_ms: 0,
            duration_ms: 0,
            elapsed_ms: 0,
        });
    }

    /// Completes a call; without text it was broken off.
    pub(crate) fn result(&mut self, call_id: &str, status: ItemStatus, text: Option<&str>) {
        let Some(place) = self.open.iter().position(|(_, call)| call.call_id == call_id) else {
            panic!("no open call {call_id}")
        };
        let (id, mut call) = self.open.remove(place);
        call.output =
            text.map(|text| Output { text: text.into(), bytes: text.len() as u64, ..Output::default() });
        let item = Item { id, status, kind: ItemKind::ToolCall(call) };
        self.push(EventBody::ItemCompleted { turn: self.turn, item });
    }

    fn report(&mut self) {
        let report = CheckReport {
            check: "test".into(),
            command: "make test".into(),
            passed: Some(false),
            exit_code: Some(1),
            ..CheckReport::default()
        };
        self.completed(ItemStatus::Completed, ItemKind::Report(report));
    }

    pub(crate) fn finished(&mut self, outcome: Outcome) {
        let (turn, receipt) = (self.turn, Receipt::default());
        self.push(EventBody::TurnFinished { turn, outcome, reason: None, receipt });
    }

    pub(crate) fn notice(&mut self, text: &str) {
        self.completed(ItemStatus::Completed, ItemKind::notice(text));
    }

    /// The conversation of the log.
    pub(crate) fn history(&self) -> History {
        let mut history = History::default();
        self.events.iter().for_each(|event| history.apply(event));
        history
    }

    /// The messages of the log as it comes back from disk.
    pub(crate) fn fold(&self) -> Vec<Message> {
        let Ok(text) = serde_json::to_string(&self.events) else { panic!("events are JSON") };
        let Ok(events) = serde_json::from_str::<Vec<Event>>(&text) else {
            panic!("events are read back: {text}")
        };
        history::fold(&events)
    }
}

/// What the world does next in a scripted turn.
#[derive(Debug, Clone)]
enum World {
    Answers(Completion),
    /// One of the running tools ends.
    Ends {
        which: Index,
        text: String,
        is_error: bool,
    },
    Verifies(Verification),
    Restarts,
    Stops,
}

fn world() -> impl Strategy<Value = World> {
    prop_oneof![
        12 => (vec(part(), 0..4), stop()).prop_map(|(parts, stop)| World::Answers(completion(parts, stop))),
        24 => (any::<Index>(), "[xy]", any::<bool>())
            .prop_map(|(which, text, is_error)| World::Ends { which, text, is_error }),
        12 => verification().prop_map(World::Verifies),
        2 => Just(World::Restarts),
        1 => Just(World::Stops),
    ]
}

/// What the session waits for.
#[derive(Default)]
struct Waiting {
    model: bool,
    gate: bool,
    tools: Vec<String>,
    over: bool,
}

fn perform(recorder: &mut Recorder, waiting: &mut Waiting, turn: &Turn, effects: Vec<Effect>) {
    for effect in effects {
        match effect {
            Effect::CallModel(request) => {
                assert_eq!(request.messages, turn.messages());
                waiting.model = true;
            }
            Effect::RunTool { call_id, .. } => waiting.tools.push(call_id),
            Effect::RejectTool { call_id, text, .. } => {
                recorder.result(&call_id, ItemStatus::Failed, Some(&text))
            }
            Effect::Tell { text } => recorder.completed(ItemStatus::Completed, ItemKind::notice(text)),
            Effect::Mistake { mistake } => {
                let turn = recorder.turn;
                recorder.push(EventBody::MistakeMade { turn, mistake });
            }
            Effect::Note { .. } => {}
            Effect::Verify => waiting.gate = true,
            Effect::Compact { .. } | Effect::Survey { .. } | Effect::ChangeModel { .. } => {
                panic!("a short turn asks for none of them")
            }
            Effect::Finish { outcome, .. } => {
                if outcome == Outcome::Cancelled {
                    for id in std::mem::take(&mut waiting.tools) {
                        recorder.result(&id, ItemStatus::Cancelled, None);
                    }
                }
                recorder.finished(outcome);
                *waiting = Waiting { over: true, ..Waiting::default() };
            }
        }
    }
}

fn run(script: Vec<World>) {
    let mut recorder = Recorder::new();
    recorder.prompt("Fix it.");
    let mut turn = Turn::new(setup(recorder.fold()));
    let mut waiting = Waiting::default();
    let effects = turn.handle(Input::Begin);
    perform(&mut recorder, &mut waiting, &turn, effects);
    let mut script = VecDeque::from(script);
    while let Some(next) = script.pop_front().filter(|_| !waiting.over) {
        let input = match next {
            World::Answers(completion) if waiting.model => {
                waiting.model = false;
                recorder.answer(&agent::normalise(turn.messages(), completion.clone()));
                Input::Answered(completion)
            }
            World::Ends { which, text, is_error } if !waiting.tools.is_empty() => {
                let call_id = waiting.tools.remove(which.index(waiting.tools.len()));
                let status = if is_error { ItemStatus::Failed } else { ItemStatus::Completed };
                recorder.result(&call_id, status, Some(&text));
                Input::ToolEnded { call_id, text, is_error, images: Vec::new() }
            }
            World::Verifies(verification) if waiting.gate => {
                waiting.gate = false;
                recorder.report();
                Input::Verified(verification)
            }
            World::Restarts => {
                // Half of the open calls are completed as interrupted by the new server, the others are left to the fold.
                let lost = std::mem::take(&mut waiting).tools;
                for id in lost.iter().step_by(2) {
                    recorder.result(id, ItemStatus::Interrupted, None);
                }
                recorder.open.clear();
                turn = Turn::new(setup(recorder.fold()));
                Input::Begin
            }
            World::Stops => Input::Stop,
            World::Answers(_) | World::Ends { .. } | World::Verifies(_) => continue,
        };
        let effects = turn.handle(input);
        perform(&mut recorder, &mut waiting, &turn, effects);
        if waiting.tools.is_empty() {
            assert_eq!(recorder.fold(), turn.messages());
        }
    }
    assert_pairs(&recorder.fold());
}

/// Every call has its result in the next message, and every result its call.
pub(crate) fn assert_pairs(messages: &[Message]) {
    for (index, message) in messages.iter().enumerate() {
        let calls: Vec<&str> = match message {
            Message::Assistant { parts } => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Call(call) => Some(call.id.as_str()),
                    Part::Text { .. } | Part::Reasoning { .. } => None,
                })
                .collect(),
            Message::User { .. } | Message::Tools { .. } => Vec::new(),
        };
        let results: Vec<&str> = match messages.get(index + 1) {
            Some(Message::Tools { results }) => {
                results.iter().map(|result| result.call_id.as_str()).collect()
            }
            Some(Message::User { .. } | Message::Assistant { .. }) | None => Vec::new(),
        };
        assert_eq!(calls, results);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_log_folds_to_the_messages_of_the_turn(script in vec(world(), 0..80)) {
        run(script);
    }
}

#[test]
fn calls_without_a_result_are_paired_in_the_order_of_the_calls() {
    let mut recorder = Recorder::new();
    recorder.prompt("Go.");
    let parts = ["c1", "c2", "c3"].map(|id| call(id, "list", "{}"));
    recorder.answer(&completion(parts.to_vec(), Stop::Tools));
    recorder.result("c3", ItemStatus::Cancelled, None);
    recorder.result("c2", ItemStatus::Completed, Some("b"));
    recorder.finished(Outcome::Cancelled);
    recorder.prompt("Again.");
    let result = |id: &str, text: &str, is_error| ToolResult {
        call_id: id.into(),
        text: text.into(),
        is_error,
        images: Vec::new(),
    };
    let results =
        vec![result("c1", INTERRUPTED, true), result("c2", "b", false), result("c3", CANCELLED, true)];
    assert_eq!(recorder.fold()[2..], [Message::Tools { results }, user("Again.")]);
}

#[test]
fn a_second_result_of_a_call_does_not_count() {
    let mut recorder = Recorder::new();
    recorder.answer(&completion(vec![call("c1", "list", "{}")], Stop::Tools));
    let open = recorder.open.clone();
    recorder.result("c1", ItemStatus::Interrupted, Some("gone"));
    recorder.open = open;
    recorder.result("c1", ItemStatus::Completed, Some("late"));
    let results =
        vec![ToolResult { call_id: "c1".into(), text: "gone".into(), is_error: true, images: Vec::new() }];
    assert_eq!(recorder.fold()[1..], [Message::Tools { results }]);
}

#[test]
fn what_was_broken_off_is_marked_and_half_thoughts_are_dropped() {
    let mut recorder = Recorder::new();
    recorder.prompt("Go.");
    let thought = || ItemKind::Reasoning { text: "perhaps".into(), signature: None };
    recorder.completed(ItemStatus::Interrupted, thought());
    recorder.completed(ItemStatus::Cancelled, ItemKind::Message { text: "I will".into() });
    recorder.finished(Outcome::Cancelled);
    recorder.prompt("Go on.");
    recorder.completed(ItemStatus::Cancelled, ItemKind::Message { text: String::new() });
    recorder.finished(Outcome::Cancelled);
    let said = Message::Assistant { parts: vec![text("I will [stopped here]")] };
    assert_eq!(recorder.fold(), [user("Go."), said, user("Go on.")]);
}

#[test]
fn earlier_turns_are_known_by_what_was_asked_and_what_came_of_it() {
    let mut recorder = Recorder::new();
    recorder.prompt("Add a greeting.");
    let write = |path: &str| format!(r#"{{"path":"{path}","content":"x"}}"#);
    let parts = vec![call("c1", "write", &write("a.py")), call("c2", "write", &write("b.py"))];
    recorder.answer(&completion(parts, Stop::Tools));
    recorder.result("c1", ItemStatus::Completed, Some("Wrote a.py."));
    recorder.result("c2", ItemStatus::Failed, Some("It would lose code."));
    recorder.answer(&completion(vec![text("I wrote a greeting.")], Stop::End));
    assert_eq!(recorder.history().earlier(), []);
    recorder.finished(Outcome::Done);
    recorder.prompt("Now in French.");
    recorder.answer(&completion(vec![text("Hm.")], Stop::End));
    let earlier = agent::Past {
        prompt: "Add a greeting.".into(),
        said: "I wrote a greeting.".into(),
        changed: vec!["a.py".into()],
        ended: "done".into(),
    };
    assert_eq!(recorder.history().earlier(), [earlier]);
}

#[test]
fn broken_arguments_come_back_as_the_model_wrote_them() {
    let mut recorder = Recorder::new();
    recorder.answer(&completion(vec![call("c1", "edit", "{\"path\": \"a")], Stop::Tools));
    let parts = vec![call("c1", "edit", "{\"path\": \"a")];
    assert_eq!(recorder.fold()[0], Message::Assistant { parts });
}
