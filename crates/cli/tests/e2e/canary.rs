//! A secret in use: a program in a sandbox asks a host for something with it, over TLS. The host gets the value; it is
//! searched for wherever a sandbox, a server and a session leave traces, also in other spellings, and must not be there.

use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{
    ENVIRONMENT, Website, World, edit, environment, leave_out, models, on_an_island, shell,
};

/// The value. Its characters are such that it looks different in each spelling.
const CANARY: &str = "canary/5e1f+0c7a=9b?d2";

/// The value as base64 of itself, and of `me:` and itself, computed elsewhere; without the ends, which depend on what
/// follows.
const ENCODED: [&str; 2] = ["Y2FuYXJ5LzVlMWYrMGM3YT05Yj9k", "bWU6Y2FuYXJ5LzVlMWYrMGM3YT05Yj9k"];

const HOSTS: &str = "192.0.2.7 registry.example\n192.0.2.7 other.example\n";

/// A request of a program that knows of proxies, or of one that does not.
fn ask(options: &str) -> String {
    format!("curl --silent --show-error --include --max-time 20 {options} 2>&1")
}

/// Every spelling of the value that is searched for.
fn spellings() -> Vec<String> {
    let percent = |hex: &dyn Fn(u8) -> String| -> String {
        let letter = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => hex(byte),
        };
        CANARY.bytes().map(letter).collect()
    };
    let mut all = vec![
        CANARY.to_owned(),
        CANARY.replace('/', "\\/"),
        percent(&|byte| format!("%{byte:02X}")),
        percent(&|byte| format!("%{byte:02x}")),
        CANARY.bytes().map(|byte| format!("{byte:02x}")).collect(),
        CANARY.chars().rev().collect(),
    ];
    all.extend(ENCODED.map(str::to_owned));
    all.extend(ENCODED.map(|text| text.replace('+', "-").replace('/', "_")));
    all
}

/// The spelling in which the value is in these bytes, if it is.
fn found(bytes: &[u8]) -> Option<String> {
    let has = |word: &String| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    spellings().into_iter().find(has)
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    assert_eq!(found(text.as_bytes()), None, "the value is in {what}: {text}");
}

/// Everything below a directory, without following links.
fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), all),
            Ok(kind) if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
}

/// Variables and arguments of every process in the sandbox with this first process, as the host sees them.
fn processes(init: &str) -> Vec<(String, Vec<u8>)> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let inside = namespace(init).unwrap();
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if namespace(&pid).as_ref() == Some(&inside) {
            for part in ["environ", "cmdline"] {
                let path = entry.path().join(part);
                all.push((path.display().to_string(), std::fs::read(path).unwrap_or_default()));
            }
        }
    }
    all
}

#[test]
fn a_spelling_that_is_there_is_found() {
    assert_eq!(found(format!("x{CANARY}y").as_bytes()).as_deref(), Some(CANARY));
    assert!(found(b"Authorization: Basic bWU6Y2FuYXJ5LzVlMWYrMGM3YT05Yj9kMg==").is_some());
    assert!(found(b"canary%2F5e1f%2B0c7a%3D9b%3Fd2").is_some());
    assert_eq!(found(b"canary"), None);
}

#[test]
fn a_value_reaches_its_host_and_nothing_else() {
    if !Path::new("/usr/bin/curl").exists() {
        return leave_out("there is no curl in /usr/bin that a sandbox could run");
    }
    on_an_island(HOSTS, reaches_its_host);
}

/// Sets the secret of the store.
async fn keep(world: &World, value: &str) {
    let mut setting = world.start(&["-vv", "secret", "set", "KEPT"]);
    setting.write(format!("{value}\n").as_bytes()).await;
    setting.close_stdin();
    let set = setting.wait().await.expect_code(0);
    assert!(set.stderr.contains("the environment answers"), "{set}");
    assert_clean("what setting it said", &set.stderr);
}

