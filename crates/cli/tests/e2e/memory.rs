//! `slipway memory` with the real program: what one command remembers, the next one finds, with a server and without.

use serde_json::{Value, json};
use testkit::embeddings::Embeddings;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World};

const SCOPE: &str = "--scope=repository:https://forge.example/shop.git";

#[tokio::test]
async fn notes_are_kept_shown_replaced_edited_and_removed_by_command() {
    let world = World::new();
    let none = world.ok(&["memory", "ls"]).await;
    assert!(none.stderr.contains("nothing is remembered"), "{none}");
    let add = |text| ["memory", "add", SCOPE, "--subject", "package manager", text];
    let old = world.json(&add("The shop is installed with npm")).await;
    assert_eq!(old["how"], "new", "{old}");
    let serving = world.serve().await;
    let new = world.json(&add("pnpm is what installs the shop")).await;
    assert_eq!((&new["how"], &new["old"]), (&json!("replaced"), &json!([old["id"]])), "{new}");
    let id = new["id"].as_str().unwrap();

    let found = world.json(&["memory", "search", "install the shop"]).await;
    assert_eq!(found["found"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["found"][0]["note"]["id"], id);
    let shown = world.ok(&["memory", "show", id]).await;
    assert!(shown.stdout.contains("about package manager"), "{shown}");
    let all = world.json(&["memory", "ls", "--all"]).await;
    let listed = world.json(&["memory", "ls", SCOPE]).await;
    let count = |list: &Value| list["notes"].as_array().unwrap().len();
    assert_eq!((count(&all), count(&listed)), (2, 1), "{all}");

    let edited = world.json(&["memory", "edit", id, "--kind", "decision"]).await;
    assert_eq!(
        (&edited["kind"], &edited["text"]),
        (&json!("decision"), &json!("pnpm is what installs the shop"))
    );
    world.ok(&["memory", "rm", id]).await;
    let gone = world.run(&["memory", "show", id]).await.expect_code(2);
    assert!(gone.stderr.contains("slipway memory ls"), "{gone}");
    serving.stop().await;
    world.finish().await;
}

#[tokio::test]
async fn what_is_no_scope_or_kind_is_told_before_anything_is_asked() {
    let world = World::new();
    let scope = world.run(&["memory", "add", "--scope", "shop", "text"]).await.expect_code(2);
    assert!(scope.stderr.contains("repository:URL"), "{scope}");
    let kind = world.run(&["memory", "add", SCOPE, "--kind", "rumour", "text"]).await.expect_code(2);
    assert!(kind.stderr.contains("error_pattern"), "{kind}");
    world.run(&["memory", "edit", "mem_00000000000000000000000001"]).await.expect_code(2);
    world.finish().await;
}

#[tokio::test]
async fn an_agent_uses_the_memory_and_people_see_what_it_was_given_and_what_it_keeps() {
    let script = Script::new()
        .call(
            "remember",
            json!({"text": "Use `bin/answer --fix`", "subject": "fixing answers", "kind": "decision"}),
        )
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        .say("The answer is 42 now.");
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::with(&model, &repo);
    let scope = format!("repository:{}", repo.url());
    let text = "The answer of the universe is computed by the harbour's tide gauge.";
    let added = world.json(&["memory", "add", "--scope", &scope, text]).await;
    let id = added["id"].as_str().unwrap();
    let prompt = "Which tide gauge of the harbour computes the answer of the universe?";
    let ran = world.ok(&["run", "--env", ENVIRONMENT, prompt]).await;
    assert!(ran.stderr.contains("From the memory: ") && ran.stderr.contains(text), "{ran}");
    assert!(ran.stderr.contains("memory: remembered as mem_"), "{ran}");
    let listed = world.json(&["ls"]).await;
    let session = listed["sessions"][0]["id"].as_str().unwrap();
    let shown = world.ok(&["show", session]).await;
    assert!(shown.stdout.contains(&format!("memory: the agent was given {id}")), "{shown}");
    assert!(shown.stdout.contains("memory: remembered as mem_"), "{shown}");
    let notes = world.json(&["memory", "ls", "--scope", &scope]).await;
    let by_agent = notes["notes"].as_array().unwrap().iter().find(|note| note["id"] != id).unwrap();
    assert_eq!(by_agent["source"]["session"], session, "{notes}");
    assert_eq!(by_agent["source"]["author"]["kind"], "agent", "{notes}");
    world.finish().await;
}

#[tokio::test]
async fn an_embedding_endpoint_is_configured_and_its_key_is_told_to_nobody_else() {
    let key = "canary-key-of-the-endpoint-0815";
    let server = Embeddings::start(&[("crustacean", "crab")], Some(key)).await;
    let mut world = World::new();
    world.set("EMBEDDING_KEY", key);
    let endpoint = format!(
        "[memory.embedding]\nbase_url = \"{}\"\nmodel = \"words\"\napi_key_env = \"EMBEDDING_KEY\"\n",
        server.url()
    );
    world.configure(&endpoint);
    let serving = world.serve().await;
    world.ok(&["memory", "add", SCOPE, "The crab in the corner is drawn by assets/mascot.svg"]).await;
    let found = world.json(&["memory", "search", "crustacean"]).await;
    assert_eq!(found["found"].as_array().unwrap().len(), 1, "{found}");
    let refused = world.run(&["memory", "add", SCOPE, &format!("The key is {key}")]).await.expect_code(2);
    assert!(
        refused.stderr.contains("the key of the embedding model") && !refused.stderr.contains(key),
        "{refused}"
    );
    server.put_down();
    let words = world.run(&["memory", "search", "mascot"]).await.expect_code(0);
    assert!(
        words.stderr.contains("only words were compared") && words.stdout.contains("mascot.svg"),
        "{words}"
    );
    assert!(!words.stderr.contains(key), "{words}");
    assert_eq!(server.violations(), Vec::<String>::new());
    serving.stop().await;
    world.finish().await;
}
