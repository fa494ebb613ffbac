//! A person approves the delivery: the turn waits, costs nothing meanwhile, survives, and is decided once.

use std::time::Duration;

use protocol::event::{DeliveryState, SandboxState};
use protocol::{Actor, ApprovalId, Code, Decide, EventBody, Gate, Outcome, SessionId, Status};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

async fn world(script: Script) -> World {
    World::new(script).await.environment(|environment| environment.approve = vec![Gate::Delivery])
}

fn edits() -> Script {
    Script::new()
        .call(
            "shell",
            json!({"command": "echo 42 > answer.txt; mkdir node_modules; echo kept > node_modules/x"}),
        )
        .say("Done.")
}

fn decide(approved: bool, comment: Option<&str>) -> Decide {
    Decide { approved, comment: comment.map(str::to_owned), ..Decide::default() }
}

fn bob() -> Actor {
    Actor::user("bob")
}

/// Waits until somebody must decide.
async fn asked(follow: &mut Follow) -> ApprovalId {
    let event = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    match event.body {
        EventBody::ApprovalRequested { approval, question, .. } => {
            assert!(question.contains("1 changed file (+1 −1)") || question.contains("file"), "{question}");
            approval
        }
        _ => unreachable!(),
    }
}

async fn waiting(sessions: &Sessions, id: SessionId, approval: ApprovalId) {
    let session = sessions.get(id).await.unwrap();
    assert_eq!(session.status, Status::Waiting);
    assert_eq!(session.approval.unwrap().id, approval);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_waits_for_approval_over_a_restart_and_an_idle_sandbox_and_is_decided_once() {
    let world = world(edits()).await.idle(Duration::from_millis(100));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let approval = asked(&mut follow).await;
    waiting(&sessions, id, approval).await;
    assert_eq!(world.repo.branches(), ["main"], "nothing is pushed yet");
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "who waits needs no sandbox");
    let refused = sessions.deliver(id, ann()).await.unwrap_err();
    assert!(refused.code == Code::Conflict && refused.hint.unwrap().contains("slipway approve"));
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    waiting(&sessions, id, approval).await;
    let unknown = sessions.decide(id, ann(), ApprovalId::new(), decide(true, None)).await.unwrap_err();
    assert_eq!(unknown.code, Code::NotFound);
    let (one, other) = tokio::join!(
        sessions.decide(id, ann(), approval, decide(true, None)),
        sessions.decide(id, bob(), approval, decide(false, Some("no")))
    );
    // One of them was first, and both are told the same.
    let (approved, problem) = match (one, other) {
        (Ok(decision), Err(problem)) => (decision.approved, problem),
        (Err(problem), Ok(decision)) => (decision.approved, problem),
        both => panic!("{both:?}"),
    };
    let who = if approved { "ann approved" } else { "bob did not approve" };
    assert!(problem.code == Code::Conflict && problem.title.contains(who), "{problem}");
    if approved {
        let again = sessions.decide(id, bob(), approval, decide(true, None)).await.unwrap();
        assert_eq!(again.by, "ann", "the same again is the first decision");
        let said = sessions.decide(id, bob(), approval, decide(true, Some("but look"))).await.unwrap_err();
        assert!(
            said.code == Code::Conflict && said.title.contains("ann approved"),
            "what is said is not lost: {said}"
        );
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
        assert_eq!(finished.receipt.files_changed, 1);
        let delivery = (*follow.deliveries().last().unwrap()).clone();
        assert_eq!(delivery.state, DeliveryState::Pushed);
        assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
        let resolved = follow.names().iter().filter(|name| **name == "approval.resolved").count();
        assert_eq!(resolved, 1);
        assert_eq!(world.model.requests().len(), 2, "no model was asked for it");
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_with_a_comment_goes_back_to_the_model_and_asks_again() {
    let script =
        edits().call("shell", json!({"command": "cat node_modules/x; echo more > more.txt"})).say("Better.");
    let world = world(script).await.idle(Duration::from_millis(100));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let first = asked(&mut follow).await;
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    sessions.decide(id, bob(), first, decide(false, Some("add more.txt"))).await.unwrap();
    let second = asked(&mut follow).await;
    assert_ne!(first, second);
    assert!(follow.last_output().starts_with("kept\n"), "all files are back: {}", follow.last_output());
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("bob did not approve") && told.contains("add more.txt"), "{told}");
    assert!(!told.contains("are gone"), "nothing was lost: {told}");
    sessions.decide(id, ann(), second, decide(true, None)).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "more.txt").as_deref(), Some("more\n"));
    let starts = follow.names().iter().filter(|name| **name == "turn.started").count();
    assert_eq!(starts, 1, "one turn from the prompt to the push");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_without_a_word_escalates_and_a_stop_is_one_too() {
    let script =
        edits().say("Nothing more.").call("shell", json!({"command": "echo 43 > b.txt"})).say("Again.");
    let world = world(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let approval = asked(&mut follow).await;
    sessions.decide(id, bob(), approval, decide(false, Some("  "))).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated);
    assert!(finished.reason.unwrap().starts_with("bob did not approve the delivery"));
    assert_eq!(finished.receipt.files_changed, 1);
    assert!(!finished.receipt.completed.is_empty(), "what was done is listed");
    assert_eq!(world.repo.branches(), ["main"]);

    // A turn that changes nothing has nothing to be approved.
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(world.model.requests()[2].json.to_string().contains("bob did not approve"), "the model knows");

    sessions.prompt(id, ann(), "Once more".into()).await.unwrap();
    let approval = asked(&mut follow).await;
    let stopped = sessions.stop(id, ann()).await.unwrap();
    assert!(stopped.turn.is_some());
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    assert_eq!(follow.events.last().unwrap().actor, ann());
    let conflict = sessions.decide(id, bob(), approval, decide(true, None)).await.unwrap_err();
    assert!(conflict.code == Code::Conflict && conflict.title.contains("ann did not approve"), "{conflict}");
    assert_eq!(sessions.get(id).await.unwrap().status, Status::Cancelled);
    assert_eq!(world.repo.branches(), ["main"]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_can_ask_for_approval_itself() {
    let repo = testkit::repo::Repo::plain();
    repo.commit("main", &[(".slipway.toml", "approve = [\"delivery\"]\n")]);
    let world = World::with(repo, edits()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let approval = asked(&mut follow).await;
    waiting(&sessions, id, approval).await;
    sessions.decide(id, ann(), approval, decide(true, Some("nice"))).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    world.end(sessions).await;
}
