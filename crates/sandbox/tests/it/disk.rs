//! What a sandbox writes is limited, and whoever goes beyond is ended without the sandbox.

use guest::ProcessSpec;
use protocol::event::LimitKind;
use sandbox::{Driver, End, Life, Limits, Usage};

use crate::{Host, sh};

/// Runs what never ends by itself until a limit ends it; tells what was counted.
async fn bomb(limits: Limits, script: &str) -> Usage {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, limits).await;
    let (text, exit) = sh(&*sandbox, script).await;
    assert_eq!(exit.signal, Some(9), "{text} {exit:?}");
    let usage = sandbox.usage().await.unwrap();
    let (text, exit) = sh(&*sandbox, "rm -rf /workspace/* && echo room").await;
    assert_eq!((text.as_str(), exit.code), ("room", 0), "room can be made");
    let after = sandbox.usage().await.unwrap();
    assert!(after.inodes.unwrap() < 50 && after.disk_bytes.unwrap() < 1 << 20, "{after:?}");
    usage
}

#[tokio::test]
async fn a_disk_bomb_is_ended_and_counted() {
    let limits = Limits { disk_bytes: 32 << 20, ..Limits::default() };
    let script = "cd /workspace; i=0; while :; do i=$((i+1)); head -c 4M /dev/zero > f$i; sleep 0.05; done";
    let usage = bomb(limits, script).await;
    assert!(usage.disk_hits >= 1 && usage.inode_hits == 0, "{usage:?}");
}

/// Goes on and on with whatever takes a little more, until the sandbox is ended. Tells how much there was in the end.
async fn insatiable(limits: Limits, script: &str) -> (Option<LimitKind>, Usage) {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Own, limits).await;
    let mut last = Usage::default();
    let mut end = None;
    for round in 0..2000 {
        let argv = ["/bin/sh", "-c", script, "sh", &round.to_string()].map(str::to_owned).into();
        let started =
            sandbox.guest().start(&round.to_string(), &ProcessSpec { argv, ..Default::default() }).await;
        if let Ok(mut process) = started {
            while let Ok(Some(_)) = process.next().await {}
        }
        end = sandbox.ended().await;
        if end.is_some() {
            break;
        }
        last = sandbox.usage().await.unwrap_or(last);
    }
    host.driver.remove(sandbox.id()).await.unwrap();
    (end.and_then(End::limit), last)
}

#[tokio::test]
async fn whoever_writes_on_beyond_the_limit_is_ended_with_the_sandbox() {
    let limits = Limits { disk_bytes: 32 << 20, ..Limits::default() };
    let script = "mkdir d$1; cd d$1; for i in $(seq 1000); do head -c 1M /dev/zero > $i; done";
    let (limit, usage) = insatiable(limits, script).await;
    assert_eq!(limit, Some(LimitKind::DiskBytes), "{usage:?}");
    assert!(usage.disk_hits >= 1, "it was told before: {usage:?}");
}

#[tokio::test]
async fn whoever_makes_files_beyond_the_limit_is_ended_with_the_sandbox() {
    let limits = Limits { inodes: 1000, ..Limits::default() };
    let script = "mkdir d$1; cd d$1; seq 100000 | xargs touch";
    let (limit, usage) = insatiable(limits, script).await;
    assert_eq!(limit, Some(LimitKind::DiskInodes), "{usage:?}");
    assert!(usage.inode_hits >= 1, "it was told before: {usage:?}");
}

#[tokio::test]
async fn files_without_a_name_count_as_well() {
    let limits = Limits { disk_bytes: 32 << 20, ..Limits::default() };
    let script = "cd /workspace; for n in 3 4 5 6 7 8 9; do eval \"exec $n>f\"; rm f; \
                  eval \"head -c 8M /dev/zero >&$n\"; done; sleep 60";
    let usage = bomb(limits, script).await;
    assert!(usage.disk_hits >= 1, "{usage:?}");
}

#[tokio::test]
async fn an_inode_bomb_is_ended_and_counted() {
    let limits = Limits { inodes: 2000, ..Limits::default() };
    let script = "cd /workspace; i=0; while :; do mkdir -p d$i; (cd d$i; j=0; while [ $j -lt 200 ]; do : > $j; j=$((j+1)); done); \
                  i=$((i+1)); sleep 0.02; done";
    let usage = bomb(limits, script).await;
    assert!(usage.inode_hits >= 1 && usage.disk_hits == 0, "{usage:?}");
}

#[tokio::test]
async fn no_file_grows_beyond_the_limit() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits { disk_bytes: 8 << 20, ..Limits::default() }).await;
    let (_, exit) = sh(&*sandbox, "head -c 20M /dev/zero > big").await;
    assert_ne!(exit.code, 0);
    let (size, _) = sh(&*sandbox, "stat -c %s big").await;
    assert_eq!(size, (8 << 20).to_string());
}

#[tokio::test]
async fn what_is_used_is_told() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (_, exit) = sh(&*sandbox, "head -c 3M /dev/zero > three; mkdir -p a/b/c").await;
    assert_eq!(exit.code, 0);
    let usage = sandbox.usage().await.unwrap();
    assert!((3 << 20..4 << 20).contains(&usage.disk_bytes.unwrap()), "{usage:?}");
    assert!((4..20).contains(&usage.inodes.unwrap()), "{usage:?}");
    assert_eq!((usage.disk_hits, usage.inode_hits, usage.memory_hits), (0, 0, 0));
    if host.driver.cgroups().missing().is_empty() {
        assert!(usage.memory_bytes.unwrap() > 0 && usage.processes.unwrap() > 0, "{usage:?}");
    }
}
