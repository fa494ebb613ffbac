//! The network as a user meets it: what is refused is told and can be allowed, and the host's own addresses cannot be
//! reached whatever is allowed. Nothing here leaves the machine: names are refused before they are looked up, and the one
//! that is looked up is the host's own.

use std::net::TcpListener;

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Events, World, environment, models, shell};

/// A command that asks the proxy for a way to a host, and shows the answer.
fn ask_for(target: &str) -> String {
    format!(
        "bash -c 'p=${{HTTPS_PROXY#http://}}; exec 3<>/dev/tcp/${{p%:*}}/${{p#*:}}; \
         printf \"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n\" >&3; timeout 5 cat <&3'"
    )
}

/// A port of the host's loopback that somebody listens on, who must never be called.
struct Private(TcpListener);

impl Private {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    #[track_caller]
    fn assert_never_called(&self) {
        let called = self.0.accept();
        assert!(called.is_err(), "a sandbox reached the host: {called:?}");
    }
}

/// The refusals in a log, as host, port and reason.
fn refusals(events: &Events) -> Vec<(&str, u64, &str)> {
    let refused = events.of("egress.decided").into_iter().filter(|decided| decided["allowed"] == false);
    refused
        .map(|decided| {
            let word = |key: &str| decided[key].as_str().unwrap();
            (word("host"), decided["port"].as_u64().unwrap(), word("rule"))
        })
        .collect()
}

#[tokio::test]
async fn what_is_refused_is_told_and_can_be_allowed() {
    let private = Private::listen();
    let target = format!("localhost:{}", private.port());
    let script = Script::new()
        .answer(shell(&ask_for(&target)))
        .say("It is refused.")
        .answer(shell(&ask_for(&target)))
        .say("Still.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    world.ok(&["env", "add", "shop", "--repo", &repo.url()]).await;
    let serving = world.serve().await;
    let api = &serving.api;
    let nothing = world.json(&["env", "allow", "shop"]).await;
    assert_eq!(nothing, json!({"egress": [], "refused": []}));

    let session = api.create("shop", "Fetch it").await;
    let mut watcher = api.watch(&session, 0).await;
    let is_about = |frame: &Value| frame["type"] == "egress.decided" && frame["data"]["host"] == "localhost";
    let decided = watcher.until(is_about).await;
    assert_eq!(
        (&decided["data"]["allowed"], &decided["data"]["port"], &decided["data"]["connections"]),
        (&json!(false), &json!(private.port()), &json!(1)),
        "{decided}"
    );
    let reason = decided["data"]["rule"].as_str().unwrap();
    assert!(reason.contains("no rule"), "{decided}");
    watcher.until_type("snapshot.taken").await;
    let call = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap();
    for said in ["403", &format!("slipway env allow shop {target}")] {
        assert!(call.contains(said), "{said} is not in what the model sees: {call}");
    }
    let live = world.ok(&["attach", &session]).await;
    assert!(live.stderr.contains(&format!("refused {target}: {reason}")), "{live}");
    let listed = world.ok(&["env", "allow", "shop"]).await;
    assert!(listed.stderr.contains("shop can reach: nothing"), "{listed}");
    assert!(listed.stdout.contains(&target) && listed.stdout.contains("no rule"), "{listed}");
    let status = api.get("/environments/shop/egress").await.expect(200);
    assert_eq!(
        (&status["refused"][0]["host"], &status["refused"][0]["count"]),
        (&json!("localhost"), &json!(1))
    );

    // From the next connection on, in the sandbox that runs; and then the address is what is in the way.
    let allowed = world.ok(&["env", "allow", "shop", &target, "*.example.com"]).await;
    assert!(allowed.stderr.contains(&format!("shop can reach: {target}, *.example.com")), "{allowed}");
    let status = api.get("/environments/shop/egress").await.expect(200);
    assert_eq!(status, json!({"egress": [target, "*.example.com"], "refused": []}));
    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "Again"})).await;
    let refused = watcher.until(is_about).await;
    let reason = refused["data"]["rule"].as_str().unwrap();
    assert!(refused["data"]["allowed"] == false && reason.contains("loopback"), "{refused}");
    watcher.until_type("turn.finished").await;
    let made = watcher.seen.of("sandbox.changed");
    assert!(made.iter().all(|changed| changed["sandbox"] == made[0]["sandbox"]), "one sandbox: {made:?}");
    private.assert_never_called();
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_allowed_is_answered_with_why() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    world.ok(&["env", "add", "open", "--repo", &repo.url(), "--egress", "open"]).await;
    world.ok(&["env", "add", "shop", "--repo", &repo.url()]).await;
    for (arguments, code, words) in [
        ([ENVIRONMENT, "a.example"], 1, ["configuration file", "add to its egress there: a.example"]),
        (["open", "a.example"], 1, ["already", "private and local"]),
        (["shop", "https://a.example/"], 2, ["leave out", "registry.npmjs.org"]),
        (["shop", "192.168.1.1"], 2, ["192.168.1.1", "private"]),
        (["nowhere", "a.example"], 2, ["\"nowhere\"", "shop"]),
    ] {
        let output = world.run(&["env", "allow", arguments[0], arguments[1]]).await.expect_code(code);
        for word in words {
            assert!(output.stderr.contains(word), "{arguments:?}: {word:?} is not said: {output}");
        }
    }
    assert_eq!(world.json(&["env", "allow", "shop"]).await["egress"], json!([]), "nothing of it was kept");
    world.finish().await;
}

