//! `slipway memory` with the real program: what one command remembers, the next one finds, with a server and without.

use serde_json::{Value, json};

use crate::harness::World;

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
