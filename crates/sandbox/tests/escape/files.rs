//! What the host does with the files of a sandbox that fights back: reading, writing, listing, saving, removing. A canary
//! beside the driver's directory must be neither read nor changed nor removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use launcher::spec::files;
use sandbox::{Driver, LayerId, Life, Owner, Sandbox, Save, Spec, Stack};

use super::world::{World, all_hold, arm, attempt, exists, modest, still_answers, until, walk};

const CANARY: &str = "canary of the host";

/// The canary and the directory it is in.
struct Outside {
    dir: PathBuf,
}

impl Outside {
    fn new(world: &World) -> Self {
        let dir = world.outside();
        std::fs::write(dir.join("canary"), CANARY).unwrap();
        Self { dir }
    }

    fn fact(&self) -> (&'static str, String) {
        ("OUTSIDE", self.dir.display().to_string())
    }

    fn is_untouched(&self) {
        let names: Vec<_> =
            std::fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["canary"], "something was made or removed outside");
        assert_eq!(std::fs::read_to_string(self.dir.join("canary")).unwrap(), CANARY);
    }
}

fn is_not_the_canary(what: &str, data: &[u8]) {
    assert!(!data.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()), "{what} gave the canary");
}

#[tokio::test]
async fn links_lead_nowhere_outside() {
    let world = World::new();
    let outside = Outside::new(&world);
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "plant", &[outside.fact()]).await;
    let guest = sandbox.guest();
    let planted = ["file", "directory", "directory/canary", "up", "through-proc", "through-self", "new"];
    for name in planted {
        let path = format!("/workspace/planted/{name}");
        if let Ok((data, _)) = guest.read_file(&path, 0, 1 << 20).await {
            panic!("{name} could be read: {data:?}");
        }
        assert!(guest.list(&path).await.is_err() && guest.stat(&path).await.is_err(), "{name} is there");
    }
    // These are the guest's own; they say nothing about the host.
    for name in ["environment", "descriptor"] {
        if let Ok((data, _)) = guest.read_file(&format!("/workspace/planted/{name}"), 0, 1 << 20).await {
            assert!(data.is_empty(), "{name}: {data:?}");
        }
    }
    for name in planted {
        // Where it goes at all, it goes to a place of the same name inside.
        drop(
            guest.write_file(&format!("/workspace/planted/{name}"), Bytes::from_static(b"overwritten")).await,
        );
    }
    outside.is_untouched();
    still_answers(&*sandbox).await;
}

/// Starts what swaps directories and links until `/workspace/stop` is there.
async fn swapping(sandbox: &dyn Sandbox, outside: &Outside) -> guest::Process {
    let process = sandbox.guest().start("swap", &attempt("swap", &[outside.fact()])).await.unwrap();
    until("the swapping to begin", async || exists(sandbox, "/workspace/swapping").await).await;
    process
}

#[tokio::test]
async fn races_do_not_lead_the_guest_outside() {
    let world = World::new();
    let outside = Outside::new(&world);
    let sandbox = world.armed(modest()).await;
    let _swapping = swapping(&*sandbox, &outside).await;
    let guest = sandbox.guest();
    for round in 0..150 {
        for path in ["/workspace/race/here/canary", "/workspace/race/file"] {
            if let Ok((data, _)) = guest.read_file(path, 0, 1 << 20).await {
                is_not_the_canary(path, &data);
            }
            // It may fail, because a part of the path is a link to nowhere at this moment.
            drop(guest.stat(path).await);
            drop(guest.write_file(path, Bytes::from(format!("round {round}"))).await);
        }
        if let Ok(entries) = guest.list("/workspace/race/here").await {
            assert!(entries.iter().all(|entry| entry.size != CANARY.len() as u64), "{entries:?}");
        }
    }
    outside.is_untouched();
    still_answers(&*sandbox).await;
}

