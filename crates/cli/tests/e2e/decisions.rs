//! What was let through and what was refused can be seen: while it goes on, after a crash, and of single commands too.
//! Nothing here leaves the machine: each test has a network of its own, with one host in it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{World, models, on_an_island, shell};

const HOSTS: &str = "192.0.2.7 good.example\n";

/// The one host: takes connections, keeps them open, and says nothing.
async fn patient_host() -> Arc<Mutex<Vec<tokio::net::TcpStream>>> {
    let listener = tokio::net::TcpListener::bind("192.0.2.7:8443").await.unwrap();
    let open: Arc<Mutex<Vec<tokio::net::TcpStream>>> = Arc::default();
    let keep = Arc::clone(&open);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            keep.lock().unwrap().push(stream);
        }
    });
    open
}

/// A script that asks the proxy for a way to a host, and says something over it.
fn talk_to(target: &str, then: &str) -> String {
    format!(
        "p=${{HTTPS_PROXY#http://}}; exec 3<>/dev/tcp/${{p%:*}}/${{p#*:}}; \
         printf 'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n' >&3; read -r answer <&3; echo \"$answer\"; \
         printf '\\001hello' >&3; {then}"
    )
}

#[test]
fn a_connection_that_lasts_is_seen_and_outlives_a_crash() {
    on_an_island(HOSTS, lasts_and_is_seen);
}

async fn lasts_and_is_seen() {
    let open = patient_host().await;
    let talk = talk_to("good.example:8443", "sleep 300").replace('\'', "'\\''");
    let model = Server::start(
        Script::new().answer(shell(&format!("bash -c '{talk}' >/dev/null 2>&1 &"))).say("Done."),
    )
    .await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    world.ok(&["env", "add", "shop", "--repo", &repo.url(), "--egress", "good.example:8443"]).await;
    let serving = world.serve().await;
    let session = serving.api.create("shop", "Talk").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    let told = watcher.until(|frame| frame["type"] == "egress.decided").await["data"].clone();
    assert_eq!(
        (&told["host"], &told["port"], &told["allowed"], &told["connections"], &told["sent"]),
        (&json!("good.example"), &json!(8443), &json!(true), &json!(1), &json!(6)),
        "{told}"
    );
    assert_eq!(open.lock().unwrap().len(), 1);
    let still = open.lock().unwrap()[0].try_read(&mut [0; 64]).unwrap();
    assert_eq!(still, 6, "it is open, and what was said is there");
    drop(watcher);
    serving.crash().await;
    let serving = world.serve().await;
    let log = serving.api.log(&session).await;
    let kept = log.of("egress.decided");
    assert!(kept.iter().any(|decided| **decided == told), "{kept:?}");
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[test]
fn a_command_of_its_own_tells_every_decision() {
    on_an_island(HOSTS, tells_every_decision);
}

async fn tells_every_decision() {
    let open = patient_host().await;
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    world.ok(&["env", "add", "shop", "--repo", &repo.url(), "--egress", "good.example:8443"]).await;
    let targets =
        ["good.example:8443", "evil.example:80", "[2001:db8::10]:8080", "127.0.0.1:9999", "127.1:80"];
    let talk: Vec<String> = targets.iter().map(|target| talk_to(target, "exec 3<&-")).collect();
    let talk = talk.join("; ");
    let run = ["sandbox", "run", "--env", "shop", "--", "bash", "-c", &talk];

    // With a server, which remembers it.
    let serving = world.serve().await;
    let output = world.run(&[&["--json"][..], &run].concat()).await.expect_code(0);
    assert!(output.stdout.starts_with("HTTP/1.1 200 OK") && !output.stdout.contains("egress"), "{output}");
    let events: Vec<Value> =
        output.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told = |host: &str| {
        let found = events.iter().find(|e| e["type"] == "egress.decided" && e["data"]["host"] == host);
        found.unwrap_or_else(|| panic!("{host}: {output}"))["data"].clone()
    };
    let good = told("good.example");
    assert_eq!((&good["allowed"], &good["rule"]), (&json!(true), &json!("good.example:8443")), "{good}");
    for host in ["evil.example", "2001:db8::10", "127.0.0.1", "127.1"] {
        assert_eq!(told(host)["allowed"], false);
    }
    assert_eq!(open.lock().unwrap().len(), 1, "what is refused reaches nobody");
    let status = serving.api.get("/environments/shop/egress").await.expect(200);
    let known = |status: &Value, host: &str| {
        let all = status["refused"].as_array().unwrap();
        all.iter().find(|refused| refused["host"] == host).map(|refused| refused["count"].clone())
    };
    assert_eq!(known(&status, "evil.example"), Some(json!(1)), "{status}");
    let listed = world.ok(&["env", "allow", "shop"]).await;
    assert!(listed.stdout.contains("[2001:db8::10]:8080"), "{listed}");
    serving.stop().await;

    // Without one, and for people.
    let output = world.run(&run).await.expect_code(0);
    assert!(output.stderr.contains("refused: evil.example:80 (no rule"), "{output}");
    assert!(output.stderr.contains("refused: 127.0.0.1:9999 (it is a loopback address)"), "{output}");
    assert!(output.stderr.contains("refused: 127.1:80 (it is another spelling"), "{output}");
    let advice = "allow it with: slipway env allow shop [2001:db8::10]:8080 evil.example\n";
    assert!(output.stderr.contains(advice), "{output}");
    let status = world.json(&["env", "allow", "shop"]).await;
    assert_eq!(known(&status, "evil.example"), Some(json!(2)), "{status}");
    let allowed = world.ok(&["env", "allow", "shop", "[2001:db8::10]:8080", "evil.example"]).await;
    assert!(allowed.stderr.contains("[2001:db8::10]:8080"), "what is advised can be done: {allowed}");
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}
