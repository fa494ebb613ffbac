//! What is asked for once is done once: deliveries by command, and those that a server ends under.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use protocol::event::DeliveryState;
use protocol::{Actor, CommandId, EditPrompt, EventBody, Outcome, SetQueue};
use serde_json::json;
use session::{Before, Cause, Command, ShutDown};
use testkit::model::{Reply, Script};

use crate::stop_anywhere::calls;
use crate::support::{Follow, World, ann, create};

fn cause(id: CommandId, before: Before) -> Cause {
    Cause { actor: ann(), command: Some(Command { id, before }) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_a_command_asked_for_is_not_made_again_for_it() {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let away = || world.repo.git(&["branch", "-D", &branch]);

    away();
    let command = CommandId::new();
    let first = sessions.deliver(id, cause(command, Before::Never)).await.unwrap();
    assert_eq!((first.state, first.command), (DeliveryState::Pushed, Some(command)));
    // Somebody merged it and took the branch away, before whoever asked heard of it and asks again.
    away();
    assert_eq!(sessions.deliver(id, cause(command, Before::Perhaps)).await.unwrap(), first);
    assert!(!world.repo.branches().contains(&branch), "it was not pushed again");
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    assert_eq!(sessions.deliver(id, cause(command, Before::Perhaps)).await.unwrap(), first);
    assert!(!world.repo.branches().contains(&branch), "nor by the next server");
    let other = sessions.deliver(id, cause(CommandId::new(), Before::Never)).await.unwrap();
    assert!(other.state == DeliveryState::Pushed && world.repo.branches().contains(&branch));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_under_way_comes_to_its_end_when_the_server_ends() {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let [reached, go, hook] = ["reached", "go", "hook"].map(|name| world.dir.path().join(name));
    let script = format!(
        "#!/bin/sh\necho once >> {}\nwhile [ ! -e {} ]; do sleep 0.05; done\n",
        reached.display(),
        go.display()
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(world.repo.path().join("hooks")).unwrap();
    std::fs::rename(&hook, world.repo.path().join("hooks/pre-receive")).unwrap();

    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    while !reached.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ending = tokio::spawn({
        let sessions = sessions.clone();
        async move { sessions.shut_down(ShutDown::KeepSandboxes).await }
    });
    // Long enough that a push which is broken off would be gone.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!ending.is_finished(), "it waits for the remote");
    let refused = sessions.prompt(id, ann(), "More".into()).await.unwrap_err();
    assert_eq!((refused.code, refused.status), (protocol::Code::ShuttingDown, 503), "{refused}");
    drop(sessions);
    std::fs::write(&go, "").unwrap();
    ending.await.unwrap();
    assert_eq!(world.repo.branches().len(), 2, "the remote has it when the server is gone");

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let states: Vec<DeliveryState> = follow.deliveries().iter().map(|delivery| delivery.state).collect();
    assert_eq!(states, [DeliveryState::Intended, DeliveryState::Pushed]);
    assert_eq!(std::fs::read_to_string(&reached).unwrap(), "once\n", "it was pushed once");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_two_people_wrote_names_both() {
    let script = Script::from_fn(|request, _| match (request.last_user(), request.results().len()) {
        (Some("Correct the answer"), 0) => {
            Reply::new().call("shell", json!({"command": "echo 42 > answer.txt"}))
        }
        _ => Reply::text("Done."),
    });
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Say something").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.set_queue(id, ann(), SetQueue { paused: true }).await.unwrap();
    let prompt = sessions.prompt(id, ann(), "Make the answer worse".into()).await.unwrap();
    let edit = EditPrompt { prompt: Some("Correct the answer".into()), place: None };
    let queue = sessions.edit_prompt(id, Actor::user("bob"), prompt, edit).await.unwrap();
    assert_eq!(
        (queue.prompts[0].author.as_str(), queue.prompts[0].editors.as_slice()),
        ("ann", &["bob".into()][..])
    );
    sessions.set_queue(id, ann(), SetQueue { paused: false }).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let edited = follow.events.iter().find(|event| matches!(event.body, EventBody::PromptEdited { .. }));
    assert_eq!(edited.unwrap().actor, Actor::user("bob"));
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let message = world.repo.git(&["log", "-1", "--format=%an%n%B", &branch]);
    let trailers = format!("Co-authored-by: bob <bob@localhost>\nSlipway-Session: {id}");
    assert_eq!(message.trim(), format!("ann\nSay something\n\nCorrect the answer\n\n{trailers}"));
    world.end(sessions).await;
}
