//! The collection of garbage, with the records that the other parts write.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking

mod fake;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fake::Fake;
use protocol::{GarbageEntry, GarbageReport, ImageState, SessionId, Timestamp, TurnId};
use sandbox::gc::{Policy, World, collect, make_room};
use sandbox::image::{Images, Reason, Wanted};
use sandbox::native::Native;
use sandbox::snapshot::{How, Snapshot, Snapshots};
use sandbox::{Driver, LayerId, Life, Owner, Sandbox, Spec, Stack};

const HOUR: Duration = Duration::from_secs(3600);

/// Everything that is on disk beside the driver's own.
struct Here {
    driver: Arc<dyn Driver>,
    images: Images,
    snapshots: Snapshots,
    sessions: Vec<SessionId>,
    environments: Vec<String>,
    _dir: tempfile::TempDir,
}

impl Here {
    /// With these environments, each with an image of one layer.
    fn new(driver: Arc<dyn Driver>, images: &[(&str, &LayerId)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (environment, layer) in images {
            write_image(&dir.path().join("images"), environment, layer);
        }
        Self {
            images: Images::open(&dir.path().join("images"), Arc::clone(&driver)).unwrap(),
            snapshots: Snapshots::open(&dir.path().join("snapshots"), Arc::clone(&driver)).unwrap(),
            driver,
            sessions: Vec::new(),
            environments: images.iter().map(|(name, _)| (*name).to_owned()).collect(),
            _dir: dir,
        }
    }

    fn world(&self) -> World<'_> {
        World {
            driver: &*self.driver,
            images: &self.images,
            snapshots: &self.snapshots,
            sessions: &self.sessions,
            environments: &self.environments,
        }
    }

    async fn collect(&self, budget_bytes: u64, dry_run: bool) -> GarbageReport {
        collect(&self.world(), &Policy { budget_bytes, ..Policy::default() }, dry_run).await.unwrap()
    }

    async fn sandbox(&self, stack: Stack, owner: Owner) -> Arc<dyn Sandbox> {
        self.driver.create(&Spec::new(stack, Life::Tied, owner)).await.unwrap()
    }

    async fn snapshot(&self, sandbox: &dyn Sandbox, session: SessionId) -> Snapshot {
        self.snapshots.take(sandbox, session, TurnId::new(), How::Live).await.unwrap()
    }
}

fn write_image(dir: &Path, environment: &str, layer: &LayerId) {
    let record = serde_json::json!({
        "environment": environment, "key": format!("key of {environment}"),
        "stack": Stack::host().with(layer.clone()),
        "url": "https://git.example.com/app", "branch": "main", "commit": "c",
        "built_at": Timestamp::now() - HOUR, "duration_ms": 1, "bytes": 100,
        "recipe": "r", "parts": [layer],
    });
    std::fs::create_dir_all(dir.join(environment)).unwrap();
    std::fs::write(dir.join(environment).join("image.json"), record.to_string()).unwrap();
}

fn entry<'a>(report: &'a GarbageReport, id: &str) -> &'a GarbageEntry {
    report.entries.iter().find(|entry| entry.id == id).unwrap()
}

fn removed(report: &GarbageReport) -> Vec<&str> {
    report.entries.iter().filter(|entry| entry.remove).map(|entry| entry.id.as_str()).collect()
}

#[tokio::test]
async fn says_first_and_then_does_the_same() {
    let fake = Fake::new();
    let layer = fake.add_layer("repo-app", 100, 100 * HOUR);
    let other = fake.add_layer("repo-gone", 100, 100 * HOUR);
    fake.add_layer("setup-old", 100, 100 * HOUR);
    fake.add_layer("setup-young", 100, HOUR);
    let mut here = Here::new(Arc::clone(&fake) as Arc<dyn Driver>, &[("app", &layer), ("gone", &other)]);
    here.environments.retain(|name| name != "gone");
    let (alive, ended) = (SessionId::new(), SessionId::from_u128(7));
    here.sessions.push(alive);
    let sandbox = here.sandbox(Stack::host().with(layer.clone()), Owner::OneOff).await;
    let kept = here.snapshot(&*sandbox, alive).await.id.to_string();
    let lost = here.snapshot(&*sandbox, ended).await.id.to_string();
    here.driver.remove(sandbox.id()).await.unwrap();

    let said = here.collect(1 << 30, true).await;
    assert!(said.dry_run);
    assert_eq!((said.used_bytes, said.freed_bytes), (600, 300));
    let gone = ["gone", &lost, "repo-gone", "setup-old", &lost];
    assert_eq!(removed(&said), gone);
    assert_eq!(fake.layer_names().len(), 6, "nothing was done");
    assert!(entry(&said, "setup-young").reason.contains("made 1 hour ago"));
    assert!(
        entry(&said, "repo-app").reason.contains("image of app")
            || entry(&said, "repo-app").reason.contains("snapshot")
    );
    assert!(entry(&said, "gone").reason.contains("no longer exists"));

    let done = here.collect(1 << 30, false).await;
    assert_eq!(removed(&done), gone);
    assert_eq!(done.freed_bytes, 300);
    assert_eq!(fake.layer_names(), ["repo-app", "setup-young", &kept]);
    assert!(here.images.current("gone").is_none() && here.images.current("app").is_some());
    assert_eq!(here.snapshots.all().len(), 1);
    assert!(removed(&here.collect(1 << 30, false).await).is_empty(), "there is nothing left to do");
}

