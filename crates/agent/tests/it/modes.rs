//! Models that are asked in other ways than with calls of their own, and models that go in circles.

use agent::tools::Invocation;
use agent::{CheckResult, Effect, FileText, Input, Profile, Setup, Turn, Verification};
use protocol::chat::{Message, Request};
use protocol::{EditFormat, Mistake, ToolMode};

use crate::script::*;

fn turn(tool_mode: ToolMode) -> Turn {
    let profile = Profile { tool_mode, edit_format: EditFormat::Whole, ..Profile::default() };
    Turn::new(Setup { profile, ..setup(vec![user("Fix it.")]) })
}

fn files(text: &str) -> Input {
    let files = vec![FileText { path: "calc.py".into(), text: Some(text.into()) }];
    Input::Surveyed { files, guides: Vec::new() }
}

fn unchanged(checks: Vec<CheckResult>) -> Input {
    Input::Verified(Verification { changed: false, checks })
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
    assert_eq!(lines(&turn.handle(Input::Begin)), ["verify"]);
    assert_eq!(lines(&turn.handle(unchanged(vec![failing("test", &["subtracts"])]))), ["tell", "survey"]);
    let effects = turn.handle(files("x = 0\n"));
    let [Message::User { text, .. }] = &request(&effects).messages[..] else { panic!("{effects:?}") };
    for part in ["What happened last:\nBefore your work this fails:", "failed: subtracts"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(text.matches("Fix it.").count(), 1, "{text}");
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
    let mut talking = turn(ToolMode::Fenced);
    talking.handle(Input::Begin);
    assert_eq!(lines(&talking.handle(unchanged(vec![passing("test")]))), ["survey"], "nothing to tell");
    talking.handle(files("x = 0\n"));
    assert_eq!(lines(&talking.handle(says("It prints 0."))), ["verify"]);
    let effects = talking.handle(unchanged(vec![failing("test", &["adds"])]));
    assert_eq!(lines(&effects), ["tell", "survey"]);
    assert!(texts(&effects).contains("failed: adds"), "{}", texts(&effects));
    talking.handle(files("x = 0\n"));
    assert_eq!(lines(&talking.handle(says("It prints 0."))), ["verify"]);
    assert_eq!(lines(&talking.handle(unchanged(vec![]))), ["finish done"]);

    let mut idle = turn(ToolMode::Fenced);
    idle.handle(Input::Begin);
    idle.handle(unchanged(vec![]));
    for round in 0.. {
        idle.handle(files("x = 0\n"));
        let effects = idle.handle(says(&format!("calc.py\n```python\nx = 0\n```\nThis is answer {round}.")));
        let Some(Effect::RunTool { call_id, .. }) = effects.first() else { panic!("{effects:?}") };
        let effects = idle.handle(ended(&call_id.clone(), &format!("Wrote calc.py{}", ".".repeat(round))));
        assert_eq!(lines(&effects), ["verify"], "round {round}");
        if lines(&idle.handle(unchanged(vec![]))) == ["finish escalated"] {
            assert_eq!(round, 3);
            break;
        }
    }
}

#[test]
fn a_file_that_was_refused_is_told_of_before_the_round_is_the_last() {
    let mut turn = turn(ToolMode::Fenced);
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![]));
    // Two files, of which the second is refused.
    let answer = |turn: &mut Turn, number: usize| {
        turn.handle(files("x = 0\n"));
        let effects = turn.handle(says(&format!(
            "calc.py\n```python\nx = {number}\n```\n\nother.py\n```python\ny = {number}\n```"
        )));
        let ids: Vec<String> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::RunTool { call_id, .. } => Some(call_id.clone()),
                _ => None,
            })
            .collect();
        let [first, second] = ids.as_slice() else { panic!("{effects:?}") };
        turn.handle(ended(first, "Wrote calc.py."));
        let text = format!("Not written: other.py would lose code ({number}).");
        let effects = turn.handle(Input::ToolEnded {
            call_id: second.clone(),
            text,
            is_error: true,
            images: Vec::new(),
        });
        assert_eq!(lines(&effects), ["verify"]);
        turn.handle(verified(vec![passing("test")]))
    };
    for number in 1..=3 {
        let effects = answer(&mut turn, number);
        assert_eq!(lines(&effects), ["tell", "survey"]);
        assert!(texts(&effects).contains("write again what is missing: other.py."), "{}", texts(&effects));
    }
    let mut settled = turn.clone();
    let effects = answer(&mut turn, 4);
    assert_eq!(lines(&effects), ["finish escalated"]);
    assert!(texts(&effects).contains("other.py"), "{}", texts(&effects));
    // Who has read why, and leaves it at that, is done.
    let effects = settled.handle(files("x = 3\n"));
    let [Message::User { text, .. }] = &request(&effects).messages[..] else { panic!("{effects:?}") };
    assert!(text.contains("other.py would lose code (3)."), "{text}");
    assert_eq!(lines(&settled.handle(says("Nothing else must change."))), ["verify"]);
    assert_eq!(lines(&settled.handle(verified(vec![passing("test")]))), ["finish done"]);
}

