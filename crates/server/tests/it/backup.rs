//! Backups that cannot be made: who asks for one is told why, as far as that is known before the answer begins.

use std::path::Path;
use std::process::Command;

use http_body_util::BodyExt;
use protocol::{Actor, CreateSession};

use crate::client::{get, open, send};
use crate::world::World;

const BACKUP: &str = "/api/v1/backup";

/// Where the small disk is to be, in the process that has it.
const DIR: &str = "SERVER_FULL_DIR";

/// A mirror that is none: whoever packs it fails.
fn break_a_mirror(data: &Path) {
    let mirror = data.join("mirrors/broken.git");
    std::fs::create_dir_all(&mirror).unwrap();
    std::fs::write(mirror.join("slipway-url"), "https://example.com/broken\n").unwrap();
}

#[tokio::test]
async fn a_backup_that_cannot_be_begun_is_answered_with_the_reason() {
    let world = World::start().await;
    break_a_mirror(world.sessions.store().dir());
    let answer = send(world.address, get(BACKUP), "").await;
    assert_eq!(answer.problem(), "internal", "{answer:?}");
    let title = answer.json()["title"].as_str().unwrap().to_owned();
    assert!(title.contains("git"), "{title}");
    world.stop().await;
}

#[tokio::test]
async fn a_backup_that_breaks_off_later_has_begun_and_does_not_end() {
    let world = World::start().await;
    // More than one piece of the archive.
    let prompt = "fix the test ".repeat(16 << 10);
    let request = CreateSession {
        environment: "shop".into(),
        prompt,
        images: Vec::new(),
        model: None,
        budgets: None,
        policy: None,
    };
    let session = world.sessions.create(Actor::user("local"), request).await.unwrap().id;
    world.settled(session).await;
    break_a_mirror(world.sessions.store().dir());
    let answer = open(world.address, get(BACKUP), "").await;
    assert_eq!(answer.status(), 200);
    assert!(answer.into_body().collect().await.is_err());
    world.stop().await;
}

fn in_namespace() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount"]);
    command
}

fn mount(dir: &Path) -> Command {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=32m", "none"]).arg(dir);
    command
}

/// Not a test of its own: the one below runs it in a mount namespace.
#[tokio::test]
async fn on_a_small_disk() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    assert!(mount(dir).status().unwrap().success());
    let world = World::start_in(tempfile::tempdir_in(dir).unwrap()).await;
    let session = world.session().await;
    world.settled(session).await;
    let ballast = dir.join("ballast");
    let error = std::fs::write(&ballast, vec![0_u8; 32 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);

    let answer = send(world.address, get(BACKUP), "").await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (507, "storage_full"), "{answer:?}");
    let hint = answer.json()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("free some space"), "{hint}");

    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(send(world.address, get(BACKUP), "").await.status, 200);
    world.stop().await;
    println!("the full disk was told of");
}

#[test]
fn a_full_disk_is_the_answer_to_who_wants_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let probe = in_namespace().arg("mount").args(mount(dir.path()).get_args()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: this machine does not let the test mount a small disk");
        return;
    }
    let output = in_namespace()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "backup::on_a_small_disk", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("the full disk was told of"), "{told}{errors}");
}