#[tokio::test]
async fn keeps_the_budget_and_never_takes_what_is_in_use() {
    let fake = Fake::new();
    let layer = fake.add_layer("repo-app", 100, 100 * HOUR);
    let mut here = Here::new(Arc::clone(&fake) as Arc<dyn Driver>, &[("app", &layer)]);
    let (at_work, idle) = (SessionId::new(), SessionId::new());
    here.sessions = vec![at_work, idle];
    let sandbox = here.sandbox(Stack::host().with(layer.clone()), Owner::Session(at_work)).await;
    let mut ids = Vec::new();
    for session in [at_work, idle, idle, at_work] {
        ids.push(here.snapshot(&*sandbox, session).await.id.to_string());
    }
    let report = here.collect(350, false).await;
    assert_eq!(
        removed(&report),
        [&ids[0], &ids[1], &ids[0], &ids[1]],
        "snapshots that are not the last of their session"
    );
    assert_eq!(report.freed_bytes, 200);
    let policy = |budget_bytes| Policy { budget_bytes, ..Policy::default() };
    assert_eq!(make_room(&here.world(), &policy(350), 50).await.unwrap(), 300);

    let report = here.collect(10, false).await;
    assert_eq!(removed(&report), [&ids[2], &ids[2]]);
    assert!(entry(&report, &ids[2]).reason.contains("what no commit holds goes with it"));
    for (budget, wanted, said) in [(10, 0, "used up"), (300, 101, "more are needed")] {
        let error = make_room(&here.world(), &policy(budget), wanted).await.unwrap_err().to_string();
        for word in [said, "disk_budget_gb", "slipway gc"] {
            assert!(error.contains(word), "{error}");
        }
    }
    assert_eq!(fake.layer_names(), ["repo-app", ids[3].as_str()]);

    // Once nobody is at work, the image and the last snapshot can go too.
    here.driver.remove(sandbox.id()).await.unwrap();
    here.collect(10, false).await;
    assert!(fake.layer_names().is_empty());
    assert!(here.images.current("app").is_none());
    // Why there is none is told, also by the next server, and does not keep it from being built again.
    let reopened = Images::open(&here._dir.path().join("images"), Arc::clone(&here.driver)).unwrap();
    for images in [&here.images, &reopened] {
        let status = images.status("app");
        assert_eq!((status.state, status.current), (ImageState::None, None));
        let why = status.error.unwrap();
        assert!(why.contains("disk budget") && why.contains("disk_budget_gb"), "{why}");
        let wanted = Wanted { commit: "c", recipe: "r", max_age: HOUR };
        assert_eq!(images.needs_build("app", &wanted), Some(Reason::NeverBuilt));
        assert_eq!(images.failed_at("app", "c"), None, "no build failed");
    }
}

