//! Starts in bad circumstances: what can be done without is done without, and what is in the way is told with what to do.

use std::time::Duration;

use crate::harness::{World, until};

#[tokio::test]
async fn a_server_that_cannot_say_where_it_is_serves_and_says_it_when_it_can() {
    let world = World::new();
    let in_the_way = world.data().join("server.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let serving = world.serve().await;
    serving.api.get("/sessions").await.expect(200);
    assert!(world.background().is_none());
    std::fs::remove_dir(&in_the_way).unwrap();
    until("the address is written", || world.background().is_some()).await;
    assert_eq!(world.background().unwrap().0, serving.url);
    serving.stop().await;
    assert!(world.background().is_none(), "nobody is sent to a server that is gone");
    world.finish().await;
}

#[tokio::test]
async fn a_port_that_somebody_has_for_a_moment_is_waited_for() {
    let world = World::new();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let letting_go = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(holder);
    });
    let serving = world.serve_at(&address).await;
    assert!(letting_go.is_finished(), "it was taken until then");
    serving.api.get("/sessions").await.expect(200);
    serving.stop().await;
    world.finish().await;
}

#[tokio::test]
async fn a_damaged_catalogue_is_told_with_what_to_do() {
    let world = World::new();
    world.serve().await.stop().await;
    for content in [&b"this is no database, and never was one"[..], &[0xff; 4096]] {
        std::fs::write(world.data().join("catalogue.db"), content).unwrap();
        let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).await.expect_code(1);
        for word in ["catalogue.db is damaged", "away, and start it again", "found from their logs"] {
            assert!(output.stderr.contains(word), "{word:?} is not said: {output}");
        }
    }
    world.finish().await;
}
