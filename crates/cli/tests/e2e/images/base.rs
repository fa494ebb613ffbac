//! Other bases than the host's system: a root file system in an archive.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testkit::model::{Script, Server};

use super::{inside, repository, world};
use crate::harness::{ENVIRONMENT, edit, shell};

/// The programs that the archive has: what a workspace needs, and the check.
const PROGRAMS: [&str; 25] = [
    "cat",
    "comm",
    "cp",
    "cut",
    "find",
    "git",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "paste",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "touch",
    "tr",
    "wc",
    "xargs",
];

/// Where a program of the host is, past whatever stands before it in the search path.
fn find(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists())
}

/// The libraries that a program is linked with, and its loader.
fn libraries(program: &Path) -> Option<Vec<PathBuf>> {
    let said = Command::new("ldd").arg(program).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Some(paths.map(|path| PathBuf::from(path.trim_end_matches(':'))).collect())
}

/// An archive of a small system made from the host's programs; None where they cannot be found.
pub(super) fn archive(dir: &Path) -> Option<PathBuf> {
    let mut files = BTreeSet::new();
    for name in PROGRAMS {
        let program = find(name)?;
        files.extend(libraries(&program)?);
        files.insert(program);
    }
    let root = dir.join("root");
    for path in ["etc", "tmp", "usr/bin"] {
        std::fs::create_dir_all(root.join(path)).ok()?;
    }
    for file in &files {
        let to = root.join(file.strip_prefix("/").ok()?);
        std::fs::create_dir_all(to.parent()?).ok()?;
        std::fs::copy(file, to).ok()?;
    }
    std::fs::write(root.join("etc/made-of"), "a tar file\n").ok()?;
    if find("sh")? != Path::new("/bin/sh") {
        std::fs::create_dir_all(root.join("bin")).ok()?;
        std::fs::copy(find("sh")?, root.join("bin/sh")).ok()?;
    }
    let tar = dir.join("base.tar");
    let made = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status().ok()?;
    made.success().then_some(tar)
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "whoever runs the tests should know that one did not look")]
async fn a_session_works_on_an_archive() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tar) = archive(dir.path()) else {
        println!("skipped: no system can be made of this machine's programs");
        return;
    };
    let script = Script::new()
        .answer(shell("cat /etc/made-of prepared; ls /usr/bin | tail -1"))
        .answer(edit("41", "42"))
        .say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = repository();
    repo.commit("main", &[(".gitignore", "/prepared\n")]);
    let keys = format!("base = \"tar:{}\"\nsetup = [{{ run = \"echo yes > prepared\" }}]\n", tar.display());
    let world = world(&model, &repo, &keys);
    let output = world.run(&["sandbox", "run", "--env", ENVIRONMENT, "--", "true"]).await.expect_code(2);
    assert!(output.stderr.contains("env build"), "without an image there is nothing to run in: {output}");
    let run = ["run", "--env", ENVIRONMENT, "--json", "Make the answer right"];
    let events = world.ok(&run).await.events();
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    let said = events.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(said.starts_with("a tar file\nyes\nxargs\n"), "{said}");
    let again = world.json(&["env", "build", ENVIRONMENT]).await;
    let states: Vec<_> = again["steps"].as_array().unwrap().iter().map(|step| &step["state"]).collect();
    assert_eq!(states, [&json!("cached"); 3], "{again}");
    assert_eq!(inside(&world, "cat /etc/made-of").await, "a tar file\n");
    world.finish().await;
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "whoever runs the tests should know that one did not look")]
async fn who_waits_for_the_first_image_sees_what_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let Some(tar) = archive(dir.path()) else {
        println!("skipped: no system can be made of this machine's programs");
        return;
    };
    let model = Server::start(Script::new().say("Nothing to do.")).await;
    let repo = repository();
    let step = "while ! test -e /tmp/go; do sleep 0.02; done";
    let keys = format!("base = \"tar:{}\"\nsetup = [{{ run = \"{step}\" }}]\n", tar.display());
    let world = world(&model, &repo, &keys);
    let running = world.start(&["run", "--env", ENVIRONMENT, "Look"]);
    let words = format!("building the image of {ENVIRONMENT}, step 3 of 3: {step}");
    running.stderr_has(&words).await;
    // Whoever comes later sees it too.
    let sessions = world.json(&["ls"]).await;
    let session = sessions["sessions"][0]["id"].as_str().unwrap();
    let watching = world.start(&["attach", session, "--json"]);
    let told = |line: &Value| line["type"] == "sandbox.changed" && line["data"]["state"] == "building";
    let event = watching.line(|line| told(line) && line["data"].to_string().contains("step 3 of 3")).await;
    assert!(event["data"]["duration_ms"].is_u64(), "{event}");
    assert_eq!(sessions["sessions"][0].get("sandbox"), None, "there is none yet: {sessions}");
    world.let_build_go("/tmp/go");
    let events = watching.wait().await.expect_code(0).events();
    let states: Vec<&Value> =
        events.of("sandbox.changed").into_iter().map(|changed| &changed["state"]).collect();
    assert!(states.ends_with(&[&json!("syncing"), &json!("ready")]), "{states:?}");
    running.wait().await.expect_code(0);
    world.finish().await;
}

#[tokio::test]
async fn a_base_that_is_not_there_is_told_so() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &repo, "base = \"tar:/nowhere/base.tar\"\n");
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    assert!(output.stderr.contains("/nowhere/base.tar"), "{output}");
    world.finish().await;
}
