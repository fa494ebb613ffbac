//! The network as a user meets it: what is refused is told and can be allowed, and the host's own addresses cannot be
//! reached whatever is allowed. Nothing here leaves the machine: names are refused before they are looked up, and the one
//! that is looked up is the host's own, or one of a network that the test made.

use std::net::TcpListener;

use serde_json::json;
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Events, World, environment, models, on_an_island, shell};

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
    let target = "packages.example:8443";
    let model = Server::start(Script::new().answer(shell(&ask_for(target))).say("It is refused.")).await;
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
    let decided = watcher.until(|frame| frame["type"] == "egress.decided").await;
    assert_eq!(
        (&decided["data"]["allowed"], &decided["data"]["port"], &decided["data"]["connections"]),
        (&json!(false), &json!(8443), &json!(1)),
        "{decided}"
    );
    let reason = decided["data"]["rule"].as_str().unwrap();
    assert!(reason.contains("no rule"), "{decided}");
    watcher.until_type("snapshot.taken").await;
    let call = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap();
    let advice = format!("slipway env allow shop {target}");
    assert!(call.contains("403") && call.matches(&advice).count() == 2, "by proxy and by remark: {call}");
    let live = world.ok(&["attach", &session]).await;
    assert!(live.stderr.contains(&format!("refused {target}: {reason}")), "{live}");
    let listed = world.ok(&["env", "allow", "shop"]).await;
    assert!(listed.stderr.contains("shop can reach: nothing"), "{listed}");
    assert!(listed.stdout.contains(target) && listed.stdout.contains("no rule"), "{listed}");
    let status = api.get("/environments/shop/egress").await.expect(200);
    assert_eq!(
        (&status["refused"][0]["host"], &status["refused"][0]["count"]),
        (&json!("packages.example"), &json!(1))
    );
    drop(watcher);
    serving.stop().await;

    // It is not forgotten with the server that told of it.
    assert_eq!(world.json(&["env", "allow", "shop"]).await, status, "without a server");
    let serving = world.serve().await;
    assert_eq!(serving.api.get("/environments/shop/egress").await.expect(200), status, "by another server");
    let allowed = world.ok(&["env", "allow", "shop", target, "*.example.com"]).await;
    assert!(allowed.stderr.contains(&format!("shop can reach: {target}, *.example.com")), "{allowed}");
    let allowed = json!({"egress": [target, "*.example.com"], "refused": []});
    assert_eq!(serving.api.get("/environments/shop/egress").await.expect(200), allowed);
    serving.stop().await;
    assert_eq!(world.json(&["env", "allow", "shop"]).await, allowed);
    world.remove_sandboxes().await;
    world.finish().await;
}

#[test]
fn what_is_allowed_counts_from_the_next_connection_on() {
    let hosts = "192.0.2.7 packages.example\n127.0.0.1 inner.example\n";
    on_an_island(hosts, counts_from_the_next_connection_on);
}

async fn counts_from_the_next_connection_on() {
    let private = Private::listen();
    let public = tokio::net::TcpListener::bind("192.0.2.7:8443").await.unwrap();
    // Whoever comes is let go at once, so that nobody waits.
    tokio::spawn(async move { while public.accept().await.is_ok() {} });
    let (outer, inner) = ("packages.example:8443", format!("inner.example:{}", private.port()));
    let script = Script::new()
        .answer(shell(&ask_for(outer)))
        .say("It is refused.")
        .answer(shell(&format!("{}; {}", ask_for(outer), ask_for(&inner))))
        .say("One of them is there.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    world.ok(&["env", "add", "shop", "--repo", &repo.url()]).await;
    let serving = world.serve().await;
    let api = &serving.api;
    let session = api.create("shop", "Fetch it").await;
    let mut watcher = api.watch(&session, 0).await;
    watcher.until_type("snapshot.taken").await;
    world.ok(&["env", "allow", "shop", outer, &inner]).await;
    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "Again"})).await;
    watcher.until_type("turn.finished").await;
    let calls = watcher.seen.calls("shell");
    let said = |n: usize| calls[n]["output"]["text"].as_str().unwrap();
    assert!(said(0).contains("403") && !said(0).contains("200 OK"), "{}", said(0));
    assert!(said(1).contains("HTTP/1.1 200"), "it is let through in the sandbox that runs: {}", said(1));
    // A name that is allowed and leads to a private address: nobody is told to allow it.
    assert!(said(1).contains("resolves to 127.0.0.1, which is a loopback address"), "{}", said(1));
    assert!(said(1).contains("No rule can allow") && !said(1).contains("env allow"), "{}", said(1));
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
        (["shop", "127.0.0.1:8080"], 2, ["never let through", "loopback"]),
        (["shop", "169.254.169.254"], 2, ["never let through", "metadata"]),
        (["shop", "localhost:22"], 2, ["never let through", "this machine itself"]),
        (["shop", "*.local"], 2, ["never let through", "the local network"]),
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
async fn a_sandbox_without_a_network_cannot_gain_one_and_that_is_said() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    world.ok(&["env", "add", "quiet", "--repo", &repo.url(), "--egress", "none"]).await;
    let allowed = world.ok(&["env", "allow", "quiet", "a.example"]).await;
    assert!(allowed.stderr.contains("quiet can reach: a.example"), "{allowed}");
    assert!(allowed.stderr.contains("stay without one"), "{allowed}");
    let more = world.json(&["env", "allow", "quiet", "b.example"]).await;
    assert_eq!(more, json!({"egress": ["a.example", "b.example"], "refused": []}), "it holds for all now");
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
    // A name may be asked for where everything public is allowed; what it leads to is refused.
    let decided = events.of("egress.decided");
    let only_asked = |decided: &&&serde_json::Value| decided["allowed"] == false || decided["port"] == 53;
    assert_eq!(decided.iter().find(|decided| !only_asked(decided)), None);
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
    assert!(shown.stderr.contains("nothing (\"none\")") && shown.stderr.contains("is not seen"), "{shown}");
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
    // The server that knew it was gone with the command.
    let listed = world.json(&["env", "allow", ENVIRONMENT]).await;
    let known = |host: &str| listed["refused"].as_array().unwrap().iter().any(|one| one["host"] == host);
    assert!(known("packages.example") && known("198.51.100.7"), "{listed}");
    world.finish().await;
}