#[tokio::test]
async fn races_do_not_lead_a_live_save_outside() {
    let world = World::new();
    let outside = Outside::new(&world);
    let sandbox = world.armed(modest()).await;
    all_hold(&*sandbox, "plant", &[outside.fact()]).await;
    let _swapping = swapping(&*sandbox, &outside).await;
    let mut like: Option<LayerId> = None;
    for round in 0..6 {
        let layer: LayerId = format!("race-{round}").parse().unwrap();
        let saved = world.driver.save(sandbox.id(), &layer, Save::Live { like: like.as_ref() }).await;
        let saved = saved.unwrap();
        assert!(saved.inodes > 3, "{saved:?}");
        let root = world.driver.layer_root(&layer);
        contains_no_canary(&root);
        like = Some(layer);
    }
    outside.is_untouched();
    still_answers(&*sandbox).await;
    // And what was saved can be stood on.
    let spec =
        Spec { limits: modest(), ..Spec::new(Stack::host().with(like.unwrap()), Life::Tied, Owner::OneOff) };
    let next = world.driver.create(&spec).await.unwrap();
    still_answers(&*next).await;
    assert!(next.guest().read_file("/workspace/planted/file", 0, 100).await.is_err());
}

fn contains_no_canary(root: &Path) {
    let mut found = Vec::new();
    walk(root, &mut found);
    assert!(!found.is_empty(), "{} is empty", root.display());
    for path in found {
        if path.symlink_metadata().is_ok_and(|data| data.is_file() && data.len() < 1 << 20) {
            is_not_the_canary(&path.display().to_string(), &std::fs::read(&path).unwrap());
        }
    }
}

/// A removal while somebody swaps directories for links under it.
#[tokio::test]
async fn races_do_not_lead_a_removal_outside() {
    let world = World::new();
    let outside = Outside::new(&world);
    let sandbox = world.armed(modest()).await;
    let _swapping = swapping(&*sandbox, &outside).await;
    let race = world.sandbox_dir(&*sandbox).join(files::UPPER).join("workspace/race");
    assert!(race.is_dir());
    for _ in 0..100 {
        let race = race.clone();
        // It may give up, because names are put back as fast as it takes them away.
        drop(tokio::task::spawn_blocking(move || launcher::tree::remove(&race)).await.unwrap());
    }
    outside.is_untouched();
}

#[tokio::test]
async fn a_sandbox_that_fights_back_is_removed_and_nothing_else() {
    let world = World::new();
    let outside = Outside::new(&world);
    let spec = Spec { limits: modest(), ..Spec::new(Stack::host(), Life::Own, Owner::OneOff) };
    let sandbox = world.driver.create(&spec).await.unwrap();
    arm(&*sandbox).await;
    all_hold(&*sandbox, "plant", &[outside.fact()]).await;
    let _swapping = swapping(&*sandbox, &outside).await;
    world.driver.remove(spec.id).await.unwrap();
    outside.is_untouched();
}

/// Paths that are left out of a save are taken away by name, and a name can be a link.
#[tokio::test]
async fn what_a_stopped_save_leaves_out_is_not_outside() {
    let world = World::new();
    let outside = Outside::new(&world);
    let spec = Spec { limits: modest(), ..Spec::new(Stack::host(), Life::Own, Owner::OneOff) };
    let sandbox: Arc<dyn Sandbox> = world.driver.create(&spec).await.unwrap();
    arm(&*sandbox).await;
    all_hold(&*sandbox, "plant", &[outside.fact()]).await;
    let layer: LayerId = "left-out".parse().unwrap();
    let up = format!("workspace/{}outside/canary", "../".repeat(5));
    let without = [
        "home/dev",
        "workspace/planted/directory/canary",
        "workspace/planted/directory",
        "workspace/planted/up",
        &up,
    ];
    // A name that leads up may be refused; then the sandbox is still there, and is asked again without it.
    if world.driver.save(spec.id, &layer, Save::Stop { without: &without }).await.is_err() {
        world.driver.save(spec.id, &layer, Save::Stop { without: &without[..4] }).await.unwrap();
    }
    outside.is_untouched();
    let root = world.driver.layer_root(&layer);
    contains_no_canary(&root);
    assert!(root.join("workspace/planted/dir/below/file").is_file());
    assert!(!root.join("home/dev/attempt").exists(), "what was to be left out is there");
}
