//! Sessions over several commands: work that goes on in the background, people who come and go, follow-ups, and a server
//! that dies in the middle.

use serde_json::{Value, json};
use testkit::model::{At, Gate, Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, edit, mend, shell, until};

/// The id of the only session.
async fn only_session(world: &World) -> String {
    let list = world.json(&["ls"]).await;
    let [session] = &list["sessions"].as_array().unwrap()[..] else { panic!("{list}") };
    session["id"].as_str().unwrap().to_owned()
}

/// Whether a process is there and is more than an entry that nobody has waited for.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Fails unless who came later saw the same, and perhaps the snapshot that is taken once the turn is over.
#[track_caller]
fn assert_same(later: &[Value], watched: &[Value]) {
    assert!(later.starts_with(watched), "{later:?}\nbegins otherwise than\n{watched:?}");
    let after: Vec<&Value> = later[watched.len()..].iter().map(|event| &event["type"]).collect();
    assert!(after.iter().all(|name| *name == "snapshot.taken"), "{after:?}");
}

#[tokio::test]
async fn work_goes_on_in_the_background() {
    let script = Script::new()
        .answer(edit("41", "42"))
        .say("The answer is 42 now.")
        .answer(shell("echo started; sleep 600"));
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let created = world.json(&["run", "--detach", "--env", ENVIRONMENT, "Make the answer right"]).await;
    let session = created["id"].as_str().unwrap();
    let (url, server) = world.background().expect("a server in the background");
    assert!(lives(server), "{url}");

    let watched = world.ok(&["attach", session, "--json"]).await.events();
    watched.assert_gap_free(0);
    assert_eq!(watched.only("turn.finished")["outcome"], "done");
    let again = world.ok(&["attach", session, "--json", "--after", "3"]).await.events();
    assert_same(&again.durable, &watched.durable[3..]);
    let diff = world.json(&["diff", session]).await;
    assert_eq!((&diff["files"], &diff["insertions"]), (&json!(1), &json!(1)), "{diff}");

    // The same server takes the next one.
    let second = world.ok(&["run", "--detach", "--env", ENVIRONMENT, "Wait"]).await.stdout;
    let second = second.trim();
    assert_eq!(world.background(), Some((url, server)));
    let watcher = world.start(&["attach", second]);
    watcher.stderr_has("│ started").await;
    let list = world.json(&["ls"]).await;
    let states: Vec<(&Value, &Value)> =
        list["sessions"].as_array().unwrap().iter().map(|row| (&row["id"], &row["status"])).collect();
    assert_eq!(states, [(&json!(second), &json!("working")), (&json!(session), &json!("done"))]);
    let stopped = world.json(&["stop", second]).await;
    assert!(stopped["turn"].as_str().unwrap().starts_with("trn_"), "{stopped}");
    let output = watcher.wait().await.expect_code(1);
    assert!(output.stderr.contains("cancelled"), "{output}");
    assert_eq!(world.json(&["show", second]).await["status"], "cancelled");
    assert!(world.json(&["stop", second]).await.get("turn").is_none(), "nothing is left to stop");

    // SAFETY: kill takes two numbers; the process is the server that this test's own command started.
    unsafe { libc::kill(server, libc::SIGTERM) };
    until("the server in the background ends", || !lives(server)).await;
    assert_eq!(world.background(), None, "its address is taken away");
    world.finish().await;
}

