//! `slipway run`: a task from the prompt to a checked branch, in both wire formats, with checks that fail and with
//! repositories that describe themselves.

use protocol::chat::Message;
use serde_json::{Value, json};
use testkit::model::{Format, Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Events, World, edit, mend, models, shell};

/// What every durable event has, and nothing else.
fn assert_envelopes(events: &Events) {
    let session = events.session();
    for event in &events.durable {
        let mut keys: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["actor", "at", "data", "seq", "session", "type", "v"], "{event}");
        assert_eq!((&event["v"], event["session"].as_str()), (&json!(1), Some(session)), "{event}");
        event["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(["user", "agent", "system"].contains(&event["actor"]["kind"].as_str().unwrap()), "{event}");
        assert!(!event["actor"]["id"].as_str().unwrap().is_empty() && event["data"].is_object(), "{event}");
    }
}

/// The branch that was pushed, as the last word about the delivery has it.
fn pushed(events: &Events) -> String {
    let delivery = *events.of("delivery.updated").last().unwrap();
    assert_eq!(delivery["state"], "pushed", "{delivery}");
    delivery["branch"].as_str().unwrap().to_owned()
}

async fn a_task_becomes_a_checked_branch(name: &str, format: Format) {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let main = repo.tip("main");
    let world = World::with(&model, &repo);
    std::fs::write(world.home().join(".gitconfig"), "[user]\nname = Ana\nemail = ana@example.com\n").unwrap();

    let prompt = "Make the answer right";
    let output = world.ok(&["run", "--env", ENVIRONMENT, "--model", name, "--json", prompt]).await;
    assert_eq!(world.traces(), [""; 0], "the command's own server is gone with everything of it");
    let events = output.events();
    events.assert_gap_free(0);
    assert_envelopes(&events);
    assert_eq!(
        events.types(),
        [
            "checks.passed",
            "delivery.updated",
            "item.completed",
            "item.started",
            "prompt.queued",
            "sandbox.changed",
            "session.created",
            "turn.finished",
            "turn.started",
            "usage.recorded"
        ]
    );
    let gone_by: Vec<&Value> = events.ephemeral.iter().map(|event| &event["type"]).collect();
    assert!(gone_by.contains(&&json!("delta")) && gone_by.contains(&&json!("live")), "{gone_by:?}");

    let finished = events.only("turn.finished");
    assert_eq!(finished["outcome"], "done", "{finished}");
    let receipt = &finished["receipt"];
    assert_eq!(receipt["checks"], json!([{"name": "answer", "passed": true}]), "{receipt}");
    assert_eq!([&receipt["files_changed"], &receipt["insertions"], &receipt["deletions"]], [1, 1, 1]);
    assert_eq!(receipt["spend"]["calls"], 4, "{receipt}");
    assert_eq!(events.of("usage.recorded").len(), 4);
    let tools: Vec<&Value> = events.items("tool_call").into_iter().map(|item| &item["tool"]).collect();
    assert_eq!(tools, ["read", "edit", "check"]);
    let states: Vec<&Value> =
        events.of("sandbox.changed").into_iter().map(|changed| &changed["state"]).collect();
    assert_eq!(states[..3], ["creating", "preparing", "ready"]);

    let branch = pushed(&events);
    assert_eq!(repo.branches(), ["main", &branch]);
    assert_eq!(repo.tip("main"), main);
    assert_eq!(repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(repo.git(&["rev-parse", &format!("{branch}^")]).trim(), main);
    let commit = repo.git(&[
        "log",
        "-1",
        "--format=%an <%ae>%n%s%n%(trailers:key=Slipway-Session,valueonly)",
        &branch,
    ]);
    let session = events.session();
    assert_eq!(commit.trim(), format!("Ana <ana@example.com>\n{prompt}\n{session}"));

    let requests = model.requests();
    assert!(requests.iter().all(|request| request.format == format && request.stream));
    assert_eq!(
        requests[0].tool_names(),
        [
            "shell", "process", "read", "write", "edit", "search", "list", "check", "plan", "ask",
            "remember", "recall"
        ]
    );
    assert!(matches!(&requests[0].messages[..], [Message::User { text, .. }] if text.contains(prompt)));
    assert!(requests[1].results()[0].text.contains("41"), "{:?}", requests[1].results());
    assert_eq!(model.violations(), [""; 0]);

    let diff = world.json(&["diff", session]).await;
    assert_eq!([&diff["files"], &diff["insertions"], &diff["deletions"]], [1, 1, 1]);
    assert_eq!(diff["base"], main);
    let patch = world.ok(&["diff", session]).await.stdout;
    assert_eq!(patch, diff["patch"].as_str().unwrap());
    assert!(patch.contains("\n-41\n+42\n"), "{patch}");
    let shown = world.json(&["show", session]).await;
    assert_eq!(
        (&shown["status"], &shown["model"], &shown["title"]),
        (&json!("done"), &json!(name), &json!(prompt))
    );
    assert!(shown["seq"].as_u64().unwrap() >= events.durable.len() as u64, "{shown}");
    assert!(world.ok(&["show", session]).await.stdout.contains(&branch));
    let list = world.json(&["ls"]).await;
    assert_eq!((&list["sessions"][0], list["sessions"].as_array().unwrap().len()), (&shown, 1));
    world.finish().await;
}

#[tokio::test]
async fn a_task_becomes_a_checked_branch_with_chat_completions() {
    a_task_becomes_a_checked_branch("chat", Format::Chat).await;
}

#[tokio::test]
async fn a_task_becomes_a_checked_branch_with_anthropic_messages() {
    a_task_becomes_a_checked_branch("claude", Format::Anthropic).await;
}

#[tokio::test]
async fn failing_checks_go_back_to_the_model() {
    let script =
        Script::new().answer(edit("41", "40")).say("Done, I think.").answer(edit("40", "42")).say("Now.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut running = world.start(&["run", "--env", ENVIRONMENT, "-"]);
    running.write(b"Make the answer right\n").await;
    running.close_stdin();
    let output = running.wait().await.expect_code(0);
    assert_eq!(output.stdout, "Now.\n", "the answer is the data");
    for said in ["check answer failed", "expected 42, found 40", "check answer passed", "pushed slipway/"] {
        assert!(output.stderr.contains(said), "{said} is not shown: {output}");
    }
    let requests = model.requests();
    let told = requests[2].last_user().unwrap();
    assert!(told.contains("answer.txt:1") && told.contains("expected 42, found 40"), "{told}");
    assert_eq!(repo.branches().len(), 2);
    world.finish().await;
}

#[tokio::test]
async fn checks_that_never_pass_are_left_to_a_person() {
    let script = Script::new().answer(edit("41", "40")).say("It is right as it is.").repeat_last();
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let output =
        world.run(&["run", "--env", ENVIRONMENT, "--json", "Make the answer right"]).await.expect_code(1);
    let events = output.events();
    let finished = events.only("turn.finished");
    assert_eq!(finished["outcome"], "escalated", "{finished}");
    assert!(finished["reason"].as_str().unwrap().contains("answer (1 failure)"), "{finished}");
    assert_eq!(finished["receipt"]["checks"], json!([{"name": "answer", "passed": false}]));
    assert_eq!(events.of("delivery.updated").len(), 0);
    assert_eq!(repo.branches(), ["main"]);
    let report = events.items("report")[0];
    assert_eq!(
        (
            &report["passed"],
            &report["report"]["diagnostics"][0]["file"],
            &report["report"]["diagnostics"][0]["line"]
        ),
        (&json!(false), &json!("answer.txt"), &json!(1)),
        "{report}"
    );
    // The work is kept for the person, and only what is done can be delivered.
    let session = events.session();
    assert!(world.ok(&["diff", session]).await.stdout.contains("+40"));
    let shown = world.json(&["show", session]).await;
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("escalated"), &finished["reason"]));
    let refused = world.run(&["deliver", session]).await.expect_code(1);
    assert!(refused.stderr.contains("nothing to deliver"), "{refused}");
    world.finish().await;
}

