//! Keys that the server keeps: set by command, used by the next call, sealed on the disk and in backups, and printed
//! nowhere.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::model::{Options, Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Output, World, environment};

/// The key that the model server demands.
const KEY: &str = "sk-canary-b7e1-4c90-8f2d";

/// Everything that was printed or is on the disk, to be searched.
#[derive(Default)]
struct Traces(Vec<(String, Vec<u8>)>);

impl Traces {
    fn said(&mut self, what: &str, output: &Output) {
        self.0.push((
            format!("the output of {what}"),
            format!("{}{}", output.stdout, output.stderr).into_bytes(),
        ));
    }

    fn disk(&mut self, dir: &Path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.disk(&entry.path()),
                Ok(kind) if kind.is_file() => {
                    let content = std::fs::read(entry.path()).unwrap_or_default();
                    self.0.push((entry.path().display().to_string(), content));
                }
                _ => {}
            }
        }
    }

    #[track_caller]
    fn assert_without(&self, words: &str) {
        for (what, content) in &self.0 {
            let there = content.windows(words.len()).any(|window| window == words.as_bytes());
            assert!(!there, "{words} is in {what}: {}", String::from_utf8_lossy(content));
        }
    }
}

/// `[models.main]` whose key is the secret `MAIN`, in both formats.
fn models(model: &Server) -> String {
    let url = model.url();
    ["main", "claude"]
        .map(|name| {
            let provider = if name == "main" { "openai-compatible" } else { "anthropic" };
            format!(
                "[models.{name}]\nprovider = \"{provider}\"\nmodel = \"scripted\"\nbase_url = \"{url}\"\n\
                 api_key_secret = \"MAIN\"\n\n"
            )
        })
        .concat()
}

async fn demanding(script: Script) -> Server {
    let options = Options { key: Some(KEY.to_owned()), ..Options::default() };
    Server::start_with(script, options).await.unwrap()
}

/// Runs `slipway secret set` with this on its standard input.
async fn set(world: &World, name: &str, input: &[u8]) -> Output {
    let mut running = world.start(&["secret", "set", name]);
    running.write(input).await;
    running.close_stdin();
    running.wait().await
}

