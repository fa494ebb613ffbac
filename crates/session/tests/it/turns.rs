//! What a turn does when nothing is in its way.

use protocol::event::DeliveryState;
use protocol::{ItemKind, ItemStatus, Outcome, Status};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, ann, create};

fn edit(old: &str, new: &str) -> serde_json::Value {
    json!({"path": "answer.txt", "old": old, "new": new})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_from_a_prompt_to_a_pushed_branch() {
    let script = Script::new()
        .answer(
            Reply::text("I will look.")
                .call("read", json!({"path": "answer.txt"}))
                .call("list", json!({"path": "."})),
        )
        .call("search", json!({"pattern": "six by"}))
        .call("edit", edit("41", "42"))
        .call("check", json!({}))
        .say("The answer is 42 now.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer\n\nIt is wrong.").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    assert_eq!(world.model.violations(), Vec::<String>::new());

    let outputs: Vec<String> =
        follow.calls().iter().map(|(_, call)| call.output.as_ref().unwrap().text.clone()).collect();
    assert!(outputs[0].contains("41"), "{outputs:?}");
    assert!(outputs[1].contains("notes/") && outputs[1].contains("check.sh"), "{outputs:?}");
    assert!(outputs[2].contains("notes/question.txt:1:"), "{outputs:?}");
    assert!(outputs[4].contains("passed"), "{outputs:?}");

    let session = sessions.get(id).await.unwrap();
    assert_eq!((session.status, session.title.as_str()), (Status::Done, "Correct the answer"));
    let delivery = session.delivery.unwrap();
    assert_eq!(delivery.state, DeliveryState::Pushed);
    assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(delivery.commit.as_deref(), Some(world.repo.tip(&delivery.branch).as_str()));
    let message = world.repo.git(&["log", "-1", "--format=%an%n%B", &delivery.branch]);
    assert_eq!(
        message.trim(),
        format!("ann\nCorrect the answer\n\nCorrect the answer\n\nIt is wrong.\n\nSlipway-Session: {id}")
    );
    assert_eq!(world.repo.branches().len(), 2, "{:?}", world.repo.branches());

    let receipt = finished.receipt;
    assert_eq!((receipt.files_changed, receipt.insertions, receipt.deletions), (1, 1, 1));
    assert_eq!((receipt.steps, receipt.tools_completed, receipt.tools_skipped), (5, 5, 0));
    assert!(receipt.checks.iter().all(|check| check.passed) && receipt.checks.len() == 1);
    let diff = sessions.diff(id).await.unwrap();
    assert!(diff.patch.contains("+42") && diff.files == 1, "{diff:?}");
    assert_eq!(diff.base, world.repo.tip("main"));

    // The items of an answer are there before its usage, and a call is in the log before it is run.
    let names = follow.names();
    let started = names.iter().position(|name| *name == "item.started").unwrap();
    assert!(names[..started].contains(&"sandbox.changed"), "{names:?}");
    assert_eq!(sessions.list().await.unwrap()[0].status, Status::Done);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_check_goes_back_to_the_model() {
    let script = Script::new()
        .call("edit", edit("41", "43"))
        .say("Done.")
        .call("edit", edit("43", "42"))
        .say("Now it is right.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let requests = world.model.requests();
    let told = requests[2].last_user().unwrap();
    assert!(told.contains("expected 42, found 43"), "{told}");
    let passed: Vec<Option<bool>> = follow
        .items()
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Report(report) => Some(report.passed),
            _ => None,
        })
        .collect();
    assert_eq!(passed, [Some(false), Some(true)]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_changes_nothing_and_delivers_nothing() {
    let script = Script::new().call("read", json!({"path": "README.md"})).say("It is about answers.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "What is this?").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.deliveries().is_empty());
    assert!(
        !follow.items().iter().any(|item| matches!(item.kind, ItemKind::Report(_))),
        "no check was needed"
    );
    assert_eq!(sessions.diff(id).await.unwrap().patch, "");
    let refused = sessions.deliver(id, ann()).await.unwrap_err();
    assert_eq!(refused.code, protocol::Code::Conflict);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_goes_on_from_kept_work_when_the_sandbox_is_gone() {
    let script = Script::new()
        .call("edit", edit("41", "42"))
        .say("Done.")
        .call("shell", json!({"command": "cat answer.txt; git status --porcelain; git log --format=%s"}))
        .call("shell", json!({"command": "echo more > more.txt"}))
        .say("Done again.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let first = sessions.get(id).await.unwrap();
    world.driver.remove(first.sandbox.unwrap()).await.unwrap();
    assert!(sessions.diff(id).await.unwrap().patch.contains("+42"), "the mirror has it");

    sessions.prompt(id, ann(), "Add more".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let text = follow.calls()[1].1.output.as_ref().unwrap().text.clone();
    assert!(text.starts_with("42\nCorrect the answer\n"), "{text}");
    let second = sessions.get(id).await.unwrap();
    assert_ne!(second.sandbox, first.sandbox);
    let branch = second.delivery.unwrap().branch;
    assert_eq!(world.repo.log(&branch)[..2], ["Correct the answer, continued", "Correct the answer"]);
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_gigabyte_of_output_is_bounded_everywhere() {
    let script = Script::new()
        .call("shell", json!({"command": "head -c 1000000000 /dev/zero | tr '\\0' a; echo; echo the end"}))
        .say("That was long.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Print a lot").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let (item, call) = follow.calls()[0];
    assert_eq!((item.status, call.exit_code), (ItemStatus::Completed, Some(0)), "{:?}", call.output);
    let output = call.output.as_ref().unwrap();
    assert_eq!(output.bytes, 1_000_000_009);
    assert!(output.text.len() < 40_000 && output.text.contains("the end"), "{}", output.text.len());
    let blob = sessions.blob(id, output.blob.as_deref().unwrap()).await.unwrap();
    assert_eq!(std::fs::metadata(blob).unwrap().len(), 16 * 1024 * 1024);
    assert!(sessions.blob(id, "../log.db").await.is_err());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_tell_the_model_what_is_wrong() {
    let script = Script::new()
        .answer(Reply::new().raw_call("shell", "{\"command\": "))
        .call("shell", json!({"command": "printf '\\377\\376\\000' > binary; echo oops >&2; exit 3"}))
        .call("read", json!({"path": "binary"}))
        .call("read", json!({"path": "notes"}))
        .call("read", json!({"path": "absent.txt"}))
        .call("shell", json!({"command": "sleep 100", "timeout_ms": 300}))
        .call("search", json!({"pattern": "nowhere to be found"}))
        .call("check", json!({"name": "lint"}))
        .call("shell", json!({"command": "rm binary"}))
        .say("Enough.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Try the tools").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let calls = follow.calls();
    let wanted = [
        "",
        "oops\n(exit code 3)",
        "not UTF-8",
        "Use list",
        "There is no absent.txt",
        "time limit",
        "No matches",
        "The checks are: test",
    ];
    for (index, wanted) in wanted.iter().enumerate() {
        let (item, call) = calls[index];
        let text = &call.output.as_ref().unwrap().text;
        assert!(text.contains(wanted), "{index}: {text:?} lacks {wanted:?}");
        assert_eq!(item.status == ItemStatus::Completed, index == 6, "{index}: {:?}", item.status);
    }
    assert_eq!((finished.receipt.tools_completed, finished.receipt.tools_skipped), (8, 1));
    world.end(sessions).await;
}
