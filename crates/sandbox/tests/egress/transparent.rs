//! Programs that know of no proxy: the address they connect to and what they say must agree.

use protocol::Egress;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::names::query;
use crate::world::{
    World, http_server, is_reset, public, quiet_server, read_all, read_answer, talkative_server,
};

#[tokio::test]
async fn tls_to_an_address_of_its_name_goes_through() {
    let world = World::allow(&["api.test"]);
    let server = world.tls_server(&["api.test"]).await;
    world.host("api.test", 1, 443, server);
    let stream = world.connect_to((public(1), 443)).await;
    let mut stream = world.tls("api.test", stream).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.contains("host: api.test\n"));
    drop(stream);
    world.let_through("api.test", 443, |d| d.received > 500).await;
}

#[tokio::test]
async fn name_and_address_must_agree() {
    let world = World::allow(&["api.test", "other.test"]);
    let server = world.tls_server(&["api.test", "evil.test"]).await;
    world.host("api.test", 1, 443, server);
    world.host("evil.test", 2, 443, server);
    world.host("other.test", 3, 443, server);
    query(&world, "api.test").await;
    for (n, name, why) in [
        (2, "api.test", "203.0.113.2 is not an address of it"),
        (1, "evil.test", "no rule"),
        (3, "api.test", "203.0.113.3 is not an address of it"),
    ] {
        let stream = world.connect_to((public(n), 443)).await;
        let error = world.tls(name, stream).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        let told = world.decided(|d| d.rule.contains(why)).await;
        assert!(!told.allowed && told.host == name, "{told:?}");
    }
    assert!(world.outside.connected.lock().unwrap().is_empty());
}

#[tokio::test]
async fn private_addresses_are_reset_at_once() {
    for egress in [Egress::Open, Egress::Allow(vec!["inner.test:*".to_owned()])] {
        let world = World::new(&egress);
        world.name("inner.test", &[&["10.0.0.1".parse().unwrap()]]);
        for address in [[127, 0, 0, 1], [10, 0, 0, 1], [169, 254, 169, 254]] {
            let mut stream = world.connect_to((address, 80)).await;
            assert!(is_reset(&mut stream).await);
        }
        // Nor when the connection claims to be for a name that has the address.
        let stream = world.connect_to(([10, 0, 0, 1], 443)).await;
        world.tls("inner.test", stream).await.unwrap_err();
        assert!(world.outside.connected.lock().unwrap().is_empty());
        assert!(world.decisions().iter().all(|d| !d.allowed));
    }
}

