//! Secrets: a canary is given to the server and searched for wherever a sandbox leaves traces.

use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, edit, environment, models, shell};

/// The value, which is not written in any file but this.
const CANARY: &str = "canary-5e1f0c7a9b";

/// Whether a file holds these words; what is no file does not.
fn holds(path: &Path, words: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

/// Everything below a directory, without following links.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_value_of_a_secret_is_nowhere_in_reach() {
    let look = "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; ls -l /run /tmp; cat \"$SSL_CERT_FILE\" | tail -30; \
                echo \"token: $SHOP_TOKEN\" > kept.txt; cat ~/.netrc /etc/netrc 2>&1; echo \"is <$SHOP_TOKEN>\"";
    let script = Script::new()
        .answer(shell(look))
        .answer(edit("41", "42"))
        .say("Kept.")
        .answer(shell("cat kept.txt"))
        .say("Again.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let mut world = World::new();
    world.set("REAL_TOKEN", CANARY);
    let file = world.home().join("token");
    std::fs::write(&file, format!("{CANARY}-of-a-file\n")).unwrap();
    let keys = format!(
        "setup = [{{ run = \"env > built.txt; cat built.txt\" }}]\nsecrets = [\
         {{ name = \"SHOP_TOKEN\", env = \"REAL_TOKEN\", hosts = [\"registry.example\"] }},\
         {{ name = \"FILE_TOKEN\", file = \"{}\", hosts = [\"*.example\"], form = \"header:X-Key\" }}]\n",
        file.display()
    );
    world.configure(&format!("{}{}{keys}", models(&model), environment(&repo)));
    world.ok(&["env", "build", ENVIRONMENT]).await;
    let running = world.start(&["-vv", "serve", "--listen", "127.0.0.1:0", "--json"]);
    let url = running.line(|line| line.get("url").is_some()).await["url"].as_str().unwrap().to_owned();
    let api = crate::harness::Api::new(&url, None);
    let session = api.create(ENVIRONMENT, "Look for secrets").await;
    let mut watcher = api.watch(&session, 0).await;
    watcher.until_type("snapshot.taken").await;
    let said = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap().to_owned();
    let placeholder = said.rsplit_once("is <").and_then(|(_, rest)| rest.split_once('>')).unwrap().0;
    assert!(!placeholder.is_empty() && said.contains(&format!("SHOP_TOKEN={placeholder}")), "{said}");

    // The processes of the sandbox, as the host sees them.
    let state = world.sandbox_state("session");
    for role in ["monitor", "init"] {
        for part in ["environ", "cmdline"] {
            let path = PathBuf::from(format!("/proc/{}/{part}", state[role]));
            assert!(path.exists() && !holds(&path, CANARY), "the {role}'s {part}");
        }
    }
    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "And now?"})).await;
    watcher.until_type("turn.finished").await;
    watcher.until_type("snapshot.taken").await;
    let kept = watcher.seen.calls("shell")[1]["output"]["text"].as_str().unwrap();
    assert!(kept.starts_with(&format!("token: {placeholder}\n")), "{kept}");
    assert!(!format!("{:?}", watcher.seen).contains(CANARY), "in an event");
    assert!(!format!("{:?}", model.requests()).contains(CANARY), "in what the model was told");
    drop(watcher);
    running.signal(libc::SIGTERM);
    let output = running.wait().await.expect_code(0);
    assert!(!output.stderr.contains(CANARY), "in the server's log: {output}");

    // Logs, catalogue, layers, snapshots and what the sandbox wrote.
    let mut all = Vec::new();
    files(&world.data(), &mut all);
    let named = |name: &str| all.iter().any(|path| path.to_string_lossy().contains(name));
    for part in ["native/layers", "native/sandboxes", "native/snapshots", "sessions", "catalogue.db"] {
        assert!(named(part), "{part} was looked at");
    }
    assert!(holds(&file, CANARY), "what is there is found");
    let wrote = |path: &PathBuf| path.ends_with("kept.txt") && holds(path, placeholder);
    assert!(all.iter().any(wrote), "what the sandbox wrote was looked at");
    let found: Vec<&PathBuf> = all.iter().filter(|path| holds(path, CANARY)).collect();
    assert!(found.is_empty(), "{found:?}");
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_secret_without_a_value_is_told_with_its_variable() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::new();
    let keys =
        "secrets = [{ name = \"SHOP_TOKEN\", env = \"REAL_TOKEN\", hosts = [\"registry.example\"] }]\n";
    world.configure(&format!("{}{}{keys}", models(&model), environment(&repo)));
    let output = world.run(&["run", "--env", ENVIRONMENT, "Look"]).await.expect_code(1);
    for said in ["SHOP_TOKEN", "REAL_TOKEN"] {
        assert!(output.stderr.contains(said), "{said} is not said: {output}");
    }
    assert_eq!(model.requests().len(), 0);
    world.finish().await;
}

#[tokio::test]
async fn credentials_in_a_repositorys_address_are_shown_nowhere() {
    let model = Server::start(Script::new()).await;
    let world = World::new();
    // Nobody listens there; what is told of it is enough.
    let whole = format!("http://ann:{CANARY}@127.0.0.1:1/shop.git?token={CANARY}-too");
    let shown = "http://127.0.0.1:1/shop.git";
    world.configure(&format!(
        "{}[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{whole}\" }}]\n",
        models(&model)
    ));
    let running = world.start(&["-vv", "serve", "--listen", "127.0.0.1:0", "--json"]);
    let url = running.line(|line| line.get("url").is_some()).await["url"].as_str().unwrap().to_owned();
    let api = crate::harness::Api::new(&url, None);
    let session = api.create(ENVIRONMENT, "Look").await;
    let mut watcher = api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    let created = watcher.seen.only("session.created");
    assert_eq!(created["recipe"]["repos"][0]["url"], shown);
    assert!(!format!("{:?}", watcher.seen).contains(CANARY), "in an event: {:?}", watcher.seen);
    let environment = api.get(&format!("/environments/{ENVIRONMENT}")).await.expect(200);
    let covered = "http://redacted@127.0.0.1:1/shop.git";
    assert_eq!(environment["repos"][0]["url"], covered, "{environment}");
    for path in [
        "/environments".to_owned(),
        format!("/environments/{ENVIRONMENT}"),
        format!("/environments/{ENVIRONMENT}/image"),
        format!("/sessions/{session}"),
        format!("/sessions/{session}/events"),
    ] {
        let text = api.get(&path).await.text;
        assert!(!text.contains(CANARY), "{path}: {text}");
    }
    // What was taken out cannot be put back by somebody who does not have it.
    let body = json!({"repos": [{"url": covered}]});
    let put = api.request(reqwest::Method::PUT, "/environments/other").json(&body);
    let refused = api.send(put).await.expect(400);
    assert!(refused["title"].as_str().unwrap().contains("credentials"), "{refused}");
    drop(watcher);
    running.signal(libc::SIGTERM);
    let output = running.wait().await.expect_code(0);
    assert!(!output.stderr.contains(CANARY), "in the server's log: {output}");
    let mut all = Vec::new();
    files(&world.data(), &mut all);
    let mut found: Vec<&PathBuf> = all.iter().filter(|path| holds(path, CANARY)).collect();
    found.retain(|path| !path.ends_with("slipway.toml"));
    let [only] = found[..] else { panic!("git needs it, and nobody else: {found:?}") };
    assert!(only.ends_with("repositories.json"), "{only:?}");
    world.finish().await;
}
