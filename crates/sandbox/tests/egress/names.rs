//! Questions for names, and other datagrams.

use std::net::Ipv4Addr;
use std::time::Duration;

use protocol::Egress;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::world::{World, public};

pub(crate) async fn exchange(world: &World, datagram: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(datagram, world.dns).await.unwrap();
    let mut buffer = [0; 1500];
    let received = tokio::time::timeout(Duration::from_secs(10), socket.recv(&mut buffer)).await;
    received.ok().map(|length| buffer[..length.unwrap()].to_vec())
}

pub(crate) fn build(name: &str, kind: QTYPE) -> Vec<u8> {
    let mut packet = Packet::new_query(99);
    packet.questions.push(Question::new(Name::new_unchecked(name), kind, QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().unwrap()
}

async fn ask(world: &World, name: &str, kind: QTYPE) -> (RCODE, Vec<Ipv4Addr>) {
    let bytes = exchange(world, &build(name, kind)).await.expect("an answer");
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.id(), 99);
    let address = |data: &RData<'_>| match data {
        RData::A(a) => Ipv4Addr::from_bits(a.address),
        other => panic!("{other:?}"),
    };
    (packet.rcode(), packet.answers.iter().map(|answer| address(&answer.rdata)).collect())
}

/// Asks for a name, as a program does before it connects.
pub(crate) async fn query(world: &World, name: &str) -> (RCODE, Vec<Ipv4Addr>) {
    ask(world, name, QTYPE::TYPE(TYPE::A)).await
}

#[tokio::test]
async fn only_allowed_names_have_addresses() {
    let world = World::allow(&["api.test", "*.below.test:22"]);
    world.name("api.test", &[&[public(1), public(2)]]);
    world.name("a.below.test", &[&[public(3)]]);
    assert_eq!(
        query(&world, "API.test.").await,
        (RCODE::NoError, vec![[203, 0, 113, 1].into(), [203, 0, 113, 2].into()])
    );
    assert_eq!(query(&world, "a.below.test").await.1.len(), 1);
    for refused in ["evil.test", "below.test", "api.test.evil.test"] {
        assert_eq!(query(&world, refused).await, (RCODE::NameError, vec![]), "{refused}");
        let told = world.decided(|d| d.host == refused).await;
        assert!(!told.allowed && told.port == 53 && told.rule.contains("no rule"), "{told:?}");
    }
    assert!(!world.outside.asked.lock().unwrap().iter().any(|name| name.contains("evil")), "asked outside");
}

#[tokio::test]
async fn what_leads_around_us_is_not_answered() {
    let world = World::allow(&["api.test"]);
    world.name("api.test", &[&["2001:db8::1".parse().unwrap(), public(1)]]);
    assert_eq!(query(&world, "api.test").await.1, [Ipv4Addr::new(203, 0, 113, 1)]);
    for kind in [TYPE::AAAA, TYPE::TXT, TYPE::MX, TYPE::HTTPS, TYPE::SVCB] {
        assert_eq!(ask(&world, "api.test", QTYPE::TYPE(kind)).await, (RCODE::NoError, vec![]), "{kind:?}");
    }
    assert_eq!(ask(&world, "1.2.0.192.in-addr.arpa", QTYPE::TYPE(TYPE::PTR)).await.0, RCODE::Refused);
    assert_eq!(ask(&world, "api.test", QTYPE::ANY).await.0, RCODE::Refused);
}

#[tokio::test]
async fn private_addresses_are_left_out_and_localhost_is_local() {
    let world = World::new(&Egress::Open);
    world.name("mixed.test", &[&["10.0.0.1".parse().unwrap(), public(1)]]);
    world.name("inner.test", &[&["192.168.1.1".parse().unwrap()]]);
    assert_eq!(query(&world, "mixed.test").await.1, [Ipv4Addr::new(203, 0, 113, 1)]);
    assert_eq!(query(&world, "inner.test").await, (RCODE::NoError, vec![]));
    assert_eq!(query(&world, "localhost").await, (RCODE::NoError, vec![Ipv4Addr::LOCALHOST]));
    assert_eq!(query(&world, "gone.test").await.0, RCODE::ServerFailure);
    let none = World::new(&Egress::None);
    assert_eq!(query(&none, "example.com").await.0, RCODE::NameError);
}

