//! Branch tips of which no image can be built: sessions begin there with what the last good image has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::event::SandboxState;
use protocol::{Code, EventBody, ImageState, ItemStatus, Outcome, SetupStep};
use serde_json::json;
use session::Sessions;
use testkit::model::Script;

use crate::support::{Follow, World, create};
use crate::terminal::Screen;
use crate::twisted::Twisted;

/// What the model does: it looks at what the set-up made, and works.
fn script() -> Script {
    Script::new()
        .call(
            "shell",
            json!({"command": "cat node_modules/made more.txt; ls half 2>&1; echo 42 > answer.txt"}),
        )
        .say("Done.")
}

/// A step that depends on everything, and takes away what it made before it fails.
fn fragile(environment: &mut protocol::Environment) {
    let run = "rm -rf node_modules; mkdir node_modules; touch half; \
               test ! -e more.txt || { echo no such package >&2; exit 7; }; echo whole > node_modules/made; rm half";
    environment.setup = vec![SetupStep { run: run.to_owned(), attempts: Some(1), ..SetupStep::default() }];
}

/// A world with an image of its first commit; the tip is at another.
async fn moved_on(world: &World, files: &[(&str, &str)]) -> (Sessions, String) {
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let good = world.repo.tip("main");
    world.repo.commit("main", files);
    (sessions, good)
}

/// Codes, messages and hints of what was raised.
fn raised(follow: &Follow) -> Vec<(Code, String, String)> {
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ErrorRaised { code, message, hint } => {
            Some((*code, message.clone(), hint.clone().unwrap_or_default()))
        }
        _ => None,
    });
    told.collect()
}

fn states(follow: &Follow) -> Vec<SandboxState> {
    let state = |event: &protocol::Event| match event.body {
        EventBody::SandboxChanged { state, .. } => Some(state),
        _ => None,
    };
    follow.events.iter().filter_map(state).collect()
}

