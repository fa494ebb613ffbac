//! What changes while a proxy runs, and its end.

use protocol::Egress;
use sandbox::egress::Rules;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::names::query;
use crate::world::{World, http_server, public, read_all, talkative_server};

const REQUEST: &str = "GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn rules_change_at_run_time() {
    let world = World::allow(&[]);
    world.host("api.test", 1, 80, http_server().await);
    assert!(world.ask(REQUEST).await.starts_with("HTTP/1.1 403"));
    let allowed = Egress::Allow(vec!["api.test".to_owned()]);
    world.proxy().set_rules(Rules::parse(&allowed).unwrap());
    assert!(world.ask(REQUEST).await.starts_with("HTTP/1.1 200"));
    world.proxy().set_rules(Rules::parse(&Egress::None).unwrap());
    let answer = world.ask(REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("no network"), "{answer}");
}

#[tokio::test]
async fn another_sink_is_told_of_what_follows() {
    let world = World::allow(&[]);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    world.proxy().set_sink(std::sync::Arc::new(move |decision| sender.send(decision).unwrap()));
    world.ask(REQUEST).await;
    assert_eq!(receiver.recv().await.unwrap().host, "api.test");
    assert!(world.decisions().is_empty());
}

#[tokio::test]
async fn dropping_the_proxy_ends_connections_and_leaves_the_sockets() {
    let mut world = World::allow(&["talk.test:22"]);
    world.host("talk.test", 1, 22, talkative_server().await);
    query(&world, "talk.test").await;
    let mut led = world.connect_to((public(1), 22)).await;
    let mut tunnel = world.tunnel("talk.test:22").await;
    for stream in [&mut led, &mut tunnel] {
        let mut hello = [0; 6];
        stream.read_exact(&mut hello).await.unwrap();
    }
    drop(world.proxy.take());
    for stream in [&mut led, &mut tunnel] {
        assert_eq!(read_all(stream).await, "");
    }
    let told = world.let_through("talk.test", 22, |d| d.received == 12).await;
    assert_eq!(told.connections, 2);
    // The sandbox's own copies still listen: the next proxy takes up what waits.
    let mut waiting = world.connect().await;
    waiting.write_all(b"waits").await.unwrap();
    world.kept[0].set_nonblocking(false).unwrap();
    let (mut taken, _) = world.kept[0].accept().unwrap();
    taken.set_nonblocking(false).unwrap();
    let mut bytes = [0; 5];
    std::io::Read::read_exact(&mut taken, &mut bytes).unwrap();
    assert_eq!(&bytes, b"waits");
}