#[tokio::test]
async fn the_host_cannot_be_reached_whatever_is_allowed() {
    let private = Private::listen();
    let port = private.port();
    let proxied =
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "127.1"];
    let mut look: Vec<String> = proxied.iter().map(|host| ask_for(&format!("{host}:{port}"))).collect();
    for direct in ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254"] {
        look.push(format!(
            "timeout 5 bash -c 'exec 3<>/dev/tcp/{direct}/{port} && printf \"GET / HTTP/1.0\\r\\n\\r\\n\" >&3 && cat <&3'"
        ));
    }
    let look: String = look.iter().map(|command| format!("{command} 2>&1; echo \"= $?\"\n")).collect();
    let script = Script::new().answer(shell(&look)).say("Nothing.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("{}{}egress = \"open\"\n", models(&model), environment(&repo)));
    let events = world.ok(&["run", "--env", ENVIRONMENT, "--json", "Look around"]).await.events();
    private.assert_never_called();
    let said = events.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert_eq!(said.matches("\n= ").count(), look.lines().count(), "every one was tried: {said}");
    assert!(!said.contains("HTTP/1.1 200"), "{said}");
    let refused = refusals(&events);
    for host in ["127.0.0.1", "localhost", "::1", "169.254.169.254", "10.0.0.1"] {
        assert!(refused.iter().any(|(name, ..)| *name == host), "{host} is not told: {refused:?}");
    }
    assert!(events.of("egress.decided").iter().all(|decided| decided["allowed"] == false), "{refused:?}");
    world.finish().await;
}

#[tokio::test]
async fn without_a_network_there_is_not_even_a_proxy() {
    let look = "env | grep -i proxy; cut -d: -f1 /proc/net/dev | tail -n +3; \
                timeout 5 bash -c 'exec 3<>/dev/tcp/198.51.100.7/443' || echo unreachable; \
                timeout 5 getent hosts a.example || echo unknown";
    let model = Server::start(Script::new().answer(shell(look)).say("Nothing.")).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("{}{}egress = \"none\"\n", models(&model), environment(&repo)));
    let events = world.ok(&["run", "--env", ENVIRONMENT, "--json", "Look around"]).await.events();
    let said = events.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(!said.to_lowercase().contains("http_proxy") && said.contains("unreachable"), "{said}");
    assert!(said.contains("unknown"), "{said}");
    assert_eq!(events.of("egress.decided").len(), 0);
    let shown = world.ok(&["env", "allow", ENVIRONMENT]).await;
    assert!(shown.stderr.contains("nothing (\"none\")"), "{shown}");
    world.finish().await;
}

#[tokio::test]
async fn programs_that_know_no_proxy_are_refused_and_told_of_too() {
    let look = "timeout 5 getent hosts packages.example; \
                timeout 5 bash -c 'exec 3<>/dev/tcp/198.51.100.7/443 && cat <&3' 2>&1";
    let model = Server::start(Script::new().answer(shell(look)).answer(Reply::text("Refused."))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let live = world.ok(&["run", "--env", ENVIRONMENT, "Look around"]).await;
    assert!(live.stderr.contains("  refused packages.example:53: "), "people see it at once: {live}");
    let list = world.json(&["ls"]).await;
    let session = list["sessions"][0]["id"].as_str().unwrap();
    let events = world.ok(&["attach", session, "--json"]).await.events();
    let refused = refusals(&events);
    for host in ["packages.example", "198.51.100.7"] {
        assert!(refused.iter().any(|(name, ..)| *name == host), "{host} is not told: {refused:?}");
    }
    let said = events.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(said.contains("packages.example") && said.contains("slipway env allow"), "{said}");
    world.finish().await;
}
