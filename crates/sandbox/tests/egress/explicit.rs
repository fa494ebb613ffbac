//! Programs that are told of the proxy.

use protocol::Egress;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{World, http_server, public, read_all, read_answer, read_head, talkative_server};

#[tokio::test]
async fn plain_http_goes_to_allowed_hosts() {
    let world = World::allow(&["api.test", "*.below.test:8080"]);
    let server = http_server().await;
    world.host("api.test", 1, 80, server);
    world.host("a.below.test", 2, 8080, server);
    let request = "POST http://API.test/path?q=1 HTTP/1.1\r\nHost: api.test\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\n\
                   Proxy-Authorization: Basic eDp5\r\nProxy-Connection: close\r\nX-Kept: 2\r\nContent-Length: 5\r\n\r\nhello";
    let answer = world.ask(request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("POST /path?q=1\n") && answer.contains("x-kept: 2\n"), "{answer}");
    assert!(answer.contains("host: api.test\n") && answer.contains("body: hello\n"), "{answer}");
    for gone in ["proxy-", "x-mine", "eDp5"] {
        assert!(!answer.contains(gone), "{gone}: {answer}");
    }
    let told = world.let_through("api.test", 80, |d| d.sent > 50 && d.received > 100).await;
    assert_eq!((told.rule.as_str(), told.connections), ("api.test", 1));
    let answer = world.ask("GET http://a.below.test:8080/ HTTP/1.0\r\n\r\n").await;
    assert!(answer.contains("host: a.below.test:8080\n"), "{answer}");
}

#[tokio::test]
async fn headers_keep_their_spelling_on_the_way_out() {
    let world = World::allow(&["old.test"]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.host("old.test", 1, 80, listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        head
    });
    let request =
        "GET http://old.test/ HTTP/1.1\r\nHost: old.test\r\nSOAPAction: x\r\nConnection: close\r\n\r\n";
    world.ask(request).await;
    let head = server.await.unwrap();
    assert!(head.contains("\r\nHost: old.test\r\n") && head.contains("\r\nSOAPAction: x\r\n"), "{head}");
}

