//! Backups: made while a turn runs, put back elsewhere, and everything up to then is there.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::model::{Script, Server};
use testkit::repo::{FIX_PLAIN, Repo};

use crate::harness::{Api, CHECK, ENVIRONMENT, World, edit, environment, models, shell};

async fn events(api: &Api, session: &str) -> Vec<Value> {
    let path = format!("/sessions/{session}/events?limit=1000");
    let request = api.request(Method::GET, &path).header("Accept", "application/json");
    let page = api.send(request).await.expect(200);
    page["events"].as_array().unwrap().clone()
}

async fn status(api: &Api, session: &str) -> Value {
    api.send(api.request(Method::GET, &format!("/sessions/{session}"))).await.expect(200)["status"].take()
}

/// The archive's manifest.
fn manifest(archive: &[u8]) -> Value {
    let start = archive.windows(13).rposition(|window| window == b"manifest.json").unwrap();
    let text = String::from_utf8_lossy(&archive[start + 512..]).into_owned();
    serde_json::from_str(text.trim_end_matches('\0')).unwrap()
}

#[tokio::test]
async fn a_backup_is_made_while_a_turn_runs_and_put_back_elsewhere() {
    let script = Script::new()
        .answer(edit(FIX_PLAIN.old, FIX_PLAIN.new))
        .answer(shell("seq 1 20000"))
        .say("The answer is 42 now.")
        .answer(shell("echo started; sleep 600"));
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let here = World::new();
    here.configure(&models(&model));
    here.ok(&["env", "add", "shop", "--repo", &repo.url(), "--check", CHECK]).await;
    let server = here.serve().await;
    let done = here.ok(&["run", "--env", "shop", "--json", "Make the answer right"]).await.events();
    let done = done.session().to_owned();
    let diff = here.json(&["diff", &done]).await;
    let busy = here.json(&["run", "--detach", "--env", "shop", "Wait"]).await;
    let busy = busy["id"].as_str().unwrap();
    here.start(&["attach", busy]).stderr_has("│ started").await;

    let file = here.root().join("backup.tar");
    let path = file.to_str().unwrap();
    let made = here.json(&["backup", path]).await;
    assert_eq!((&made["sessions"], &made["mirrors"], &made["damaged"]), (&json!(2), &json!(1), &json!([])));
    assert_eq!(status(&server.api, busy).await, "working", "it goes on");
    let again = here.run(&["backup", path]).await.expect_code(2);
    assert!(again.stderr.contains("is there already"), "{again}");
    let archive = std::fs::read(&file).unwrap();
    let manifest = manifest(&archive);
    let originals = [events(&server.api, &done).await, events(&server.api, busy).await];

    // Here everything is there already.
    let kept = here.json(&["restore", path]).await;
    assert_eq!((&kept["sessions"], &kept["environments"]), (&json!([]), &json!([])), "{kept}");
    assert_eq!(kept["sessions_left"].as_array().unwrap().len(), 2, "{kept}");
    assert_eq!(kept["environments_left"], json!(["shop"]), "{kept}");

    // What is not whole is refused whole.
    let there = World::new();
    let other = Server::start(Script::new().say("I leave it at that.")).await;
    there.configure(&models(&other));
    let torn = there.root().join("torn.tar");
    let mut flipped = archive.clone();
    flipped[archive.len() / 2] ^= 1;
    for bytes in [&archive[..archive.len() / 2], &archive[..archive.len() - 20_000], &flipped, b"rubbish"] {
        std::fs::write(&torn, bytes).unwrap();
        let refused = there.run(&["restore", torn.to_str().unwrap()]).await;
        assert_ne!(refused.code(), 0, "{refused}");
        assert!(refused.stderr.contains("not a whole backup"), "{refused}");
        assert!(!there.data().join("sessions").exists(), "nothing is written");
    }

    // Elsewhere, without a server, everything is new.
    let restored = there.json(&["restore", path]).await;
    assert_eq!(restored["sessions"].as_array().unwrap().len(), 2, "{restored}");
    assert_eq!(restored["environments"], json!(["shop"]), "{restored}");
    assert_eq!(there.json(&["show", &done]).await["status"], "done");
    assert_eq!(there.json(&["show", busy]).await["status"], "working");
    assert_eq!(there.json(&["diff", &done]).await["patch"], diff["patch"]);
    let left: Vec<_> = std::fs::read_dir(there.data())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("backup-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    here.ok(&["stop", busy]).await;

    // A server there takes up the turn that was under way.
    let second = there.serve().await;
    until_finished(&second.api, busy).await;
    for (id, original) in [&done, &busy.to_owned()].into_iter().zip(&originals) {
        let saved =
            manifest["sessions"].as_array().unwrap().iter().find(|saved| saved["id"] == **id).unwrap();
        let seq = usize::try_from(saved["seq"].as_u64().unwrap()).unwrap();
        let found = events(&second.api, id).await;
        assert_eq!(found[..seq], original[..seq], "{id}");
    }
    let item = originals[0].iter().find_map(|event| event["data"]["item"]["output"]["blob"].as_str());
    let output = format!("/sessions/{done}/outputs/{}", item.expect("a long output"));
    let answer = second.api.send(second.api.request(Method::GET, &output)).await;
    assert!(answer.text.ends_with("19999\n20000\n"), "{}", answer.text.len());

    server.stop().await;
    second.stop().await;
    for world in [here, there] {
        world.remove_sandboxes().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn what_was_done_for_a_key_is_not_done_again_after_a_restore_and_placeholders_stay() {
    let script = || Script::new().answer(shell("echo \"is <$SHOP_TOKEN>\"")).say("That is it.").repeat_last();
    let (first, second) = (Server::start(script()).await, Server::start(script()).await);
    let repo = Repo::plain();
    let secret = "secrets = [{ name = \"SHOP_TOKEN\", env = \"REAL_TOKEN\", hosts = [\"shop.example\"] }]\n";
    let world = |model: &Server| {
        let mut world = World::new();
        world.set("REAL_TOKEN", "a-value-that-stays-outside");
        world.configure(&format!("{}{}{secret}", models(model), environment(&repo)));
        world
    };
    let create = async |api: &Api| {
        let body = json!({"environment": ENVIRONMENT, "prompt": "Say what it is"});
        let request = api.request(Method::POST, "/sessions").header("Idempotency-Key", "create-1");
        api.send(request.json(&body)).await.expect(201)["id"].as_str().unwrap().to_owned()
    };
    let prompt = async |api: &Api, session: &str, key: &str| {
        let request = api.request(Method::POST, &format!("/sessions/{session}/prompts"));
        let request = request.header("Idempotency-Key", key).json(&json!({"prompt": "Once more"}));
        api.send(request).await.expect(202)
    };
    let said = async |api: &Api, session: &str| {
        let log = api.log(session).await;
        let text = log.calls("shell")[0]["output"]["text"].as_str().unwrap().to_owned();
        text.split_once("is <").and_then(|(_, rest)| rest.split_once('>')).unwrap().0.to_owned()
    };

    let here = world(&first);
    let server = here.serve().await;
    let session = create(&server.api).await;
    let queued = prompt(&server.api, &session, "prompt-1").await;
    let mut watcher = server.api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    watcher.until_type("turn.finished").await;
    watcher.until_type("snapshot.taken").await;
    drop(watcher);
    let placeholder = said(&server.api, &session).await;
    assert!(placeholder.starts_with("slipway-SHOP_TOKEN-"), "{placeholder}");
    let file = here.root().join("backup.tar");
    here.ok(&["backup", file.to_str().unwrap()]).await;
    let before = server.api.log(&session).await.numbers().len();
    server.stop().await;

    let there = world(&second);
    let restored = there.json(&["restore", file.to_str().unwrap()]).await;
    assert_eq!((&restored["keys"], &restored["placeholders_left"]), (&json!(2), &Value::Null), "{restored}");
    let server = there.serve().await;
    assert_eq!(create(&server.api).await, session, "the same session, not another");
    assert_eq!(prompt(&server.api, &session, "prompt-1").await, queued);
    let list = server.api.get("/sessions").await.expect(200);
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list}");
    // The restore is the one event more.
    assert_eq!(server.api.log(&session).await.numbers().len(), before + 1, "nothing was done again");
    let other = server.api.create(ENVIRONMENT, "Say what it is").await;
    server.api.watch(&other, 0).await.until_type("turn.finished").await;
    assert_eq!(said(&server.api, &other).await, placeholder);
    let again = there.json(&["restore", file.to_str().unwrap()]).await;
    assert_eq!((&again["keys"], &again["placeholders_left"]), (&Value::Null, &Value::Null), "{again}");
    server.stop().await;

    // Where secrets have placeholders already, those stay, and it is told.
    let third = Server::start(script()).await;
    let elsewhere = world(&third);
    let server = elsewhere.serve().await;
    let other = server.api.create(ENVIRONMENT, "Say what it is").await;
    server.api.watch(&other, 0).await.until_type("turn.finished").await;
    assert_ne!(said(&server.api, &other).await, placeholder);
    let told = elsewhere.ok(&["restore", file.to_str().unwrap()]).await;
    assert!(told.stderr.contains("other placeholders"), "{told}");
    server.stop().await;
    for world in [here, there, elsewhere] {
        world.remove_sandboxes().await;
        world.finish().await;
    }
}

async fn until_finished(api: &Api, session: &str) {
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while status(api, session).await == "working" {
        assert!(tokio::time::Instant::now() < end, "the turn does not go on");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_backup_is_for_those_who_may_come_in() {
    let model = Server::start(Script::new()).await;
    let mut world = World::new();
    world.configure(&models(&model));
    world.set("SLIPWAY_TOKEN", "let-me-in");
    let server = world.serve().await;
    let stranger = server.api.without_token();
    for method in [Method::GET, Method::PUT] {
        let answer = stranger.send(stranger.request(method, "/backup")).await;
        assert_eq!(answer.problem(401), "unauthorized");
    }
    let answer = server.api.send(server.api.request(Method::PUT, "/backup").body("rubbish")).await;
    assert_eq!(answer.problem(400), "bad_request");
    let file = world.root().join("empty.tar");
    world.ok(&["backup", file.to_str().unwrap()]).await;
    world.ok(&["restore", file.to_str().unwrap()]).await;
    server.stop().await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    world.finish().await;
}

#[tokio::test]
async fn a_damaged_session_is_read_up_to_the_damage_and_brought_back_from_a_backup() {
    let model = Server::start(Script::new().say("Nothing to do.").say("Nothing to do.")).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    world.ok(&["env", "add", "shop", "--repo", &repo.url(), "--check", CHECK]).await;
    let run = ["run", "--env", "shop", "--json", "Make it so, number one"];
    let broken = world.ok(&run).await.events().session().to_owned();
    let sound = world.ok(&run).await.events().session().to_owned();
    let file = world.root().join("backup.tar");
    world.ok(&["backup", file.to_str().unwrap()]).await;

    let dir = world.data().join("sessions").join(&broken);
    let mut bytes = std::fs::read(dir.join("log.db")).unwrap();
    let said = bytes.windows(14).position(|window| window == b"Nothing to do.").unwrap();
    bytes[said] ^= 1;
    std::fs::write(dir.join("log.db"), bytes).unwrap();

    let server = world.serve().await;
    let found = events(&server.api, &broken).await;
    let last = found.last().unwrap()["seq"].as_u64().unwrap();
    assert!(last > 2 && found.len() as u64 == last, "{found:?}");
    let path = format!("/sessions/{broken}/events?after={last}");
    let rest = server.api.request(Method::GET, &path).header("Accept", "application/json");
    assert_eq!(server.api.send(rest).await.problem(507), "storage_damaged");
    let attached = world.run(&["attach", &broken, "--json"]).await.expect_code(1);
    assert_eq!(attached.stdout.lines().count() as u64, last, "{attached}");
    assert!(attached.stderr.contains("does not fit its checksum"), "{attached}");
    let shown = world.json(&["show", &broken]).await;
    assert!(shown["reason"].as_str().unwrap().contains("does not fit its checksum"), "{shown}");
    let refused = world.run(&["prompt", &broken, "go on"]).await.expect_code(1);
    assert!(refused.stderr.contains("slipway restore"), "{refused}");
    assert_eq!(status(&server.api, &sound).await, "done");
    server.stop().await;

    std::fs::rename(&dir, world.root().join("damaged")).unwrap();
    let restored = world.json(&["restore", file.to_str().unwrap()]).await;
    assert_eq!((&restored["sessions"], &restored["sessions_left"]), (&json!([broken]), &json!([sound])));
    let shown = world.json(&["show", &broken]).await;
    assert_eq!(shown["status"], "done");
    // Who knows more than was restored is told, and does not wait.
    let (end, more) = (shown["seq"].as_u64().unwrap(), shown["seq"].as_u64().unwrap() + 7);
    let refused = world.run(&["attach", &broken, "--after", &more.to_string()]).await.expect_code(2);
    assert!(refused.stderr.contains(&format!("ends at event {end}")), "{refused}");
    world.ok(&["attach", &broken, "--after", &end.to_string()]).await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn who_follows_a_session_over_a_restore_begins_again_and_has_what_there_is() {
    let script = Script::new().say("Nothing to do.").answer(shell("echo started; sleep 600"));
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let server = world.serve().await;
    let address = server.address().to_owned();
    let session =
        world.ok(&["run", "--env", ENVIRONMENT, "--json", "Look"]).await.events().session().to_owned();
    server.api.watch(&session, 0).await.until_type("snapshot.taken").await;
    let file = world.root().join("backup.tar");
    world.ok(&["backup", file.to_str().unwrap()]).await;
    let saved = events(&server.api, &session).await;
    let lineage = world.json(&["show", &session]).await["lineage"].as_str().unwrap().to_owned();
    world.ok(&["prompt", "--detach", &session, "Wait"]).await;
    let follower = world.start(&["attach", &session, "--json"]);
    follower.stdout_has("started").await;
    let had = events(&server.api, &session).await.len();
    assert!(had > saved.len() + 1, "{had}");
    server.stop().await;

    let dir = world.data().join("sessions").join(&session);
    std::fs::rename(&dir, world.root().join("away")).unwrap();
    let lost = world.json(&["ls"]).await;
    assert_eq!(lost["sessions"][0]["status"], "failed", "{lost}");
    assert!(lost["sessions"][0]["reason"].as_str().unwrap().contains("it is missing"), "{lost}");
    let told =
        world.run(&["backup", world.root().join("without.tar").to_str().unwrap()]).await.expect_code(1);
    assert!(told.stderr.contains(&session), "{told}");
    world.ok(&["restore", file.to_str().unwrap()]).await;
    let server = world.serve_at(&address).await;

    // It followed the session all the while: it is told, and then has everything that is there now.
    let followed = follower.wait().await.expect_code(0);
    assert!(followed.stderr.contains("was restored from a backup"), "{followed}");
    let lines: Vec<Value> = followed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let place = lines.iter().position(|line| line["type"] == "unsubscribed").expect("a line that says so");
    assert_eq!(lines[place]["data"]["problem"]["code"], "other_lineage");
    let after: Vec<&Value> = lines[place..].iter().filter(|line| line.get("seq").is_some()).collect();
    let now = events(&server.api, &session).await;
    assert_eq!(after, now.iter().collect::<Vec<_>>());
    assert_eq!((&now[..saved.len()], &now[saved.len()]["type"]), (&saved[..], &json!("session.restored")));

    // Who comes later, with the lineage of before, too.
    let late = ["attach", &session, "--after", &had.to_string(), "--lineage", &lineage, "--json"];
    let late = world.ok(&late).await;
    assert!(late.stdout.contains("other_lineage") && late.stdout.contains("session.restored"), "{late}");
    let known =
        world.ok(&["attach", &session, "--after", &saved.len().to_string(), "--lineage", &lineage]).await;
    assert!(!known.stderr.contains("from its beginning"), "{known}");
    server.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
