//! A stop in whatever state a turn is: exactly one finish with the right outcome, nothing left open, no process left, and
//! the next prompt works. Each state is held by something that the test lets go, so nothing here depends on time.

use std::os::unix::fs::PermissionsExt;

use protocol::chat::Message;
use protocol::event::{DeliveryState, SandboxState};
use protocol::{
    Actor, EventBody, Item, ItemId, ItemKind, ItemStatus, Outcome, Probe, Receipt, Service, SessionId,
    SetupStep,
};
use serde_json::json;
use session::Sessions;
use testkit::model::{At, Gate, Reply, Request, Script};

use crate::support::{Follow, World, ann, create};

/// What the processes have in their command lines that must be gone.
const MARK: &str = "98765";

/// How the stop comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Three people at once.
    Often,
    /// Once, and the server is killed right after its answer.
    Crash,
}

/// A first turn that follows the script; later ones answer with words.
pub(crate) fn first_turn(reply: impl Fn(&Request) -> Reply + Send + 'static) -> Script {
    Script::from_fn(move |request, _| {
        let later = request
            .messages
            .iter()
            .any(|message| matches!(message, Message::User { text, .. } if text == "Next"));
        if later { Reply::text("Next it is.") } else { reply(request) }
    })
}

pub(crate) fn calls(command: &str) -> Script {
    let command = command.to_owned();
    first_turn(move |request| match request.results().len() {
        0 => Reply::text("First.")
            .call("shell", json!({"command": command}))
            .call("list", json!({"path": "."})),
        _ => Reply::text("Done."),
    })
}

async fn state(follow: &mut Follow, wanted: SandboxState) {
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state, .. } if *state == wanted)).await;
}

/// Stops, and gives the server that goes on and its feed.
pub(crate) async fn stop(world: &World, sessions: Sessions, id: SessionId, how: How) -> (Sessions, Follow) {
    match how {
        How::Often => {
            let (bob, cat) = (Actor::user("bob"), Actor::user("cat"));
            let (one, two, three) =
                tokio::join!(sessions.stop(id, ann()), sessions.stop(id, bob), sessions.stop(id, cat));
            let told = [one.unwrap().turn, two.unwrap().turn, three.unwrap().turn];
            let turn = told[0];
            assert!(turn.is_some(), "the first one has something to stop");
            // Whoever asks when the turn has ended already has nothing to stop.
            assert!(
                told.iter().all(|told| *told == turn || told.is_none()),
                "all are told the same: {told:?}"
            );
            let follow = Follow::new(&sessions, id).await;
            (sessions, follow)
        }
        How::Crash => {
            assert!(sessions.stop(id, ann()).await.unwrap().turn.is_some());
            // No farewell: the process is gone.
            drop(sessions);
            let sessions = world.start().await;
            let follow = Follow::new(&sessions, id).await;
            (sessions, follow)
        }
    }
}

/// Waits for the finish and looks at everything that must hold after it.
pub(crate) async fn holds(
    world: &World,
    sessions: &Sessions,
    id: SessionId,
    mut follow: Follow,
    outcome: Outcome,
) -> Receipt {
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, outcome, "{:?}", finished.reason);
    let mut open: Vec<ItemId> = Vec::new();
    for event in &follow.events {
        match &event.body {
            EventBody::ItemStarted { item, .. } => open.push(item.id),
            EventBody::ItemCompleted { item, .. } => open.retain(|other| *other != item.id),
            _ => {}
        }
    }
    assert_eq!(open, [], "nothing is left open");
    let count = |name: &str| follow.names().iter().filter(|other| **other == name).count();
    assert_eq!((count("turn.started"), count("turn.stopping"), count("turn.finished")), (1, 1, 1));
    if outcome == Outcome::Cancelled {
        let stopper = follow.events.iter().find(|event| event.body.name() == "turn.stopping").unwrap();
        assert_eq!(follow.events.last().unwrap().actor, stopper.actor);
        assert_eq!(world.repo.branches(), ["main"], "nothing was pushed");
    }
    if let Some(sandbox) = sessions.get(id).await.unwrap().sandbox {
        assert_eq!(left(world, sandbox).await, Vec::<String>::new(), "no process of the turn is left");
    }
    assert_eq!(sessions.stop(id, ann()).await.unwrap().turn, None, "there is nothing more to stop");
    sessions.prompt(id, ann(), "Next".into()).await.unwrap();
    let next = follow.finished().await;
    assert_eq!(next.outcome, Outcome::Done, "{:?}", next.reason);
    assert_eq!(world.model.violations(), Vec::<String>::new());
    finished.receipt
}