#[tokio::test]
async fn a_key_of_the_store_is_used_from_the_next_call_on_and_printed_nowhere() {
    let able = Script::from_fn(|request, _| match request.tool_names().as_slice() {
        ["add"] => Reply::new().call("add", json!({"a": 1923, "b": 2377})),
        [] => Reply::text("{\"capital\":\"Paris\"}"),
        _ => Reply::text("Nothing to do."),
    });
    let model = demanding(able).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("[agent]\nmodel = \"main\"\n\n{}{}", models(&model), environment(&repo)));
    let mut traces = Traces::default();
    let running = world.start(&["-vv", "serve", "--listen", "127.0.0.1:0", "--json"]);
    let url = running.line(|line| line.get("url").is_some()).await["url"].as_str().unwrap().to_owned();
    let api = crate::harness::Api::new(&url, None);
    running.stderr_has("slipway secret set MAIN").await;

    // Without it nothing is asked of the model, and it is said what to do.
    let run = ["-vv", "run", "--env", ENVIRONMENT, "--json", "Look"];
    let failed = world.run(&run).await.expect_code(1);
    let reason = failed.events().only("turn.finished")["data"]["receipt"].to_string() + &failed.stdout;
    assert!(reason.contains("there is no secret") && reason.contains("slipway secret set MAIN"), "{failed}");
    assert!(model.requests().is_empty());
    let list = world.json(&["secret", "ls"]).await;
    assert_eq!((&list["secrets"][0]["name"], &list["secrets"][0]["set_at"]), (&json!("MAIN"), &Value::Null));
    assert_eq!(list["secrets"][0]["models"], json!(["main", "claude"]), "{list}");

    // A wrong one is refused by the model's server; the right one is used at once.
    for (input, code) in [("sk-canary-wrong\n", 1), (&*format!("{KEY}\n"), 0)] {
        let told = set(&world, "MAIN", input.as_bytes()).await.expect_code(0);
        assert!(told.stderr.contains("the models main, claude"), "{told}");
        traces.said("secret set", &told);
        let ran = world.run(&run).await.expect_code(code);
        assert_eq!(ran.stdout.contains("refused the key"), code == 1, "{ran}");
        traces.said("run", &ran);
    }
    let session = world.json(&["ls"]).await["sessions"][0]["id"].as_str().unwrap().to_owned();
    let commands: &[&[&str]] = &[
        &["-vv", "run", "--env", ENVIRONMENT, "--model", "claude", "Look"],
        &["-vv", "models"],
        &["-vv", "models", "test", "main"],
        &["-vv", "models", "test", "claude"],
        &["-vv", "secret", "ls"],
        &["secret", "ls", "--json"],
        &["-vv", "show", &session],
        &["show", &session, "--json"],
        &["attach", &session, "--json"],
        &["env", "ls", "--json"],
    ];
    for command in commands {
        traces.said(&command.join(" "), &world.ok(command).await);
    }
    // Whether everything holds on this machine is not the question here.
    traces.said("doctor", &world.run(&["-vv", "doctor"]).await);
    let listed = world.ok(&["secret", "ls"]).await.stdout;
    assert!(
        listed.contains("MAIN") && listed.contains("main, claude") && listed.contains(" ago"),
        "{listed}"
    );
    assert!(
        world.json(&["models"]).await["models"].as_array().unwrap().iter().all(|model| model["key"] == true)
    );
    for path in ["/secrets", "/models", "/sessions", &format!("/sessions/{session}/events")] {
        traces.0.push((path.to_owned(), api.get(path).await.text.into_bytes()));
    }
    let archive = world.root().join("backup.tar");
    traces.said("backup", &world.ok(&["-vv", "backup", archive.to_str().unwrap()]).await);
    running.signal(libc::SIGTERM);
    let server = running.wait().await.expect_code(0);
    assert!(
        server.stderr.contains("a secret was set") && server.stderr.contains("DEBUG"),
        "{}",
        server.stderr
    );
    traces.said("the server", &server);
    traces.disk(world.root());
    let looked_at = |part: &str| traces.0.iter().any(|(what, _)| what.ends_with(part));
    for part in ["secrets/MAIN", "secret.key", "catalogue.db", "log.db", "backup.tar"] {
        assert!(looked_at(part), "{part} was looked at");
    }
    let got: Vec<String> = model.requests().iter().map(|request| format!("{:?}", request.headers)).collect();
    assert!(got.iter().any(|headers| headers.contains(KEY)), "it reached the model's server");
    for words in [KEY, "sk-canary-wrong", "c2stY2FuYXJ5"] {
        traces.assert_without(words);
    }
    let key = std::fs::read_to_string(world.data().join("secret.key")).unwrap();
    traces.0.retain(|(what, _)| !what.ends_with("secret.key"));
    traces.assert_without(key.trim());

    let gone = world.ok(&["secret", "rm", "MAIN"]).await;
    assert!(gone.stderr.contains("still wanted by the models main, claude"), "{gone}");
    let missing = world.run(&["secret", "rm", "MAIN"]).await.expect_code(2);
    assert!(missing.stderr.contains("there is no secret"), "{missing}");
    world.run(&run).await.expect_code(1);
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_backup_has_secrets_sealed_and_without_their_key() {
    let model = demanding(Script::from_fn(|_, _| Reply::text("Nothing to do."))).await;
    let repo = Repo::plain();
    let configuration = format!("{}{}", models(&model), environment(&repo));
    let here = World::new();
    here.configure(&configuration);
    set(&here, "MAIN", KEY.as_bytes()).await.expect_code(0);
    let archive = here.root().join("backup.tar");
    here.ok(&["backup", archive.to_str().unwrap()]).await;

    // Elsewhere it is there, and of no use without the key.
    let there = World::new();
    there.configure(&configuration);
    let restored = there.json(&["restore", archive.to_str().unwrap()]).await;
    assert_eq!((&restored["secrets"], &restored["secrets_closed"]), (&json!(["MAIN"]), &json!(["MAIN"])));
    let again = there.ok(&["restore", archive.to_str().unwrap()]).await;
    assert!(again.stderr.contains("0 secrets added, 1 were there"), "{again}");
    let closed = there.ok(&["secret", "ls"]).await;
    assert!(
        closed.stdout.contains("unusable") && closed.stderr.contains("secret.key is missing"),
        "{closed}"
    );
    let run = ["run", "--env", ENVIRONMENT, "--json", "Look"];
    let failed = there.run(&run).await.expect_code(1);
    assert!(failed.stdout.contains("put it back"), "{failed}");
    assert!(model.requests().is_empty());

    // With it, it works; also where the configuration says that the key is elsewhere.
    let key = there.home().join("key");
    std::fs::copy(here.data().join("secret.key"), &key).unwrap();
    let mut there = there;
    there.set("SLIPWAY_SECRET_KEY_FILE", &key);
    there.ok(&run).await;
    assert!(!there.data().join("secret.key").exists());
    there.remove_sandboxes().await;
    for world in [here, there] {
        world.finish().await;
    }
}