/// Sees that the session worked at the tip, on what the good image has, and that everybody was told.
async fn worked_from_the_last_good(world: &World, sessions: &Sessions, good: &str, words: &str) -> Follow {
    let id = create(sessions, "Correct the answer").await;
    let mut follow = Follow::new(sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    let text = follow.last_output();
    assert!(text.contains("whole\nmore\n"), "the image's set-up and the tip's files: {text}");
    assert!(text.contains("cannot access 'half'"), "nothing of a step that failed: {text}");
    assert!(text.contains(words) && text.contains(&good[..12]), "the model was told: {text}");
    let told = raised(&follow);
    assert_eq!(told.len(), 1, "{told:?}");
    let (code, message, hint) = &told[0];
    assert_eq!(*code, Code::SetupFailed);
    assert!(message.contains(words) && message.contains(&world.repo.tip("main")[..12]), "{message}");
    assert!(hint.contains(&good[..12]) && hint.contains("slipway env build plain"), "{hint}");
    assert_eq!(sessions.diff(id).await.unwrap().base, world.repo.tip("main"));
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(world.repo.file(&branch, "more.txt").as_deref(), Some("more\n"));
    follow
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_fails_at_the_tip_is_left_as_it_is_in_the_image() {
    let world = World::new(script()).await.environment(fragile);
    let (sessions, good) = moved_on(&world, &[("more.txt", "more\n")]).await;
    let follow = worked_from_the_last_good(&world, &sessions, &good, "no such package").await;
    use SandboxState::{Creating, Ready, Stopped, Syncing};
    // The second time it says which step of the set-up runs, and how long that may take.
    assert_eq!(states(&follow), [Creating, Syncing, Syncing, Stopped, Creating, Syncing, Ready]);
    let limits = |event: &protocol::Event| match &event.body {
        EventBody::SandboxChanged { state: Syncing, detail: Some(step), limit_ms, .. } => {
            Some((step.contains("half"), limit_ms.is_some()))
        }
        _ => None,
    };
    assert_eq!(follow.events.iter().filter_map(limits).collect::<Vec<_>>(), [(true, true)]);
    let why = follow.events.iter().find_map(|event| match &event.body {
        EventBody::SandboxChanged { state: Stopped, detail, .. } => detail.clone(),
        _ => None,
    });
    assert!(why.as_ref().is_some_and(|why| why.contains("last good image")), "{why:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_that_failed_in_a_build_is_not_tried_again_in_a_session() {
    let world = World::new(script()).await.environment(fragile);
    let (sessions, good) = moved_on(&world, &[("more.txt", "more\n")]).await;
    let error = sessions.build_and_wait("plain").await.unwrap_err();
    assert!(error.title.contains("no such package"), "{error}");
    let status = sessions.image("plain").await.unwrap();
    assert_eq!((status.state, status.current.unwrap().commit), (ImageState::Failed, good.clone()));
    let words = "the image of plain could not be built";
    let follow = worked_from_the_last_good(&world, &sessions, &good, words).await;
    use SandboxState::{Creating, Ready, Syncing};
    assert_eq!(states(&follow), [Creating, Syncing, Ready], "nothing was tried");
    assert!(raised(&follow)[0].1.contains("no such package"), "{:?}", raised(&follow));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_step_that_fails_at_the_tip_keeps_the_set_up_from_nothing() {
    let script = Script::new().call("shell", json!({"command": "cat made"})).say("Seen.");
    let world = World::new(script).await.environment(|environment| {
        let once = |run: &str| SetupStep { run: run.to_owned(), attempts: Some(1), ..SetupStep::default() };
        environment.setup = vec![once("cat answer.txt > made")];
        environment.warm = vec![once("test ! -e more.txt")];
    });
    let (sessions, _) = moved_on(&world, &[("more.txt", "more\n"), ("answer.txt", "43\n")]).await;
    sessions.build_and_wait("plain").await.unwrap_err();
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().contains("43\n"), "the set-up ran at the tip: {}", follow.last_output());
    assert!(!follow.last_output().contains("Not everything"), "{}", follow.last_output());
    let told = raised(&follow);
    assert!(told.len() == 1 && told[0].1.contains("warm step"), "{told:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_that_is_broken_at_the_tip_is_taken_from_the_image() {
    let world = World::new(script()).await.environment(|environment| {
        let run = "mkdir -p node_modules; echo whole > node_modules/made".to_owned();
        environment.setup = vec![SetupStep { run, ..SetupStep::default() }];
    });
    let files = [("more.txt", "more\n"), (".slipway.toml", "chekcs = []\n")];
    let (sessions, good) = moved_on(&world, &files).await;
    worked_from_the_last_good(&world, &sessions, &good, "chekcs").await;
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_failed_turn_never_came_to_says_what_happened() {
    let mut world = World::new(script()).await.environment(fragile);
    let driver = Twisted::new(&world.driver);
    world.driver = Arc::clone(&driver) as _;
    let (sessions, _) = moved_on(&world, &[("more.txt", "more\n")]).await;
    let blocked = world.block_repository();
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    driver.refuses.store(true, Ordering::Relaxed);
    blocked.release();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let (item, call) = follow.calls()[0];
    assert_eq!(item.status, ItemStatus::Interrupted);
    let text = &call.output.as_ref().unwrap().text;
    assert!(text.contains("the turn failed") && text.contains("had enough"), "{text}");
    assert!(!text.contains("restarted"), "{text}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_comes_first_gets_the_last_good_image_too() {
    let mut world = World::new(script()).await.environment(fragile);
    let driver = Twisted::new(&world.driver);
    world.driver = Arc::clone(&driver) as _;
    let (sessions, _) = moved_on(&world, &[("more.txt", "more\n")]).await;
    driver.refuses.store(true, Ordering::Relaxed);
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    driver.refuses.store(false, Ordering::Relaxed);
    let mut screen = Screen::open(&sessions, id, None).await;
    screen.write("cat node_modules/made more.txt | tr '\\n' +; test -e half || echo no'thing' else").await;
    screen.until("whole+more+nothing else").await;
    follow.until(|body| matches!(body, EventBody::ErrorRaised { message, .. } if message.contains("no such package"))).await;
    world.end(sessions).await;
}