#[tokio::test]
async fn leaving_does_not_disturb_the_session() {
    let model = Server::start(Script::new().answer(shell("echo started; sleep 600"))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Wait").await;
    let watcher = world.start(&["attach", &session]);
    watcher.stderr_has("│ started").await;
    watcher.signal(libc::SIGINT);
    watcher.wait().await.expect_code(130);
    assert_eq!(world.json(&["show", &session]).await["status"], "working");
    world.ok(&["stop", &session]).await;
    let output = world.run(&["attach", &session]).await.expect_code(1);
    assert!(output.stderr.contains("cancelled"), "{output}");
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_follow_up_goes_on_from_the_kept_work() {
    let script = mend()
        .answer(shell("cat answer.txt; git log --format=%s"))
        .call("write", json!({"path": "notes/answer.txt", "content": "Six by seven is 42.\n"}))
        .say("Noted.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let first = world.ok(&["run", "--env", ENVIRONMENT, "--json", "Make the answer right"]).await.events();
    let session = first.session();
    // The first sandbox is gone; the work comes from where it was kept.
    assert_eq!(world.traces(), [""; 0]);
    let second = world.ok(&["prompt", session, "--json", "Write it down"]).await.events();
    let finished = second.only("turn.finished");
    assert_eq!(finished["outcome"], "done", "{finished}");
    let seen = second.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(seen.contains("42\nMake the answer right\n"), "{seen}");
    let branches = repo.branches();
    assert_eq!(branches.len(), 2, "{branches:?}");
    assert_eq!(repo.log(&branches[1])[..2], ["Write it down", "Make the answer right"]);
    assert_eq!(repo.file(&branches[1], "notes/answer.txt").as_deref(), Some("Six by seven is 42.\n"));
    assert_eq!(repo.file(&branches[1], "answer.txt").as_deref(), Some("42\n"));
    // The model is told the whole conversation.
    let requests = model.requests();
    let said: String = requests[4].messages.iter().map(|message| format!("{message:?}")).collect();
    assert!(said.contains("Make the answer right") && said.contains("The answer is 42 now."), "{said}");

    let whole = world.ok(&["attach", session, "--json"]).await.events();
    whole.assert_gap_free(0);
    assert_eq!(whole.of("turn.finished").len(), 2);
    assert_eq!(only_session(&world).await, session);
    // Delivering what was delivered changes nothing.
    let tip = repo.tip(&branches[1]);
    assert_eq!(world.ok(&["deliver", session]).await.stdout.trim(), branches[1]);
    assert_eq!(repo.tip(&branches[1]), tip);
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_dies_loses_nothing() {
    let command = "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two";
    let script = Script::new().answer(edit("41", "42")).answer(shell(command)).say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Make the answer right").await;
    // This one stays, and comes back to the server that comes back.
    let watcher = world.start(&["attach", &session, "--json"]);
    watcher.line(|frame| frame["data"]["channel"] == "stdout" && frame["data"]["text"] == "one\n").await;
    let address = serving.address().to_owned();
    serving.crash().await;
    let sandbox = world.sandbox_state("session");
    let init = i32::try_from(sandbox["init"].as_i64().unwrap()).unwrap();
    assert!(lives(init), "the sandbox outlives its server");

    let serving = world.serve_at(&address).await;
    world.let_go("/tmp/go");
    let watched = watcher.wait().await.expect_code(0).events();
    watched.assert_gap_free(0);
    assert_eq!(watched.only("turn.finished")["outcome"], "done");
    let calls = watched.calls("shell");
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((&call["status"], &call["exit_code"]), (&json!("completed"), &json!(0)), "{call}");
    assert_eq!(call["output"]["bytes"], "one\ntwo\n".len(), "{call}");
    assert!(call["output"]["text"].as_str().unwrap().starts_with("one\ntwo\n"), "{call}");
    assert_eq!(model.requests().len(), 3, "nothing was asked twice");
    assert!(model.requests()[2].results()[0].text.contains("one\ntwo\n"));
    let log = serving.api.log(&session).await;
    assert_same(&log.durable, &watched.durable);
    let sandboxes: Vec<&Value> =
        log.of("sandbox.changed").into_iter().filter(|changed| changed["state"] == "creating").collect();
    assert_eq!(sandboxes.len(), 1, "it is the same sandbox: {sandboxes:?}");
    assert_eq!(repo.branches().len(), 2);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn prompts_wait_for_their_turn() {
    let script = Script::new()
        .answer(shell("echo started; while [ ! -e /tmp/go ]; do sleep 0.02; done"))
        .say("One.")
        .answer(Reply::text("Two."));
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "First").await;
    let watcher = world.start(&["attach", &session, "--json"]);
    watcher.line(|frame| frame["data"]["text"] == "started\n").await;
    world.ok(&["prompt", "--detach", &session, "Second"]).await;
    let shown = world.json(&["show", &session]).await;
    assert_eq!(
        (&shown["queued"][0]["text"], &shown["queued"][0]["author"]),
        (&json!("Second"), &json!("ana"))
    );
    world.let_go("/tmp/go");
    let watched = watcher.wait().await.expect_code(0).events();
    let order: Vec<&str> = watched
        .durable
        .iter()
        .filter_map(|event| event["type"].as_str().filter(|name| name.starts_with("turn.")))
        .collect();
    assert_eq!(order, ["turn.started", "turn.finished", "turn.started", "turn.finished"]);
    let said: Vec<&Value> = watched.items("message").into_iter().map(|item| &item["text"]).collect();
    assert_eq!(said, ["One.", "Two."]);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn commands_share_the_server_of_the_first() {
    let model = Server::start(Script::new().answer(shell("echo started; sleep 600"))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let running = world.start(&["run", "--env", ENVIRONMENT, "Wait"]);
    running.stderr_has("│ started").await;
    assert_eq!(world.background().map(|(_, pid)| pid), Some(running.pid()));
    let session = only_session(&world).await;
    assert_eq!(world.json(&["show", &session]).await["status"], "working");
    world.ok(&["stop", &session]).await;
    let output = running.wait().await.expect_code(1);
    assert!(output.stderr.contains("cancelled"), "{output}");
    assert_eq!(world.background(), None);
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_dies_with_its_sandbox_is_told_to_the_model() {
    let script =
        Script::new().answer(edit("41", "42")).answer(shell("echo one; sleep 600")).say("I will not wait.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Make the answer right").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until(|frame| frame["data"]["text"] == "one\n").await;
    let init = i32::try_from(world.sandbox_state("session")["init"].as_i64().unwrap()).unwrap();
    serving.crash().await;
    // SAFETY: kill takes two numbers; the process is pid 1 of this test's own sandbox.
    unsafe { libc::kill(init, libc::SIGKILL) };
    until("the sandbox ends", || !lives(init)).await;

    let serving = world.serve().await;
    let mut watcher = serving.api.watch(&session, 0).await;
    let finished = watcher.until_type("turn.finished").await;
    watcher.seen.assert_gap_free(0);
    let calls = watcher.seen.calls("shell");
    assert_eq!(calls.iter().map(|call| &call["status"]).collect::<Vec<_>>(), ["interrupted"]);
    let requests = model.requests();
    let told = format!("{:?}", requests[2].messages);
    assert!(told.contains("interrupted"), "{told}");
    assert!(told.contains("are gone"), "the edit went with the sandbox, and the model must know: {told}");
    let states: Vec<&Value> =
        watcher.seen.of("sandbox.changed").into_iter().map(|changed| &changed["state"]).collect();
    assert!(states.contains(&&json!("lost")), "{states:?}");
    assert_eq!(finished["data"]["outcome"], "done", "{finished}");
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_model_call_that_was_under_way_is_made_again() {
    let gate = Gate::new();
    let script = Script::new().answer(Reply::text("Never heard.").stall(At::Response, &gate)).say("Hello.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Say hello").await;
    gate.reached().await;
    serving.crash().await;
    let serving = world.serve().await;
    let mut watcher = serving.api.watch(&session, 0).await;
    let finished = watcher.until_type("turn.finished").await;
    assert_eq!(finished["data"]["outcome"], "done", "{finished}");
    watcher.seen.assert_gap_free(0);
    let said: Vec<&Value> = watcher.seen.items("message").into_iter().map(|item| &item["text"]).collect();
    assert_eq!(said, ["Hello."]);
    let requests = model.requests();
    assert_eq!((requests.len(), &requests[0].messages), (2, &requests[1].messages));
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_is_told_to_end_cleans_up() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let model = Server::start(Script::new().answer(shell("echo started; sleep 600"))).await;
        let repo = Repo::plain();
        let world = World::with(&model, &repo);
        let running = world.start(&["run", "--env", ENVIRONMENT, "Wait"]);
        running.stderr_has("│ started").await;
        running.signal(signal);
        let output = running.wait().await;
        assert_ne!(output.code(), 0, "{output}");
        assert_eq!(world.traces(), [""; 0], "after signal {signal}: {output}");
        world.finish().await;
    }
}

#[tokio::test]
async fn the_next_command_takes_up_what_a_killed_one_left() {
    let command = "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two";
    let script = Script::new().answer(edit("41", "42")).answer(shell(command)).say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let running = world.start(&["run", "--env", ENVIRONMENT, "--json", "Make the answer right"]);
    let frame = running.line(|frame| frame["data"]["text"] == "one\n").await;
    running.signal(libc::SIGKILL);
    running.wait().await;
    let session = frame["session"].as_str().unwrap();
    let attached = world.start(&["attach", session, "--json"]);
    attached.line(|frame| frame["data"]["text"] == "one\n").await;
    world.let_go("/tmp/go");
    let events = attached.wait().await.expect_code(0).events();
    events.assert_gap_free(0);
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    assert_eq!(repo.branches().len(), 2);
    world.finish().await;
}

#[tokio::test]
async fn an_address_left_by_a_server_that_died_is_not_believed() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let other = World::with(&model, &repo);
    let serving = other.serve().await;
    // Another data directory's server has got the port that ours had.
    let world = World::new();
    let left = json!({"url": serving.url, "pid": serving.running.pid()});
    std::fs::write(world.data().join("server.json"), left.to_string()).unwrap();
    assert_eq!(world.json(&["env", "ls"]).await, json!({"environments": []}));
    serving.stop().await;
    world.finish().await;
    other.finish().await;
}