#[test]
fn a_long_task_is_told_whole_in_each_round() {
    let task = format!("{}\nheliotrope\n{}", "first line\n".repeat(450), "last line\n".repeat(450));
    let profile = Profile { context: 16_384, tool_mode: ToolMode::Fenced, ..Profile::default() };
    let mut turn = Turn::new(Setup { profile, task: task.clone(), ..setup(vec![user(&task)]) });
    turn.handle(Input::Begin);
    let effects = turn.handle(unchanged(vec![]));
    let Some(Effect::Survey { room, .. }) = effects.last() else { panic!("{effects:?}") };
    let effects = turn.handle(files(&"x".repeat(*room)));
    let request = request(&effects);
    let [Message::User { text, .. }] = &request.messages[..] else { panic!("{request:?}") };
    assert!(text.contains(task.trim()), "{text}");
    let tokens = (request.system.len() + text.len()) as u64 * 340 / 1000;
    assert!(tokens + u64::from(request.max_output_tokens) < 16_384, "{tokens}");
}

#[test]
fn a_round_has_the_task_of_the_turn_that_was_not_done() {
    let long = format!("Mend it. {}heliotrope and no more.", "Mind the details. ".repeat(200));
    let past = |prompt: &str, ended: &str| agent::Past {
        prompt: prompt.into(),
        ended: ended.into(),
        ..agent::Past::default()
    };
    let earlier = vec![past("Look.", "done"), past(&long, "out_of_budget: the turn used 2 of 2 steps")];
    let profile = Profile { context: 16_384, tool_mode: ToolMode::Fenced, ..Profile::default() };
    let setup = Setup {
        profile,
        task: "Go on.".into(),
        unfinished: vec![long.clone()],
        earlier,
        ..setup(vec![user(&long), user("Go on.")])
    };
    let mut turn = Turn::new(setup.clone());
    assert_eq!(lines(&turn.handle(Input::Begin)), ["verify"], "it has not begun");
    turn.handle(unchanged(vec![]));
    let effects = turn.handle(files("x = 0\n"));
    let [Message::User { text, .. }] = &request(&effects).messages[..] else { panic!("{effects:?}") };
    let task = format!("The task:\n{long}\n\nAnd then, before that was done:\nGo on.\n");
    assert!(text.contains(&task), "{text}");
    assert!(text.starts_with("Earlier in this session, and over:\n- The user asked: Look."), "{text}");
    assert_eq!(text.matches("Mend it.").count(), 1, "{text}");
    // One that does not fit beside the turn's own prompt does not take its place.
    let unfinished = vec!["An old one. ".repeat(5000), long.clone()];
    let mut turn = Turn::new(Setup { unfinished, ..setup });
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![]));
    let effects = turn.handle(files("x = 0\n"));
    let [Message::User { text, .. }] = &request(&effects).messages[..] else { panic!("{effects:?}") };
    assert!(text.contains(&task), "{text}");
}

