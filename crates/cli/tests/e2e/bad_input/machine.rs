//! Machines that lack what a sandbox needs, directories that cannot be written, and a missing home.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::{program, reason, root, says, turn_in};
use crate::harness::{World, edit, environment, models};

/// Runs what follows where no (further) user namespace can be made: in one whose own limit is none. The holder gives
/// the namespace ids of the host, so that root is root in it.
const WITHOUT_NAMESPACES: &str = r#"
unshare --user sleep 60 & holder=$!
until { echo 0 0 4294967295 > /proc/$holder/uid_map; } 2>/dev/null; do sleep 0.01; done
echo 0 0 4294967295 > /proc/$holder/gid_map
exec nsenter --user --target $holder sh -c 'kill $1; shift; echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"' sh $holder "$@"
"#;

/// An ordinary user that every machine has.
const NOBODY: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"];

/// Lets an ordinary user into a world, and gives the program where that user can run it.
fn open_to_others(world: &World) -> PathBuf {
    std::fs::set_permissions(world.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = world.root().join("slipway");
    std::fs::copy(program(), &copy).unwrap();
    copy
}

#[tokio::test]
async fn without_user_namespaces_there_is_advice_and_no_sandbox() {
    if !root() {
        return;
    }
    let (model, repo) = (Server::start(Script::new()).await, Repo::plain());
    let mut world = World::with(&model, &repo);
    world.wrap(&["sh", "-c", WITHOUT_NAMESPACES, "sh"], program());
    let advice = ["does not allow (more) user namespaces", "sysctl user.max_user_namespaces="];
    let output = world.run(&["sandbox", "run", "--", "true"]).await.expect_code(1);
    says(&output, &advice);
    let output = world.run(&["doctor"]).await.expect_code(1);
    for said in ["missing  sandbox", advice[0], advice[1]] {
        assert!(output.stdout.contains(said), "{output}");
    }
    let events = turn_in(&world, 1).await;
    assert!(reason(&events).contains(advice[0]), "{}", reason(&events));
    let raised = events.only("error.raised");
    assert_eq!(raised["code"], "sandbox_unavailable", "{raised}");
    assert!(raised["hint"].as_str().unwrap().contains(advice[1]), "{raised}");
    assert_eq!(model.requests().len(), 0);

    // The same for an ordinary user, who meets the limit earlier.
    let copy = open_to_others(&world);
    std::fs::remove_dir_all(world.data()).unwrap();
    std::fs::create_dir(world.data()).unwrap();
    std::os::unix::fs::chown(world.data(), Some(65534), Some(65534)).unwrap();
    let mut wrapper = vec!["sh", "-c", WITHOUT_NAMESPACES, "sh"];
    wrapper.extend(NOBODY);
    world.wrap(&wrapper, &copy);
    says(&world.run(&["sandbox", "run", "--", "true"]).await.expect_code(1), &advice);
    world.finish().await;
}

#[tokio::test]
async fn a_directory_that_may_not_be_written_is_named() {
    if !root() {
        return;
    }
    let mut world = World::new();
    let copy = open_to_others(&world);
    world.wrap(&NOBODY, &copy);
    let data = world.data().display().to_string();
    for arguments in [&["ls"][..], &["serve", "--listen", "127.0.0.1:0"], &["sandbox", "run", "--", "true"]] {
        let output = world.run(arguments).await.expect_code(1);
        says(&output, &[&data]);
        assert!(
            output.stderr.contains("Permission denied") || output.stderr.contains("may not use"),
            "{output}"
        );
    }
    let output = world.run(&["doctor"]).await.expect_code(1);
    assert!(output.stdout.contains(&data) && output.stdout.contains("may not use"), "{output}");
    assert_eq!(std::fs::read_dir(world.data()).unwrap().count(), 0);
    let closed = world.root().join("closed.toml");
    std::fs::write(&closed, "").unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o600)).unwrap();
    let output = world.run(&["--config", "closed.toml", "ls"]).await.expect_code(2);
    says(&output, &["cannot read closed.toml", "Permission denied"]);
    world.finish().await;
}

#[tokio::test]
async fn without_a_home_the_directory_has_to_be_named() {
    let mut world = World::new();
    world.wrap(&["env", "-u", "HOME", "-u", "SLIPWAY_DATA_DIR"], program());
    let output = world.run(&["ls"]).await.expect_code(2);
    says(&output, &["HOME is not set", "--data-dir"]);
    let data = world.data().display().to_string();
    world.ok(&["--data-dir", &data, "ls"]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_directory_may_have_any_name() {
    // Longer than the address of a socket may be, with what shells and lists stumble over.
    let long = format!("a b/ünï:,cöde/{}", "x".repeat(150));
    let model = Server::start(Script::new().answer(edit("41", "42")).say("Done.")).await;
    let repo = Repo::plain();
    let mut world = World::new();
    let data = world.data().join(&long);
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("slipway.toml"), format!("{}{}", models(&model), environment(&repo))).unwrap();
    world.set("SLIPWAY_DATA_DIR", &data);
    let output = world.ok(&["sandbox", "run", "--", "echo", "fine"]).await;
    assert_eq!(output.stdout, "fine\n");
    let events = turn_in(&world, 0).await;
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    assert_eq!(repo.branches().len(), 2);
    for sandboxes in ["native/sandboxes", "one-off/sandboxes"] {
        assert_eq!(std::fs::read_dir(data.join(sandboxes)).unwrap().count(), 0);
    }
    world.finish().await;
}
