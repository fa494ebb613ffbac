//! What sessions do to the world outside happens once, whatever breaks in between: pull requests and notifications, with a
//! fake forge over HTTP beside the real repository.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::{Delivery, DeliveryState};
use protocol::{
    Code, EventBody, Gate as Approve, Notification, NotificationKind, NotificationState, Outcome,
};
use serde_json::json;
use session::{Outbox, Patience, Sessions, ShutDown};
use testkit::forge::{Fault, On, Server as Forge};
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

const TOKEN: &str = "forge-token-4711";
/// Quick, so that tests need not wait, and patient enough for the faults below.
const PATIENCE: Patience =
    Patience { attempts: 4, first: Duration::from_millis(5), longest: Duration::from_millis(20) };

/// Corrects the answer, and says so.
fn correct() -> Script {
    Script::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"})).say("Done.")
}

fn outbox(forge: &Forge, token: &str) -> Outbox {
    let github = forge::github::GitHub::new(&forge.api_url(), Some(forge::Token::new(token)), "FORGE_TOKEN");
    let mut forges = forge::Forges::default();
    forges.add(&forge.root().to_string_lossy(), Arc::new(github.unwrap())).unwrap();
    Outbox { forges, delivery: PATIENCE, notification: PATIENCE, ..Outbox::default() }
}

/// A world whose repository is on the forge as acme/shop.
async fn world(forge: &Forge, script: Script) -> World {
    let mut world = World::new(script).await;
    let url = forge.serve("acme", "shop", &world.repo);
    world.outbox = outbox(forge, TOKEN);
    world.environment(|environment| environment.repos[0].url = url)
}

/// With notifications.
fn notifying(mut world: World, forge: &Forge) -> World {
    let secret = Some(forge::Token::new("hook-secret"));
    world.outbox.webhook = Some(Arc::new(forge::Webhook::new(&forge.hook_url(), secret).unwrap()));
    world
}

fn states(follow: &Follow) -> Vec<DeliveryState> {
    follow.deliveries().iter().map(|delivery| delivery.state).collect()
}

/// Waits until a notification is in this state.
async fn notified(follow: &mut Follow, wanted: NotificationState) -> Notification {
    let is = |body: &EventBody| matches!(body, EventBody::NotificationUpdated(notification) if notification.state == wanted);
    match follow.until(is).await.body {
        EventBody::NotificationUpdated(notification) => notification,
        _ => unreachable!(),
    }
}

