//! Signing in to an MCP server from the command line: from finding out where, over the browser, to tokens that are renewed, taken
//! back, and forgotten. The server is strict about all of it.

use std::time::Duration;

use testkit::mcp::Shop;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models};

/// What a browser does with an address: it opens it, allows it, and goes where it is sent.
async fn browse(address: &str) {
    // Fails only when it is installed already.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let browser =
        reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let answer = browser.get(address).send().await.unwrap();
    assert_eq!(answer.status(), 302, "{}", answer.text().await.unwrap());
    let back = answer.headers()["location"].to_str().unwrap().to_owned();
    let port: u16 = back.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    // Browsers open connections ahead, and say nothing on some of them.
    let silent = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let page = browser.get(back).timeout(Duration::from_secs(20)).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("You can close this page"));
    drop(silent);
}

async fn log_in(world: &World) {
    let mut running = world.start(&["mcp", "login", "shop"]);
    running.close_stdin();
    browse(&running.stderr_line("http").await).await;
    let output = running.wait().await.expect_code(0);
    assert!(output.stderr.contains("signed in to shop"), "{output}");
}

async fn access(world: &World) -> String {
    world.json(&["mcp", "ls"]).await["servers"][0]["access"].as_str().unwrap().to_owned()
}

/// Whether one of the files below a directory has these words.
fn is_written(dir: &std::path::Path, words: &str) -> bool {
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let kind = entry.file_type().unwrap();
        let has = |bytes: Vec<u8>| bytes.windows(words.len()).any(|window| window == words.as_bytes());
        kind.is_dir() && is_written(&entry.path(), words)
            || kind.is_file() && std::fs::read(entry.path()).is_ok_and(has)
    })
}

#[tokio::test]
async fn a_person_signs_in_is_renewed_signs_in_again_and_out() {
    // Tokens are so near their end that each use renews them, and only the last that was given can be renewed.
    let shop = Shop::start(Duration::from_secs(25)).await;
    let script = Script::new()
        .call("shop__price", serde_json::json!({}))
        .say("It costs 42.")
        .say("I cannot ask.")
        .call("shop__price", serde_json::json!({}))
        .say("It costs 42.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!(
        "[mcp.shop]\nurl = \"{}\"\noauth = true\ntimeout_s = 20\n{}{}mcp = [\"shop\"]\n",
        shop.url(),
        models(&model),
        environment(&repo)
    ));
    assert_eq!(access(&world).await, "not signed in: slipway mcp login shop");
    log_in(&world).await;
    assert_eq!(access(&world).await, "signed in");
    for _ in 0..2 {
        let tried = world.json(&["mcp", "test", "shop"]).await;
        assert_eq!(tried["tools"][0]["name"], "shop__price", "{tried}");
    }
    assert!(shop.renewed() >= 2, "{} times", shop.renewed());

    let serving = world.serve().await;
    let run = async |prompt: &str| {
        let output = world.run(&["run", "--env", ENVIRONMENT, "--json", prompt]).await;
        assert_eq!(output.code(), 0, "{output}");
        output.stdout
    };
    assert!(run("What does it cost?").await.contains("It costs 42."));
    assert_eq!(shop.calls(), 1);
    shop.revoke();
    let told = run("And now?").await;
    assert!(told.contains("mcp_unavailable") && told.contains("slipway mcp login shop"), "{told}");
    // Whoever signs in again does so for the server that runs.
    log_in(&world).await;
    run("Once more").await;
    assert_eq!(shop.calls(), 2);
    let tokens = shop.tokens();
    assert!(!tokens.is_empty());
    for token in tokens {
        assert!(!is_written(&world.data(), &token), "{token} is in a file");
    }

    let output = world.ok(&["mcp", "logout", "shop"]).await;
    assert!(output.stderr.contains("forgot the tokens of shop"), "{output}");
    assert_eq!(access(&world).await, "not signed in: slipway mcp login shop");
    let output = world.run(&["mcp", "test", "shop"]).await;
    assert!(output.code() == 1 && output.stderr.contains("slipway mcp login shop"), "{output}");
    assert_eq!((shop.registered(), shop.violations()), (2, Vec::<String>::new()));
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
