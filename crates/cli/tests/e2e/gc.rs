//! Garbage: what goes and what stays is explained before it happens, and nothing that is in use goes.

use serde_json::{Value, json};
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, edit, environment, models, shell};

/// The ids of the layers that are there.
fn layers(world: &World) -> Vec<String> {
    let dir = std::fs::read_dir(world.data().join("native/layers")).unwrap();
    let whole = dir.flatten().filter(|entry| entry.path().join("layer.json").exists());
    let mut ids: Vec<String> = whole.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    ids.sort_unstable();
    ids
}

/// Makes every layer that has its place older than anybody would keep it without need, and gives their ids.
fn age(world: &World) -> Vec<String> {
    let ids = layers(world);
    for id in &ids {
        set_back(&world.data().join("native/layers").join(id).join("layer.json"), "made_at");
    }
    ids
}

/// Makes every image older than what was only just built.
fn age_images(world: &World) {
    let images = std::fs::read_dir(world.data().join("native/images")).unwrap().flatten();
    for image in images.map(|entry| entry.path().join("image.json")).filter(|path| path.exists()) {
        set_back(&image, "built_at");
    }
}

fn set_back(path: &std::path::Path, key: &str) {
    let mut record: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert!(record[key].is_string(), "{record}");
    record[key] = json!("2020-01-01T00:00:00Z");
    std::fs::write(path, record.to_string()).unwrap();
}

/// The entries about one kind of thing.
fn about<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    report["entries"].as_array().unwrap().iter().filter(|entry| entry["kind"] == kind).collect()
}

#[tokio::test]
async fn what_goes_is_explained_first() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    let setup = "head -c 200000 /dev/urandom > big";
    world.ok(&["env", "add", "shop", "--repo", &repo.url(), "--setup", setup]).await;
    world.ok(&["env", "build", "shop"]).await;
    let built = layers(&world);
    assert!(!built.is_empty());
    let dry = world.json(&["gc", "--dry-run"]).await;
    assert_eq!((&dry["dry_run"], &dry["freed_bytes"]), (&json!(true), &json!(0)), "{dry}");
    assert!(dry["used_bytes"].as_u64().unwrap() > 200_000 && dry["budget_bytes"] == 50u64 << 30, "{dry}");
    let [image] = about(&dry, "image")[..] else { panic!("{dry}") };
    assert_eq!((&image["id"], &image["remove"]), (&json!("shop"), &json!(false)), "{dry}");
    assert!(about(&dry, "layer").iter().all(|layer| layer["remove"] == false), "{dry}");
    let shown = world.ok(&["gc", "--dry-run"]).await;
    assert!(shown.stdout.contains("stays  image"), "{shown}");
    assert!(shown.stderr.contains("would be freed"), "{shown}");

    // Without its environment an image is nobody's. Its layers stay for a day: the next build may want them.
    world.ok(&["env", "rm", "shop"]).await;
    let dry = world.json(&["gc", "--dry-run"]).await;
    assert_eq!(about(&dry, "image").len(), 0, "{dry}");
    let young = |layer: &&Value| {
        layer["remove"] == false && layer["reason"].as_str().unwrap().contains("only just made")
    };
    assert!(about(&dry, "layer").iter().all(young), "{dry}");
    world.ok(&["gc"]).await;
    assert_eq!(layers(&world), built, "nothing went");

    age(&world);
    let dry = world.json(&["gc", "--dry-run"]).await;
    assert!(about(&dry, "layer").iter().all(|layer| layer["remove"] == true), "{dry}");
    assert!(dry["freed_bytes"].as_u64().unwrap() > 200_000, "{dry}");
    assert_eq!(layers(&world), built, "it was only explained");
    let done = world.ok(&["gc"]).await;
    assert!(done.stdout.contains("goes   layer") || done.stdout.contains("goes  layer"), "{done}");
    assert_eq!(layers(&world), [""; 0], "{done}");
    let after = world.json(&["gc"]).await;
    assert_eq!((&after["freed_bytes"], &after["entries"]), (&json!(0), &json!([])), "{after}");

    // A file as it was before an upgrade, a year ago.
    let copy = world.data().join("catalogue.db.v1");
    std::fs::write(&copy, "as it was").unwrap();
    let year_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(365 * 24 * 3600);
    std::fs::File::options().write(true).open(&copy).unwrap().set_modified(year_ago).unwrap();
    let told = world.ok(&["gc", "--dry-run"]).await;
    assert!(told.stdout.contains("copy  catalogue.db.v1") && copy.exists(), "{told}");
    let gone = world.json(&["gc"]).await;
    assert_eq!((&gone["freed_bytes"], copy.exists()), (&json!(9), false), "{gone}");
    world.finish().await;
}