#[tokio::test]
async fn a_repository_needs_no_environment() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    repo.commit("main", &[("Makefile", "test:\n\t./check.sh\n")]);
    let main = repo.tip("main");
    let world = World::new();
    world.configure(&models(&model));
    let output = world.ok(&["run", "--repo", &repo.url(), "--json", "Make the answer right"]).await;
    let events = output.events();
    let report = *events.items("report").last().unwrap();
    assert_eq!((&report["check"], &report["command"]), (&json!("test"), &json!("make test")), "{report}");
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    assert_eq!((repo.branches().len(), repo.tip("main")), (2, main));
    let environments = world.json(&["env", "ls"]).await;
    let repos = &environments["environments"][0]["repos"];
    assert_eq!(repos, &json!([{"url": repo.path().canonicalize().unwrap()}]), "{environments}");
    world.finish().await;
}

#[tokio::test]
async fn a_repository_can_describe_itself_on_a_branch() {
    let script = Script::new()
        .answer(shell("cat prepared; git push origin HEAD:main"))
        .answer(edit("41", "42"))
        .say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let recipe =
        "setup = [{ run = \"echo yes > prepared\" }]\nchecks = [{ name = \"own\", run = \"./check.sh\" }]\n";
    repo.commit(
        "next",
        &[(".slipway.toml", recipe), (".gitignore", "prepared\n"), ("AGENTS.md", "Be kind to whales.\n")],
    );
    let (main, next) = (repo.tip("main"), repo.tip("next"));
    let world = World::new();
    world.configure(&models(&model));
    let run = ["run", "--repo", &repo.url(), "--branch", "next", "--json", "Make the answer right"];
    let events = world.ok(&run).await.events();
    assert_eq!(events.only("turn.finished")["receipt"]["checks"], json!([{"name": "own", "passed": true}]));
    assert!(model.requests()[0].system.contains("Be kind to whales."));
    let call = events.calls("shell")[0];
    assert!(call["output"]["text"].as_str().unwrap().contains("yes"), "the set-up was run: {call}");
    assert_ne!(call["exit_code"], 0, "nothing can be pushed from a sandbox: {call}");
    let branch = pushed(&events);
    assert_eq!(
        (repo.tip("main"), repo.tip("next")),
        (main, next.clone()),
        "only the session's branch is pushed"
    );
    assert_eq!(repo.git(&["rev-parse", &format!("{branch}^")]).trim(), next);
    world.finish().await;
}

