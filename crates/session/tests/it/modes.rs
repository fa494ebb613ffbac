//! Models that are worked with in other ways: rounds of fenced blocks, steps in JSON, patches.

use protocol::chat::Message;
use protocol::{EditFormat, ItemStatus, Outcome, ToolMode};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, create};

fn mode(tool_mode: ToolMode, edit_format: EditFormat) -> llm::Overrides {
    llm::Overrides { tool_mode: Some(tool_mode), edit_format: Some(edit_format), ..llm::Overrides::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_writes_fenced_blocks_gets_a_fresh_context_each_round() {
    let script = Script::new()
        .say("answer.txt\n```\n40\n```")
        .say("40 is too little.\n\n**answer.txt**\n```\n42\n```\n");
    let world = World::new(script).await.profile(mode(ToolMode::Fenced, EditFormat::Whole));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct answer.txt").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    assert_eq!(world.model.violations(), Vec::<String>::new());
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    let requests = world.model.requests();
    let shown: Vec<String> = requests
        .iter()
        .map(|request| match request.messages.as_slice() {
            [Message::User { text, .. }] => text.clone(),
            other => panic!("one message in each round: {other:?}"),
        })
        .collect();
    assert!(
        shown[0].contains("Correct answer.txt") && shown[0].contains("answer.txt\n```\n41\n```"),
        "{}",
        shown[0]
    );
    assert!(shown[1].contains("answer.txt\n```\n40\n```") && shown[1].contains("failed"), "{}", shown[1]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_works_in_rounds_knows_the_turns_before() {
    let script = Script::new()
        .say("It was too little.\n\nanswer.txt\n```\n42\n```")
        .say("notes/why.txt\n```\nSix by seven.\n```");
    let world = World::new(script).await.profile(mode(ToolMode::Fenced, EditFormat::Whole));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.prompt(id, crate::support::ann(), "Write down why.".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let requests = world.model.requests();
    assert!(!requests[0].last_user().unwrap().contains("Earlier in this session"));
    let second = requests[1].last_user().unwrap();
    for part in [
        "The user asked: Correct the answer",
        "It ended as done",
        "Files written: answer.txt",
        "You said: It was too little.",
        "The task:\nWrite down why.",
    ] {
        assert!(second.contains(part), "{part} is not in {second}");
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_writes_steps_in_json_is_held_to_a_schema() {
    let step = |call: serde_json::Value| json!({"thought": "next", "call": call}).to_string();
    let script = Script::new()
        .say(step(json!({"tool": "read", "path": "answer.txt"})))
        .say(step(json!({"tool": "write", "path": "answer.txt", "content": "42\n"})))
        .say(step(json!({"tool": "finish", "summary": "Corrected."})));
    let world = World::new(script).await.profile(mode(ToolMode::JsonStep, EditFormat::Whole));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    assert_eq!(world.model.violations(), Vec::<String>::new());
    let requests = world.model.requests();
    assert!(requests.iter().all(|request| request.tools.is_empty()));
    assert!(requests[0].json.to_string().contains("\"anyOf\""), "{}", requests[0].json);
    assert!(requests[1].last_user().unwrap().contains("read gave:"), "{:?}", requests[1].last_user());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_several_files_or_none() {
    let patch = |old: &str| {
        json!({"patch": format!(
            "*** Begin Patch\n*** Update File: answer.txt\n@@\n-{old}\n+42\n*** Add File: notes/why.txt\n+Six by seven.\n*** Delete File: README.md\n*** End Patch"
        )})
    };
    let script = Script::new()
        .call("apply_patch", patch("40"))
        .call("apply_patch", patch("41"))
        .say("The answer is 42 now.");
    let world = World::new(script).await.profile(mode(ToolMode::Native, EditFormat::Patch));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    let status: Vec<ItemStatus> = follow.calls().iter().map(|(item, _)| item.status).collect();
    assert_eq!(status, [ItemStatus::Failed, ItemStatus::Completed]);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(world.repo.file(&branch, "notes/why.txt").as_deref(), Some("Six by seven.\n"));
    assert_eq!(world.repo.file(&branch, "README.md"), None);
    assert!(world.model.requests()[0].tool_names().contains(&"apply_patch"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_would_lose_code_is_written_only_if_the_model_insists() {
    let write = |content: &str| json!({"path": "calc.py", "content": content});
    let whole = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n";
    let part = "def add(a, b):\n    return b + a\n";
    let script = Script::new()
        .call("write", write(whole))
        .call("write", write(part))
        .call("write", write(part))
        .answer(Reply::new().call("shell", json!({"command": "cat calc.py; echo 42 >answer.txt"})))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Write it").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let calls = follow.calls();
    let status: Vec<ItemStatus> = calls.iter().map(|(item, _)| item.status).collect();
    use ItemStatus::{Completed, Failed};
    assert_eq!(status, [Completed, Failed, Completed, Completed]);
    let refusal = &calls[1].1.output.as_ref().unwrap().text;
    assert!(refusal.contains("leaves out `sub`") && refusal.contains("same call again"), "{refusal}");
    assert!(calls[3].1.output.as_ref().unwrap().text.contains("b + a"));
    world.end(sessions).await;
}

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";
const WITHOUT_SUB: &str = "def add(a, b):\n    return a - b\n";

/// A world with a file of two functions and a check of it.
async fn calc(script: Script, tool_mode: ToolMode, check: &str) -> World {
    let world = World::with(testkit::repo::Repo::bare_with(&[("calc.py", CALC)]), script).await;
    let run = check.to_owned();
    world
        .profile(mode(tool_mode, EditFormat::Whole))
        .environment(|environment| environment.checks[0].run = run)
}

/// An answer that writes the file, in the way of each mode.
fn writes(script: Script, tool_mode: ToolMode, content: &str) -> Script {
    match tool_mode {
        ToolMode::Native => script.call("write", json!({"path": "calc.py", "content": content})),
        ToolMode::Fenced => script.say(format!("calc.py\n```python\n{content}```")),
        ToolMode::JsonStep => {
            let call = json!({"tool": "write", "path": "calc.py", "content": content});
            script.say(json!({"thought": "", "call": call}).to_string())
        }
    }
}

fn ends(script: Script, tool_mode: ToolMode) -> Script {
    match tool_mode {
        ToolMode::Native => script.say("Done."),
        ToolMode::Fenced => script,
        ToolMode::JsonStep => {
            let call = json!({"tool": "finish", "summary": "Done."});
            script.say(json!({"thought": "", "call": call}).to_string())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_can_be_removed_in_every_mode() {
    for tool_mode in [ToolMode::Native, ToolMode::Fenced, ToolMode::JsonStep] {
        // Named by the task it goes at once; else it goes when the model was told and writes the same again.
        for (task, times) in [("Remove the function sub from calc.py", 1), ("Make calc.py shorter", 2)] {
            let script = (0..times).fold(Script::new(), |script, _| writes(script, tool_mode, WITHOUT_SUB));
            let world = calc(ends(script, tool_mode), tool_mode, "grep -q 'def add' calc.py").await;
            let sessions = world.start().await;
            let id = create(&sessions, task).await;
            let mut follow = Follow::new(&sessions, id).await;
            let finished = follow.finished().await;
            assert_eq!(finished.outcome, Outcome::Done, "{tool_mode:?} {task}: {:?}", finished.reason);
            let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
            assert_eq!(
                world.repo.file(&branch, "calc.py").as_deref(),
                Some(WITHOUT_SUB),
                "{tool_mode:?} {task}"
            );
            let told: Vec<String> =
                follow.calls().iter().map(|(_, call)| call.output.as_ref().unwrap().text.clone()).collect();
            assert_eq!(told.len(), times, "{told:?}");
            assert!(times == 1 || told[0].contains("leaves out `sub`"), "{told:?}");
            world.end(sessions).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_small_model_left_out_comes_back_when_the_checks_fail() {
    let mended = CALC.replacen("a - b", "a + b", 1);
    let script = [WITHOUT_SUB, WITHOUT_SUB, &mended]
        .iter()
        .fold(Script::new(), |script, content| writes(script, ToolMode::Fenced, content));
    let world = calc(script, ToolMode::Fenced, "grep -q 'a + b' calc.py").await;
    let sessions = world.start().await;
    let id = create(&sessions, "Mend add in calc.py").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    let told: Vec<String> =
        follow.calls().iter().map(|(_, call)| call.output.as_ref().unwrap().text.clone()).collect();
    assert!(
        told[0].contains("leaves out `sub`") && told[1].contains("comes back if the checks fail"),
        "{told:?}"
    );
    let requests = world.model.requests();
    let last = requests[2].last_user().unwrap();
    assert!(last.contains("calc.py has `sub` again") && last.contains("def sub"), "{last}");
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "calc.py"), Some(mended));
    world.end(sessions).await;
}
