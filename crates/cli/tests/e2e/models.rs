//! `slipway models`: what is listed, and what trying a model out says; which model works on a session.

use serde_json::{Value, json};
use testkit::model::{At, Format, Gate, Reply, Script, Server};
use testkit::repo::{FIX_PLAIN, Repo};

use crate::harness::{ENVIRONMENT, World, edit, environment, models};

/// A model that calls the tool it is given and keeps to a shape it is given.
fn able() -> Script {
    Script::from_fn(|request, _| match request.tool_names().as_slice() {
        ["add"] => Reply::new().call("add", json!({"a": 1923, "b": 2377})),
        _ => Reply::text("{\"capital\":\"Paris\"}"),
    })
}

#[tokio::test]
async fn models_are_listed_with_what_is_known_of_them() {
    let world = World::new();
    world.configure(
        "[agent]\nmodel = \"small\"\n\n[routes]\njudge = \"big\"\n\n\
         [models.big]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\nfallback = [\"small\"]\n\n\
         [models.small]\nprovider = \"ollama\"\nmodel = \"qwen2.5-coder:1.5b\"\n",
    );
    let listed = world.json(&["models"]).await;
    let [big, small] = &listed["models"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!(
        (&big["context"], &big["price"]["input"], &big["key"], &big["tool_mode"], &big["fallback"]),
        (&json!(200_000), &json!(3.0), &json!(false), &json!("native"), &json!(["small"]))
    );
    assert_eq!(
        (&small["context_assumed"], &small["price"]["input"], &small["key"], &small["tool_mode"]),
        (&json!(true), &json!(0.0), &json!(true), &json!("fenced"))
    );
    let output = world.ok(&["models"]).await;
    for said in ["200k", "$3/$15", "16k?", "free", "whole", "judge, then small", "default"] {
        assert!(output.stdout.contains(said), "{said}: {output}");
    }
    world.finish().await;
}

#[tokio::test]
async fn trying_a_model_out_says_in_plain_words_what_works() {
    let world = World::new();
    let server = Server::start(able()).await;
    let clumsy = Script::new().say("{\"name\":\"add\",\"a\":1923,\"b\":2377}").say("{\"capital\":\"Paris\"}");
    let clumsy = Server::start(clumsy).await;
    let refusing = Server::start(Script::new().answer(Reply::status(401, "who are you?"))).await;
    let model = |name: &str, url: &str| {
        format!("[models.{name}]\nprovider = \"openai-compatible\"\nmodel = \"m\"\nbase_url = \"{url}\"\n\n")
    };
    world.configure(
        &[("able", &server), ("clumsy", &clumsy), ("refused", &refusing)]
            .map(|(name, server)| model(name, &server.url()))
            .concat(),
    );
    let output = world.ok(&["models", "test", "able"]).await;
    for said in
        ["streaming: works", "tool calls: work", "given shape: not tried", "usage: reported", "nothing needs"]
    {
        assert!(output.stdout.contains(said), "{said}: {output}");
    }
    assert_eq!(server.requests().len(), 1);
    let found = world.json(&["models", "test", "clumsy"]).await;
    assert_eq!(
        (&found["tool_calls"], &found["tool_mode"]),
        (&json!("as_text"), &json!("json_step")),
        "{found}"
    );
    let output = world.run(&["models", "test", "refused"]).await;
    assert_eq!(output.code(), 1, "{output}");
    assert!(output.stdout.contains("wants a key"), "{output}");
    let output = world.run(&["models", "test", "nobody"]).await;
    assert_eq!(output.code(), 2, "{output}");
    assert!(output.stderr.contains("able, clumsy, refused"), "{output}");
    world.finish().await;
}

#[tokio::test]
async fn another_model_takes_over_and_stays_through_a_crash_until_a_person_chooses() {
    let gate = Gate::new();
    let script = Script::from_fn({
        let (gate, mut held) = (gate.clone(), false);
        move |request, _| match (request.format, request.results().is_empty()) {
            (Format::Chat, _) => Reply::status(401, "who are you?"),
            (_, _) if request.tools.is_empty() => Reply::text("Mend the answer"),
            (_, _) if request.last_user() == Some("And now?") => Reply::text("Nothing more."),
            (_, true) if !std::mem::replace(&mut held, true) => {
                Reply::text("Never heard").stall(At::Response, &gate)
            }
            (_, true) => edit(FIX_PLAIN.old, FIX_PLAIN.new),
            (_, false) => Reply::text("The answer is 42 now."),
        }
    });
    let (model, repo, world) = (Server::start(script).await, Repo::plain(), World::new());
    let models = models(&model).replace("[models.claude]", "fallback = [\"claude\"]\n\n[models.claude]");
    world.configure(&format!("[routes]\ntitle = \"claude\"\n\n{models}{}", environment(&repo)));
    let serving = world.serve().await;
    let id = serving.api.create(ENVIRONMENT, "The answer is wrong").await;
    gate.reached().await;
    serving.crash().await;

    let serving = world.serve().await;
    let mut watcher = serving.api.watch(&id, 0).await;
    watcher.until_type("turn.finished").await;
    let log = serving.api.log(&id).await;
    let changed = log.only("model.changed");
    assert_eq!((&changed["model"], &changed["from"]), (&json!("claude"), &json!("chat")), "{changed}");
    assert_eq!(log.only("turn.finished")["outcome"], "done");
    let shown = world.ok(&["attach", &id]).await;
    assert!(shown.stderr.contains("; claude takes over for this turn"), "{shown}");
    assert!(!shown.stderr.contains(".;"), "{shown}");
    let session = world.json(&["show", &id]).await;
    assert_eq!((&session["model"], &session["title"]), (&json!("chat"), &json!("Mend the answer")));

    let refused = world.run(&["edit", &id, "--model", "nobody"]).await;
    assert!(refused.code() != 0 && refused.stderr.contains("chat, claude"), "{refused}");
    let refused = world.run(&["edit", &id]).await;
    assert_eq!(refused.code(), 2, "{refused}");
    let edited = world.ok(&["edit", &id, "--model", "claude", "--title", "Forty-two"]).await;
    assert!(edited.stderr.contains("claude works on it"), "{edited}");
    world.ok(&["prompt", &id, "And now?"]).await;
    let session = world.json(&["show", &id]).await;
    assert_eq!((&session["model"], &session["title"]), (&json!("claude"), &json!("Forty-two")));
    let log = serving.api.log(&id).await;
    let answered: Vec<&Value> = log.of("usage.recorded").iter().map(|usage| &usage["model"]).collect();
    assert!(!answered.is_empty() && answered.iter().all(|model| **model == "claude"), "{answered:?}");
    assert_eq!(model.violations(), Vec::<String>::new());
    drop(watcher);
    serving.stop().await;
    let edited = world.json(&["edit", &id, "--model", "chat"]).await;
    assert_eq!(edited["model"], "chat", "also without a server");
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_queue_stays_when_no_model_can_be_used() {
    let gate = Gate::new();
    let refused = Reply::status(401, "who are you?").stall(At::Response, &gate);
    let model = Server::start(Script::new().answer(refused).repeat_last()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let id = serving.api.create(ENVIRONMENT, "one").await;
    gate.reached().await;
    world.ok(&["prompt", &id, "two", "--detach"]).await;
    gate.open();
    let mut watcher = serving.api.watch(&id, 0).await;
    watcher.until_type("queue.paused").await;
    let session = world.json(&["show", &id]).await;
    assert_eq!((&session["status"], &session["paused"]), (&json!("failed"), &json!(true)), "{session}");
    assert_eq!(session["queued"].as_array().unwrap().len(), 1);
    let log = serving.api.log(&id).await;
    assert_eq!((log.of("turn.started").len(), log.of("retry.scheduled").len()), (1, 0));
    assert!(log.only("turn.finished")["reason"].as_str().unwrap().contains("key"), "{log:?}");
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