#[tokio::test]
async fn interrupting_stops_the_turn_and_keeps_the_work() {
    let script = Script::new().answer(edit("41", "40")).answer(shell("echo started; sleep 600"));
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let running = world.start(&["run", "--env", ENVIRONMENT, "Make the answer right"]);
    running.stderr_has("│ started").await;
    running.signal(libc::SIGINT);
    let output = running.wait().await.expect_code(130);
    assert!(output.stderr.contains("cancelled"), "{output}");
    assert_eq!(world.traces(), [""; 0]);
    let list = world.json(&["ls"]).await;
    let session = &list["sessions"][0];
    assert_eq!(session["status"], "cancelled", "{list}");
    let diff = world.ok(&["diff", session["id"].as_str().unwrap()]).await.stdout;
    assert!(diff.contains("+40"), "{diff}");
    assert_eq!(repo.branches(), ["main"]);
    world.finish().await;
}

#[tokio::test]
async fn a_question_needs_no_branch() {
    let model = Server::start(Script::new().answer(Reply::text("It is 41."))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let output = world.ok(&["run", "--env", ENVIRONMENT, "What is the answer?"]).await;
    assert_eq!(output.stdout, "It is 41.\n");
    assert_eq!(repo.branches(), ["main"]);
    world.finish().await;
}
