//! Secrets: they reach the servers they are for, and nothing of them ever reaches the sandbox.

use std::io::Write;

use sandbox::egress::{Decision, Rules, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::names::query;
use crate::world::{World, http_server, public, read_all, read_answer, read_head};

const CANARY: &str = "canary/7f3a+secret\"value";

/// The value as basic credentials of `me`, computed elsewhere.
const BASIC: &str = "bWU6Y2FuYXJ5LzdmM2Erc2VjcmV0InZhbHVl";

fn secret(name: &str, form: &str, hosts: &[&str]) -> Secret {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{CANARY}").unwrap();
    let recipe = protocol::Secret {
        name: name.to_owned(),
        env: None,
        file: Some(file.path().to_str().unwrap().to_owned()),
        secret: None,
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        form: form.to_owned(),
    };
    Secret::read(&recipe, &|_| unreachable!("it is in a file")).unwrap()
}

/// Everything that looks like the value, in any spelling that is searched for.
fn has_canary(text: &str) -> bool {
    [
        "canary/7f3a",
        "7f3a+secret",
        "canary%2F7f3a",
        "canary%2f7f3a",
        "canary\\/7f3a",
        "secret\\\"value",
        &BASIC[..20],
    ]
    .iter()
    .any(|spelling| text.contains(spelling))
}

async fn world() -> World {
    let world = World::allow(&["api.test", "other.test", "plain.test"]);
    let server = world.tls_server(&["api.test", "other.test"]).await;
    world.host("api.test", 1, 443, server);
    world.host("other.test", 2, 443, server);
    world.host("plain.test", 3, 80, http_server().await);
    let hosts = &["api.test"];
    let secrets = vec![
        secret("TOKEN", "bearer", hosts),
        secret("PASSWORD", "basic", hosts),
        secret("KEY", "header:X-Key", hosts),
    ];
    world.proxy().set_secrets(secrets).unwrap();
    world
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        (0..4).for_each(|n| {
            out.push(if n <= group.len() {
                ALPHABET[(bits >> (18 - 6 * n) & 63) as usize] as char
            } else {
                '='
            })
        });
    }
    out
}

/// One request over an intercepted tunnel; what came back, and the decision's bytes.
async fn over_tls(world: &World, host: &str, head: &str, body: &str) -> String {
    let tunnel = world.tunnel(&format!("{host}:443")).await;
    let mut stream = world.tls(host, tunnel).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{head}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    read_all(&mut stream).await
}

#[tokio::test]
async fn values_reach_the_server_and_never_the_sandbox() {
    let world = world().await;
    let variables = world.proxy().variables();
    let mut seen = format!("{variables:?}");
    seen.push_str(&String::from_utf8(world.proxy().ca_bundle().unwrap()).unwrap());
    let (token, password, key) = (&variables["TOKEN"], &variables["PASSWORD"], &variables["KEY"]);
    assert!(token.starts_with("slipway-TOKEN-") && token.len() > 40 && token != password, "{token}");

    // The server says back what it got. What comes back is covered, so that something was put in is seen by that.
    let answer = over_tls(&world, "api.test", &format!("Authorization: Bearer {token}\r\n"), "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains(&format!("x-echo: Bearer {token}\r\n")),
        "headers get the placeholder back: {answer}"
    );
    let covered = &token[..CANARY.len()];
    assert!(answer.contains(&format!("authorization: Bearer {covered}\n")), "{answer}");
    assert!(
        !answer.contains(&format!("authorization: Bearer {token}\n")),
        "the placeholder was not swapped: {answer}"
    );
    assert!(answer.contains("accept-encoding: identity\n"), "{answer}");
    seen.push_str(&answer);

    let pair = base64(&format!("me:{password}"));
    let answer = over_tls(&world, "api.test", &format!("Authorization: Basic {pair}\r\n"), "").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && !answer.contains(&pair),
        "the placeholder was not swapped: {answer}"
    );
    seen.push_str(&answer);

    let answer = over_tls(&world, "api.test", &format!("X-Key: {key}\r\n"), "").await;
    // All three have the same value, so any of their placeholders may cover it.
    assert!(answer.contains("x-key: slipway-"), "{answer}");
    assert!(!answer.contains(&format!("x-key: {key}\n")), "{answer}");
    seen.push_str(&answer);

    // A server that says it in the body, whichever way it is spelled.
    for body in [
        CANARY,
        "canary%2F7f3a%2Bsecret%22value",
        "canary/7f3a+secret\\\"value",
        "canary\\/7f3a+secret\\\"value",
        &CANARY.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>(),
    ] {
        let answer = over_tls(&world, "api.test", "", body).await;
        assert!(answer.contains("body: slipway-"), "{body}: {answer}");
        seen.push_str(&answer);
    }
    let requests = world.outside.requests.lock().unwrap().clone();
    for sent in [format!("Bearer {CANARY}\n"), format!("Basic {BASIC}\n"), format!("x-key: {CANARY}\n")] {
        assert!(requests.contains(&sent), "{sent} did not arrive: {requests}");
    }
    seen.push_str(&format!("{:?}", world.decisions()));
    assert!(!has_canary(&seen), "{seen}");
    assert!(world.decided(|d| d.host == "api.test").await.allowed);
}

