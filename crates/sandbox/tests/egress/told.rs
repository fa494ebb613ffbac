//! That nothing is let through and nothing refused without a word: which host, and why.

use protocol::Egress;
use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::names::{build, exchange, query};
use crate::world::{World, public, quiet_server};

#[tokio::test]
async fn a_connection_is_told_while_it_is_open_and_its_bytes_can_be_summed() {
    let mut world = World::allow(&["far.test:9"]);
    world.host("far.test", 1, 9, quiet_server().await);
    let mut tunnel = world.tunnel("far.test:9").await;
    let mut back = [0; 5];
    tunnel.write_all(b"\x01more").await.unwrap();
    tunnel.read_exact(&mut back).await.unwrap();
    let told = world.decided(|d| d.host == "far.test" && d.port == 9).await;
    assert_eq!((told.allowed, told.connections, told.sent), (true, 1, 5), "{told:?}");
    tunnel.write_all(b"again").await.unwrap();
    tunnel.read_exact(&mut back).await.unwrap();
    // Whoever ends the proxy has been told everything when it is gone.
    drop(world.proxy.take());
    let all = world.decisions();
    let sum = |what: fn(&sandbox::egress::Decision) -> u64| all.iter().map(what).sum::<u64>();
    assert_eq!(sum(|d| d.connections.into()), 1, "{all:?}");
    assert_eq!((sum(|d| d.sent), sum(|d| d.received)), (10, 10), "{all:?}");
}

