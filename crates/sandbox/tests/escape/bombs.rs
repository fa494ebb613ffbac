//! Excess: the sandbox that does it may suffer; it or at least its driver must answer afterwards, and the host must not
//! notice.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use bytes::Bytes;
use guest::ProcessSpec;
use sandbox::{Driver, LayerId, Limits, Sandbox, Save};

use super::world::{World, all_hold, arm, attempt, judge, modest, run, sh, still_answers, until};

#[tokio::test]
async fn processes_without_end() {
    let world = World::new();
    let limits = Limits { processes: 64, ..modest() };
    let sandbox = world.armed(limits).await;
    all_hold(&*sandbox, "fork_bomb", &[("LIMIT", "64".to_owned())]).await;
    still_answers(&*sandbox).await;
    // The classic, in a tree that is ended as a whole. Its depth ends it if nothing else does.
    let bomb = "f() { [ $1 -gt 9 ] || { f $(($1+1)) & f $(($1+1)) & wait; }; }; f 0; sleep 60";
    let spec =
        ProcessSpec { argv: ["/bin/sh", "-c", bomb].map(str::to_owned).into(), ..ProcessSpec::default() };
    sandbox.guest().start("bomb", &spec).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    sandbox.guest().ping().await.unwrap();
    sandbox.guest().signal("bomb", 9).await.unwrap();
    until("room for a process", async || {
        let spec = ProcessSpec { argv: vec!["/bin/true".to_owned()], ..ProcessSpec::default() };
        sandbox.guest().start(&super::world::fresh_id(), &spec).await.is_ok()
    })
    .await;
    still_answers(&*sandbox).await;
    let next = world.sandbox(modest()).await;
    still_answers(&*next).await;
}

#[tokio::test]
async fn memory_without_end() {
    let world = World::new();
    if !world.driver.cgroups().limits_memory() {
        // Each process has a limit of its own; what all of them share has none, as the threat model says.
        println!("skipped: no control group limits memory for this user");
        return;
    }
    let limits = Limits { memory_bytes: 256 << 20, ..modest() };
    let sandbox = world.armed(limits).await;
    all_hold(&*sandbox, "memory_bomb", &[("BYTES", (512_u64 << 20).to_string())]).await;
    still_answers(&*sandbox).await;
    // A file in memory is nobody's, so anyone inside may be ended for it, whoever counts the cases too.
    run_to_any_end(&*sandbox, "memory_file_bomb", &[("BYTES", (512_u64 << 20).to_string())]).await;
    still_answers(&*sandbox).await;
    all_hold(&*sandbox, "shm_bomb", &[("BYTES", (128_u64 << 20).to_string())]).await;
    still_answers(&*sandbox).await;
    assert!(sandbox.usage().await.unwrap().memory_hits > 0, "nobody was told");
}

#[tokio::test]
async fn memory_of_one_process_without_end() {
    let world = World::new();
    let limits = Limits { memory_bytes: 256 << 20, ..modest() };
    let sandbox = world.sandbox(limits).await;
    let hog = "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let (text, exit) = sh(&*sandbox, hog).await;
    assert!(exit.code != 0 && !text.contains("400000000"), "all of it was given: {text}");
    still_answers(&*sandbox).await;
}

/// Bytes of the file system that holds the driver's directory, used by whomever.
fn used(dir: &std::path::Path) -> u64 {
    let data = rustix::fs::statvfs(dir).unwrap();
    (data.f_blocks - data.f_bfree) * data.f_frsize
}

