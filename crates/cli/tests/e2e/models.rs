//! `slipway models`: what is listed, and what trying a model out says.

use serde_json::json;
use testkit::model::{Reply, Script, Server};

use crate::harness::World;

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
        "[agent]\nmodel = \"small\"\n\n\
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
    for said in ["200k", "$3/$15", "16k?", "free", "whole", "then small", "default"] {
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
        ["streaming: works", "tool calls: work", "given shape: work", "usage: reported", "nothing needs"]
    {
        assert!(output.stdout.contains(said), "{said}: {output}");
    }
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