#[test]
fn a_task_that_leaves_no_room_for_files_needs_another_model() {
    let begin = |length: usize| {
        let task = "line\n".repeat(length / 5);
        let profile = Profile { context: 16_384, tool_mode: ToolMode::Fenced, ..Profile::default() };
        let mut turn = Turn::new(Setup { profile, task: task.clone(), ..setup(vec![user(&task)]) });
        turn.handle(Input::Begin);
        turn.handle(unchanged(vec![]))
    };
    // The request may have 14,360 tokens, which are 42,235 bytes, less those of the instructions.
    assert_eq!(lines(&begin(25_000)), ["survey"]);
    let effects = begin(26_000);
    assert_eq!(lines(&effects), ["change model"]);
    let told = texts(&effects);
    assert!(
        told.starts_with("the prompt has about 8840 tokens, and the model can read 8691 of one "),
        "{told}"
    );
    assert!(told.contains("(its context has 16384): shorten it by about "), "{told}");
}

#[test]
fn code_without_a_path_is_asked_for_while_something_fails() {
    let mut turn = turn(ToolMode::Fenced);
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![]));
    let code = || says("Like this:\n```\nx = 1\n```\nor\n```\nx = 2\n```");
    for _ in 0..3 {
        turn.handle(files("x = 0\n"));
        assert_eq!(lines(&turn.handle(code())), ["verify"]);
        let effects = turn.handle(unchanged(vec![failing("test", &["adds"])]));
        assert!(texts(&effects).contains("not the path of its file"), "{}", texts(&effects));
    }
    turn.handle(files("x = 0\n"));
    turn.handle(code());
    assert_eq!(lines(&turn.handle(unchanged(vec![failing("test", &["adds"])]))), ["finish escalated"]);
}

#[test]
fn in_rounds_only_the_same_is_withheld() {
    let mut turn = turn(ToolMode::Fenced);
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![]));
    let look = "```sh\nls\n```";
    for id in ["text_1", "text_2"] {
        turn.handle(files("x = 0\n"));
        assert_eq!(lines(&turn.handle(says(look))), [format!("run {id} shell")]);
        let effects = turn.handle(ended(id, "calc.py"));
        if id == "text_2" {
            assert_eq!(lines(&effects), ["tell", "survey"]);
            assert!(
                texts(&effects).ends_with("The same again is not done in the next step."),
                "{}",
                texts(&effects)
            );
        }
    }
    turn.handle(files("x = 0\n"));
    let mut other = turn.clone();
    assert_eq!(lines(&turn.handle(says(look))), ["reject text_3 shell", "survey"]);
    assert_eq!(lines(&other.handle(says("```sh\ncat calc.py\n```"))), ["run text_3 shell"]);
}