#[tokio::test]
async fn questions_for_allowed_names_are_told_with_their_bytes() {
    let world = World::allow(&["*.good.test"]);
    world.name("a.good.test", &[&[public(1)]]);
    let question = build("a.good.test", QTYPE::TYPE(TYPE::A));
    let answer = exchange(&world, &question).await.unwrap();
    let (asked, answered) = (question.len() as u64, answer.len() as u64);
    let told = world.let_through("a.good.test", 53, |d| (d.sent, d.received) == (asked, answered)).await;
    assert_eq!((told.rule.as_str(), told.connections), ("*.good.test", 1));
    // Also when nobody answers, and when it is not asked for an address.
    query(&world, "gone.good.test").await;
    world.let_through("gone.good.test", 53, |d| d.connections == 1 && d.sent > 0).await;
    exchange(&world, &build("text.good.test", QTYPE::TYPE(TYPE::TXT))).await.unwrap();
    world.let_through("text.good.test", 53, |d| d.connections == 1 && d.sent > 0).await;
    assert_eq!(*world.outside.asked.lock().unwrap(), ["a.good.test", "gone.good.test"]);
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_told_however_it_is_asked_for() {
    let world = World::allow(&["*.good.test"]);
    world.name("meta.good.test", &[&["169.254.169.254".parse().unwrap()]]);
    assert!(query(&world, "meta.good.test").await.1.is_empty());
    let told = world.decided(|d| !d.allowed && d.host == "meta.good.test").await;
    assert!(told.port == 53 && !told.can_be_allowed, "{told:?}");
    assert!(told.rule.contains("it resolves to 169.254.169.254, which is a link-local address"), "{told:?}");
    world.name("other.good.test", &[&["10.0.0.1".parse().unwrap()]]);
    world.ask("CONNECT other.good.test:443 HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let told = world.decided(|d| !d.allowed && d.host == "other.good.test").await;
    assert!(told.port == 443 && told.rule.contains("it resolves to 10.0.0.1"), "{told:?}");
    // Many refusals are told in one sum; the names that went out are not among them.
    for name in ["meta.good.test", "other.good.test"] {
        world.let_through(name, 53, |d| d.connections == 1).await;
    }
}

#[tokio::test]
async fn requests_that_cannot_be_read_in_one_way_are_told_with_what_they_say() {
    let world = World::new(&Egress::Open);
    let connect = |target: &str| format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let get = |address: &str, hosts: &str| format!("GET {address} HTTP/1.1\r\n{hosts}\r\n");
    let spelled = "it is another spelling of an address; write it as 127.0.0.1";
    for (request, host, port, why) in [
        (connect("2130706433:80"), "2130706433", 80, spelled),
        (connect("0x7f000001:80"), "0x7f000001", 80, spelled),
        (connect("127.1:8080"), "127.1", 8080, spelled),
        (connect("203.0.113.010:80"), "203.0.113.010", 80, "write it as 203.0.113.8"),
        (connect("host.12345678901:80"), "host.12345678901", 80, "ends in a number"),
        (connect("api.test"), "api.test", 0, "needs a port"),
        (get("http://0177.0.0.1/", "Host: 0177.0.0.1\r\n"), "0177.0.0.1", 80, spelled),
        (
            get("http://good.test/", "Host: evil.test\r\n"),
            "good.test",
            80,
            "its Host header (evil.test) do not agree",
        ),
        (get("http://two.test/", "Host: two.test\r\nHost: b.test\r\n"), "two.test", 80, "more than one Host"),
        (get("http://me:word@user.test:81/", "Host: user.test\r\n"), "user.test", 81, "a user in it"),
        (get("https://tls.test/", "Host: tls.test\r\n"), "tls.test", 443, "use CONNECT"),
        (get("/", "Host: bare.test:82\r\n"), "bare.test", 82, "whole address"),
        ("\u{1}\u{2}\r\n\r\n".to_owned(), "unknown", 0, "malformed"),
    ] {
        let answer = world.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request}: {answer}");
        let told = world.decided(|d| d.host == host && d.port == port).await;
        assert!(!told.allowed && !told.can_be_allowed && told.rule.contains(why), "{told:?}");
        let said = if host == "unknown" { "" } else { why };
        assert!(answer.contains(said) && !answer.contains("No rule"), "{answer}");
    }
    assert!(!format!("{:?}", world.decisions()).contains("word"), "{:?}", world.decisions());
}

#[tokio::test]
async fn questions_that_are_not_answered_are_told() {
    let world = World::new(&Egress::Open);
    let chaos = {
        let mut packet = Packet::new_query(1);
        let name = Name::new_unchecked("version.bind");
        packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::TXT), QCLASS::CLASS(CLASS::CH), false));
        packet.build_bytes_vec().unwrap()
    };
    for (question, host, why) in [
        (
            build("1.2.0.192.in-addr.arpa", QTYPE::TYPE(TYPE::PTR)),
            "1.2.0.192.in-addr.arpa",
            "what an address",
        ),
        (build("all.test", QTYPE::ANY), "all.test", "for all that a name has"),
        (chaos, "version.bind", "not about the internet"),
        (build("127.1", QTYPE::TYPE(TYPE::A)), "127.1", "no host is called so"),
        (build("-a\u{7}.test", QTYPE::TYPE(TYPE::A)), "-a?.test", "no host is called so"),
        (b"\0\x01\x01\0\0\x02\0\0\0\0\0\0".to_vec(), "unknown", "no question for a name"),
    ] {
        exchange(&world, &question).await.unwrap();
        let told = world.decided(|d| d.host == host).await;
        assert!(!told.allowed && !told.can_be_allowed && told.port == 53, "{told:?}");
        assert!(told.rule.contains(why), "{told:?}");
    }
    assert!(world.outside.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn whoever_only_looks_whether_somebody_is_there_is_told_of_too() {
    let world = World::allow(&["api.test"]);
    drop(world.connect_to((public(9), 22)).await);
    let told = world.decided(|d| d.host == "203.0.113.9" && d.port == 22).await;
    assert!(!told.allowed && told.rule.contains("no rule"), "{told:?}");
}

#[tokio::test]
async fn the_command_that_allows_an_address_with_colons_can_be_used() {
    let world = World::allow(&[]);
    for (target, rule) in
        [("[2001:db8::10]:8080", "[2001:db8::10]:8080"), ("[2001:db8::10]:443", "[2001:db8::10]")]
    {
        let answer = world.ask(&format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert!(answer.contains(&format!("slipway: {target} is refused")), "{answer}");
        assert!(answer.contains(&format!("slipway env allow shop {rule}\n")), "{answer}");
        let egress = Egress::Allow(vec![rule.to_owned()]);
        sandbox::egress::Rules::parse(&egress).unwrap();
    }
}

#[tokio::test]
async fn a_name_that_goes_out_is_told_also_when_nobody_waits_for_the_answer() {
    let world = World::allow(&["*.good.test"]);
    // A name that is found only in the handshake is looked up then, and the handshake ends there.
    world.name("hidden.good.test", &[&[public(1)]]);
    let stream = world.connect_to((public(2), 443)).await;
    world.tls("hidden.good.test", stream).await.unwrap_err();
    world.let_through("hidden.good.test", 53, |d| d.connections == 1 && d.rule == "*.good.test").await;
    // One that is never answered, by somebody who goes away.
    world.outside.slow.lock().unwrap().insert("slow.good.test".to_owned());
    let mut stream = world.connect().await;
    stream.write_all(b"CONNECT slow.good.test:443 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    while !world.outside.asked.lock().unwrap().contains(&"slow.good.test".to_owned()) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    stream.set_zero_linger().unwrap();
    drop(stream);
    world.let_through("slow.good.test", 443, |d| d.connections == 1).await;
}
