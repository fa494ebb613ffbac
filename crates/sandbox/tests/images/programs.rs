//! Bases that cannot hold a session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::{ImageState, StepState};
use sandbox::base::Source;

use crate::world::World;

/// What every session needs.
const ALL: [&str; 12] =
    ["sh", "cat", "cp", "find", "git", "grep", "mkdir", "rm", "stat", "tr", "wc", "xargs"];

/// A system of these programs of the host, as an archive.
fn system(dir: &Path, programs: &[&str]) -> Source {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    let mut files = BTreeSet::new();
    for program in programs {
        let file = ["/bin", "/usr/bin"]
            .map(|dir| Path::new(dir).join(program))
            .into_iter()
            .find(|file| file.exists());
        let file = file.unwrap();
        let linked = Command::new("ldd").arg(&file).output().unwrap();
        let linked = String::from_utf8(linked.stdout).unwrap();
        files.extend(linked.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
        files.insert(file);
    }
    for file in files {
        let to = root.join(file.strip_prefix("/").unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file, to).unwrap();
    }
    let tar = dir.join("base.tar");
    assert!(
        Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status().unwrap().success()
    );
    std::fs::remove_dir_all(root).unwrap();
    Source::Tar(tar)
}

fn remembered(world: &World) -> usize {
    std::fs::read_dir(world.images_dir().join("notes")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_base_that_lacks_what_every_session_needs_is_never_ready() {
    for (programs, lacks) in [
        (&["sh", "cat", "git"][..], "the base lacks cp, find, grep, mkdir, rm, stat, tr, wc, xargs, without"),
        (&["cat"][..], "the base lacks sh (the program sh is not found in PATH), without"),
    ] {
        let world = World::new();
        let dir = tempfile::tempdir().unwrap();
        let mut recipe = world.recipe();
        recipe.base = system(dir.path(), programs);
        let error = world.images.build(&recipe).await.unwrap_err().to_string();
        assert!(error.contains(lacks) && error.contains("add it to the image"), "{error}");
        let status = world.images.status("app");
        assert_eq!((status.state, status.steps[0].state), (ImageState::Failed, StepState::Failed));
        assert_eq!(world.images.current("app"), None);
        assert_eq!(remembered(&world), 0);
    }
}

#[tokio::test]
async fn a_base_that_has_it_all_is_looked_at_once() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let mut recipe = world.recipe();
    recipe.base = system(dir.path(), &ALL);
    let first = world.images.build(&recipe).await.unwrap();
    assert_eq!(remembered(&world), 1);
    assert_eq!(world.images.build(&recipe).await.unwrap().key, first.key);
    assert_eq!(world.show(&first, "cat main").await, "one");
}