#[tokio::test]
async fn what_cannot_be_a_secret_is_refused_before_anything_is_written() {
    let world = World::new();
    let long = "x".repeat(65_537);
    for (name, input, said) in [
        ("a b", &b"v"[..], "no name for a secret"),
        ("A", b"", "is empty"),
        ("A", b"\n", "is empty"),
        ("A", b"a\0b", "NUL"),
        ("A", b"\xff\xfe", "not text"),
        ("A", long.as_bytes(), "longer than 64 KiB"),
    ] {
        let refused = set(&world, name, input).await.expect_code(2);
        assert!(refused.stderr.contains(said), "{said}: {refused}");
    }
    let argument = world.run(&["secret", "set", "A", "value"]).await.expect_code(2);
    assert!(argument.stderr.contains("the value of a secret is not an argument"), "{argument}");
    assert_eq!(std::fs::read_dir(world.data()).unwrap().count(), 0, "nothing was made");
    world.ok(&["secret", "ls"]).await;
    let file = world.root().join("no/key");
    world.configure(&format!("[server]\nsecret_key_file = \"{}\"\n", file.display()));
    let refused = set(&world, "A", b"v").await.expect_code(1);
    assert!(refused.stderr.contains("openssl rand -hex 32"), "{refused}");
    world.finish().await;
}

#[tokio::test]
async fn what_is_typed_on_a_terminal_is_not_shown() {
    let world = World::new();
    let (keyboard, terminal) = terminal();
    let mut command = world.command(&["secret", "set", "TYPED"]);
    command.stdin(Stdio::from(terminal));
    let running = world.spawn(command);
    running.stderr_has("it is not shown").await;
    let mut hand = keyboard.try_clone().unwrap();
    std::io::Write::write_all(&mut hand, b"wrong\x15typed-canary\nrest\n").unwrap();
    let told = running.wait().await.expect_code(0);
    assert!(told.stderr.contains("set TYPED"), "{told}");
    assert!(!told.stderr.contains("typed-canary"), "{told}");
    let shown = shown(keyboard);
    assert!(!shown.contains("typed") && !shown.contains("rest"), "{shown:?}");
    let secrets = store::Secrets::new(&world.data(), None);
    assert_eq!(*secrets.get("TYPED").unwrap(), "typed-canary");
    world.finish().await;
}

/// Both ends of a terminal: who types and sees, and the program.
fn terminal() -> (File, File) {
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: two numbers are written to; the rest may be null.
    let made = unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were just made and belong to nobody else.
    unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) }
}

/// What the terminal showed, after all programs left it.
fn shown(mut keyboard: File) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 1024];
    // It ends with an error when nobody is there any more.
    while let Ok(read @ 1..) = std::io::Read::read(&mut keyboard, &mut piece) {
        text.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&text).into_owned()
}