#[test]
fn words_after_a_change_are_no_round_and_what_the_work_brought_in_is_told() {
    let mut turn = turn(ToolMode::Fenced);
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![failing("test", &["rounds"])]));
    turn.handle(files("x = 0\n"));
    turn.handle(says("calc.py\n```python\nimport numbers_of_others\n```"));
    turn.handle(ended("text_1", "Wrote calc.py."));
    let broken = || verified(vec![not_compiling("test", "no such module", 1)]);
    let effects = turn.handle(broken());
    assert_eq!(lines(&effects), ["tell", "survey"]);
    let told = texts(&effects);
    assert!(told.contains("Your changes brought this in") && told.contains("failed: rounds"), "{told}");
    // Who only talks is asked for the file and loses no round by it, but not for ever.
    for _ in 0..3 {
        turn.handle(files("import numbers_of_others\n"));
        assert_eq!(lines(&turn.handle(says("Install the module."))), ["verify"]);
        let effects = turn.handle(broken());
        assert!(
            texts(&effects).starts_with("Your answer has no file and no command."),
            "{}",
            texts(&effects)
        );
    }
    for _ in 0..2 {
        turn.handle(files("import numbers_of_others\n"));
        turn.handle(says("Install the module."));
        let effects = turn.handle(broken());
        if lines(&effects) == ["finish escalated"] {
            assert!(texts(&effects).contains("after 2 rounds without progress"), "{}", texts(&effects));
            return;
        }
        assert_eq!(lines(&effects), ["tell", "survey"]);
    }
    panic!("it goes on for ever");
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
fn an_answer_that_is_no_step_is_told_of_and_is_not_the_end() {
    let broken = r#"{"call": {"tool": "read", "path": "say "a""}}"#;
    for (words, ends) in [("I would read the file a first.", "verify"), (broken, "finish failed")] {
        let mut turn = turn(ToolMode::JsonStep);
        turn.handle(Input::Begin);
        for _ in 0..3 {
            let effects = turn.handle(says(words));
            assert_eq!(lines(&effects), ["tell", "call model"], "{words}");
            assert_eq!(mistakes(&effects), [Mistake::BrokenArguments]);
            assert!(texts(&effects).contains("not one JSON object"), "{}", texts(&effects));
            let sent = &request(&effects).messages;
            assert_eq!(sent[sent.len() - 2], Message::Assistant { parts: vec![text(words)] });
        }
        let mut settled = turn.clone();
        assert_eq!(lines(&turn.handle(says(words))), [ends], "{words}");
        // Who writes a step has all its chances again.
        let step = r#"{"thought": "", "call": {"tool": "read", "path": "a"}}"#;
        assert_eq!(lines(&settled.handle(says(step))), ["run text_1 read"]);
        settled.handle(ended("text_1", "nothing"));
        assert_eq!(lines(&settled.handle(says(words))), ["tell", "call model"], "{words}");
    }
}