#[tokio::test]
async fn a_refusal_says_which_host_and_how_to_allow_it() {
    let world = World::allow(&["api.test"]);
    world.name("inner.test", &[&["10.0.0.1".parse().unwrap()]]);
    for (request, host, port, says) in [
        (
            "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
            "evil.test",
            80,
            "slipway env allow shop evil.test",
        ),
        (
            "CONNECT evil.test:22 HTTP/1.1\r\nHost: x\r\n\r\n",
            "evil.test",
            22,
            "slipway env allow shop evil.test:22",
        ),
        (
            "CONNECT api.test:22 HTTP/1.1\r\nHost: x\r\n\r\n",
            "api.test",
            22,
            "slipway env allow shop api.test:22",
        ),
        ("CONNECT 203.0.113.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", "203.0.113.1", 443, "no rule"),
    ] {
        let answer = world.ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains(&format!("{host}:{port} is refused")) && answer.contains(says), "{answer}");
        let told = world.decided(|d| d.host == host && d.port == port).await;
        assert!(!told.allowed && told.can_be_allowed, "{told:?}");
    }
    for host in ["localhost", "printer.local", "127.0.0.1", "169.254.169.254"] {
        let answer = world.ask(&format!("CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("No rule can allow it"), "{answer}");
        assert!(!answer.contains("env allow"), "it would not help: {answer}");
        assert!(!world.decided(|d| d.host == host).await.can_be_allowed, "{host}");
    }
    assert!(world.outside.connected.lock().unwrap().is_empty());
    assert!(world.outside.asked.lock().unwrap().is_empty(), "refused names must not be looked up");
}

#[tokio::test]
async fn private_addresses_are_refused_also_when_open() {
    let world = World::new(&Egress::Open);
    let addresses = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "::1",
        "fd00:ec2::254",
    ];
    for address in addresses.iter().chain(&["::ffff:127.0.0.1", "64:ff9b::a00:1"]) {
        world.name("sneaky.test", &[&[address.parse().unwrap()]]);
        let answer = world.ask("CONNECT sneaky.test:443 HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("it resolves to"), "{answer}");
        assert!(!answer.contains("env allow"), "allowing would not help: {answer}");
        let literal = if address.contains(':') { format!("[{address}]") } else { (*address).to_owned() };
        let answer = world.ask(&format!("CONNECT {literal}:443 HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{address}: {answer}");
    }
    for odd in ["127.1", "0x7f000001", "2130706433", "0177.0.0.1"] {
        let answer = world.ask(&format!("GET http://{odd}/ HTTP/1.1\r\nHost: {odd}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{odd}: {answer}");
    }
    assert!(world.outside.connected.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let world = World::allow(&["api.test"]);
    let server = http_server().await;
    world.host("api.test", 1, 80, server);
    let (good, bad) = (public(1), "127.0.0.1".parse().unwrap());
    world.name("api.test", &[&[good], &[bad]]);
    let request = "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";
    assert!(world.ask(request).await.starts_with("HTTP/1.1 200"));
    assert_eq!(world.outside.asked.lock().unwrap().len(), 1, "one look-up for one connection");
    assert!(world.ask(request).await.starts_with("HTTP/1.1 403"));
    // Of several addresses only the public ones are connected to.
    world.name("api.test", &[&[bad, good, "10.0.0.1".parse().unwrap()]]);
    assert!(world.ask(request).await.starts_with("HTTP/1.1 200"));
    assert_eq!(*world.outside.connected.lock().unwrap(), [(good, 80).into(), (good, 80).into()]);
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_are_not_passed_on() {
    let world = World::allow(&["api.test", "other.test"]);
    let server = http_server().await;
    world.host("api.test", 1, 80, server);
    world.host("other.test", 1, 80, server);
    for (what, request) in [
        (
            "two lengths",
            "POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        ),
        ("bad length", "POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: +1\r\n\r\na"),
        (
            "not chunked",
            "POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n",
        ),
        (
            "old and chunked",
            "POST http://api.test/ HTTP/1.0\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("two hosts", "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nHost: other.test\r\n\r\n"),
        ("address and host", "GET http://api.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"),
        ("address and port", "GET http://api.test/ HTTP/1.1\r\nHost: api.test:81\r\n\r\n"),
        ("user", "GET http://api.test@other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"),
        ("no address", "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"),
        ("https", "GET https://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n"),
        ("space in a name", "GET http://api.test/ HTTP/1.1\r\nHost : api.test\r\n\r\n"),
        ("no port", "CONNECT api.test HTTP/1.1\r\nHost: api.test\r\n\r\n"),
        ("nonsense", "\u{1}\u{2}\u{3}\r\n\r\n"),
    ] {
        let answer = world.ask(request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{what}: {answer}");
    }
    assert!(world.outside.connected.lock().unwrap().is_empty());
    // With a length and chunks, the chunks count and the length is gone: the server reads what we read.
    let smuggled = "POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n\
                    2\r\nab\r\n0\r\n\r\n";
    let answer = world.ask(smuggled).await;
    assert!(answer.contains("body: ab\n") && !answer.contains("\ncontent-length: 4"), "{answer}");
    assert!(answer.contains("transfer-encoding: chunked\n"), "{answer}");
    // Bad chunks never reach the server as a request.
    let answer = world
        .ask("POST http://api.test/ HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab")
        .await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn one_connection_to_the_proxy_may_ask_for_several_hosts() {
    let world = World::allow(&["one.test", "two.test"]);
    let server = http_server().await;
    world.host("one.test", 1, 80, server);
    world.host("two.test", 2, 80, server);
    let mut stream = world.connect().await;
    for host in ["one.test", "one.test", "two.test"] {
        stream
            .write_all(format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        assert!(read_answer(&mut stream).await.contains(&format!("host: {host}\n")));
    }
    assert_eq!(world.outside.connected.lock().unwrap().len(), 2, "the first connection is used twice");
    stream.write_all(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn tls_through_a_tunnel_is_not_touched() {
    let world = World::allow(&["api.test"]);
    let server = world.tls_server(&["api.test"]).await;
    world.host("api.test", 1, 443, server);
    let tunnel = world.tunnel("api.test:443").await;
    let mut stream = world.tls("api.test", tunnel).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(read_all(&mut stream).await.contains("host: api.test\n"));
    drop(stream);
    let told = world.let_through("api.test", 443, |d| d.sent > 200 && d.received > 500).await;
    assert_eq!(told.connections, 1);
}

#[tokio::test]
async fn tls_in_a_tunnel_must_be_for_its_host() {
    let world = World::allow(&["api.test", "other.test"]);
    let server = world.tls_server(&["api.test", "other.test"]).await;
    world.host("api.test", 1, 443, server);
    let tunnel = world.tunnel("api.test:443").await;
    world.tls("other.test", tunnel).await.unwrap_err();
    let told = world.decided(|d| d.host == "other.test").await;
    assert!(!told.allowed && told.rule.contains("its TLS says otherwise") && told.sent == 0, "{told:?}");
    assert!(!world.decisions().iter().any(|d| d.allowed), "{:?}", world.decisions());
}

#[tokio::test]
async fn requests_in_a_tunnel_must_be_for_its_host() {
    let world = World::allow(&["api.test", "other.test"]);
    world.host("api.test", 1, 80, http_server().await);
    let mut tunnel = world.tunnel("api.test:80").await;
    tunnel.write_all(b"GET /1 HTTP/1.1\r\nHost: api.test\r\n\r\n").await.unwrap();
    assert!(read_answer(&mut tunnel).await.contains("GET /1"));
    tunnel.write_all(b"GET /2 HTTP/1.1\r\nHost: other.test\r\n\r\n").await.unwrap();
    assert!(read_all(&mut tunnel).await.starts_with("HTTP/1.1 403"));
    let told = world.decided(|d| !d.allowed).await;
    assert_eq!(told.host, "other.test");
}

#[tokio::test]
async fn other_protocols_go_through_a_tunnel() {
    let world = World::allow(&["ssh.test:22"]);
    world.host("ssh.test", 1, 22, talkative_server().await);
    let mut tunnel = world.tunnel("ssh.test:22").await;
    let mut hello = [0; 6];
    tunnel.read_exact(&mut hello).await.unwrap();
    tunnel.write_all(b"SSH-2.0-me\r\n").await.unwrap();
    let mut back = [0; 12];
    tunnel.read_exact(&mut back).await.unwrap();
    assert_eq!((&hello, &back), (b"hello\n", b"SSH-2.0-me\r\n"));
    drop(tunnel);
    let told = world.let_through("ssh.test", 22, |d| (d.sent, d.received) == (12, 18)).await;
    assert_eq!(told.connections, 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_apart_from_a_refusal() {
    let world = World::allow(&["api.test", "gone.test"]);
    world.name("api.test", &[&[public(9)]]);
    let answer = world.ask("CONNECT api.test:443 HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("nobody is there"), "{answer}");
    let answer = world.ask("GET http://gone.test/ HTTP/1.1\r\nHost: gone.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("cannot be resolved"), "{answer}");
    for host in ["api.test", "gone.test"] {
        assert!(world.decided(|d| d.host == host).await.allowed);
    }
}
