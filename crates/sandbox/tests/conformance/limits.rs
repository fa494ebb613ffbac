//! What a sandbox may use. Coming to a limit is told, and is never the end of the sandbox.

use std::time::Duration;

use guest::ProcessSpec;
use protocol::event::LimitKind;
use sandbox::{End, Life, Limits, Owner, Sandbox, Spec, Stack, Usage};

use super::{Ability, Harness, World, run, sh};

/// Waits until a count is there: some are looked at only now and then.
async fn counted(sandbox: &dyn Sandbox, what: impl Fn(&Usage) -> u64) -> u64 {
    for _ in 0..1500 {
        let count = what(&sandbox.usage().await.unwrap());
        if count > 0 {
            return count;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it was never counted: {:?}", sandbox.usage().await)
}

pub async fn memory<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { memory_bytes: 128 << 20, ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    let (text, exit) = run(&*sandbox, "head -c 1G /dev/zero | tail | wc -c").await;
    assert_ne!((text.as_str(), exit.code), ("1073741824", 0), "a gigabyte was given");
    assert_eq!(sh(&*sandbox, "echo still here").await, "still here");
    if !world.skips(Ability::Memory) {
        counted(&*sandbox, |usage| usage.memory_hits).await;
        let used = sandbox.usage().await.unwrap().memory_bytes.unwrap();
        assert!(used > 0 && used <= 128 << 20, "{used}");
    }
    world.close().await;
}

pub async fn processes<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { processes: 64, ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    if !world.skips(Ability::Processes) {
        run(&*sandbox, "for i in $(seq 200); do sleep 2 & done; wait").await;
        counted(&*sandbox, |usage| usage.process_hits).await;
        assert!(sandbox.usage().await.unwrap().processes.unwrap() <= 64);
        super::until("the bomb to be over", || true).await;
    }
    let mut text = String::new();
    for _ in 0..500 {
        text = run(&*sandbox, "echo still here").await.0;
        if text == "still here" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(text, "still here");
    world.close().await;
}

pub async fn open_files<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { open_files: 77, ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    assert_eq!(sh(&*sandbox, "ulimit -n; ulimit -Hn").await, "77\n77");
    assert_eq!(sandbox.usage().await.unwrap().open_file_hits, 0);
    if run(&*sandbox, "command -v python3").await.1.code == 0 {
        // A directory can be made without opening anything.
        let leak = "import os, time\ntry:\n while True: os.dup(1)\nexcept OSError:\n os.mkdir('/tmp/all'); time.sleep(600)";
        let leak = format!("python3 -c \"{leak}\" > /dev/null & until [ -d /tmp/all ]; do sleep 0.05; done");
        sh(&*sandbox, &leak).await;
        assert_eq!(counted(&*sandbox, |usage| usage.open_file_hits).await, 1);
        assert_eq!(sandbox.usage().await.unwrap().open_file_hits, 1, "it is told once");
    } else {
        eprintln!("skipped: there is no python3 on this host");
    }
    world.close().await;
}

pub async fn shared_memory<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { memory_bytes: 128 << 20, ..Limits::default() };
    let shared = limits.shared_bytes();
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    sh(&*sandbox, &format!("head -c {} /dev/zero > /dev/shm/most", shared / 2)).await;
    assert_eq!(sandbox.usage().await.unwrap().shared_memory_hits, 0);
    for hits in 1..3 {
        let (text, exit) = run(&*sandbox, &format!("head -c {shared} /dev/zero > /dev/shm/more")).await;
        assert!(exit.code != 0 && text.contains("No space left"), "{text}");
        let usage = sandbox.usage().await.unwrap();
        assert_eq!((usage.shared_memory_hits, usage.disk_hits), (hits, 0), "{usage:?}");
        assert_eq!(sandbox.usage().await.unwrap().shared_memory_hits, hits, "it is told once");
        sh(&*sandbox, "rm /dev/shm/more").await;
        assert_eq!(sandbox.usage().await.unwrap().shared_memory_hits, hits);
    }
    world.close().await;
}

pub async fn disk_bytes<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { disk_bytes: 64 << 20, ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    run(&*sandbox, "for i in $(seq 100000); do head -c 1M /dev/zero > file-$i || exit 1; done").await;
    counted(&*sandbox, |usage| usage.disk_hits).await;
    sh(&*sandbox, "rm -f file-*; echo room again > x; cat x").await;
    world.close().await;
}

/// Over its limit a sandbox does not get another helping with each command, and can still make room.
pub async fn disk_bytes_again_and_again<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { disk_bytes: 64 << 20, ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    run(&*sandbox, "head -c 40M /dev/zero > one; head -c 30M /dev/zero > two").await;
    counted(&*sandbox, |usage| usage.disk_hits).await;
    let before = sandbox.usage().await.unwrap().disk_bytes.unwrap();
    for round in 0..6 {
        let (text, exit) = run(&*sandbox, &format!("cat /dev/zero > more-{round}")).await;
        assert_ne!(exit.code, 0, "{text}");
        // Small files are what tools need to make room.
        assert_eq!(sh(&*sandbox, "echo note > note; cat note; rm note").await, "note");
    }
    let after = sandbox.usage().await.unwrap().disk_bytes.unwrap();
    assert!(after <= before + (16 << 20), "{before} and then {after}");
    // In one command, which began when nothing could be written.
    let again = "rm one two more-*; for i in $(seq 200); do head -c 8M /dev/zero > three 2> /dev/null && break; \
                 sleep 0.05; done; stat -c %s three";
    let (size, exit) = run(&*sandbox, again).await;
    assert!(exit.code == 0 && size.ends_with(&(8 << 20).to_string()), "there is room again: {size}");
    sandbox.usage().await.unwrap();
    sh(&*sandbox, "head -c 20M /dev/zero > four").await;
    world.close().await;
}

pub async fn inodes<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { inodes: 2000, ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    let bomb = "mkdir many; cd many; for i in $(seq 1000000); do : > file-$i || exit 1; done";
    run(&*sandbox, bomb).await;
    counted(&*sandbox, |usage| usage.inode_hits).await;
    assert!(sandbox.usage().await.unwrap().inodes.is_some());
    sh(&*sandbox, "rm -rf many; echo room again > x; cat x").await;
    world.close().await;
}

pub async fn wall_clock<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { wall_clock: Some(Duration::from_millis(200)), ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    let argv = ["sleep", "1000"].map(str::to_owned).into();
    let started = sandbox.guest().start("long", &ProcessSpec { argv, ..Default::default() }).await;
    if let Ok(mut process) = started {
        assert!(matches!(process.next().await, Err(guest::Error::Unavailable(_))));
    }
    assert_eq!(ended(&*sandbox).await, End::Limit(LimitKind::WallClock));
    assert_eq!(world.driver.ended(sandbox.id()).await, Some(End::Limit(LimitKind::WallClock)));
    world.close().await;
}

/// Waits for its end.
async fn ended(sandbox: &dyn Sandbox) -> End {
    for _ in 0..3000 {
        if let Some(end) = sandbox.ended().await {
            return end;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never ends")
}

/// Every look begins anew what it must not: a clock that did would never be over.
pub async fn a_restarted_server_does_not_give_more_time<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { wall_clock: Some(Duration::from_secs(2)), ..Limits::default() };
    let id = world.create_with(&Stack::host(), Life::Own, limits).await.id();
    let mut adopted = 0;
    for _ in 0..300 {
        let driver = world.harness.open();
        match driver.adopt(id).await {
            Ok(sandbox) => {
                adopted += 1;
                sandbox.usage().await.ok();
            }
            Err(_) => break,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(adopted > 0, "it was never found again");
    let driver = world.harness.open();
    let mut end = None;
    for _ in 0..1000 {
        end = driver.ended(id).await;
        if end.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(end, Some(End::Limit(LimitKind::WallClock)), "found again {adopted} times");
    world.close().await;
}

pub async fn the_clock_begins_anew_with_an_owner<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { wall_clock: Some(Duration::from_secs(2)), ..Limits::default() };
    let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        world.driver.give(sandbox.id(), &Owner::OneOff).await.unwrap();
    }
    assert_eq!(sh(&*sandbox, "echo beyond the first limit").await, "beyond the first limit");
    assert_eq!(ended(&*sandbox).await, End::Limit(LimitKind::WallClock), "the new clock has an end too");
    world.close().await;
}

/// Whoever comes first gets all of the time, however long it takes until somebody comes.
pub async fn the_clock_of_one_that_waits_begins_with_its_claim<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { wall_clock: Some(Duration::from_millis(500)), ..Limits::default() };
    let owner = Owner::Pool { environment: "app".to_owned(), image: "key".to_owned() };
    let spec = Spec { limits, ..Spec::new(Stack::host(), Life::Own, owner) };
    let sandbox = world.driver.create(&spec).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1300)).await;
    assert_eq!(sandbox.ended().await, None, "nobody has claimed it yet");
    world.driver.give(sandbox.id(), &Owner::OneOff).await.unwrap();
    assert_eq!(ended(&*sandbox).await, End::Limit(LimitKind::WallClock), "from then on there is an end");
    world.close().await;
}