#[tokio::test]
async fn nothing_in_use_goes_however_full_the_disk_is() {
    let script = Script::new()
        .answer(shell("cat prepared"))
        .answer(edit("41", "42"))
        .say("Done.")
        .answer(shell("cat prepared answer.txt"))
        .say("Still there.")
        .answer(shell("cat answer.txt; git log -1 --format=%s"))
        .say("The work is there.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    repo.commit("main", &[(".gitignore", "/prepared\n")]);
    let world = World::new();
    let keys =
        format!("{}{}setup = [{{ run = \"echo yes > prepared\" }}]\n", models(&model), environment(&repo));
    world.configure(&keys);
    world.ok(&["env", "build", ENVIRONMENT]).await;
    let with_room = || world.configure(&format!("[sandbox]\npool = 0\n\n{keys}"));
    // Everything that can go has to.
    let without = || world.configure(&format!("[sandbox]\ndisk_budget_gb = 0\npool = 0\n\n{keys}"));
    with_room();
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Make the answer right").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    let last = watcher.until_type("snapshot.taken").await["seq"].as_u64().unwrap();
    let sandbox = watcher.seen.of("sandbox.changed")[0]["sandbox"].as_str().unwrap().to_owned();
    drop(watcher);
    serving.stop().await;
    without();
    age(&world);
    let serving = world.serve().await;
    let report = serving.api.post("/gc", &json!({"dry_run": false})).await.expect(200);
    let [kept] = about(&report, "sandbox")[..] else { panic!("{report}") };
    assert_eq!((&kept["id"], &kept["remove"]), (&json!(sandbox), &json!(false)), "{report}");
    let stands: Vec<_> =
        about(&report, "layer").into_iter().filter(|layer| layer["remove"] == false).collect();
    assert!(!stands.is_empty(), "{report}");
    serving.stop().await;
    with_room();
    let serving = world.serve().await;
    let api = &serving.api;
    let mut watcher = api.watch(&session, last).await;
    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "Look again"})).await;
    watcher.until_type("turn.finished").await;
    let text = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("yes\n42\n"), "{text}");
    watcher.until_type("snapshot.taken").await;
    drop(watcher);
    serving.stop().await;
    without();
    world.remove_sandboxes().await;

    // With the sandbox gone the rest goes, and the work is still there.
    let old = age(&world);
    age_images(&world);
    let report = world.json(&["gc"]).await;
    assert!(!old.is_empty() && !layers(&world).iter().any(|id| old.contains(id)), "{report}");
    assert_eq!(world.json(&["snapshots", &session]).await, json!({"snapshots": []}));
    let listed = world.ok(&["env", "ls"]).await;
    assert!(listed.stderr.contains("disk_budget_gb"), "why there is no image: {listed}");
    let refused = world.run(&["fork", &session, "Go on"]).await.expect_code(2);
    assert!(refused.stderr.contains("no snapshot"), "{refused}");
    let events = world.ok(&["prompt", &session, "--json", "Look once more"]).await.events();
    let text = events.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(text.starts_with("42\nMake the answer right\n"), "{text}");
    let told = format!("{:?}", events.items("notice"));
    assert!(told.contains("files that git ignores are gone"), "{told}");
    world.finish().await;
}
