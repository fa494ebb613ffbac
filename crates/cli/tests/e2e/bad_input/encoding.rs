//! Files that are not UTF-8, and names that nobody would choose: told of or passed over, never damaged.

use serde_json::json;
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use super::turn_in;
use crate::harness::{World, edit, shell};

/// In the work tree: a text in another encoding, and bytes that are no text.
const MAKE: &str = "printf 'caf\\351 noir\\n' > menu.txt; printf '\\000\\001\\377' > blob.bin; \
    touch 'sp ace' 'ünïcode' \"$(printf 'new\\nline')\" \"$(printf 'broken\\377name')\"; printf 'said \\377\\n'";
/// What they are as git shows them.
const NAMES: [&str; 4] = ["\"broken\\377name\"", "\"new\\nline\"", "sp ace", "\"\\303\\274n\\303\\257code\""];

#[tokio::test]
async fn a_file_that_is_not_text_is_told_of_and_not_damaged() {
    let calls = Reply::new()
        .call("read", json!({"path": "menu.txt"}))
        .call("edit", json!({"path": "menu.txt", "old": "noir", "new": "au lait"}))
        .call("read", json!({"path": "blob.bin"}))
        .call("search", json!({"pattern": "noir"}))
        .call("list", json!({}))
        .call("read", json!({"path": "new\nline"}));
    let script = Script::new().answer(shell(MAKE)).answer(calls).answer(edit("41", "42")).say("Done.");
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::with(&model, &repo);
    let events = turn_in(&world, 0).await;
    let requests = model.requests();
    let said = &requests[1].results()[0].text;
    assert!(said.contains("said \u{fffd}"), "{said}");
    let results: Vec<&str> = requests[2].results().iter().map(|result| result.text.as_str()).collect();
    for (result, words) in [
        (results[0], ["menu.txt is not UTF-8", "10 bytes"]),
        (results[1], ["menu.txt is not UTF-8", "shell"]),
        (results[2], ["blob.bin is not UTF-8", "3 bytes"]),
        (results[3], ["menu.txt:1:", "noir"]),
        (results[4], ["sp ace", "ünïcode"]),
    ] {
        assert!(words.iter().all(|word| result.contains(word)), "{result}");
    }

    let delivery = *events.of("delivery.updated").last().unwrap();
    let branch = delivery["branch"].as_str().unwrap();
    assert_eq!(delivery["state"], "pushed", "{delivery}");
    let bytes = repo.git(&["rev-parse", &format!("{branch}:menu.txt"), &format!("{branch}:blob.bin")]);
    let pushed: Vec<&str> = bytes.lines().collect();
    assert_eq!(pushed, [object(b"caf\xe9 noir\n"), object(b"\0\x01\xff")], "every byte is as it was written");
    let names = repo.git(&["ls-tree", "--name-only", branch]);
    assert!(NAMES.iter().all(|name| names.lines().any(|line| line == *name)), "{names}");

    let diff = world.json(&["diff", events.session()]).await;
    assert_eq!(diff["files"], 7, "{diff}");
    let patch = world.ok(&["diff", events.session()]).await.stdout;
    assert!(patch.contains("+caf\u{fffd} noir") && patch.contains("blob.bin differ"), "{patch}");
    assert_eq!(patch, diff["patch"].as_str().unwrap());

    // A session that starts from there has the same files.
    repo.git(&["update-ref", "refs/heads/main", branch]);
    drop(model);
    let model =
        Server::start(Script::new().answer(shell("git status --short; ls | wc -l; rm broken*")).say("Gone."))
            .await;
    world.configure(&format!("{}{}", crate::harness::models(&model), crate::harness::environment(&repo)));
    let events = turn_in(&world, 0).await;
    assert_eq!(events.calls("shell")[0]["output"]["text"], "11\n(exit code 0)");
    assert_eq!(events.only("turn.finished")["receipt"]["files_changed"], 1);
    world.finish().await;
}

/// The name that git gives to these bytes.
fn object(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), bytes).unwrap();
    testkit::repo::git_in(dir.path(), &["hash-object", "--no-filters", "file"]).trim().to_owned()
}