/// One branch of ours, one pull request for it, and nothing that the real forge would not have understood.
fn assert_once(world: &World, forge: &Forge, delivery: &Delivery) {
    let branches = world.repo.branches();
    assert_eq!(branches.iter().filter(|branch| branch.starts_with("slipway/")).count(), 1, "{branches:?}");
    assert_eq!(Some(&world.repo.tip(&delivery.branch)), delivery.commit.as_ref());
    assert_eq!(forge.pull_requests().len(), 1, "{:?}", forge.entries());
    assert_eq!(delivery.state, DeliveryState::Opened);
    assert_eq!(delivery.number, Some(1));
    assert!(delivery.url.as_ref().unwrap().ends_with("/acme/shop/pull/1"), "{delivery:?}");
    assert_eq!(forge.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_becomes_a_pull_request_and_the_next_turn_moves_it() {
    let forge = Forge::start(TOKEN).await;
    let script = correct().call("shell", json!({"command": "echo more > more.txt"})).say("There is more.");
    let world = world(&forge, script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(
        states(&follow),
        [DeliveryState::Intended, DeliveryState::Pushed, DeliveryState::Opening, DeliveryState::Opened]
    );
    let session = sessions.get(id).await.unwrap();
    assert_once(&world, &forge, &session.delivery.unwrap());
    let pull = &forge.pull_requests()[0];
    assert_eq!((pull.title.as_str(), pull.base.as_str()), ("Correct the answer", "main"));
    assert!(pull.body.contains("> Correct the answer") && pull.body.contains("| test | "), "{}", pull.body);
    assert!(pull.body.contains(&id.to_string()));
    assert!(pull.body.ends_with("Opened for ann."), "{}", pull.body);
    let asked = forge.entries().len();
    let again = sessions.deliver(id, ann()).await.unwrap();
    assert_eq!((again.number, forge.entries().len()), (Some(1), asked), "what is whole is left alone");

    sessions.prompt(id, ann(), "And more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    assert_once(&world, &forge, &delivery);
    assert_eq!(world.repo.file(&delivery.branch, "more.txt").as_deref(), Some("more\n"));

    let text = serde_json::to_string(&follow.events).unwrap();
    assert!(!text.contains(TOKEN), "the token is in no event");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_makes_no_second_pull_request() {
    for fault in [Fault::ActThenDrop, Fault::ActThenRefuse(502)] {
        let forge = Forge::start(TOKEN).await;
        forge.fail(On::Open, fault);
        let world = world(&forge, correct()).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{fault:?}: {:?}", finished.reason);
        assert!(follow.names().contains(&"retry.scheduled"), "it is seen that it was not smooth");
        assert_once(&world, &forge, follow.deliveries().last().unwrap());
        assert_eq!(forge.requests(On::Open).len(), 1, "it was looked up, not asked for again");
        world.end(sessions).await;
    }
}

/// Ends a server without a farewell, once this happened.
async fn crash(sessions: Sessions, forge: &Forge, on: On) {
    forge.wait_for(on, 1).await;
    drop(sessions);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_around_the_opening_opens_one() {
    for (on, fault, opens) in [
        // Before the look-up, before the opening, and after it.
        (On::LookUp, Fault::Hang, 1),
        (On::Open, Fault::Hang, 2),
        (On::Open, Fault::ActThenHang, 1),
    ] {
        let forge = Forge::start(TOKEN).await;
        forge.fail(on, fault);
        let world = world(&forge, correct()).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        crash(sessions, &forge, on).await;

        let sessions = world.start().await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{fault:?}: {:?}", finished.reason);
        assert_once(&world, &forge, follow.deliveries().last().unwrap());
        assert_eq!(forge.requests(On::Open).len(), opens, "{on:?} {fault:?}");
        let pushed = states(&follow).into_iter().filter(|state| *state == DeliveryState::Pushed).count();
        assert_eq!(pushed, 1, "the branch was updated once");
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forge_that_is_away_for_a_while_is_waited_for() {
    let forge = Forge::start(TOKEN).await;
    forge.fail(On::LookUp, Fault::Refuse(503));
    forge.fail(On::LookUp, Fault::Refuse(429));
    forge.fail(On::Open, Fault::Refuse(500));
    let world = world(&forge, correct()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let tries = follow.names().iter().filter(|name| **name == "retry.scheduled").count();
    assert_eq!(tries, 3);
    assert_once(&world, &forge, follow.deliveries().last().unwrap());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forge_that_stays_away_costs_nothing_but_the_pull_request() {
    let forge = Forge::start(TOKEN).await;
    // The look-up before the opening is let through.
    forge.fail(On::LookUp, Fault::Pass);
    forge.fail(On::Open, Fault::ActThenRefuse(502));
    forge.fail_times(On::LookUp, Fault::Refuse(503), 3);
    let world = world(&forge, correct()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("503") && reason.contains(&format!("slipway deliver {id}")), "{reason}");
    let delivery = follow.deliveries().last().copied().unwrap().clone();
    assert_eq!(delivery.state, DeliveryState::Unknown, "it may be there: {:?}", delivery.error);
    assert_eq!(world.repo.tip(&delivery.branch), delivery.commit.unwrap(), "the branch is pushed");

    forge.heal();
    let delivery = sessions.deliver(id, ann()).await.unwrap();
    assert_once(&world, &forge, &delivery);
    assert_eq!(forge.requests(On::Open).len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_is_told_plainly_and_the_work_is_kept() {
    let forge = Forge::start(TOKEN).await;
    let mut world = world(&forge, correct()).await;
    world.outbox = outbox(&forge, "wrong-token-0815");
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("FORGE_TOKEN") && reason.contains("Bad credentials"), "{reason}");
    assert_eq!(follow.deliveries().last().unwrap().state, DeliveryState::Failed);
    assert!(!follow.names().contains(&"retry.scheduled"), "it would not help");
    assert!(!serde_json::to_string(&follow.events).unwrap().contains("wrong-token-0815"));
    assert_eq!(sessions.deliver(id, ann()).await.unwrap_err().code, Code::DeliveryFailed);
    sessions.shut_down(ShutDown::RemoveSandboxes).await;
    drop((sessions, follow));

    world.outbox = outbox(&forge, TOKEN);
    let sessions = world.start().await;
    let delivery = sessions.deliver(id, ann()).await.unwrap();
    assert_once(&world, &forge, &delivery);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_reviewers_that_cannot_be_put_now_are_put_by_the_next_delivery() {
    for (faults, put_at_once) in [(2, true), (60, false)] {
        let forge = Forge::start(TOKEN).await;
        forge.let_in("bea", "beas-token-of-tests");
        forge.fail_times(On::Mark, Fault::Refuse(503), faults);
        let world = world(&forge, correct()).await;
        let world = world.environment(|environment| {
            environment.pull_request.labels = vec!["agent".to_owned()];
            environment.pull_request.reviewers = vec!["bea".to_owned()];
        });
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
        assert!(follow.names().contains(&"retry.scheduled"));
        let delivery = follow.deliveries().last().map(|last| (*last).clone()).unwrap();
        assert_once(&world, &forge, &delivery);
        assert_eq!(delivery.error.is_none(), put_at_once, "{delivery:?}");
        assert_eq!(forge.pull_requests()[0].labels.is_empty(), !put_at_once);
        forge.heal();
        let delivery = sessions.deliver(id, ann()).await.unwrap();
        assert_eq!(delivery.error, None);
        let pull = &forge.pull_requests()[0];
        assert_eq!(
            (&pull.labels[..], &pull.reviewers[..]),
            (&["agent".to_owned()][..], &["bea".to_owned()][..])
        );
        // Once they were put they are people's.
        let asked = forge.requests(On::Mark).len();
        sessions.deliver(id, ann()).await.unwrap();
        assert_eq!(forge.requests(On::Mark).len(), asked);
        assert_once(&world, &forge, &delivery);
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_somebody_asked_for_goes_on_after_a_restart() {
    let forge = Forge::start(TOKEN).await;
    let mut world = world(&forge, correct()).await;
    world.outbox.forges = forge::Forges::default();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(states(&follow).last(), Some(&DeliveryState::Pushed), "there is no forge yet");
    sessions.shut_down(ShutDown::RemoveSandboxes).await;
    drop((sessions, follow));

    world.outbox = outbox(&forge, TOKEN);
    forge.fail(On::Open, Fault::ActThenHang);
    let sessions = world.start().await;
    let asking = sessions.clone();
    let asked = tokio::spawn(async move { asking.deliver(id, ann()).await });
    forge.wait_for(On::Open, 1).await;
    asked.abort();
    drop(asked.await);
    drop(sessions);

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let opened = |body: &EventBody| matches!(body, EventBody::DeliveryUpdated(delivery) if delivery.state == DeliveryState::Opened);
    follow.until(opened).await;
    assert_once(&world, &forge, follow.deliveries().last().unwrap());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_wait_for_a_forge() {
    let forge = Forge::start(TOKEN).await;
    forge.fail_times(On::LookUp, Fault::Refuse(503), 10);
    let mut world = world(&forge, correct()).await;
    world.outbox.delivery =
        Patience { attempts: 9, first: Duration::from_secs(600), longest: Duration::from_secs(600) };
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
    sessions.stop(id, ann()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed, "the branch is out, so it was not cancelled");
    assert_eq!(forge.requests(On::LookUp).len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_ever_for_an_answer() {
    let forge = Forge::start(TOKEN).await;
    forge.fail(On::Open, Fault::ActThenHang);
    let world = world(&forge, correct()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    forge.wait_for(On::Open, 1).await;
    sessions.stop(id, ann()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed, "the branch is out, so it was not cancelled");
    assert_eq!(follow.deliveries().last().unwrap().state, DeliveryState::Unknown);
    let delivery = sessions.deliver(id, ann()).await.unwrap();
    assert_once(&world, &forge, &delivery);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_and_one_that_finished_are_told_once_each() {
    let forge = Forge::start(TOKEN).await;
    let world = world(&forge, correct()).await.environment(|it| it.approve = vec![Approve::Delivery]);
    let world = notifying(world, &forge);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let waiting = notified(&mut follow, NotificationState::Sent).await;
    assert_eq!(waiting.kind, NotificationKind::ApprovalRequested);
    let approval = waiting.approval.unwrap();
    let decide = protocol::Decide { approved: true, ..protocol::Decide::default() };
    sessions.decide(id, ann(), approval, decide).await.unwrap();
    let finished = notified(&mut follow, NotificationState::Sent).await;
    assert_eq!((finished.kind, finished.outcome), (NotificationKind::TurnFinished, Some(Outcome::Done)));
    assert!(finished.url.unwrap().ends_with("/acme/shop/pull/1"));
    let received = forge.received();
    assert_eq!(received.len(), 2, "{received:?}");
    assert!(received.iter().all(|(_, _, count)| *count == 1));
    let told = &received.iter().find(|(key, ..)| key.ends_with(".finished")).unwrap().1;
    assert_eq!((&told["session"], &told["outcome"]), (&json!(id), &json!("done")));
    assert!(
        forge.requests(On::Notify).iter().all(|entry| {
            entry.signature.as_ref().is_some_and(|signature| signature.starts_with("sha256="))
        })
    );
    assert!(!sessions.get(id).await.unwrap().notifying);
    drop(follow);
    world.end(sessions).await;

    // What is confirmed is not sent by the next server.
    let sessions = world.start().await;
    assert!(!sessions.get(id).await.unwrap().notifying);
    world.end(sessions).await;
    assert_eq!(forge.requests(On::Notify).len(), 2);
    assert_eq!(forge.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_slow_or_away_holds_nothing_up() {
    let forge = Forge::start(TOKEN).await;
    forge.fail(On::Notify, Fault::Hang);
    forge.fail(On::Notify, Fault::Refuse(503));
    let world = notifying(world(&forge, correct().say("Nothing to do.")).await, &forge);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the queue goes on");
    let tried = |body: &EventBody| matches!(body, EventBody::NotificationUpdated(it) if it.attempts == 1);
    follow.until(tried).await;
    let second = notified(&mut follow, NotificationState::Sent).await;
    assert_eq!(second.error, None);
    assert!(sessions.get(id).await.unwrap().notifying, "the first one is not confirmed");
    drop(follow);
    world.end(sessions).await;

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    notified(&mut follow, NotificationState::Sent).await;
    notified(&mut follow, NotificationState::Sent).await;
    assert_eq!(forge.received().len(), 2);
    assert_eq!(forge.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_before_the_answer_sends_the_same_key_again() {
    let forge = Forge::start(TOKEN).await;
    forge.fail(On::Notify, Fault::ActThenHang);
    let world = notifying(world(&forge, correct()).await, &forge);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    crash(sessions, &forge, On::Notify).await;

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    notified(&mut follow, NotificationState::Sent).await;
    let received = forge.received();
    assert_eq!(received.len(), 1, "one key, which the receiver knows: {received:?}");
    assert_eq!(received[0].2, 2);
    assert_eq!(forge.violations(), Vec::<String>::new(), "and the same words");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_that_cannot_arrive_is_given_up_and_told() {
    for (fault, times, attempts) in [(Fault::Refuse(410), 1, 1), (Fault::Refuse(500), 9, PATIENCE.attempts)] {
        let forge = Forge::start(TOKEN).await;
        forge.fail_times(On::Notify, fault, times);
        let world = notifying(world(&forge, correct()).await, &forge);
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        let failed = notified(&mut follow, NotificationState::Failed).await;
        assert_eq!(failed.attempts, attempts);
        assert!(failed.error.unwrap().contains("answered"));
        assert_eq!(forge.requests(On::Notify).len() as u32, attempts);
        assert!(!sessions.get(id).await.unwrap().notifying);
        world.end(sessions).await;
    }
}
