//! Pages that are fetched for a sandbox: the same rules, told in the same way, for every host that a page leads to.

use protocol::{Egress, Permission, Policy, PolicyRule};
use sandbox::egress::{FetchError, Narrowing, resolved};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::world::{World, http_server, public, read_head};

/// A server that gives every request the next of these answers.
async fn server(answers: Vec<String>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

fn page(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn an_allowed_page_comes_with_what_it_is_and_is_told() {
    let world = World::allow(&["api.test"]);
    world.host("api.test", 1, 80, http_server().await);
    let fetched = world.proxy().fetch("http://API.test/a?b=c#d", 1 << 20).await.unwrap();
    let text = String::from_utf8(fetched.body).unwrap();
    assert_eq!((fetched.status, fetched.url.as_str(), fetched.cut), (200, "http://api.test/a?b=c#d", false));
    assert!(text.starts_with("GET /a?b=c\n") && text.contains("host: api.test\n"), "{text}");
    assert!(text.contains("user-agent: slipway\n") && !text.contains("authorization"), "{text}");
    let told = world.let_through("api.test", 80, |d| d.received > 0).await;
    assert_eq!(told.rule, "api.test");
    let cut = world.proxy().fetch("http://api.test/", 5).await.unwrap();
    assert_eq!((cut.body.as_slice(), cut.cut), (&b"GET /"[..], true));
}

#[tokio::test]
async fn pages_over_tls_are_trusted_as_programs_inside_trust_them() {
    let world = World::allow(&["api.test", "other.test"]);
    let server = world.tls_server(&["api.test"]).await;
    world.host("api.test", 1, 443, server);
    world.host("other.test", 2, 443, server);
    let fetched = world.proxy().fetch("https://api.test/x", 1 << 20).await.unwrap();
    assert!(fetched.body.starts_with(b"GET /x\n"));
    let wrong = world.proxy().fetch("https://other.test/x", 1 << 20).await.unwrap_err();
    assert!(
        matches!(&wrong, FetchError::Failed(why) if why.contains("TLS with other.test failed")),
        "{wrong}"
    );
}

#[tokio::test]
async fn what_is_refused_to_a_program_is_refused_here_and_says_so() {
    let world = World::allow(&["api.test"]);
    world.name("api.test", &[&["10.0.0.1".parse().unwrap()]]);
    for (url, says) in [
        ("http://evil.test/", "slipway env allow shop evil.test"),
        ("https://evil.test:8443/", "slipway env allow shop evil.test:8443"),
        ("http://169.254.169.254/latest/meta-data", "No rule can allow it"),
        ("http://127.0.0.1:8080/", "No rule can allow it"),
        ("http://[::1]/", "No rule can allow it"),
        ("http://0x7f000001/", "No rule can allow it"),
        ("http://localhost/", "No rule can allow it"),
        ("http://api.test/", "10.0.0.1"),
    ] {
        match world.proxy().fetch(url, 1 << 20).await {
            Err(FetchError::Refused(why)) => assert!(why.contains(says), "{url}: {why}"),
            other => panic!("{url}: {other:?}"),
        }
    }
    assert!(world.decided(|d| d.host == "evil.test" && d.port == 80).await.can_be_allowed);
    assert!(world.outside.connected.lock().unwrap().is_empty());
    for url in ["file:///etc/passwd", "ftp://api.test/", "http://me:pw@api.test/", "api.test", "http://"] {
        let refused = world.proxy().fetch(url, 1 << 20).await.unwrap_err();
        assert!(matches!(refused, FetchError::Address(_)), "{url}: {refused:?}");
    }
}

#[tokio::test]
async fn every_redirection_is_decided_on_anew() {
    let world = World::allow(&["api.test", "next.test"]);
    let first = server(vec![
        moved("//next.test/there"),
        moved("http://evil.test/?data=stolen"),
        moved("http://169.254.169.254/"),
        moved("file:///etc/passwd"),
    ])
    .await;
    world.host("api.test", 1, 80, first);
    world.host("next.test", 2, 80, http_server().await);
    let fetched = world.proxy().fetch("http://api.test/", 1 << 20).await.unwrap();
    assert_eq!(fetched.url, "http://next.test/there");
    assert!(fetched.body.starts_with(b"GET /there\n"));
    for says in ["evil.test:80 is refused", "No rule can allow it"] {
        let refused = world.proxy().fetch("http://api.test/", 1 << 20).await.unwrap_err();
        assert!(matches!(&refused, FetchError::Refused(why) if why.contains(says)), "{refused}");
    }
    let refused = world.proxy().fetch("http://api.test/", 1 << 20).await.unwrap_err();
    assert!(matches!(refused, FetchError::Address(_)), "{refused}");
    let reached: Vec<_> = world.outside.connected.lock().unwrap().iter().map(|to| to.ip()).collect();
    assert!(reached.iter().all(|ip| [public(1), public(2)].contains(ip)), "{reached:?}");

    let round = server((0..7).map(|_| moved("/again")).collect()).await;
    world.host("api.test", 1, 80, round);
    let endless = world.proxy().fetch("http://api.test/", 1 << 20).await.unwrap_err();
    assert!(endless.to_string().contains("more than 5 times"), "{endless}");
}

#[tokio::test]
async fn policies_narrow_it_and_what_is_changed_holds_at_once() {
    let world = World::new(&Egress::Open);
    world.host("api.test", 1, 80, server(vec![page("one"), page("two")]).await);
    assert_eq!(world.proxy().fetch("http://api.test/", 10).await.unwrap().body, b"one");
    let deny =
        PolicyRule { host: Some("api.test".into()), tool: None, ..PolicyRule::tool(Permission::Deny, "") };
    let policy = Policy { rules: vec![deny], after_every: None };
    world.proxy().narrow(Narrowing::parse(&[&policy], &[]).unwrap());
    match world.proxy().fetch("http://api.test/", 10).await {
        Err(FetchError::Refused(why)) => assert!(why.contains(Narrowing::DENIED), "{why}"),
        other => panic!("{other:?}"),
    }
    world.proxy().narrow(Narrowing::default());
    assert_eq!(world.proxy().fetch("http://api.test/", 10).await.unwrap().body, b"two");
}

#[test]
fn links_are_those_of_pages() {
    let page = "https://a.test/b/c?d";
    assert_eq!(resolved(page, " ../e ").as_deref(), Some("https://a.test/e"));
    assert_eq!(resolved(page, "//f.test").as_deref(), Some("https://f.test/"));
    assert_eq!(resolved(page, "javascript:alert(1)"), None);
    assert_eq!(resolved(page, "mailto:x@y.test"), None);
}
