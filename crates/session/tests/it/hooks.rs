//! Hooks: programs in the sandbox that veto, rewrite and remark, and never open a way around the policies.

use protocol::item::ToolCall;
use protocol::{
    Actor, ApprovalId, AskedCall, Code, Decide, EventBody, Hook, HookDeed, HookPoint, ItemStatus, Outcome,
    Permission, PolicyRule,
};
use serde_json::{Value, json};
use session::ShutDown;
use testkit::model::{Reply, Script};
use testkit::repo::Repo;

use crate::support::{Follow, World, ann, create};

fn hook(on: HookPoint, tool: &str, run: &str) -> Hook {
    Hook { on, tool: tool.to_owned(), run: run.to_owned(), timeout_s: None }
}

fn before(tool: &str, run: &str) -> Hook {
    hook(HookPoint::Before, tool, run)
}

async fn world(script: Script, hooks: Vec<Hook>) -> World {
    World::new(script).await.environment(|environment| environment.hooks = hooks)
}

fn text(call: &ToolCall) -> &str {
    call.output.as_ref().map_or("", |output| &output.text)
}

fn deeds(call: &ToolCall) -> Vec<HookDeed> {
    call.hooks.iter().map(|run| run.did).collect()
}

fn shell(command: &str) -> Value {
    json!({ "command": command })
}

