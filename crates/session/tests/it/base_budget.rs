//! Bases that unpack to more than the disk budget leaves.

use testkit::model::Script;

use crate::support::World;

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_base_without_room_is_refused_before_it_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("sh")
        .args(["-c", "head -c 64M /dev/zero > zeros && tar -czf base.tar.gz zeros && rm zeros"])
        .current_dir(dir.path())
        .status();
    assert!(made.unwrap().success());
    let base = format!("tar:{}", dir.path().join("base.tar.gz").display());
    let budget = 32 * MIB;
    let world = World::new(Script::new()).await.budget(budget).environment(|one| one.base = base);
    let sessions = world.start().await;
    let problem = sessions.build_and_wait("plain").await.unwrap_err();
    assert!(problem.title.contains("the base does not fit on the disk"), "{problem:?}");
    assert!(problem.hint.as_ref().is_some_and(|hint| hint.contains("disk_budget_gb")), "{problem:?}");
    assert!(world.driver.disk_used().await.unwrap() <= budget);
    world.end(sessions).await;
}
