//! Another model in the middle of a turn: it is asked in its own way, and what it cannot read is made shorter first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use agent::history::History;
use agent::{Effect, Input, Profile, Turn};
use protocol::chat::{Message, Request};
use protocol::{Actor, EditFormat, Event, EventBody, SessionId, Timestamp, ToolMode, TurnId, Usage};

use crate::script::*;

fn request(effects: &[Effect]) -> &Request {
    match effects {
        [Effect::CallModel(request)] => request,
        other => panic!("{:?}", lines(other)),
    }
}

/// A turn that waits for its second answer, after a command that printed so much.
fn after_a_command(bytes: usize) -> Turn {
    let mut turn = begun();
    turn.handle(calls(&[("a", "shell", r#"{"command":"make"}"#)]));
    let effects = turn.handle(ended("a", &"made ".repeat(bytes / 5)));
    assert_eq!(lines(&effects), ["call model"]);
    turn
}

fn changed(profile: Profile) -> Input {
    Input::ModelChanged { profile }
}

#[test]
fn the_new_model_is_asked_in_its_own_way() {
    let mut turn = after_a_command(100);
    let patch = Profile { edit_format: EditFormat::Patch, ..Profile::default() };
    let effects = turn.handle(changed(patch));
    let native = request(&effects).clone();
    assert!(native.tools.iter().any(|tool| tool.name == "apply_patch"));
    assert!(matches!(native.messages.last(), Some(Message::Tools { .. })));

    let effects = turn.handle(changed(Profile { tool_mode: ToolMode::JsonStep, ..Profile::default() }));
    let stepwise = request(&effects);
    assert!(stepwise.tools.is_empty() && stepwise.answer.is_some());
    assert!(format!("{:?}", stepwise.messages).contains("made made"), "nothing is lost");

    let effects = turn.handle(changed(Profile { tool_mode: ToolMode::Fenced, ..Profile::default() }));
    assert_eq!(lines(&effects), ["survey"], "it is shown the files first");
    let effects = turn.handle(Input::Surveyed { files: Vec::new(), guides: Vec::new() });
    let fenced = request(&effects);
    assert!(fenced.messages.len() == 1 && fenced.system != native.system);

    let effects = turn.handle(says("Nothing to do."));
    assert_eq!(lines(&effects), ["verify"]);
    assert_eq!(turn.steps(), 2);
}

#[test]
fn what_is_too_long_for_it_is_made_shorter_first() {
    let mut turn = after_a_command(100_000);
    let small = Profile { context: 8192, ..Profile::default() };
    let effects = turn.handle(changed(small));
    assert!(matches!(effects.as_slice(), [Effect::Compact { .. }]), "{:?}", lines(&effects));
    let effects = turn.handle(Input::Compacted { messages: Some(vec![user("Go on.")]) });
    assert_eq!(request(&effects).messages, [user("Go on.")]);
}

#[test]
fn it_does_not_answer_for_what_the_one_before_did_wrong() {
    let mut turn = begun();
    let empty = || Input::Answered(completion(Vec::new(), protocol::chat::Stop::End));
    for _ in 0..3 {
        assert_eq!(lines(&turn.handle(empty())), ["tell", "call model"]);
    }
    turn.handle(changed(Profile::default()));
    assert_eq!(lines(&turn.handle(empty())), ["tell", "call model"]);
}

#[test]
fn a_change_that_nobody_asked_about_is_ignored() {
    let mut turn = begun();
    turn.handle(calls(&[("a", "shell", r#"{"command":"make"}"#)]));
    assert_eq!(turn.handle(changed(Profile::default())), []);
    assert_eq!(lines(&turn.handle(ended("a", "made"))), ["call model"]);
}

#[test]
fn what_another_model_counted_and_what_was_beside_the_work_is_not_measured_by() {
    let usage = |step| EventBody::UsageRecorded {
        turn: TurnId::from_u128(1),
        step,
        model: "main".into(),
        usage: Usage { input: 100, ..Usage::default() },
        cost_usd: None,
        first_token_ms: 0,
        duration_ms: 0,
        elapsed_ms: 0,
    };
    let change = EventBody::ModelChanged {
        model: "other".into(),
        from: "main".into(),
        turn: None,
        reason: None,
        command: None,
    };
    let measured = |bodies: &[EventBody]| {
        let mut history = History::default();
        for (seq, body) in (1..).zip(bodies) {
            let (v, session, at) = (1, SessionId::from_u128(1), Timestamp::UNIX_EPOCH);
            history.apply(&Event { v, session, seq, at, actor: Actor::system(), body: body.clone() });
        }
        history.measured().is_some()
    };
    assert!(measured(&[usage(1)]));
    assert!(!measured(&[usage(0)]));
    assert!(!measured(&[usage(1), change.clone()]));
    assert!(measured(&[usage(1), change, usage(2), usage(0)]));
}
