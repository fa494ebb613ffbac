//! The native driver passes the suite that every driver must pass: as whoever runs the tests, and, if that is root, as an
//! ordinary user as well.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking

mod conformance;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use conformance::{Ability, Harness};
use protocol::SandboxId;
use sandbox::native::{CgroupSupport, Native};
use sandbox::{Driver, Life, Owner, Save, Spec, Stack, State};

/// A user that no host has.
const STRANGER: u32 = 4321;

struct Here {
    dir: tempfile::TempDir,
}

impl Harness for Here {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> Arc<dyn Driver> {
        Arc::new(Native::open(self.dir.path()).unwrap())
    }

    fn lacks(&self, ability: Ability) -> Option<String> {
        let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
        let support = CgroupSupport::of_this_host();
        let missing = support.missing();
        let lacks = |what: &str| {
            missing.contains(&what).then(|| format!("this host gives {user} no control group for {what}"))
        };
        match ability {
            Ability::Memory => lacks("memory"),
            Ability::Processes => lacks("pids"),
            // With control groups, or with signals.
            Ability::Freeze => None,
            Ability::Owners => (user != "root").then(|| format!("{user} cannot give files away")),
        }
    }

    fn traces(&self, id: SandboxId) -> Vec<String> {
        fn walk(dir: &Path, wanted: &str, depth: usize, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
                if entry.file_name().to_string_lossy().contains(wanted) {
                    found.push(entry.path().display().to_string());
                } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    walk(&entry.path(), wanted, depth - 1, found);
                }
            }
        }
        let mut found = Vec::new();
        let id = id.to_string();
        walk(Path::new("/sys/fs/cgroup"), &id, 6, &mut found);
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.extend(mounts.lines().filter(|line| line.contains(&id)).map(str::to_owned));
        // A monitor's working directory is its sandbox's.
        let dir = self.dir.path().join("sandboxes").join(&id);
        for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            if std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&dir)) {
                found.push(entry.path().display().to_string());
            }
        }
        found
    }

    fn leftovers(&self) -> Vec<PathBuf> {
        ["sandboxes", "layers", "packs"]
            .into_iter()
            .flat_map(|part| std::fs::read_dir(self.dir.path().join(part)).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect()
    }
}

suite!(crate::Here);

/// Stops a sandbox as a server does, and leaves it like that.
fn freeze(here: &Here, id: SandboxId) {
    let dir = here.dir.path().join("sandboxes").join(id.to_string());
    let state: launcher::spec::State =
        serde_json::from_slice(&std::fs::read(dir.join("state.json")).unwrap()).unwrap();
    let freezer = state.cgroups.iter().find_map(|group| {
        let files = [("cgroup.freeze", "1"), ("freezer.state", "FROZEN")];
        files.into_iter().map(|(file, word)| (group.join(file), word)).find(|(file, _)| file.exists())
    });
    match freezer {
        Some((file, word)) => std::fs::write(&file, word).unwrap(),
        None => {
            std::fs::write(dir.join("stopped.json"), "[]").unwrap();
            let children = format!("/proc/{0}/task/{0}/children", state.init);
            let children = std::fs::read_to_string(children).unwrap();
            let processes = children.split_whitespace().map(|pid| pid.parse().unwrap());
            for pid in [state.init.cast_signed()].into_iter().chain(processes) {
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn what_a_killed_server_left_frozen_goes_on_when_it_is_found_and_can_be_removed() {
    let here = Here::new();
    let driver = here.open();
    let spec = Spec::new(Stack::host(), Life::Own, Owner::OneOff);
    let sandbox = driver.create(&spec).await.unwrap();
    let script = "while sleep 0.01; do echo x >> beat; done";
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    sandbox.guest().start("heart", &guest::ProcessSpec { argv, ..Default::default() }).await.unwrap();
    freeze(&here, spec.id);
    assert_eq!(driver.list().await.unwrap()[0].state, State::Frozen);
    let found = driver.adopt(spec.id).await.unwrap();
    assert_eq!(driver.list().await.unwrap()[0].state, State::Running);
    conformance::sh(&*found, "rm -f beat; until [ -s beat ]; do sleep 0.01; done").await;
    freeze(&here, spec.id);
    driver.remove(spec.id).await.unwrap();
    assert!(sandbox.ended().await.is_some());
    assert_eq!((here.leftovers(), here.traces(spec.id)), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_layer_that_was_whole_when_its_server_died_is_finished_and_any_other_is_removed() {
    let here = Here::new();
    let driver = here.open();
    let spec = Spec::new(Stack::host(), Life::Own, Owner::OneOff);
    driver.create(&spec).await.unwrap();
    let id = "kept".parse().unwrap();
    let made = driver.save(spec.id, &id, Save::Stop { without: &[] }).await.unwrap();
    let layers = here.dir.path().join("layers");
    std::fs::rename(layers.join("kept"), layers.join(".new-1-0")).unwrap();
    std::fs::create_dir_all(layers.join(".new-1-1/root/half")).unwrap();
    std::fs::create_dir_all(layers.join(".gone-1-2/root/half")).unwrap();
    let again = here.open();
    assert_eq!(again.layers().await.unwrap(), [made]);
    assert_eq!(here.leftovers(), [layers.join("kept")]);
    again.remove_layer(&id).await.unwrap();
    assert_eq!(here.leftovers(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_is_there_at_once_for_everyone_who_asks() {
    let here = Here::new();
    let driver = here.open();
    let spec = Spec::new(Stack::host(), Life::Own, Owner::OneOff);
    let sandbox = driver.create(&spec).await.unwrap();
    let script = "for i in $(seq 300); do mkdir $i; echo $i > $i/x; done";
    conformance::sh(&*sandbox, script).await;
    let id: sandbox::LayerId = "saved".parse().unwrap();
    let saved = driver.save(spec.id, &id, Save::Live { like: None }).await.unwrap();
    // Nothing waits for the tree, which is in the making: not a list, not another server, not two forks.
    let other = here.open();
    assert_eq!(driver.layer(&id).await.unwrap(), Some(saved.clone()));
    assert_eq!(other.layers().await.unwrap(), [saved]);
    let forks = [(); 2].map(|()| Spec::new(Stack::host().with(id.clone()), Life::Own, Owner::OneOff));
    let (one, two) = tokio::join!(driver.create(&forks[0]), other.create(&forks[1]));
    for fork in [one.unwrap(), two.unwrap()] {
        assert_eq!(conformance::sh(&*fork, "cat */x | wc -l; cat 300/x").await, "300\n300");
        driver.remove(fork.id()).await.unwrap();
    }
    driver.remove(spec.id).await.unwrap();
    driver.remove_layer(&id).await.unwrap();
    assert_eq!(here.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn the_suite_passes_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the other tests are run by an ordinary user already");
        return;
    }
    let dir = tempfile::Builder::new().prefix("suite-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.path().join("suite");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    chown(&temporary, Some(STRANGER), Some(STRANGER)).unwrap();
    let output = std::process::Command::new(&program)
        .args(["--skip", "the_suite_passes_as_an_ordinary_user", "--test-threads", "4"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("TMPDIR", &temporary)
        .env("HOME", &temporary)
        .current_dir(dir.path())
        // Taking another user also takes every group away.
        .uid(STRANGER)
        .gid(STRANGER)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok") && !text.contains(" 0 passed"), "{text}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "something was left behind");
}
