//! Whoever decides on a call sees what it would change, and whoever waits knows until when.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{
    ApprovalId, AskedCall, Decide, EditFormat, EventBody, Gate, ItemKind, Outcome, Permission, Policy,
    PolicyRule, SetupStep, ToolMode,
};
use serde_json::json;
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

/// A session in which a person is asked for everything that changes files.
async fn world(script: Script, edit_format: EditFormat) -> World {
    let rules = ["write", "edit", "apply_patch"].map(|tool| PolicyRule::tool(Permission::Ask, tool));
    let profile = llm::Overrides {
        tool_mode: Some(ToolMode::Native),
        edit_format: Some(edit_format),
        ..llm::Overrides::default()
    };
    let world = World::new(script).await.profile(profile);
    world.environment(|environment| {
        environment.checks = Vec::new();
        environment.policy = Policy { rules: rules.to_vec(), after_every: None };
    })
}

async fn asked(follow: &mut Follow) -> (ApprovalId, String, Option<AskedCall>) {
    let event = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    let EventBody::ApprovalRequested { approval, question, call, .. } = event.body else { unreachable!() };
    (approval, question, call.map(|call| *call))
}

/// What is shown of each call before it runs; all of them are approved.
async fn shown(script: Script, format: EditFormat, count: usize) -> Vec<(String, Option<String>)> {
    let world = world(script.say("Done."), format).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let mut shown = Vec::new();
    for _ in 0..count {
        let (approval, question, call) = asked(&mut follow).await;
        shown.push((question, call.unwrap().diff));
        let yes = Decide { approved: true, ..Decide::default() };
        sessions.decide(id, ann(), approval, yes).await.unwrap();
    }
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    world.end(sessions).await;
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_is_shown_with_its_files_in_whatever_form_it_came() {
    let sections = "*** Begin Patch\n*** Update File: ./a.txt\n*** Move to: b.txt\n@@\n one\n-two\n+zwei\n*** Add File: c.txt\n+new\n*** End Patch";
    let unified = "--- a/b.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n one\n-zwei\n+dos\n three\n";
    let script = Script::new()
        .call("shell", json!({"command": "printf 'one\\ntwo\\nthree\\n' > a.txt"}))
        .call("apply_patch", json!({"patch": sections}))
        .call("apply_patch", json!({"patch": unified}));
    let shown = shown(script, EditFormat::Patch, 2).await;
    let (question, diff) = &shown[0];
    assert!(question.starts_with("Run apply_patch b.txt, c.txt?"), "{question}");
    let expected = "diff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n--- a/a.txt\n+++ b/b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n\
                    diff --git a/c.txt b/c.txt\nnew file mode 100644\n--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1,1 @@\n+new\n";
    assert_eq!(diff.as_deref(), Some(expected));
    let second = shown[1].1.as_deref().unwrap();
    assert!(
        second.starts_with("diff --git a/b.txt b/b.txt\n") && second.contains("\n-zwei\n+dos\n"),
        "{second}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_over_is_shown_with_what_goes() {
    let script = Script::new()
        .call("shell", json!({"command": "printf 'one\\ntwo\\nthree\\n' > a.txt"}))
        .call("write", json!({"path": "a.txt", "content": "one\nthree\n"}))
        .call("edit", json!({"file_path": "a.txt", "old_str": "three", "new_str": "four"}))
        .call("edit", json!({"path": "a.txt", "old": "not there", "new": "x"}));
    let shown = shown(script, EditFormat::Replace, 3).await;
    let diffs: Vec<&str> = shown.iter().map(|(_, diff)| diff.as_deref().unwrap_or_default()).collect();
    assert!(diffs[0].ends_with("@@ -1,3 +1,2 @@\n one\n-two\n three\n"), "{}", diffs[0]);
    assert!(diffs[1].ends_with("@@ -1,2 +1,2 @@\n one\n-three\n+four\n"), "{}", diffs[1]);
    assert!(shown[1].0.starts_with("Run edit a.txt?"), "{}", shown[1].0);
    assert_eq!(diffs[2], "", "what does not fit changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_that_checks_passed_where_there_are_none() {
    let script = Script::new().call("shell", json!({"command": "echo 42 > answer.txt"})).say("Done.");
    let world = world(script, EditFormat::Replace).await;
    let world = world.environment(|environment| environment.approve = vec![Gate::Delivery]);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, question, _) = asked(&mut follow).await;
    assert!(question.contains("Nothing was checked") && !question.contains("passed"), "{question}");
    sessions.decide(id, ann(), approval, Decide { approved: true, ..Decide::default() }).await.unwrap();
    follow.finished().await;
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_waited_for_says_when_it_is_ended() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt", "timeout_ms": 300_000}))
        .call("shell", json!({"command": "true", "timeout_ms": 5_000}))
        .say("Done.");
    let step = SetupStep { run: "true".into(), timeout_s: Some(77), ..SetupStep::default() };
    let world = World::new(script).await.command_timeout(Duration::from_secs(30));
    let world = world.environment(|environment| environment.setup = vec![step]);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    // No longer than the server lets any command run, whatever was asked for.
    let limits: Vec<Option<u64>> = follow.calls().iter().map(|(_, call)| call.limit_ms).collect();
    assert_eq!(limits, [Some(30_000), Some(5_000)]);
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ItemStarted { item, .. } => match &item.kind {
            ItemKind::Report(report) => report.limit_ms,
            _ => None,
        },
        EventBody::SandboxChanged { state: SandboxState::Preparing, limit_ms, .. } => *limit_ms,
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [77_000, 30_000], "the set-up step, then the check");
    let model = sessions.models().remove(0);
    assert_eq!(model.idle_ms, 300_000);
    world.end(sessions).await;
}