/// One session, one snapshot after the other, within seconds.
#[tokio::test]
async fn there_is_room_for_the_next_snapshot_however_young_the_others_are() {
    let fake = Fake::new();
    let mut here = Here::new(Arc::clone(&fake) as Arc<dyn Driver>, &[]);
    fake.inside().layer_age = Duration::ZERO;
    let session = SessionId::new();
    here.sessions.push(session);
    let sandbox = here.sandbox(Stack::host(), Owner::Session(session)).await;
    let policy = Policy { budget_bytes: 250, ..Policy::default() };
    let mut last = None;
    for _ in 0..6 {
        make_room(&here.world(), &policy, 100).await.unwrap();
        last = Some(here.snapshot(&*sandbox, session).await.id);
        assert!(here.driver.disk_used().await.unwrap() <= 250);
    }
    let kept: Vec<_> = here.snapshots.all().into_iter().map(|snapshot| snapshot.id).collect();
    assert!(kept.len() == 2 && kept.last().copied() == last, "{kept:?}");
    // The last of a session at work stays, and then there is no room for three of them.
    assert!(make_room(&here.world(), &policy, 200).await.is_err());
    assert_eq!(here.snapshots.all().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_removed_stays_and_says_why() {
    let fake = Fake::new();
    let stubborn = fake.add_layer("setup-1", 100, 100 * HOUR);
    fake.add_layer("setup-2", 100, 100 * HOUR);
    fake.inside().stubborn.push(stubborn);
    let here = Here::new(Arc::clone(&fake) as Arc<dyn Driver>, &[]);
    let report = here.collect(0, false).await;
    assert_eq!(report.freed_bytes, 100);
    let last = report.entries.iter().rfind(|entry| entry.id == "setup-1").unwrap();
    assert!(!last.remove && last.reason.contains("in use by somebody"), "{last:?}");
    assert_eq!(removed(&report), ["setup-2"]);
}

#[tokio::test]
async fn the_native_drivers_layers_are_measured_and_collected() {
    let dir = tempfile::tempdir().unwrap();
    let driver: Arc<dyn Driver> = Arc::new(Native::open(dir.path()).unwrap());
    let mut here = Here::new(Arc::clone(&driver), &[]);
    let session = SessionId::from_u128(7);
    here.sessions.push(session);
    let empty = driver.disk_used().await.unwrap();
    let sandbox = here.sandbox(Stack::host(), Owner::Session(session)).await;
    let big = vec![7; 4 << 20];
    sandbox.guest().write_file("/workspace/big", big.into()).await.unwrap();
    let taken = here.snapshot(&*sandbox, session).await;
    let once = driver.disk_used().await.unwrap() - empty;
    assert!((8 << 20..12 << 20).contains(&once), "in the sandbox and in the snapshot: {once}");
    driver.squash(&taken.stack.layers, &"merged-1".parse().unwrap()).await.unwrap();
    let shared = driver.disk_used().await.unwrap() - empty;
    assert!(shared < once + (1 << 20), "what is shared counts once: {shared}");

    let report = here.collect(0, false).await;
    assert!(removed(&report).is_empty(), "it is in use or only just made: {report:?}");
    assert!(report.entries.iter().any(|entry| entry.kind == "sandbox" && entry.reason.contains("running")));

    here.sessions.clear();
    let report = here.collect(1 << 40, false).await;
    let taken = taken.id.to_string();
    assert_eq!(removed(&report), [&taken, &taken], "the record goes, and its layer with it");
    assert!(entry(&report, "merged-1").reason.contains("too young"), "of this there never was a record");
    driver.remove(sandbox.id()).await.unwrap();
    for layer in driver.layers().await.unwrap() {
        driver.remove_layer(&layer.id).await.unwrap();
    }
    assert!(driver.disk_used().await.unwrap() <= empty + (1 << 20));
}

#[tokio::test]
async fn what_is_left_over_of_bases_counts_and_goes_unless_somebody_is_at_it() {
    const MIB: u64 = 1 << 20;
    let here = Here::new(Fake::new(), &[]);
    let downloads = here._dir.path().join("images/downloads");
    let place = |name: &str, age: Duration| {
        let path = downloads.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, vec![7; MIB as usize]).unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - age).unwrap();
        file
    };
    let held = place("blobs/sha256/held", HOUR);
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
    place("blobs/sha256/young", HOUR);
    place("blobs/sha256/old", 25 * HOUR);
    place("scratch/tmp1", 30 * HOUR);
    place("blobs/sha256/.new-1", Duration::ZERO);
    let report = here.collect(100 * MIB, true).await;
    assert!((5 * MIB..6 * MIB).contains(&report.used_bytes), "{report:?}");
    let fate = |report: &GarbageReport, id: &str| {
        let entry = entry(report, id);
        assert_eq!((entry.kind.as_str(), entry.bytes >= MIB), ("download", true));
        (entry.remove, entry.reason.clone())
    };
    assert!(fate(&report, "blobs/sha256/old").0 && fate(&report, "scratch/tmp1").0);
    let (goes, why) = fate(&report, "blobs/sha256/held");
    assert!(!goes && why.contains("is being brought in"), "{why}");
    let (goes, why) = fate(&report, "blobs/sha256/young");
    assert!(!goes && why.contains("as long as there is room"), "{why}");
    // Under pressure, what nobody is at goes first; what somebody is at stays, and what was made just now.
    let report = here.collect(2 * MIB + MIB / 2, false).await;
    assert!(report.freed_bytes >= 3 * MIB, "{report:?}");
    let exists = |name: &str| downloads.join("blobs/sha256").join(name).exists();
    assert!(exists("held") && exists(".new-1") && !exists("young") && !exists("old"));
    let error = make_room(&here.world(), &Policy { budget_bytes: MIB, ..Policy::default() }, 1).await;
    assert!(error.unwrap_err().to_string().contains("disk budget"), "what is on its way counts");
    drop(held);
    here.collect(0, false).await;
    assert!(!exists("held"));
}