/// Waits until somebody is asked.
async fn asked(follow: &mut Follow) -> (ApprovalId, AskedCall) {
    let event = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    match event.body {
        EventBody::ApprovalRequested { approval, call: Some(call), .. } => (approval, *call),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_vetoes_rewrites_and_remarks_and_people_see_it() {
    let guard = r#"call=$(cat); case $call in
        *forbidden*) echo '{"decision": "deny", "reason": "not in this house"}' ;;
        *objectionable*) echo "I object" >&2; exit 2 ;;
        *rewritten*) echo '{"arguments": {"command": "echo otherwise"}, "reason": "the old way is gone"}' ;;
        esac"#;
    let log = r#"cat >> /tmp/seen; echo >> /tmp/seen"#;
    let add = r#"grep -q '"text":"answer: 41' && echo '{"add": "(that is wrong)"}' || true"#;
    let replace = r#"echo '{"text": "nothing to see"}'"#;
    let hooks = vec![
        before("shell|write", guard),
        before("*", log),
        hook(HookPoint::After, "shell", add),
        hook(HookPoint::After, "list", replace),
        hook(HookPoint::After, "list", "echo oops; exit 1"),
    ];
    let script = Script::new()
        .call("shell", shell("echo forbidden"))
        .call("shell", shell("echo objectionable"))
        .call("shell", shell("echo rewritten"))
        .call("shell", shell("echo answer: $(cat answer.txt)"))
        .call("list", json!({}))
        .call("shell", shell("cat /tmp/seen; pwd; id -u > /dev/null"))
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "forbidden"}))
        .call("shell", json!({"nonsense": 1}))
        .say("Nothing to do.");
    let world = world(script, hooks).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Try it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let calls = follow.calls();
    let (item, call) = calls[0];
    assert_eq!(item.status, ItemStatus::Failed);
    assert!(
        text(call).starts_with("Not run: the hook `call=$(cat); case $call in…` vetoed"),
        "{}",
        text(call)
    );
    assert!(text(call).contains("vetoed this call: not in this house"), "{}", text(call));
    assert_eq!((deeds(call), call.duration_ms), (vec![HookDeed::Vetoed], None), "it did not run");
    assert!(text(calls[1].1).contains("I object"), "{}", text(calls[1].1));
    let (item, call) = calls[2];
    assert_eq!(
        (item.status, deeds(call)),
        (ItemStatus::Completed, vec![HookDeed::Rewrote, HookDeed::Passed, HookDeed::Passed])
    );
    assert_eq!(call.hooks[0].from, Some(shell("echo rewritten")));
    assert_eq!(call.input, shell("echo otherwise"));
    assert!(text(call).contains("changed this call before it ran (the old way is gone)"), "{}", text(call));
    assert!(text(call).contains("\notherwise\n"), "{}", text(call));
    assert!(text(calls[3].1).ends_with("(that is wrong)"), "{}", text(calls[3].1));
    let (item, call) = calls[4];
    assert_eq!(item.status, ItemStatus::Completed);
    assert!(text(call).starts_with("nothing to see\n(The hook `echo oops; exit 1` failed"), "{}", text(call));
    assert_eq!(deeds(call), [HookDeed::Passed, HookDeed::Replaced, HookDeed::Failed]);
    let seen = text(calls[5].1);
    assert!(
        seen.contains(r#"{"arguments":{"command":"echo otherwise"},"on":"before","tool":"shell"}"#),
        "{seen}"
    );
    assert!(
        !seen.contains("forbidden") && seen.contains("/workspace"),
        "what is vetoed goes no further: {seen}"
    );
    let (_, call) = calls[6];
    assert!(text(call).contains("not in this house"), "write means every way to write: {}", text(call));
    assert_eq!(deeds(calls[7].1), [], "what is no call is shown to nobody");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    let told = world.model.requests()[1].results()[0].clone();
    assert!(told.text.contains("not in this house"), "{told:?}");
    let kept: Vec<&str> =
        world.model.requests()[3].json.to_string().matches("echo rewritten").map(|_| "").collect();
    assert_eq!(kept.len(), 1, "the model's own words stay as they were");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_before_a_call_vetoes_it() {
    let fails =
        ["exit 1", "echo so so", "kill -9 $$", "sleep 1000", "echo '{\"arguments\": {\"comand\": 1}}'"];
    for (run, why) in fails.into_iter().zip([
        "it failed: it exited with 1",
        "it failed: what it said cannot be read",
        "it failed: it was ended by signal 9",
        "it failed: it was not done after 1 s",
        "it gave arguments that cannot be used",
    ]) {
        let script = Script::new().call("shell", shell("echo ran > ran")).say("So be it.");
        let late = Hook { timeout_s: Some(1), ..before("shell", run) };
        let world = world(script, vec![late]).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Try it").await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!((finished.outcome, finished.receipt.files_changed), (Outcome::Done, 0), "{run}");
        assert!(follow.last_output().contains(why), "{run}: {}", follow.last_output());
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_call_is_decided_on_by_the_policies_again() {
    let run = r#"echo x >> /tmp/count; call=$(cat); case $call in
        *first*) echo '{"arguments": {"command": "git push origin"}}' ;;
        *second*) echo '{"arguments": {"command": "touch asked"}}' ;;
        *edited*) echo '{"arguments": {"command": "touch again"}}' ;;
        esac"#;
    let script = Script::new()
        .call("shell", shell("echo first"))
        .call("shell", shell("echo second"))
        .call("shell", shell("echo second time"))
        .call("shell", shell("wc -l < /tmp/count; ls"))
        .call("shell", shell("rm asked again"))
        .say("Nothing to do.");
    let world = World::new(script).await.environment(|environment| {
        environment.hooks = vec![before("shell", run)];
        let rule = |then, command: &str| PolicyRule {
            command: Some(command.to_owned()),
            ..PolicyRule::tool(then, "shell")
        };
        environment.policy.rules =
            vec![rule(Permission::Deny, "git push *"), rule(Permission::Ask, "touch *")];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Try it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, call) = asked(&mut follow).await;
    assert_eq!(call.input, shell("touch asked"), "people decide on what would run");
    let (item, first) = follow.calls()[0];
    assert_eq!((item.status, deeds(first)), (ItemStatus::Failed, vec![HookDeed::Rewrote]));
    assert!(text(first).contains("does not allow it") && first.duration_ms.is_none(), "{}", text(first));
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    // What was asked for before a restart is what runs after it.
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    let yes = Decide { approved: true, ..Decide::default() };
    sessions.decide(id, ann(), approval, yes.clone()).await.unwrap();
    let (approval, call) = asked(&mut follow).await;
    let second = follow.calls()[1].1;
    assert_eq!((second.input.clone(), deeds(second)), (shell("touch asked"), vec![HookDeed::Rewrote]));
    assert!(text(second).contains("a hook,") && text(second).contains("(exit code 0)"), "{}", text(second));
    assert_eq!(call.input, shell("touch asked"));
    // What a person writes is shown to hooks, and what they make of it is asked for again.
    let edited = Decide { input: Some(shell("echo edited")), ..yes.clone() };
    sessions.decide(id, Actor::user("bob"), approval, edited).await.unwrap();
    let (approval, call) = asked(&mut follow).await;
    assert_eq!(call.input, shell("touch again"));
    sessions.decide(id, ann(), approval, yes).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let seen = text(follow.calls()[3].1);
    // Two for the first calls, two for the third, and one for the look.
    assert!(seen.starts_with("5\n") && seen.contains("again\n") && seen.contains("asked\n"), "{seen}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_being_decided_on_is_decided_on_after_a_restart_and_runs_once() {
    let run = "echo asked >> /tmp/asked; until [ -e /tmp/go ]; do sleep 0.02; done";
    let wait = Hook { timeout_s: Some(60), ..before("write|shell", run) };
    let both = Reply::new()
        .call("write", json!({"path": "answer.txt", "content": "42\n"}))
        .call("shell", shell("echo ran >> /tmp/ran; cat /tmp/asked /tmp/ran"));
    let script = Script::new().answer(both).say("Done.");
    let world = world(script, vec![wait]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::UsageRecorded { .. })).await;
    let sandbox = loop {
        if let Some(sandbox) = sessions.get(id).await.unwrap().sandbox {
            break world.driver.adopt(sandbox).await.unwrap();
        }
        follow.next().await;
    };
    while sandbox.guest().stat("/tmp/asked").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    sandbox.guest().write_file("/tmp/go", "".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let calls = follow.calls();
    assert_eq!(calls.iter().map(|(item, _)| item.status).collect::<Vec<_>>(), [ItemStatus::Completed; 2]);
    assert_eq!(text(calls[1].1), "asked\nasked\nran\n(exit code 0)", "each was asked for once, and ran once");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_hook_and_the_call_does_not_run() {
    let run = "echo asked >> /tmp/asked; sleep 1000";
    let wait = Hook { timeout_s: Some(600), ..before("shell", run) };
    let script = Script::new().call("shell", shell("echo ran > /tmp/ran"));
    let world = world(script, vec![wait]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Try it").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::UsageRecorded { .. })).await;
    let sandbox = loop {
        if let Some(sandbox) = sessions.get(id).await.unwrap().sandbox {
            break world.driver.adopt(sandbox).await.unwrap();
        }
        follow.next().await;
    };
    while sandbox.guest().stat("/tmp/asked").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    sessions.stop(id, ann()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    assert!(follow.calls().iter().all(|(item, _)| item.status == ItemStatus::Cancelled));
    assert!(sandbox.guest().stat("/tmp/ran").await.is_err(), "it did not run");
    let left = sandbox.guest().processes().await.unwrap();
    assert!(!left.iter().any(|known| known.id.starts_with("hook-") && known.exit.is_none()), "{left:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_has_hooks_of_its_own_and_a_wrong_one_is_told() {
    let recipe = |tool: &str| {
        format!("hooks = [{{ on = \"before\", tool = \"{tool}\", run = \"./guard.sh\", timeout_s = 5 }}]\n")
    };
    let guard = "#!/bin/sh\ngrep -q forbidden && { echo 'the repository says no' >&2; exit 2; }\nexit 0\n";
    let repo = Repo::plain();
    repo.commit("main", &[(".slipway.toml", &recipe("shell")), ("guard.sh", guard)]);
    let script = Script::new().call("shell", shell("echo forbidden")).say("Nothing to do.");
    let world = World::with(repo, script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Try it").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().contains("the repository says no"), "{}", follow.last_output());

    world.repo.commit("main", &[(".slipway.toml", &recipe("bash"))]);
    let id = create(&sessions, "Try it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    let reason = finished.reason.unwrap();
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(reason.contains(".slipway.toml") && reason.contains("unknown tool, \"bash\""), "{reason}");
    let hint = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { code: Code::SetupFailed, hint, .. } => hint.clone(),
        _ => None,
    });
    assert!(hint.unwrap().contains("shell, process, read"));
    world.end(sessions).await;
}
