//! The queue: edited, reordered, emptied and paused while a turn runs, and "stop and do this now".

use protocol::{
    Actor, Code, CreatePrompt, EditPrompt, EventBody, Outcome, Place, PromptId, Queue, SessionId, SetQueue,
    Status, StopSession,
};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

/// The first turn waits for somebody to stop it; the others say what they were asked.
fn endless() -> Script {
    Script::from_fn(|request, _| {
        let asked = request.last_user().unwrap_or_default();
        if asked == "Work for ever" && request.results().is_empty() {
            return testkit::model::Reply::new().call("shell", json!({"command": "echo begun; sleep 1000"}));
        }
        testkit::model::Reply::text(format!("You said {asked}"))
    })
}

fn texts(queue: &Queue) -> Vec<&str> {
    queue.prompts.iter().map(|prompt| prompt.text.as_str()).collect()
}

async fn queue_three(sessions: &Sessions, id: SessionId) -> [PromptId; 3] {
    let mut prompts = [PromptId::new(); 3];
    for (place, text) in prompts.iter_mut().zip(["one", "two", "three"]) {
        *place = sessions.prompt(id, ann(), text.into()).await.unwrap();
    }
    prompts
}

/// The prompts in the order in which they were worked on.
fn begun(follow: &Follow) -> Vec<PromptId> {
    let turns = follow.events.iter().filter_map(|event| match event.body {
        EventBody::TurnStarted { prompt, .. } => Some(prompt),
        _ => None,
    });
    turns.skip(1).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_prompts_are_edited_moved_and_removed_and_everybody_sees_it() {
    let world = World::new(endless()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Work for ever").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    let [one, two, three] = queue_three(&sessions, id).await;
    let bob = || Actor::user("bob");
    let edit = |prompt: Option<&str>, place| EditPrompt { prompt: prompt.map(str::to_owned), place };
    let queue = sessions.edit_prompt(id, bob(), one, edit(Some("first"), None)).await.unwrap();
    assert_eq!(texts(&queue), ["first", "two", "three"]);
    assert_eq!(queue.prompts[0].author, "ann", "whoever edits it, it is still hers");
    let queue = sessions.edit_prompt(id, bob(), three, edit(Some("3"), Some(Place::First))).await.unwrap();
    assert_eq!(texts(&queue), ["3", "first", "two"]);
    let queue = sessions.edit_prompt(id, bob(), three, edit(None, Some(Place::Before(two)))).await.unwrap();
    assert_eq!(texts(&queue), ["first", "3", "two"]);
    let queue = sessions.edit_prompt(id, bob(), one, edit(None, Some(Place::Last))).await.unwrap();
    assert_eq!(texts(&queue), ["3", "two", "first"]);
    let queue = sessions.remove_prompt(id, bob(), two).await.unwrap();
    assert_eq!(texts(&queue), ["3", "first"]);
    assert_eq!(sessions.remove_prompt(id, bob(), two).await.unwrap(), queue, "once more is no error");
    assert_eq!(sessions.queue(id).await.unwrap(), queue);

    let running = follow.events.iter().find_map(|event| match event.body {
        EventBody::TurnStarted { prompt, .. } => Some(prompt),
        _ => None,
    });
    let running = running.unwrap();
    let refused = |result: Result<Queue, protocol::Problem>| {
        let problem = result.unwrap_err();
        (problem.code, problem.title)
    };
    let (code, title) = refused(sessions.edit_prompt(id, bob(), running, edit(Some("x"), None)).await);
    assert!(code == Code::Conflict && title.contains("begun"), "{title}");
    let (code, title) = refused(sessions.remove_prompt(id, bob(), running).await);
    assert!(code == Code::Conflict && title.contains("begun"), "{title}");
    let (code, title) = refused(sessions.edit_prompt(id, bob(), two, edit(Some("x"), None)).await);
    assert!(code == Code::Conflict && title.contains("removed"), "{title}");
    let (code, _) = refused(sessions.edit_prompt(id, bob(), PromptId::new(), edit(Some("x"), None)).await);
    assert_eq!(code, Code::NotFound);
    for wrong in [edit(None, None), edit(Some(" "), None), edit(None, Some(Place::Before(one)))] {
        assert_eq!(refused(sessions.edit_prompt(id, bob(), one, wrong).await).0, Code::BadRequest);
    }
    let place = Some(Place::Before(running));
    assert_eq!(
        refused(sessions.edit_prompt(id, bob(), one, edit(Some("lost"), place)).await).0,
        Code::Conflict
    );
    assert_eq!(sessions.queue(id).await.unwrap(), queue, "what is refused changes nothing");

    sessions.stop(id, ann()).await.unwrap();
    for outcome in [Outcome::Cancelled, Outcome::Done, Outcome::Done] {
        assert_eq!(follow.finished().await.outcome, outcome);
    }
    assert_eq!(begun(&follow), [three, one]);
    let said: Vec<String> =
        world.model.requests().iter().filter_map(|r| r.last_user().map(str::to_owned)).collect();
    assert!(said.iter().any(|said| said == "first") && said.iter().all(|said| said != "one"), "{said:?}");
    let names = follow.names();
    for name in ["prompt.edited", "prompt.moved", "prompt.removed"] {
        assert!(names.contains(&name), "{names:?}");
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_for_now_stops_the_turn_and_nothing_comes_between() {
    let world = World::new(endless()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Work for ever").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    let waits = sessions.prompt(id, ann(), "later".into()).await.unwrap();
    let now = |text: &str| CreatePrompt { prompt: text.into(), now: true, images: Vec::new() };
    // The turn takes a moment to stop: both wait meanwhile, and the latest word is the first.
    let (early, late) =
        tokio::join!(sessions.send(id, ann(), now("early")), sessions.send(id, ann(), now("late")));
    let (early, late) = (early.unwrap(), late.unwrap());
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    let queued = follow.events.iter().position(|event| match &event.body {
        EventBody::PromptQueued { now, .. } => *now,
        _ => false,
    });
    let next = &follow.events[queued.unwrap() + 1];
    assert_eq!(next.body.name(), "turn.stopping", "in one step");
    assert_eq!(next.actor, ann());
    for _ in 0..3 {
        follow.finished().await;
    }
    assert_eq!(begun(&follow)[2], waits);
    assert!(begun(&follow)[..2] == [late, early] || begun(&follow)[..2] == [early, late]);
    let stops = follow.names().iter().filter(|name| **name == "turn.stopping").count();
    assert!((1..=2).contains(&stops), "the one under way, and perhaps the early one if it had begun");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_begins_nothing_and_stays_paused_over_a_restart() {
    let world = World::new(endless()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Work for ever").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    let prompt = sessions.prompt(id, ann(), "later".into()).await.unwrap();
    let stopped = sessions.stop_with(id, ann(), StopSession { pause: true }).await.unwrap();
    assert!(stopped.turn.is_some());
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    let now = CreatePrompt { prompt: "urgent".into(), now: true, images: Vec::new() };
    let urgent = sessions.send(id, ann(), now).await.unwrap();
    let paused = sessions.queue(id).await.unwrap();
    assert!(paused.paused);
    assert_eq!(texts(&paused), ["urgent", "later"]);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    assert_eq!(sessions.queue(id).await.unwrap(), paused);
    let session = sessions.get(id).await.unwrap();
    assert_eq!((session.status, session.paused, session.turn), (Status::Queued, true, None));
    let again = sessions.set_queue(id, ann(), SetQueue { paused: true }).await.unwrap();
    assert_eq!(again, paused);
    assert_eq!(sessions.get(id).await.unwrap().seq, session.seq, "what is so already is no event");
    sessions.set_queue(id, ann(), SetQueue { paused: false }).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    for _ in 0..3 {
        follow.finished().await;
    }
    assert_eq!(begun(&follow), [urgent, prompt]);
    world.end(sessions).await;
}