#[test]
fn a_call_in_words_that_cannot_be_read_is_not_the_end() {
    let mut turn = begun();
    let shown = || says("```json\n{\"name\": \"list\", \"arguments\": {}}\n```\nThis will show the files.");
    for _ in 0..3 {
        let effects = turn.handle(shown());
        assert_eq!(lines(&effects), ["tell", "call model"]);
        assert_eq!(mistakes(&effects), [Mistake::BrokenArguments]);
    }
    let mut settled = turn.clone();
    assert_eq!(lines(&settled.handle(says("That was only an example."))), ["verify"]);
    assert_eq!(lines(&turn.handle(shown())), ["finish failed"]);
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
    let offered = names(request(&effects));
    assert!(!offered.contains(&"list".to_owned()) && offered.contains(&"read".to_owned()), "{offered:?}");
    // Who calls it all the same is refused, and has it again afterwards.
    let effects = turn.handle(look());
    assert_eq!(lines(&effects), ["reject c list", "call model"]);
    assert!(texts(&effects).contains("withheld for this step"), "{}", texts(&effects));
    assert_eq!(mistakes(&effects), [Mistake::RepeatedCalls], "it is no unknown tool");
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
    let answer = completion(vec![text(&words)], protocol::chat::Stop::Length);
    let recorded = turn.read(answer.clone());
    let effects = turn.handle(Input::Answered(answer));
    assert!(texts(&effects).contains("the same again and again"), "{}", texts(&effects));
    assert_eq!(mistakes(&effects), [Mistake::EndlessAnswer]);
    let sent = &request(&effects).messages[1];
    assert_eq!(sent, &Message::Assistant { parts: recorded.parts }, "what is recorded is what is sent");
    assert!(serde_json::to_string(sent).unwrap().len() < 200, "{sent:?}");
    // The same in thoughts that led to nothing, and in a call.
    let thought = protocol::chat::Part::Reasoning { text: words.clone(), signature: None };
    let effects = turn.handle(Input::Answered(completion(vec![thought], protocol::chat::Stop::Length)));
    assert!(texts(&effects).contains("the same again and again"), "{}", texts(&effects));
    assert_eq!(mistakes(&effects), [Mistake::EndlessAnswer]);
    let write = call("c", "write", &format!(r#"{{"path":"a","content":"{}"#, "0, ".repeat(9000)));
    let effects = turn.handle(Input::Answered(completion(vec![write], protocol::chat::Stop::Length)));
    assert_eq!(lines(&effects), ["reject c write", "call model"]);
    assert_eq!(mistakes(&effects), [Mistake::EndlessAnswer], "it is counted once");
}

#[test]
fn what_cannot_be_used_is_counted_by_its_kind() {
    let mut turn = begun();
    let effects = turn.handle(calls(&[("a", "bash", "{}"), ("b", "read", "{"), ("c", "list", "{}")]));
    assert_eq!(mistakes(&effects), [Mistake::UnknownTool, Mistake::BrokenArguments]);
    turn.handle(ended("c", "src/"));
    assert_eq!(mistakes(&turn.handle(says(" "))), [Mistake::EmptyAnswer]);
    assert_eq!(mistakes(&turn.handle(says("Done."))), []);
}

#[test]
fn calls_in_turns_are_noticed_withheld_and_end_the_turn() {
    let mut turn = begun();
    let mut seen = Vec::new();
    for step in 0..12 {
        let (tool, arguments) =
            if step % 2 == 0 { ("list", "{}") } else { ("shell", r#"{"command":"make"}"#) };
        let effects = turn.handle(calls(&[("c", tool, arguments)]));
        let mut counted = mistakes(&effects);
        if lines(&effects) == [format!("run c {tool}")] {
            let effects = turn.handle(ended("c", "nothing new"));
            counted.extend(mistakes(&effects));
            seen.push(format!("{} {}", lines(&effects).join("+"), counted.len()));
        } else {
            seen.push(format!("{} {}", lines(&effects).join("+"), counted.len()));
        }
    }
    // After the sixth it is told, and has neither tool for a step.
    insta::assert_snapshot!(seen.join("\n"), @"
    call model 0
    call model 0
    call model 0
    call model 0
    call model 0
    tell+call model 1
    reject c list+call model 1
    call model 0
    call model 0
    call model 0
    call model 0
    finish escalated 1
    ");
}

#[test]
fn the_same_within_one_answer_is_one_repetition() {
    let mut turn = begun();
    let same = |id: &'static str| (id, "list", "{}");
    let answer = |turn: &mut Turn| {
        turn.handle(calls(&["a", "b", "c"].map(same)));
        let mut effects = Vec::new();
        for id in ["a", "b", "c"] {
            effects = turn.handle(ended(id, "src/"));
        }
        effects
    };
    for _ in 0..2 {
        assert_eq!(lines(&answer(&mut turn)), ["call model"]);
    }
    let effects = answer(&mut turn);
    assert_eq!(lines(&effects), ["tell", "call model"]);
    assert_eq!(mistakes(&effects), [Mistake::RepeatedCalls]);
    let rejected = turn.handle(calls(&["a", "b", "c"].map(same)));
    assert_eq!(lines(&rejected), ["reject a list", "reject b list", "reject c list", "call model"]);
    assert_eq!(lines(&answer(&mut turn)), ["call model"]);
    assert_eq!(lines(&answer(&mut turn)), ["finish escalated"]);
}

#[test]
fn thoughts_alone_are_an_empty_answer() {
    for (mode, words) in [
        (ToolMode::Native, "<think>I look first.</think>"),
        (ToolMode::Native, "<think>I look first, and it never ends"),
        (ToolMode::JsonStep, "<think>I look first.</think>\n"),
        (ToolMode::Fenced, "<think>I look first.</think>"),
    ] {
        let mut turn = turn(mode);
        turn.handle(Input::Begin);
        if mode == ToolMode::Fenced {
            turn.handle(unchanged(vec![]));
            turn.handle(files("x = 0\n"));
        }
        let effects = turn.handle(says(words));
        assert_eq!(mistakes(&effects), [Mistake::EmptyAnswer], "{words}");
        assert!(texts(&effects).starts_with("Your answer was empty."), "{}", texts(&effects));
    }
    let mut turn = begun();
    assert_eq!(lines(&turn.handle(says("<think>I look.</think>\nIt is done."))), ["verify"]);
}

#[test]
fn the_reply_to_an_unknown_tool_says_what_ends_the_work() {
    let mut turn = turn(ToolMode::JsonStep);
    turn.handle(Input::Begin);
    let effects = turn.handle(says(r#"{"thought": "", "call": {"tool": "done", "summary": "x"}}"#));
    assert!(texts(&effects).contains("To end the work, call finish."), "{}", texts(&effects));
    assert!(request(&effects).system.contains("- Each answer has one call"), "{}", request(&effects).system);
}

/// A fenced turn before its first answer, which is to be written as far as it can be.
fn answered_in_blocks(answer: Input) -> (Turn, Vec<Effect>) {
    let mut turn = turn(ToolMode::Fenced);
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![]));
    turn.handle(files("x = 0\n"));
    let effects = turn.handle(answer);
    assert_eq!(lines(&effects)[0], "run text_1 write");
    assert_eq!(lines(&turn.handle(ended("text_1", "Wrote greet.txt."))), ["verify"]);
    (turn, effects)
}

#[test]
fn an_answer_that_was_cut_off_after_a_whole_file_is_not_the_end() {
    let half = "greet.txt\n```\nhello\n```\n\ncalc.py\n```python\ndef";
    let (turn, _) = answered_in_blocks(stopped(half, protocol::chat::Stop::Length));
    let mut passing = turn.clone();
    let effects = passing.handle(verified(vec![crate::script::passing("test")]));
    assert_eq!(lines(&effects), ["tell", "survey"]);
    let told = texts(&effects);
    assert!(told.contains("cut off at the token limit. Only the beginning of calc.py came"), "{told}");
    // The same where something fails, and where the files are as they were.
    let effects = turn.clone().handle(verified(vec![failing("test", &["adds"])]));
    assert!(texts(&effects).contains("of calc.py came") && texts(&effects).contains("failed: adds"));
    let effects = turn.clone().handle(unchanged(vec![]));
    assert!(texts(&effects).contains("of calc.py came"), "{}", texts(&effects));
    // Who goes on so gets nowhere.
    for round in 2.. {
        passing.handle(files("x = 0\n"));
        passing.handle(stopped(half, protocol::chat::Stop::Length));
        passing.handle(ended(&format!("text_{round}"), &format!("Wrote greet.txt{}", "!".repeat(round))));
        let effects = passing.handle(verified(vec![crate::script::passing("test")]));
        if lines(&effects) == ["finish escalated"] {
            assert!(texts(&effects).contains("raise max_output_tokens"), "{}", texts(&effects));
            assert_eq!(round, 4);
            break;
        }
    }
}

#[test]
fn a_block_that_is_in_no_file_is_told_of() {
    let answer = "greet.txt\n```\nhello\n```\n\nAnd then:\n```python\nx = 1\n```";
    let (mut turn, effects) = answered_in_blocks(says(answer));
    assert_eq!(mistakes(&effects), [Mistake::BrokenArguments]);
    let effects = turn.handle(verified(vec![passing("test")]));
    assert!(
        texts(&effects).contains("begins with `x = 1` does not say which file it is"),
        "{}",
        texts(&effects)
    );
    turn.handle(files("x = 0\n"));
    turn.handle(says("It was only to show something."));
    assert_eq!(lines(&turn.handle(verified(vec![passing("test")]))), ["finish done"]);
    // What is there already is only quoted, and so is what something prints.
    for shown in ["```python\nx = 0\n```", "```\n$ make\nok\n```", "```text\nx = 7\n```"] {
        let answer = format!("greet.txt\n```\nhello\n```\n\nAnd then:\n{shown}");
        let (mut turn, _) = answered_in_blocks(says(&answer));
        assert_eq!(lines(&turn.handle(verified(vec![passing("test")]))), ["finish done"], "{shown}");
    }
}

#[test]
fn a_plan_is_written_down_and_offered_where_tools_are() {
    let mut turn = begun();
    let effects = turn.handle(calls(&[("c", "plan", r#"{"items": "[>] look\n[ ] change"}"#)]));
    let [Effect::RunTool { tool: Invocation::Plan { items }, .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    assert_eq!(items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>(), ["look", "change"]);
    for (mode, offered) in [(ToolMode::Native, true), (ToolMode::JsonStep, true), (ToolMode::Fenced, false)] {
        let mut turn = self::turn(mode);
        let mut effects = turn.handle(Input::Begin);
        if mode == ToolMode::Fenced {
            turn.handle(unchanged(vec![]));
            effects = turn.handle(files("x = 0\n"));
        }
        let request = serde_json::to_string(request(&effects)).unwrap();
        assert_eq!(request.contains("to-do list"), offered, "{mode:?}");
    }
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

#[test]
fn only_the_first_of_several_steps_is_run_and_the_model_is_told_so() {
    let mut turn = turn(ToolMode::JsonStep);
    turn.handle(Input::Begin);
    let two = "{\"tool\": \"read\", \"path\": \"a\"}\n{\"tool\": \"read\", \"path\": \"b\"}\n{\"tool\": \"finish\"}";
    let effects = turn.handle(says(two));
    assert_eq!(mistakes(&effects), [Mistake::BrokenArguments]);
    let run: Vec<_> = effects.iter().filter(|effect| matches!(effect, Effect::RunTool { .. })).collect();
    assert!(matches!(run[..], [Effect::RunTool { tool: Invocation::Read { .. }, .. }]), "{effects:?}");
    let effects = turn.handle(ended("text_1", "one"));
    assert!(texts(&effects).contains("Only the first was run"), "{}", texts(&effects));
    let [.., Message::Assistant { .. }, Message::User { text, .. }] = &request(&effects).messages[..] else {
        panic!("{effects:?}")
    };
    assert!(
        text.contains("one") && text.ends_with("go on from there.") && text.contains("2 were left out"),
        "{text}"
    );
    let sent = format!("{:?}", request(&effects).messages);
    assert!(!sent.contains("Further steps"), "{sent}");
    // The next answer is judged by itself.
    let effects = turn.handle(says("{\"tool\": \"read\", \"path\": \"b\"}"));
    assert_eq!(mistakes(&effects), []);
    assert_eq!(texts(&turn.handle(ended("text_2", "two"))), "");
}

#[test]
fn a_fenced_file_that_cannot_be_written_is_answered_with_why() {
    for (answer, why) in [
        ("../../etc/evil.txt\n```\nx\n```", "outside of the workspace"),
        (".git/config\n```\n[core]\n```", "belongs to git"),
        ("my file.py\n```\nx = 1\n```", "no blanks"),
        ("```diff\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-x\n+y\n```", "a diff is not applied"),
    ] {
        let mut turn = turn(ToolMode::Fenced);
        turn.handle(Input::Begin);
        turn.handle(unchanged(vec![passing("test")]));
        turn.handle(files("x = 0\n"));
        let effects = turn.handle(says(answer));
        assert_eq!(mistakes(&effects), [Mistake::BrokenArguments], "{answer}: {effects:?}");
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::RunTool { .. })), "{effects:?}");
        let effects = turn.handle(files("x = 0\n"));
        let [Message::User { text, .. }] = &request(&effects).messages[..] else { panic!("{effects:?}") };
        assert!(text.contains("What happened last:") && text.contains(why), "{answer}: {text}");
    }
    let mut turn = turn(ToolMode::Fenced);
    turn.handle(Input::Begin);
    turn.handle(unchanged(vec![]));
    turn.handle(files("x = 0\n"));
    assert_eq!(lines(&turn.handle(says("calc.py\n~~~python\nx = 1\n~~~\n"))), ["run text_1 write"]);
}
