//! A sandbox with a way out: whatever it connects to, it ends at the driver's sockets, and there is no other way.

use std::io::Write;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandbox::Network;

use super::world::{World, all_hold, arm, still_answers};

const WORD: &str = "this is the driver's socket";

#[tokio::test]
async fn every_connection_ends_at_the_drivers_sockets() {
    let world = World::new();
    let sandbox = world.sandbox_with(Network::Egress).await;
    arm(&*sandbox).await;
    let sockets = sandbox.sockets().await.unwrap().unwrap();
    let Some(transparent) = sockets.transparent else {
        println!("skipped: this kernel cannot redirect connections");
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let listeners: Vec<_> =
        std::iter::once(transparent).chain(sockets.ipv6.map(|ipv6| ipv6.transparent)).collect();
    listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
    let answering = std::thread::spawn({
        let stop = stop.clone();
        let names = sockets.dns;
        move || {
            names.set_nonblocking(true).unwrap();
            while !stop.load(Ordering::Relaxed) {
                for (mut stream, _) in listeners.iter().filter_map(|listener| listener.accept().ok()) {
                    // Somebody who has gone already needs no word.
                    drop(stream.write_all(WORD.as_bytes()));
                }
                answer(&names);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    all_hold(&*sandbox, "network", &[("WORD", WORD.to_owned())]).await;
    all_hold(&*sandbox, "sockets", &[]).await;
    stop.store(true, Ordering::Relaxed);
    answering.join().unwrap();
    still_answers(&*sandbox).await;
}

fn answer(names: &UdpSocket) {
    let mut question = [0; 512];
    if let Ok((_, from)) = names.recv_from(&mut question) {
        drop(names.send_to(WORD.as_bytes(), from));
    }
}

#[tokio::test]
async fn without_a_network_there_are_no_sockets() {
    let world = World::new();
    let sandbox = world.sandbox_with(Network::None).await;
    assert!(sandbox.sockets().await.unwrap().is_none());
}
