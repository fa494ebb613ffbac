//! Models that are asked in other ways than with calls of their own, and models that go in circles.

use agent::{Effect, FileText, Input, Profile, Setup, Turn, Verification};
use protocol::chat::{Message, Request};
use protocol::{EditFormat, ToolMode};

use crate::script::*;

fn turn(tool_mode: ToolMode) -> Turn {
    let profile = Profile { tool_mode, edit_format: EditFormat::Whole, ..Profile::default() };
    Turn::new(Setup { profile, ..setup(vec![user("Fix it.")]) })
}

fn files(text: &str) -> Input {
    Input::Surveyed { files: vec![FileText { path: "calc.py".into(), text: Some(text.into()) }] }
}

fn request(effects: &[Effect]) -> &Request {
    match effects.last() {
        Some(Effect::CallModel(request)) => request,
        _ => panic!("{effects:?}"),
    }
}

#[test]
fn a_round_is_written_checked_and_begun_afresh() {
    let mut turn = turn(ToolMode::Fenced);
    assert_eq!(lines(&turn.handle(Input::Begin)), ["survey"]);
    let effects = turn.handle(files("x = 0\n"));
    assert_eq!(request(&effects).messages.len(), 1);
    assert!(request(&effects).tools.is_empty());
    assert_eq!(lines(&turn.handle(says("calc.py\n```python\nx = 1\n```"))), ["run text_1 write"]);
    assert_eq!(lines(&turn.handle(ended("text_1", "Wrote calc.py."))), ["verify"]);
    let effects = turn.handle(verified(vec![failing("test", &["adds"])]));
    assert_eq!(lines(&effects), ["tell", "survey"]);
    let effects = turn.handle(files("x = 1\n"));
    let [Message::User { text, .. }] = &request(&effects).messages[..] else { panic!("{effects:?}") };
    for part in
        ["The task:\nFix it.", "x = 1", "Wrote calc.py.", "failed: adds", "First say in two sentences"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    turn.handle(says("x is wrong.\ncalc.py\n```python\nx = 2\n```"));
    turn.handle(ended("text_2", "Wrote calc.py."));
    assert_eq!(lines(&turn.handle(verified(vec![passing("test")]))), ["finish done"]);
}

#[test]
fn a_round_without_a_file_is_asked_for_once_and_one_that_changes_nothing_ends() {
    let unchanged = || Input::Verified(Verification { changed: false, checks: vec![] });
    let mut talking = turn(ToolMode::Fenced);
    talking.handle(Input::Begin);
    talking.handle(files("x = 0\n"));
    assert_eq!(lines(&talking.handle(says("It prints 0."))), ["verify"]);
    assert_eq!(lines(&talking.handle(unchanged())), ["tell", "survey"]);
    talking.handle(files("x = 0\n"));
    assert_eq!(lines(&talking.handle(says("It prints 0."))), ["verify"]);
    assert_eq!(lines(&talking.handle(unchanged())), ["finish done"]);

    let mut idle = turn(ToolMode::Fenced);
    idle.handle(Input::Begin);
    for round in 0.. {
        idle.handle(files("x = 0\n"));
        let effects = idle.handle(says(&format!("calc.py\n```python\nx = 0\n```\nThis is answer {round}.")));
        let Some(Effect::RunTool { call_id, .. }) = effects.first() else { panic!("{effects:?}") };
        let effects = idle.handle(ended(&call_id.clone(), &format!("Wrote calc.py {round}.")));
        assert_eq!(lines(&effects), ["verify"], "round {round}");
        if lines(&idle.handle(unchanged())) == ["finish escalated"] {
            assert_eq!(round, 3);
            break;
        }
    }
}

#[test]
fn steps_in_json_are_run_and_end_with_a_summary() {
    let mut turn = turn(ToolMode::JsonStep);
    let effects = turn.handle(Input::Begin);
    let schema = request(&effects).answer.as_ref().unwrap().schema.to_string();
    assert!(schema.contains("\"finish\"") && !schema.contains("\"edit\""), "{schema}");
    let step = r#"{"thought": "Look.", "call": {"tool": "read", "path": "a"}}"#;
    assert_eq!(lines(&turn.handle(says(step))), ["run text_1 read"]);
    // The same again: it is told, and cannot do it a third time.
    turn.handle(ended("text_1", "nothing"));
    assert_eq!(lines(&turn.handle(says(step))), ["run text_2 read"]);
    let effects = turn.handle(ended("text_2", "nothing"));
    assert_eq!(lines(&effects), ["tell", "call model"]);
    let schema = request(&effects).answer.as_ref().unwrap().schema.to_string();
    assert!(!schema.contains("\"read\""), "it is withheld: {schema}");
    let finish = r#"{"thought": "", "call": {"tool": "finish", "summary": "Nothing to do."}}"#;
    assert_eq!(lines(&turn.handle(says(finish))), ["verify"]);
    assert_eq!(turn.messages().last(), Some(&Message::Assistant { parts: vec![text("Nothing to do.")] }));
}

#[test]
fn what_is_repeated_is_withheld_for_one_step() {
    let mut turn = begun();
    let look = || calls(&[("c", "list", "{}")]);
    for _ in 0..2 {
        turn.handle(look());
        assert_eq!(lines(&turn.handle(ended("c", "src/"))), ["call model"]);
    }
    turn.handle(look());
    let effects = turn.handle(ended("c", "src/"));
    assert_eq!(lines(&effects), ["tell", "call model"]);
    assert!(texts(&effects).ends_with("For the next step you have no list."), "{}", texts(&effects));
    let names = |request: &Request| request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert!(!names(request(&effects)).contains(&"list".to_owned()));
    // Who calls it all the same is refused, and has it again afterwards.
    let effects = turn.handle(look());
    assert_eq!(lines(&effects), ["reject c list", "call model"]);
    assert!(texts(&effects).contains("withheld for this step"), "{}", texts(&effects));
    assert!(names(request(&effects)).contains(&"list".to_owned()));
    turn.handle(look());
    assert_eq!(lines(&turn.handle(ended("c", "src/"))), ["call model"]);
    turn.handle(look());
    assert_eq!(lines(&turn.handle(ended("c", "src/"))), ["finish escalated"]);
}

#[test]
fn an_answer_that_drones_on_is_told_so() {
    let mut turn = begun();
    let words = format!("I will look. {}", "and again, and again; ".repeat(50));
    let effects = turn.handle(stopped(&words, protocol::chat::Stop::Length));
    assert!(texts(&effects).contains("the same again and again"), "{}", texts(&effects));
}

#[test]
fn what_the_platform_says_meanwhile_comes_after_the_results() {
    let mut turn = begun();
    turn.handle(calls(&[("c1", "list", "{}"), ("c2", "list", r#"{"path":"src"}"#)]));
    turn.handle(ended("c1", "a"));
    assert_eq!(turn.handle(Input::Noticed { text: "The sandbox is new.".into() }), []);
    turn.handle(ended("c2", "b"));
    let [.., Message::Tools { .. }, last] = turn.messages() else { panic!("{:?}", turn.messages()) };
    assert_eq!(last, &user("The sandbox is new."));
}