#[tokio::test]
async fn each_request_must_be_for_the_same_allowed_host() {
    let world = World::allow(&["api.test", "other.test"]);
    let server = http_server().await;
    world.host("api.test", 1, 80, server);
    world.host("other.test", 1, 80, server);
    let mut stream = world.connect_to((public(1), 80)).await;
    for path in ["/1", "/2"] {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: api.test\r\n\r\n").as_bytes()).await.unwrap();
        assert!(read_answer(&mut stream).await.contains(&format!("GET {path}\n")));
    }
    stream.write_all(b"GET /3 HTTP/1.1\r\nHost: other.test\r\n\r\n").await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("the connection is for api.test"),
        "{answer}"
    );
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: api.test:81\r\n\r\n", "403"),
        ("GET http://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("CONNECT api.test:80 HTTP/1.1\r\nHost: api.test\r\n\r\n", "400"),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "403"),
    ] {
        let mut stream = world.connect_to((public(1), 80)).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    }
    // A pipelined second request is read too.
    let mut stream = world.connect_to((public(1), 80)).await;
    let two = "GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    stream.write_all(two.as_bytes()).await.unwrap();
    let answer = read_all(&mut stream).await;
    assert!(
        answer.contains("GET /1\n") && answer.contains("HTTP/1.1 403") && !answer.contains("GET /2\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn other_protocols_need_an_address_that_was_answered_for_an_allowed_name() {
    let world = World::allow(&["db.test:5432"]);
    let server = talkative_server().await;
    world.host("db.test", 1, 5432, server);
    world.host("evil.test", 2, 5432, server);
    let mut stream = world.connect_to((public(1), 5432)).await;
    assert!(is_reset(&mut stream).await, "nobody has asked for the name yet");
    query(&world, "db.test").await;
    let mut stream = world.connect_to((public(1), 5432)).await;
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).await.unwrap();
    assert_eq!(&hello, b"hello\n");
    stream.write_all(b"\0\0\0\x08").await.unwrap();
    stream.read_exact(&mut hello[..4]).await.unwrap();
    drop(stream);
    let told = world.let_through("db.test", 5432, |d| (d.sent, d.received) == (4, 10)).await;
    assert_eq!(told.connections, 1);
    for (n, port) in [(2, 5432), (1, 22)] {
        let mut stream = world.connect_to((public(n), port)).await;
        stream.write_all(b"\0\0\0\x08").await.unwrap();
        assert!(is_reset(&mut stream).await, "{n}:{port}");
    }
    assert_eq!(world.outside.connected.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn other_protocols_need_a_rule_that_names_the_port() {
    let world = World::allow(&["web.test", "both.test", "*.test:8080", "both.test:80"]);
    let server = quiet_server().await;
    world.host("web.test", 1, 80, server);
    world.host("web.test", 1, 443, server);
    world.host("both.test", 2, 80, server);
    query(&world, "web.test").await;
    query(&world, "both.test").await;
    for port in [80, 443] {
        let mut stream = world.connect_to((public(1), port)).await;
        stream.write_all(b"SSH-2.0-me\r\n").await.unwrap();
        assert!(is_reset(&mut stream).await, "{port}");
        let told = world.decided(|d| d.port == port).await;
        assert!(!told.allowed && told.host == "web.test" && told.rule.contains("names the port"), "{told:?}");
    }
    assert!(world.outside.connected.lock().unwrap().is_empty());
    // Waiting until the proxy has connected, or asking it for a tunnel, changes nothing.
    let mut stream = world.connect_to((public(1), 80)).await;
    while world.outside.connected.lock().unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    stream.write_all(b"SSH-2.0-me\r\n").await.unwrap();
    assert!(is_reset(&mut stream).await);
    let mut tunnel = world.tunnel("web.test:80").await;
    tunnel.write_all(b"SSH-2.0-me\r\n").await.unwrap();
    assert_eq!(read_all(&mut tunnel).await, "");
    // The rule that names the port counts, also when another one comes first, and when the address has other names.
    world.name("web.test", &[&[public(2)]]);
    query(&world, "web.test").await;
    let mut stream = world.connect_to((public(2), 80)).await;
    stream.write_all(b"SSH-2.0-me\r\n").await.unwrap();
    let mut back = [0; 12];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"SSH-2.0-me\r\n");
}

#[tokio::test]
async fn who_waits_before_speaking_is_still_checked() {
    let world = World::allow(&["api.test"]);
    let server = world.tls_server(&["api.test", "evil.test"]).await;
    world.host("api.test", 1, 443, server);
    world.host("evil.test", 1, 443, server);
    query(&world, "api.test").await;
    // The proxy connects once it has waited long enough for first bytes; only then this client speaks.
    for (name, allowed) in [("evil.test", false), ("api.test", true)] {
        let stream = world.connect_to((public(1), 443)).await;
        let before = world.outside.connected.lock().unwrap().len();
        while world.outside.connected.lock().unwrap().len() == before {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(world.tls(name, stream).await.is_ok(), allowed, "{name}");
    }
    assert!(world.decided(|d| d.host == "evil.test").await.rule.contains("no rule"));
}

#[tokio::test]
async fn what_begins_like_tls_or_http_and_does_not_go_on_is_reset() {
    let world = World::allow(&["db.test:5432"]);
    world.host("db.test", 1, 5432, quiet_server().await);
    query(&world, "db.test").await;
    for bytes in
        [&b"\x16\x03\x01\x00\x00"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\x01\r\n"]
    {
        let mut stream = world.connect_to((public(1), 5432)).await;
        stream.write_all(bytes).await.unwrap();
        assert!(is_reset(&mut stream).await, "{bytes:?}");
    }
    assert!(world.outside.connected.lock().unwrap().is_empty());
}

#[tokio::test]
async fn open_allows_every_public_address() {
    let world = World::new(&Egress::Open);
    let server = world.tls_server(&["api.test"]).await;
    world.host("elsewhere.test", 1, 443, server);
    world.host("talk.test", 2, 22, talkative_server().await);
    let stream = world.connect_to((public(1), 443)).await;
    drop(world.tls("api.test", stream).await.unwrap());
    // The name does not have the address, so what is told is the address.
    world.decided(|d| d.host == "203.0.113.1" && d.allowed && d.rule == "open").await;
    let mut stream = world.connect_to((public(2), 22)).await;
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).await.unwrap();
}

#[tokio::test]
async fn who_comes_by_itself_goes_nowhere() {
    let world = World::new(&Egress::Open);
    let mut stream = tokio::net::TcpStream::connect(world.transparent).await.unwrap();
    assert!(is_reset(&mut stream).await);
    assert!(world.decided(|d| d.rule.contains("nobody can tell")).await.host.starts_with("127."));
}