/// The command lines of what is marked and still runs.
async fn left(world: &World, sandbox: protocol::SandboxId) -> Vec<String> {
    marked(world, sandbox, MARK).await
}

/// The command lines of what runs and has this in them.
async fn marked(world: &World, sandbox: protocol::SandboxId, mark: &str) -> Vec<String> {
    let sandbox = world.driver.adopt(sandbox).await.unwrap();
    let mut left = Vec::new();
    for entry in sandbox.guest().list("/proc").await.unwrap() {
        if entry.name.parse::<u32>().is_ok()
            && let Ok((line, _)) =
                sandbox.guest().read_file(&format!("/proc/{}/cmdline", entry.name), 0, 4096).await
        {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            left.extend(line.contains(mark).then_some(line));
        }
    }
    left
}

/// What the model is told of the turn that was stopped.
fn told(world: &World) -> String {
    world.model.requests().last().unwrap().json.to_string()
}

pub(crate) async fn both(test: impl AsyncFn(How)) {
    test(How::Often).await;
    test(How::Crash).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_repository_is_fetched() {
    both(async |how| {
        let world = World::new(first_turn(|_| Reply::text("Never."))).await;
        let blocked = world.block_repository();
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        state(&mut Follow::new(&sessions, id).await, SandboxState::Creating).await;
        let (sessions, follow) = stop(&world, sessions, id, how).await;
        let mut seen = follow;
        let finished = seen.finished().await;
        assert_eq!(finished.outcome, Outcome::Cancelled);
        blocked.release();
        let follow = Follow::new(&sessions, id).await;
        holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_set_up() {
    both(async |how| {
        let flag = "test -e /workspace/.git/next || exec sleep 98765";
        let world = World::new(first_turn(|_| Reply::text("Never."))).await.environment(|environment| {
            environment.setup = vec![SetupStep { run: flag.into(), ..SetupStep::default() }];
        });
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        state(&mut Follow::new(&sessions, id).await, SandboxState::Preparing).await;
        let (sessions, mut follow) = stop(&world, sessions, id, how).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
        assert_eq!(world.driver.list().await.unwrap().len(), 0, "a half-made sandbox is of no use");
        assert_eq!(follow.names().iter().filter(|name| **name == "turn.finished").count(), 1);
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_service_starts() {
    both(async |how| {
        let world = World::new(first_turn(|_| Reply::text("Never."))).await.environment(|environment| {
            environment.services = vec![Service {
                name: "slow".into(),
                run: "sleep 98765".into(),
                ready: Probe { run: Some("false".into()), ..Probe::default() },
                ..Service::default()
            }];
        });
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        state(&mut Follow::new(&sessions, id).await, SandboxState::Preparing).await;
        let (sessions, mut follow) = stop(&world, sessions, id, how).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
        assert_eq!(world.driver.list().await.unwrap().len(), 0);
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_branch_is_fetched_and_the_model_reads() {
    both(async |how| {
        let gate = Gate::new();
        let held = gate.clone();
        let script = first_turn(move |request| match request.results().len() {
            0 => Reply::new().call("read", json!({"path": "answer.txt"})),
            _ => Reply::text("Held").stall(At::Response, &held),
        });
        let world = World::new(script).await;
        let sessions = world.start().await;
        sessions.build_and_wait("plain").await.unwrap();
        world.repo.commit("main", &[("more.txt", "more\n")]);
        let blocked = world.block_repository();
        let id = create(&sessions, "Begin").await;
        state(&mut Follow::new(&sessions, id).await, SandboxState::Syncing).await;
        gate.reached().await;
        let (sessions, mut follow) = stop(&world, sessions, id, how).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
        blocked.release();
        let follow = Follow::new(&sessions, id).await;
        holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_model_has_not_answered() {
    both(async |how| {
        let gate = Gate::new();
        let held = gate.clone();
        let world = World::new(first_turn(move |_| Reply::text("Held").stall(At::Response, &held))).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        gate.reached().await;
        let (sessions, follow) = stop(&world, sessions, id, how).await;
        holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_model_speaks_its_words_are_kept_and_marked() {
    let gate = Gate::new();
    let held = gate.clone();
    let words = "Half of a long and winding sentence that is never finished because somebody is in a hurry";
    let world = World::new(first_turn(move |_| Reply::text(words).stall(At::Event(3), &held))).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    Follow::new(&sessions, id).await.text("Half").await;
    let (sessions, follow) = stop(&world, sessions, id, How::Often).await;
    let receipt = holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
    assert_eq!(receipt.skipped[0].what, "an answer");
    assert!(told(&world).contains("[stopped here]"), "{}", told(&world));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_model_writes_a_call_the_half_of_it_is_dropped() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = first_turn(move |_| {
        let call = json!({"command": "echo a long command that comes in many pieces; sleep 98765; echo end"});
        Reply::text("I shall run it.").call("shell", call).stall(At::Event(6), &held)
    });
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    gate.reached().await;
    Follow::new(&sessions, id).await.text("run it").await;
    let (sessions, follow) = stop(&world, sessions, id, How::Often).await;
    holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
    assert!(!told(&world).contains("many pieces"), "{}", told(&world));
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    assert_eq!(follow.calls().len(), 0);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_failed_call_waits_to_be_made_again() {
    both(async |how| {
        let script = first_turn(|_| Reply::status(503, "too much to do").header("retry-after", "250"));
        let world = World::new(script).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        let mut follow = Follow::new(&sessions, id).await;
        follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
        drop(follow);
        let (sessions, follow) = stop(&world, sessions, id, how).await;
        holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_command_runs_its_whole_tree_goes_and_the_work_is_kept() {
    both(async |how| {
        // Deaf to the polite signal, in a session of its own, and orphaned.
        let deaf = "trap '' TERM; (setsid sh -c 'sleep 98765; sleep 98765' &); (sh -c '(sleep 98765 &)' &); \
                    echo 42 > answer.txt; echo begun; sleep 98765; sleep 98765";
        let world = World::new(calls(deaf)).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        Follow::new(&sessions, id).await.text("begun").await;
        let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
        assert!(left(&world, sandbox).await.len() >= 3, "they all run");
        let (sessions, follow) = stop(&world, sessions, id, how).await;
        let receipt = holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        let what = |work: &[protocol::event::Work]| -> Vec<(String, ItemStatus)> {
            work.iter().map(|work| (work.what.clone(), work.status)).collect()
        };
        assert_eq!(what(&receipt.completed), []);
        let skipped = what(&receipt.skipped);
        assert!(skipped[0].0.starts_with("shell trap") && skipped[0].0.ends_with('…'), "{skipped:?}");
        assert_eq!(
            skipped[1],
            ("list .".to_owned(), ItemStatus::Cancelled),
            "it was asked for and never ran"
        );
        assert_eq!((receipt.tools_completed, receipt.tools_skipped, receipt.files_changed), (0, 2, 1));
        assert!(told(&world).contains("begun") && told(&world).contains("stopped"), "{}", told(&world));
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_finished_command_left_running_stays_and_what_the_running_one_started_goes() {
    both(async |how| {
        // As people start a server for development, in three ways.
        let serve = "nohup sleep 87654 > /dev/null 2>&1 & setsid sh -c 'sleep 87654; true' > /dev/null 2>&1 & \
                     sh -c '(sleep 87654 > /dev/null 2>&1 &)'; echo served";
        // In the same ways and without its variables, which is all that a daemon can do.
        let run = "nohup sleep 98765 > /dev/null 2>&1 & env -i setsid sh -c 'sleep 98765; true' > /dev/null 2>&1 & \
                   sh -c '(env -i setsid sleep 98765 > /dev/null 2>&1 &)'; echo begun; sleep 98765";
        let world = World::new(first_turn(move |request| match request.results().len() {
            0 => Reply::new().call("shell", json!({"command": serve})),
            1 => Reply::new().call("shell", json!({"command": run})),
            _ => Reply::text("Done."),
        }))
        .await;
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        Follow::new(&sessions, id).await.text("begun").await;
        let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
        let servers = marked(&world, sandbox, "87654").await;
        assert_eq!(servers.len(), 4, "{servers:?}");
        assert!(left(&world, sandbox).await.len() >= 4, "they all run");
        let (sessions, follow) = stop(&world, sessions, id, how).await;
        holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        assert_eq!(marked(&world, sandbox, "87654").await.len(), 4, "through the stop and the turn after it");
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_checks_run() {
    both(async |how| {
        let world = World::new(calls("echo 42 > answer.txt")).await.environment(|environment| {
            environment.checks[0].run = "echo checking; sleep 98765".into();
        });
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        Follow::new(&sessions, id).await.text("checking").await;
        let (sessions, mut follow) = stop(&world, sessions, id, how).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Cancelled);
        let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
        assert_eq!(left(&world, sandbox).await, Vec::<String>::new());
        let skipped = finished.receipt.skipped;
        assert_eq!((skipped.len(), skipped[0].what.as_str()), (1, "check test"));
        assert_eq!(finished.receipt.completed.len(), 2, "{:?}", finished.receipt.completed);
        let reports = |item: &&Item| matches!(item.kind, ItemKind::Report(_));
        let report = *follow.items().iter().find(|item| reports(item)).unwrap();
        assert_eq!(report.status, ItemStatus::Cancelled);
        assert!(sessions.diff(id).await.unwrap().patch.contains("+42"), "the work is kept");
        world.end(sessions).await;
    })
    .await;
}

/// Git ends with a server that is dropped here. What becomes of a push whose server is killed is seen with the program.
#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_pushed_the_push_comes_to_its_end() {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let hook = world.repo.path().join("hooks/pre-receive");
    let (reached, go) = (world.dir.path().join("reached"), world.dir.path().join("go"));
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script = format!(
        "#!/bin/sh\ntouch {}\nuntil [ -e {} ]; do sleep 0.02; done\n",
        reached.display(),
        go.display()
    );
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::DeliveryUpdated(_))).await;
    while !reached.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(follow);
    let (sessions, follow) = stop(&world, sessions, id, How::Often).await;
    std::fs::write(&go, "").unwrap();
    holds(&world, &sessions, id, follow, Outcome::Done).await;
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    assert_eq!(delivery.state, DeliveryState::Pushed);
    assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_some_events_of_a_turn() {
    after_events_of_a_turn(5).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a turn for each event of a turn"]
async fn after_any_event_of_a_turn() {
    after_events_of_a_turn(1).await;
}

/// A stop as soon as the n-th event of a turn is seen: it ends once, as done if the remote has the branch or the end had
/// come, else as cancelled.
async fn after_events_of_a_turn(each: usize) {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let sessions = world.start().await;
    let mut seen = 3;
    loop {
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        let mut over = false;
        while follow.events.len() < seen {
            over |= matches!(follow.next().await.body, EventBody::TurnFinished { .. });
            if over {
                break;
            }
        }
        let stopped = sessions.stop(id, ann()).await.unwrap();
        if !over {
            let finished = follow.finished().await;
            let branch = follow.deliveries().last().map(|delivery| delivery.branch.clone());
            let is_out = branch.is_some_and(|branch| world.repo.branches().contains(&branch));
            let stop = follow.events.iter().position(|event| event.body.name() == "turn.stopping");
            let expected = match stop {
                Some(_) if !is_out => Outcome::Cancelled,
                Some(_) | None => Outcome::Done,
            };
            assert_eq!(finished.outcome, expected, "{seen}: {:?}", follow.names());
            assert_eq!(stop.is_some(), stopped.turn.is_some(), "{seen}: {:?}", follow.names());
        }
        sessions.prompt(id, ann(), "Next".into()).await.unwrap();
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        let count = |name: &str| follow.names().iter().filter(|other| **other == name).count();
        assert_eq!((count("turn.started"), count("turn.finished")), (2, 2), "{seen}");
        if over {
            break;
        }
        seen += each;
    }
    assert!(seen > 15, "the turn has more events than {seen}");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}
