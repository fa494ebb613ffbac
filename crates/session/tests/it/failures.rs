//! What goes wrong outside the agent: each case says what happened and what to do, and leaves nothing behind.

use std::os::unix::fs::PermissionsExt;

use protocol::event::{DeliveryState, SandboxState};
use protocol::{Code, CreateSession, EventBody, ItemStatus, Outcome, SetupStep};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, ann, create};

/// The first error that was raised.
fn raised(follow: &Follow) -> (Code, String, Option<String>) {
    let error = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { code, message, hint } => Some((*code, message.clone(), hint.clone())),
        _ => None,
    });
    error.expect("an error was raised")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_repository_and_a_missing_branch_fail_the_turn() {
    let world = World::new(Script::new()).await.environment(|environment| {
        environment.repos[0].url = "/nowhere/at/all.git".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Anything").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    let (code, message, hint) = raised(&follow);
    assert_eq!(code, Code::RepositoryUnavailable);
    assert!(message.contains("/nowhere/at/all.git") && hint.is_some(), "{message}");
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "no sandbox is left");
    world.end(sessions).await;

    let world = World::new(Script::new()).await.environment(|environment| {
        environment.repos[0].branch = Some("absent".into());
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Anything").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    let (code, message, _) = raised(&follow);
    assert_eq!(code, Code::BranchNotFound);
    assert!(message.contains("absent") && message.contains("main"), "{message}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_set_up_step_shows_its_output() {
    let world = World::new(Script::new()).await.environment(|environment| {
        let step = |run: &str| SetupStep { run: run.into(), ..SetupStep::default() };
        environment.setup = vec![step("echo fine"), step("echo no such package >&2; exit 7")];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Anything").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    let (code, message, _) = raised(&follow);
    assert_eq!(code, Code::SetupFailed);
    assert!(message.contains("no such package") && message.contains("exited with 7"), "{message}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_server_that_is_down_is_tried_again_and_then_named() {
    let world = World::new(Script::new()).await.model_at("http://127.0.0.1:9/v1");
    let sessions = world.start().await;
    let id = create(&sessions, "Anything").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.unwrap().contains("127.0.0.1:9"));
    assert_eq!(raised(&follow).0, Code::ModelUnavailable);
    let retries: Vec<(u32, u32)> = follow
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RetryScheduled { attempt, attempts, .. } => Some((*attempt, *attempts)),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [(2, 4), (3, 4), (4, 4)]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_answers_rubbish_fails_the_turn_and_a_broken_stream_is_made_good() {
    let script = Script::new()
        .answer(Reply::text("This is lost on the way and said again").cut(3))
        .say("Said again.")
        .answer(Reply::raw(200, "text/html", "<html>a captive portal</html>"))
        .repeat_last();
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Talk").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let said: Vec<String> = follow
        .items()
        .iter()
        .filter_map(|item| match &item.kind {
            protocol::ItemKind::Message { text } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["Said again."], "what was streamed before the retry counts for nothing");
    sessions.prompt(id, ann(), "Talk more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    assert_eq!(raised(&follow).0, Code::ModelMisbehaved);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_push_fails_the_turn_and_can_be_delivered_later() {
    let script =
        Script::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"})).say("Done.");
    let world = World::new(script).await;
    let hook = world.repo.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho 'the branch is frozen' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains(&format!("slipway deliver {id}")), "{reason}");
    assert_eq!(raised(&follow).0, Code::DeliveryFailed);
    let states: Vec<DeliveryState> = follow.deliveries().iter().map(|delivery| delivery.state).collect();
    assert_eq!(states, [DeliveryState::Intended, DeliveryState::Failed]);

    assert_eq!(sessions.deliver(id, ann()).await.unwrap_err().code, Code::DeliveryFailed);
    std::fs::remove_file(hook).unwrap();
    let delivery = sessions.deliver(id, ann()).await.unwrap();
    assert_eq!(delivery.state, DeliveryState::Pushed);
    assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
    let seq = sessions.get(id).await.unwrap().seq;
    assert_eq!(sessions.deliver(id, ann()).await.unwrap(), delivery, "twice is the same");
    assert_eq!(sessions.get(id).await.unwrap().seq, seq);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_dies_is_replaced_once_and_the_model_is_told() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 43 > answer.txt; echo begun; sleep 1000"}))
        .call("shell", json!({"command": "cat answer.txt; echo again; sleep 1000"}))
        .say("Never said.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Work").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    let first = sessions.get(id).await.unwrap().sandbox.unwrap();
    world.driver.remove(first).await.unwrap();
    follow.text("again").await;
    let (item, call) = follow.calls()[0];
    assert_eq!(item.status, ItemStatus::Interrupted);
    let text = &call.output.as_ref().unwrap().text;
    assert!(text.contains("The sandbox died"), "{text}");
    let second = sessions.get(id).await.unwrap().sandbox.unwrap();
    assert_ne!(first, second);
    world.driver.remove(second).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.unwrap().contains("twice"));
    let lost = follow
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::SandboxChanged { state: SandboxState::Lost, .. }));
    assert_eq!(lost.count(), 2);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_work_are_refused_with_a_hint() {
    let world = World::new(Script::new()).await;
    let sessions = world.start().await;
    let ask = |environment: &str, prompt: &str, model: Option<&str>| {
        let request = CreateSession {
            environment: environment.into(),
            prompt: prompt.into(),
            images: Vec::new(),
            model: model.map(str::to_owned),
            budgets: None,
            policy: None,
        };
        sessions.create(ann(), request)
    };
    let refused = ask("absent", "x", None).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.hint.as_deref()),
        (Code::EnvironmentNotFound, Some("the environments are: plain"))
    );
    let refused = ask("plain", "x", Some("absent")).await.unwrap_err();
    assert_eq!((refused.code, refused.hint.as_deref()), (Code::ModelNotFound, Some("the models are: main")));
    assert_eq!(ask("plain", " \n", None).await.unwrap_err().code, Code::BadRequest);
    assert_eq!(ask("plain", &"x".repeat(300_000), None).await.unwrap_err().code, Code::TooLarge);
    assert_eq!(sessions.get(protocol::SessionId::new()).await.unwrap_err().code, Code::NotFound);
    assert!(sessions.list().await.unwrap().is_empty());

    let recipe = sessions.environment("plain").await.unwrap().recipe;
    assert_eq!(sessions.put_environment("plain", recipe.clone()).await.unwrap_err().code, Code::Conflict);
    sessions.put_environment("copy", recipe.clone()).await.unwrap();
    let mut wrong = recipe;
    wrong.repos[0].branch = Some("absent".into());
    assert_eq!(sessions.put_environment("wrong", wrong).await.unwrap_err().code, Code::BranchNotFound);
    let names: Vec<String> = sessions.environments().await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["copy", "plain"]);
    sessions.remove_environment("copy").await.unwrap();
    assert_eq!(sessions.remove_environment("copy").await.unwrap_err().code, Code::EnvironmentNotFound);
    world.end(sessions).await;
}
