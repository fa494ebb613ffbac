//! Questions of the agent: the turn waits for the answer and costs nothing meanwhile, survives, and ends with a stop; where
//! nobody answers, nobody is asked.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{Actor, ApprovalId, AskedCall, Code, Decide, EventBody, Gate, ItemStatus, Outcome, Status};
use serde_json::json;
use session::ShutDown;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, ann, create};

fn bob() -> Actor {
    Actor::user("bob")
}

fn answer(text: &str) -> Decide {
    Decide { approved: true, comment: Some(text.to_owned()), ..Decide::default() }
}

/// Waits until somebody is asked.
async fn asked(follow: &mut Follow) -> (ApprovalId, String, AskedCall) {
    let event = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    match event.body {
        EventBody::ApprovalRequested {
            approval, question, gate: Gate::Question, call: Some(call), ..
        } => (approval, question, *call),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_over_a_restart_and_an_idle_sandbox_and_its_answer_is_the_result() {
    let both = Reply::new()
        .call("shell", json!({"command": "mkdir node_modules; echo kept > node_modules/x"}))
        .call("ask", json!({"question": "Which answer?\nIt matters.", "options": "41\n42"}))
        .call("shell", json!({"command": "cat node_modules/x"}));
    let script = Script::new()
        .answer(both)
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        .say("Done.");
    let world = World::new(script).await.idle(Duration::from_millis(100));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, question, call) = asked(&mut follow).await;
    assert_eq!(question, "Which answer?\nIt matters.");
    assert_eq!(
        (call.tool.as_str(), call.options.as_slice()),
        ("ask", &["41".to_owned(), "42".to_owned()][..])
    );
    let session = sessions.get(id).await.unwrap();
    assert_eq!((session.status, session.approval.unwrap().id), (Status::Waiting, approval));
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "who waits needs no sandbox");
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    assert_eq!(sessions.get(id).await.unwrap().status, Status::Waiting);
    assert_eq!(world.model.requests().len(), 1, "nobody was asked for anything meanwhile");
    let empty = sessions.decide(id, bob(), approval, answer("  ")).await.unwrap_err();
    assert!(empty.code == Code::BadRequest && empty.title.contains("no answer"), "{empty}");
    let all = Decide { all: true, ..answer("42") };
    assert_eq!(sessions.decide(id, bob(), approval, all).await.unwrap_err().code, Code::BadRequest);
    let decision = sessions.decide(id, bob(), approval, answer("42, of course")).await.unwrap();
    assert_eq!((decision.gate, decision.by.as_str()), (Gate::Question, "bob"));
    let late = sessions.decide(id, ann(), approval, answer("41")).await.unwrap_err();
    assert!(late.code == Code::Conflict && late.title.contains("bob answered it"), "{late}");
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let calls = follow.calls();
    assert_eq!(calls[1].0.status, ItemStatus::Completed);
    assert_eq!(calls[1].1.output.as_ref().unwrap().text, "bob answered: 42, of course");
    assert!(
        calls[2].1.output.as_ref().unwrap().text.contains("kept"),
        "what came after it ran, with all files"
    );
    let told = world.model.requests()[1].json.to_string();
    assert!(told.contains("bob answered: 42, of course") && !told.contains("interrupted"), "{told}");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_lets_the_agent_decide_and_a_stop_ends_the_question() {
    let script = Script::new()
        .call("ask", json!({"question": "Which?"}))
        .say("I chose.")
        .call("ask", json!({"question": "And now?"}));
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Choose").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, ..) = asked(&mut follow).await;
    sessions.decide(id, bob(), approval, Decide::default()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(
        follow.last_output().starts_with("bob did not answer. Decide yourself"),
        "{}",
        follow.last_output()
    );

    sessions.prompt(id, ann(), "Again".into()).await.unwrap();
    let (approval, ..) = asked(&mut follow).await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    let (item, _) = *follow.calls().last().unwrap();
    assert_eq!(item.status, ItemStatus::Cancelled);
    let late = sessions.decide(id, bob(), approval, answer("this")).await.unwrap_err();
    assert!(late.code == Code::Conflict && late.title.contains("ann did not answer"), "{late}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unattended_environment_never_waits() {
    let script = Script::new().call("ask", json!({"question": "Which?"})).say("I chose.");
    let world = World::new(script).await.environment(|environment| environment.questions = false);
    let sessions = world.start().await;
    let id = create(&sessions, "Choose").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().starts_with("Nobody can answer"), "{}", follow.last_output());
    assert!(!follow.names().contains(&"approval.requested"));
    let request = world.model.requests()[0].json.to_string();
    assert!(!request.contains("\"ask\"") && request.contains("do not ask"), "the tool is not offered");
    world.end(sessions).await;
}