#[tokio::test]
async fn nonsense_is_survived() {
    let world = World::allow(&["api.test"]);
    world.name("api.test", &[&[public(1)]]);
    let good = build("api.test", QTYPE::TYPE(TYPE::A));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for length in 0..good.len() {
        socket.send_to(&good[..length], world.dns).await.unwrap();
    }
    for at in 0..good.len() {
        for to in [0, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
            let mut changed = good.clone();
            changed[at] = to;
            socket.send_to(&changed, world.dns).await.unwrap();
        }
    }
    socket.send_to(&[0xff; 9000], world.dns).await.unwrap();
    assert_eq!(query(&world, "api.test").await.1.len(), 1);
}

#[tokio::test]
async fn other_datagrams_are_told_of_and_go_nowhere() {
    let world = World::new(&Egress::Open);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for _ in 0..5 {
        socket.send_to(b"quic", world.datagrams).await.unwrap();
    }
    let told = world.decided(|d| d.rule == "UDP is not let out").await;
    assert!(!told.allowed, "{told:?}");
}

async fn say(stream: &mut TcpStream, question: &[u8]) {
    stream.write_u16(u16::try_from(question.len()).unwrap()).await.unwrap();
    stream.write_all(question).await.unwrap();
}

async fn hear(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn over_a_connection_the_same_is_answered() {
    let world = World::allow(&["api.test"]);
    world.name("api.test", &[&[public(1), "10.0.0.1".parse().unwrap()]]);
    let (a, txt) = (QTYPE::TYPE(TYPE::A), QTYPE::TYPE(TYPE::TXT));
    // To the sandbox's own name server, and to one outside.
    let own = TcpStream::connect(world.names).await.unwrap();
    for mut stream in [own, world.connect_to((public(53), 53)).await] {
        // All at once; the answers come in the same order.
        for (name, kind) in [("api.test", a), ("api.test", txt), ("evil.test", a), ("localhost", a)] {
            say(&mut stream, &build(name, kind)).await;
        }
        for addresses in [vec![Ipv4Addr::new(203, 0, 113, 1)], vec![], vec![], vec![Ipv4Addr::LOCALHOST]] {
            let bytes = hear(&mut stream).await.unwrap();
            let packet = Packet::parse(&bytes).unwrap();
            let found: Vec<_> = packet.answers.iter().map(|answer| answer.rdata.clone()).collect();
            let wanted: Vec<_> = addresses.into_iter().map(|a| RData::A(a.into())).collect();
            assert_eq!(found, wanted);
            let refused = packet.questions[0].qname.to_string() == "evil.test";
            assert_eq!(packet.rcode(), if refused { RCODE::NameError } else { RCODE::NoError });
        }
    }
    assert!(world.outside.connected.lock().unwrap().is_empty(), "nobody outside was asked");
    let told = world.decisions().into_iter().filter(|decision| decision.host == "evil.test");
    assert_eq!(told.filter(|decision| !decision.allowed && decision.port == 53).count(), 2);
}

#[tokio::test]
async fn nonsense_over_a_connection_ends_it_and_nothing_else() {
    let world = World::allow(&["api.test"]);
    world.name("api.test", &[&[public(1)]]);
    for nonsense in
        [&b""[..], b"\0", b"\xff\xff", b"\0\0", b"\0\x05short", b"GET / HTTP/1.1\r\n\r\n", &[0x7f; 70_000]]
    {
        let mut stream = TcpStream::connect(world.names).await.unwrap();
        // It may be over before all was said.
        drop(stream.write_all(nonsense).await);
        drop(stream.shutdown().await);
        assert!(hear(&mut stream).await.is_err());
    }
    let mut stream = TcpStream::connect(world.names).await.unwrap();
    say(&mut stream, &build("api.test", QTYPE::TYPE(TYPE::A))).await;
    assert!(Packet::parse(&hear(&mut stream).await.unwrap()).unwrap().answers.len() == 1);
}
