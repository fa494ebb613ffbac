//! Addresses and data directories that somebody else has.

use tokio::net::TcpListener;

use super::says;
use crate::harness::World;

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = world.run(&["serve", "--listen", &address]).await.expect_code(1);
    says(&output, &[&address, "taken", "--listen", "slipway.toml"]);
    assert_eq!(std::fs::read_dir(world.data()).unwrap().count(), 0, "nothing was touched");
    let output = world.run(&["serve", "--listen", "127.0.0.1:99999"]).await.expect_code(2);
    says(&output, &["127.0.0.1:99999", "--listen"]);
    let output = world.run(&["serve", "--listen", "0.0.0.0:0"]).await.expect_code(2);
    says(&output, &["token", "SLIPWAY_TOKEN", "127.0.0.1"]);
    world.finish().await;
}

#[tokio::test]
async fn a_directory_has_one_server_and_commands_use_it() {
    let world = World::new();
    let serving = world.serve().await;
    let pid = serving.running.pid().to_string();
    let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).await.expect_code(1);
    says(&output, &[&pid, &world.data().display().to_string(), "stop it", "another data directory"]);
    world.ok(&["ls"]).await;
    assert_eq!(
        world.background().unwrap(),
        (serving.url.clone(), serving.running.pid()),
        "the first one still serves"
    );
    serving.stop().await;

    // What a server that was killed left behind stops nobody.
    let serving = world.serve().await;
    let url = serving.url.clone();
    serving.crash().await;
    assert_eq!(world.background().unwrap().0, url);
    world.ok(&["ls"]).await;
    world.finish().await;
}