#[tokio::test]
async fn a_placeholder_elsewhere_stays_one() {
    let world = world().await;
    let variables = world.proxy().variables();
    let (token, password) = (&variables["TOKEN"], &variables["PASSWORD"]);
    for (host, head, body) in [
        ("api.test", format!("X-Other: {token}\r\n"), token.clone()),
        ("api.test", format!("X-Key: {token}\r\n"), String::new()),
        ("api.test", format!("Authorization: Bearer {password}\r\n"), String::new()),
        ("api.test", format!("Authorization: Bearer {token}x\r\n"), String::new()),
        ("other.test", format!("Authorization: Bearer {token}\r\n"), String::new()),
    ] {
        let answer = over_tls(&world, host, &head, &body).await;
        let sent = head.trim().split_once(": ").unwrap().1.to_owned();
        assert!(
            answer.to_lowercase().contains(&format!(": {}\n", sent.to_lowercase())),
            "{host} {head}: {answer}"
        );
    }
    assert!(!has_canary(&world.outside.requests.lock().unwrap()));
    // Without TLS nothing is put in, even if the host has secrets.
    let plain = World::allow(&["api.test"]);
    plain.host("api.test", 1, 80, http_server().await);
    plain.proxy().set_secrets(vec![secret("TOKEN", "bearer", &["api.test"])]).unwrap();
    let token = plain.proxy().variables()["TOKEN"].clone();
    let request = format!(
        "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    assert!(plain.ask(&request).await.contains(&format!("authorization: Bearer {token}\n")));
    // Another sandbox's placeholder is worthless.
    let answer = over_tls(&world, "api.test", &format!("Authorization: Bearer {token}\r\n"), "").await;
    assert!(answer.contains(&format!("authorization: Bearer {token}\n")), "{answer}");
}

#[tokio::test]
async fn programs_that_know_no_proxy_get_secrets_too() {
    let world = world().await;
    let token = world.proxy().variables()["TOKEN"].clone();
    let stream = world.connect_to((public(1), 443)).await;
    let mut stream = world.tls("api.test", stream).await.unwrap();
    for path in ["/1", "/2"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: api.test\r\nAuthorization: token {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream).await;
        assert!(answer.contains(&format!("GET {path}\n")) && !has_canary(&answer), "{answer}");
        assert!(answer.contains(&format!("x-echo: token {token}\r\n")), "{answer}");
        assert!(!answer.contains(&format!("authorization: token {token}\n")), "{answer}");
    }
    // The host inside must be the one outside.
    stream.write_all(b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.starts_with("HTTP/1.1 403"));
    assert_eq!(world.outside.connected.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_cannot_prove_who_it_is_gets_nothing() {
    let world = World::allow(&["api.test"]);
    // It has a certificate, but of another name.
    let server = world.tls_server(&["impostor.test"]).await;
    world.host("api.test", 1, 443, server);
    world.proxy().set_secrets(vec![secret("TOKEN", "bearer", &["api.test"])]).unwrap();
    let token = world.proxy().variables()["TOKEN"].clone();
    let answer = over_tls(&world, "api.test", &format!("Authorization: Bearer {token}\r\n"), "").await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("TLS with the server failed"), "{answer}");
}

#[tokio::test]
async fn compressed_answers_are_not_passed_on() {
    let world = world().await;
    for (path, passed) in [
        ("/gzip", false),
        ("/gzip-removed", false),
        ("/gzip-transfer", false),
        ("/gzip-transfer-twice", false),
        ("/chunked", true),
    ] {
        let tunnel = world.tunnel("api.test:443").await;
        let mut stream = world.tls("api.test", tunnel).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        let refused = answer.starts_with("HTTP/1.1 502") && answer.contains("cannot be searched for secrets");
        assert_eq!((refused, answer.starts_with("HTTP/1.1 200")), (!passed, passed), "{path}: {answer}");
    }
}

#[tokio::test]
async fn tls_without_a_name_does_not_get_around_the_secrets() {
    let world = world().await;
    query(&world, "api.test").await;
    // The address has another name too, which was asked for last and has no secrets.
    world.name("shared.test", &[&[public(1)]]);
    let rules = ["api.test", "other.test", "shared.test"].map(str::to_owned).into();
    world.proxy().set_rules(Rules::parse(&protocol::Egress::Allow(rules)).unwrap());
    query(&world, "shared.test").await;
    let tunnel = world.tunnel("api.test:443").await;
    world.nameless_tls("api.test", tunnel).await.unwrap_err();
    let refused = |d: &Decision| d.host == "api.test" && d.rule.contains("does not say a name");
    assert!(!world.decided(refused).await.allowed);
    let stream = world.connect_to((public(1), 443)).await;
    world.nameless_tls("api.test", stream).await.unwrap_err();
    assert!(world.decisions().iter().all(|d| !d.allowed || d.port == 53), "{:?}", world.decisions());
    // Hosts without secrets need no name.
    let tunnel = world.tunnel("other.test:443").await;
    drop(world.nameless_tls("other.test", tunnel).await.unwrap());
}

#[tokio::test]
async fn websockets_go_through() {
    let world = world().await;
    let plain = world.tunnel("plain.test:80").await;
    let tunnel = world.tunnel("api.test:443").await;
    let stream = world.tls("api.test", tunnel).await.unwrap();
    websocket(stream, "api.test").await;
    websocket(plain, "plain.test").await;
    assert!(world.decided(|d| d.host == "api.test").await.allowed);
}

#[tokio::test]
async fn what_a_websocket_says_back_is_searched_too() {
    let world = world().await;
    let tunnel = world.tunnel("api.test:443").await;
    let mut stream = world.tls("api.test", tunnel).await.unwrap();
    let request = "GET /ws HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.contains("x-compressed: false"), "what is compressed cannot be searched: {head}");
    let said = format!("before {CANARY} after");
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut back = vec![0; said.len()];
    stream.read_exact(&mut back).await.unwrap();
    let back = String::from_utf8(back).unwrap();
    assert!(back.starts_with("before slipway-") && back.ends_with(" after") && !has_canary(&back), "{back}");
}

#[tokio::test]
async fn a_placeholder_that_was_given_stays_when_another_proxy_takes_over() {
    let world = world().await;
    let known = || secret("TOKEN", "bearer", &["api.test"]).known_as("slipway-TOKEN-given".to_owned());
    let mut bundles = Vec::new();
    for _ in 0..2 {
        world.proxy().set_secrets(vec![known()]).unwrap();
        assert_eq!(world.proxy().variables()["TOKEN"], "slipway-TOKEN-given");
        bundles.push(world.proxy().ca_bundle().unwrap());
        let head = "Authorization: Bearer slipway-TOKEN-given\r\n";
        let answer = over_tls(&world, "api.test", head, "").await;
        assert!(answer.starts_with("HTTP/1.1 200") && !has_canary(&answer), "{answer}");
    }
    assert_ne!(bundles[0], bundles[1], "the authority is made anew");
    let got = world.outside.requests.lock().unwrap();
    assert_eq!(got.matches(&format!("authorization: Bearer {CANARY}\n")).count(), 2, "{got}");
}

async fn websocket(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin, host: &str) {
    let request =
        format!("GET /ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream.write_all(b"\x81\x02hi").await.unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"\x81\x02hi");
}

#[tokio::test]
async fn variables_say_where_proxy_and_certificates_are() {
    let world = World::allow(&[]);
    let variables = world.proxy().variables();
    assert_eq!(variables["HTTPS_PROXY"], "http://127.0.0.1:3128");
    assert_eq!(variables["no_proxy"], "localhost,127.0.0.1,::1");
    assert!(!variables.contains_key("SSL_CERT_FILE") && world.proxy().ca_bundle().is_none());
    world.proxy().set_secrets(vec![secret("TOKEN", "bearer", &["api.test"])]).unwrap();
    let variables = world.proxy().variables();
    for name in ["SSL_CERT_FILE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"] {
        assert_eq!(variables[name], "/run/slipway/ca.pem");
    }
    let bundle = String::from_utf8(world.proxy().ca_bundle().unwrap()).unwrap();
    assert!(!bundle.contains("PRIVATE"));
    world.proxy().set_secrets(Vec::new()).unwrap();
    assert!(world.proxy().ca_bundle().is_none());
}