async fn reaches_its_host() {
    let bearer = "-H \"Authorization: Bearer $BEARER\" https://registry.example/bearer";
    let first = [
        ask(bearer),
        ask("-u \"me:$BASIC\" https://registry.example/basic"),
        ask("-H \"X-Key: $KEY\" https://registry.example/key"),
        ask(&format!("--noproxy '*' {bearer}-by-name")),
        // Not where it is meant for: another place in the request, another host, no TLS.
        ask("-H \"X-Other: $BEARER\" -d \"$BEARER\" \"https://registry.example/elsewhere?q=$BEARER\""),
        ask("-H \"Authorization: Bearer $BEARER\" https://other.example/other"),
        ask("-H \"Authorization: Bearer $BEARER\" http://registry.example/plain"),
        "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'".to_owned(),
        "echo \"$BEARER $BASIC $KEY\" > kept.txt".to_owned(),
        // It holds its placeholder, and asks when it is told to.
        format!(
            "nohup sh -c 'until test -e /tmp/go; do sleep 0.1; done; {} > /tmp/later; touch /tmp/done' \
             > /dev/null 2>&1 &",
            ask("-H \"Authorization: Bearer $BEARER\" https://registry.example/later")
        ),
    ]
    .join("\n");
    let second = format!(
        "touch /tmp/go; until test -e /tmp/done; do sleep 0.1; done; cat /tmp/later\n\
         read -r held basic key < kept.txt; test \"$held\" = \"$BEARER\" && echo the same; {}",
        ask("-H \"Authorization: Bearer $held\" https://registry.example/again")
    );
    let script = Script::new()
        .answer(shell(&first))
        .answer(edit("41", "42"))
        .say("Asked.")
        .answer(shell(&second))
        .say("Again.")
        .answer(shell(&ask("-H \"X-Key: $KEY\" https://registry.example/renewed")))
        .say("Renewed.");
    let model = Server::start(script).await;
    let website = Website::open(&["registry.example", "other.example"]).await;
    let repo = Repo::plain();
    let mut world = World::new();
    world.set("REAL_TOKEN", CANARY);
    website.write_authority(&world.home().join("company.pem"));
    let secret = |name: &str, form: &str| {
        format!(
            "{{ name = \"{name}\", env = \"REAL_TOKEN\", hosts = [\"registry.example\"], form = \"{form}\" }}"
        )
    };
    // One of them is a secret of the store.
    let kept = secret("KEY", "header:X-Key").replace("env = \"REAL_TOKEN\"", "secret = \"KEPT\"");
    let secrets = [secret("BEARER", "bearer"), secret("BASIC", "basic"), kept];
    world.configure(&format!(
        "{}[sandbox]\nca_file = \"../home/company.pem\"\n\n{}egress = [\"registry.example\", \"other.example\"]\n\
         secrets = [{}]\n",
        models(&model),
        environment(&repo),
        secrets.join(", ")
    ));
    keep(&world, CANARY).await;
    let serve = ["-vv", "serve", "--listen", "127.0.0.1:0", "--json"];
    let running = world.start(&serve);
    let url = running.line(|line| line.get("url").is_some()).await["url"].as_str().unwrap().to_owned();
    let api = crate::harness::Api::new(&url, None);
    let session = api.create(ENVIRONMENT, "Ask for it").await;
    let mut watcher = api.watch(&session, 0).await;
    watcher.until_type("snapshot.taken").await;
    let said = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap().to_owned();

    let seen = website.seen();
    let encoded = format!("{}Mg==", ENCODED[1]);
    for (path, header) in [
        ("GET /bearer", format!("authorization: Bearer {CANARY}")),
        ("GET /basic", format!("authorization: Basic {encoded}")),
        ("GET /key", format!("x-key: {CANARY}")),
        ("GET /bearer-by-name", format!("authorization: Bearer {CANARY}")),
    ] {
        let request =
            seen.split_once(&format!("{path}\n")).unwrap_or_else(|| panic!("{path}: {said}\n{seen}")).1;
        let head = request.split("GET ").next().unwrap();
        assert!(head.contains(&header), "{path} came without its secret: {head}\n{said}");
    }
    for path in ["POST /elsewhere", "GET /other"] {
        let request = seen.split_once(path).unwrap_or_else(|| panic!("{path}: {said}\n{seen}")).1;
        let head = request.split("host: ").next().unwrap().to_owned();
        assert_clean(&format!("the request {path}"), &head);
        assert!(request.contains("slipway-BEARER-"), "the placeholder goes where it was put: {request}");
    }
    assert_eq!(seen.matches("slipway-BEARER-").count(), 3, "{seen}");
    assert!(!seen.contains("/plain"), "nobody listens there: {seen}");
    assert!(said.contains("x-said-authorization: Bearer slipway-BEARER-"), "headers say it back: {said}");
    assert!(said.matches("HTTP/1.1 200 OK").count() >= 6, "{said}");
    assert_clean("what the program was answered", &said);

    let state = world.sandbox_state("session");
    let inside = processes(&state["init"].to_string());
    assert!(inside.iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("BEARER=slipway-")));
    for (path, bytes) in &inside {
        assert_clean(path, &String::from_utf8_lossy(bytes));
    }

    // Another server takes over, with another authority: what holds a placeholder goes on.
    drop(watcher);
    running.signal(libc::SIGTERM);
    let first_log = running.wait().await.expect_code(0).stderr;
    let running = world.start(&serve);
    let url = running.line(|line| line.get("url").is_some()).await["url"].as_str().unwrap().to_owned();
    let api = crate::harness::Api::new(&url, None);
    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "And again"})).await;
    let mut watcher = api.watch(&session, 0).await;
    watcher.until_type("snapshot.taken").await;
    watcher.until_type("snapshot.taken").await;
    let again = watcher.seen.calls("shell")[1]["output"]["text"].as_str().unwrap().to_owned();
    assert!(again.contains("the same\n"), "the placeholder outlives the server: {again}");
    let made = watcher.seen.of("sandbox.changed");
    assert!(made.iter().all(|changed| changed["sandbox"] == made[0]["sandbox"]), "one sandbox: {made:?}");
    let seen = website.seen();
    for path in ["/later", "/again"] {
        let head =
            seen.split_once(&format!("GET {path}\n")).unwrap_or_else(|| panic!("{path}: {again}\n{seen}")).1;
        assert!(head.contains(&format!("authorization: Bearer {CANARY}")), "{path}: {head}");
    }
    assert_clean("what was answered after the restart", &again);

    // Set anew, it is in the next request of the sandbox that runs.
    keep(&world, &format!("{CANARY}-renewed")).await;
    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "And once more"})).await;
    watcher.until_type("snapshot.taken").await;
    let renewed = watcher.seen.calls("shell")[2]["output"]["text"].as_str().unwrap().to_owned();
    let seen = website.seen();
    let head = seen.split_once("GET /renewed\n").unwrap_or_else(|| panic!("{renewed}\n{seen}")).1;
    assert!(head.contains(&format!("x-key: {CANARY}-renewed")), "{head}");
    assert!(renewed.contains("x-said-x-key: slipway-KEY-"), "{renewed}");
    assert_clean("what was answered to the new value", &renewed);
    let made = watcher.seen.of("sandbox.changed");
    assert!(made.iter().all(|changed| changed["sandbox"] == made[0]["sandbox"]), "one sandbox: {made:?}");

    // The API, the model, the logs.
    assert_clean("an event", &format!("{:?}", watcher.seen));
    for path in ["", "/events", "/snapshots", "/diff"] {
        assert_clean(path, &api.get(&format!("/sessions/{session}{path}")).await.text);
    }
    for path in ["", "/egress", "/image"] {
        assert_clean(path, &api.get(&format!("/environments/{ENVIRONMENT}{path}")).await.text);
    }
    assert_clean("what the model was told", &format!("{:?}", model.requests()));
    drop(watcher);
    running.signal(libc::SIGTERM);
    let second_log = running.wait().await.expect_code(0).stderr;
    assert!(first_log.contains("DEBUG") || first_log.contains("debug"), "the log says much: {first_log}");
    assert_clean("the first server's log", &first_log);
    assert_clean("the second server's log", &second_log);

    // The disk: writable layers, snapshots, packs, images, the catalogue and the session's log.
    let mut all = Vec::new();
    files(&world.data(), &mut all);
    for part in ["native/layers", "native/sandboxes", "native/snapshots", "log.db", "catalogue.db"] {
        let there = all.iter().any(|path| path.to_string_lossy().contains(part));
        assert!(there, "{part} was looked at: {all:?}");
    }
    let kept = |path: &PathBuf| {
        path.ends_with("kept.txt")
            && String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains("slipway-")
    };
    assert!(all.iter().any(kept), "what the sandbox wrote was looked at");
    for path in &all {
        let bytes = std::fs::read(path).unwrap_or_default();
        assert_eq!(found(&bytes), None, "the value is in {}", path.display());
    }
    world.remove_sandboxes().await;
    world.finish().await;
}