/// A disk bomb of some kind: the monitor notices it by itself and ends it, and the sandbox goes on.
async fn disk_bomb(group: &str) {
    let world = World::new();
    let limits = Limits { disk_bytes: 96 << 20, ..modest() };
    let sandbox = world.armed(limits).await;
    let before = used(&world.driver_dir());
    run_to_its_end(&*sandbox, group, &[("BYTES", (2_u64 << 30).to_string())]).await;
    let usage = sandbox.usage().await.unwrap();
    assert!(
        usage.disk_hits > 0,
        "{} MiB more are used, and nobody was told: {usage:?}",
        used(&world.driver_dir()).saturating_sub(before) >> 20
    );
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn bytes_on_disk_without_end() {
    disk_bomb("disk_bomb").await;
}

/// What is free on the file system only grows while this bomb writes, because somebody else makes more room than it takes.
#[tokio::test]
async fn bytes_on_disk_that_somebody_else_makes_room_for() {
    const MOST: u64 = 3 << 29;
    const PIECE: u64 = 16 << 20;
    let world = World::new();
    // Taken before the sandbox's monitor looks for the first time.
    let room = std::fs::File::create(world.outside().join("room")).unwrap();
    rustix::fs::fallocate(&room, rustix::fs::FallocateFlags::empty(), 0, MOST).unwrap();
    let sandbox = world.armed(Limits { disk_bytes: 96 << 20, ..modest() }).await;
    let making = tokio::spawn(async move {
        let mut left = MOST;
        while left > 0 {
            left -= PIECE;
            room.set_len(left).unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    run_to_its_end(&*sandbox, "disk_bomb", &[("BYTES", (2_u64 << 30).to_string())]).await;
    making.abort();
    assert!(sandbox.usage().await.unwrap().disk_hits > 0);
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn bytes_in_a_directory_that_nobody_may_enter() {
    disk_bomb("closed_disk_bomb").await;
}

#[tokio::test]
async fn bytes_in_a_file_without_a_name() {
    disk_bomb("nameless_disk_bomb").await;
}

#[tokio::test]
async fn bytes_in_a_directory_that_is_never_where_it_was() {
    disk_bomb("moving_disk_bomb").await;
}

#[tokio::test]
async fn bytes_in_a_file_that_only_a_thread_has() {
    disk_bomb("thread_disk_bomb").await;
}

/// Bytes in files that have neither a name nor anybody who shows them. The monitor does not count these; a quota of the file
/// system would. What holds is that they go with the process that hid them, and that the sandbox works as before.
async fn hidden_disk_bomb(group: &str) {
    let world = World::new();
    let limit = 96 << 20;
    let sandbox = world.armed(Limits { disk_bytes: limit, ..modest() }).await;
    run(&*sandbox, &attempt(group, &[("BYTES", (256_u64 << 20).to_string())])).await;
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.disk_bytes.is_some_and(|bytes| bytes < limit), "{usage:?}");
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn bytes_in_files_that_are_only_mapped() {
    if rustix::process::geteuid().is_root() {
        disk_bomb("mapped_disk_bomb").await;
    } else {
        // The kernel tells nobody else about the size of such a file.
        hidden_disk_bomb("mapped_disk_bomb").await;
    }
}

#[tokio::test]
async fn bytes_in_files_on_their_way_through_a_socket_go_with_their_process() {
    hidden_disk_bomb("posted_disk_bomb").await;
}

#[tokio::test]
async fn files_without_end() {
    let world = World::new();
    let limits = Limits { inodes: 2000, ..modest() };
    let sandbox = world.armed(limits).await;
    run_to_its_end(&*sandbox, "inode_bomb", &[("FILES", "80000".to_owned())]).await;
    still_answers(&*sandbox).await;
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.inode_hits > 0, "nobody was told: {usage:?}");
}

/// Runs a bomb that only the limit ends, and nobody asks meanwhile how much is used: the monitor has to find out alone, also
/// while other tests make room on the same disk.
async fn run_to_its_end(sandbox: &dyn Sandbox, group: &str, facts: &[(&str, String)]) {
    let (text, exit) = run(sandbox, &attempt(group, facts)).await;
    assert_eq!(exit.signal, Some(libc::SIGKILL), "{group}: {exit:?} {text}");
}

/// Runs a bomb whose limit may end everything inside, the one that counts cases too.
async fn run_to_any_end(sandbox: &dyn Sandbox, group: &str, facts: &[(&str, String)]) {
    let (text, exit) = run(sandbox, &attempt(group, facts)).await;
    if exit.signal != Some(libc::SIGKILL) {
        judge(group, &text, &exit);
    }
}

/// The guest's memory as the host sees it.
async fn guest_memory(world: &World, sandbox: &dyn Sandbox) -> u64 {
    let list = world.driver.list().await.unwrap();
    let pid = list.iter().find(|info| info.id == sandbox.id()).and_then(|info| info.pid).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn output_without_end() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    for flood in 0..8 {
        let spec = ProcessSpec {
            argv: ["/bin/sh", "-c", "head -c 100000000 /dev/zero; yes | head -c 50000000 1>&2"]
                .map(str::to_owned)
                .into(),
            ..ProcessSpec::default()
        };
        // The first is followed by somebody who never reads, the others by nobody.
        let followed = sandbox.guest().start(&format!("flood{flood}"), &spec).await.unwrap();
        if flood == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            still_answers(&*sandbox).await;
        }
        drop(followed);
    }
    until("the floods to end", async || {
        sandbox.guest().processes().await.unwrap().iter().all(|state| state.exit.is_some())
    })
    .await;
    let memory = guest_memory(&world, &*sandbox).await;
    assert!(memory < 96 << 20, "the guest holds {memory} bytes");
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn input_that_nobody_reads() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    let spec = ProcessSpec {
        argv: ["sleep", "60"].map(str::to_owned).into(),
        stdin: true,
        ..ProcessSpec::default()
    };
    sandbox.guest().start("deaf", &spec).await.unwrap();
    let guest = sandbox.guest().clone();
    let flood = tokio::spawn(async move { guest.write_stdin("deaf", Bytes::from(vec![0; 64 << 20])).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    still_answers(&*sandbox).await;
    let memory = guest_memory(&world, &*sandbox).await;
    assert!(memory < 64 << 20, "the guest holds {memory} bytes");
    sandbox.guest().signal("deaf", 9).await.unwrap();
    assert!(flood.await.unwrap().is_err(), "it was all taken");
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn more_processes_than_the_guest_remembers() {
    let world = World::new();
    let sandbox = world.sandbox(modest()).await;
    let spec = ProcessSpec { argv: vec!["/bin/true".to_owned()], ..ProcessSpec::default() };
    for number in 0..600 {
        let mut process = sandbox.guest().start(&format!("n{number}"), &spec).await.unwrap();
        super::world::finish(&mut process).await;
    }
    let known = sandbox.guest().processes().await.unwrap().len();
    assert!(known < 600, "it remembers all of them");
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn trees_that_nobody_would_make_by_hand() {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "odd_trees", &[("ENTRIES", "12000".to_owned())]).await;
    let guest = sandbox.guest();
    let names: Vec<String> =
        guest.list("/workspace/odd").await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), super::attack::odd_names().len(), "{names:?}");
    // A list that is too long is cut or refused, and never a guest that has no time for anybody.
    if let Ok(entries) = guest.list("/workspace/entries").await {
        assert!(entries.len() <= 12_000);
    }
    for path in [
        "/workspace/pipe",
        "/workspace/socket",
        "/workspace/ring",
        "/dev/zero",
        "/workspace/closed/inner/file",
    ] {
        assert!(guest.read_file(path, 0, 10).await.is_err(), "{path} can be read");
        if !path.starts_with("/dev") {
            assert!(guest.write_file(path, Bytes::from_static(b"x")).await.is_err(), "{path} can be written");
        }
    }
    let (data, size) = guest.read_file("/workspace/sparse", 0, 4096).await.unwrap();
    assert!(data.iter().all(|byte| *byte == 0) && size >= data.len() as u64);
    still_answers(&*sandbox).await;
    // A copy of it is as odd, and no larger on disk.
    let layer: LayerId = "odd".parse().unwrap();
    let saved = world.driver.save(sandbox.id(), &layer, Save::Live { like: None }).await.unwrap();
    assert!(saved.bytes < 512 << 20, "{saved:?}");
    let root = world.driver.layer_root(&layer);
    for name in super::attack::odd_names() {
        let path = root.join("workspace/odd").join(std::ffi::OsStr::from_bytes(&name));
        assert!(path.symlink_metadata().is_ok_and(|data| data.is_file()), "{path:?} is missing");
    }
    still_answers(&*sandbox).await;
}

async fn deep_tree(depth: u64) {
    let world = World::new();
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "deep_tree", &[("DEPTH", depth.to_string())]).await;
    let layer: LayerId = "deep".parse().unwrap();
    let saved = world.driver.save(sandbox.id(), &layer, Save::Live { like: None }).await.unwrap();
    assert!(saved.inodes > depth, "{saved:?}");
    world.driver.remove_layer(&layer).await.unwrap();
    assert!(!world.driver.layer_root(&layer).exists());
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn a_deep_tree() {
    deep_tree(1000).await;
}

#[tokio::test]
#[ignore = "takes a while: run by make test-slow"]
async fn a_very_deep_tree() {
    deep_tree(10_000).await;
}

/// A small file can unfold to a large one; written through the guest it is what it is, and the disk's limit holds.
#[tokio::test]
async fn a_file_larger_than_the_disk_through_the_guest() {
    let world = World::new();
    let limits = Limits { disk_bytes: 64 << 20, ..modest() };
    let sandbox = world.sandbox(limits).await;
    let piece = Bytes::from(vec![1; 16 << 20]);
    for number in 0..24 {
        // Refused at some point, or all that it can hurt is ended; both are fine as long as it is bounded and told.
        drop(sandbox.guest().write_file(&format!("/workspace/piece{number}"), piece.clone()).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until("the limit to be noticed", async || sandbox.usage().await.is_ok_and(|usage| usage.disk_hits > 0))
        .await;
    sandbox.guest().ping().await.unwrap();
    // Room can be made again, and work goes on.
    for number in 0..24 {
        sh(&*sandbox, &format!("rm -f /workspace/piece{number}")).await;
    }
    still_answers(&*sandbox).await;
    arm(&*sandbox).await;
}
