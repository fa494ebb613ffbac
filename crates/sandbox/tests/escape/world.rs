//! The outside: a driver in a directory of its own, sandboxes in it, and the way to let attempts in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use guest::{Exit, Output, ProcessSpec};
use sandbox::native::Native;
use sandbox::{Driver, Life, Limits, Network, Owner, Sandbox, Spec, Stack};

use super::attack;

/// Where the test program is inside.
pub(crate) const PROGRAM: &str = "/home/dev/attempt";

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) driver: Arc<Native>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let driver = Arc::new(Native::open(&dir.path().join("driver")).unwrap());
        Self { dir, driver }
    }

    /// A directory beside the driver's own; nothing inside may reach it.
    pub(crate) fn outside(&self) -> PathBuf {
        let outside = self.dir.path().join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        outside
    }

    pub(crate) fn driver_dir(&self) -> PathBuf {
        self.dir.path().join("driver")
    }

    pub(crate) fn sandbox_dir(&self, sandbox: &dyn Sandbox) -> PathBuf {
        self.driver_dir().join("sandboxes").join(sandbox.id().to_string())
    }

    pub(crate) async fn sandbox(&self, limits: Limits) -> Arc<dyn Sandbox> {
        self.start(Spec { limits, ..Spec::new(Stack::host(), Life::Tied, Owner::OneOff) }).await
    }

    pub(crate) async fn sandbox_with(&self, network: Network) -> Arc<dyn Sandbox> {
        self.start(Spec { limits: modest(), network, ..Spec::new(Stack::host(), Life::Tied, Owner::OneOff) })
            .await
    }

    async fn start(&self, spec: Spec) -> Arc<dyn Sandbox> {
        self.driver.create(&spec).await.unwrap()
    }

    /// A sandbox with the attempts in it.
    pub(crate) async fn armed(&self, limits: Limits) -> Arc<dyn Sandbox> {
        let sandbox = self.sandbox(limits).await;
        arm(&*sandbox).await;
        sandbox
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.driver_dir().join("sandboxes")).unwrap();
        // The driver may keep files of its own there.
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    }
}

impl Drop for World {
    /// Tied sandboxes are on their way out by now; none may stay.
    fn drop(&mut self) {
        for _ in 0..2000 {
            if self.left().is_empty() {
                // Layers may have directories that only this opens.
                launcher::tree::remove(&self.driver_dir()).unwrap();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(std::thread::panicking(), "sandboxes were left behind: {:?}", self.left());
    }
}

/// Limits that make excess cheap.
pub(crate) fn modest() -> Limits {
    Limits { memory_bytes: 512 << 20, processes: 256, ..Limits::default() }
}

/// Puts the test program into a sandbox.
pub(crate) async fn arm(sandbox: &dyn Sandbox) {
    static SELF: OnceLock<Bytes> = OnceLock::new();
    let program = SELF.get_or_init(|| std::fs::read(std::env::current_exe().unwrap()).unwrap().into());
    sandbox.guest().write_file(PROGRAM, program.clone()).await.unwrap();
    let (text, exit) = sh(sandbox, &format!("chmod 755 {PROGRAM}")).await;
    assert_eq!(exit.code, 0, "{text}");
}

/// How to start a group of attempts.
pub(crate) fn attempt(group: &str, facts: &[(&str, String)]) -> ProcessSpec {
    let mut env: BTreeMap<String, String> =
        facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    env.insert(attack::VARIABLE.to_owned(), group.to_owned());
    let argv = [PROGRAM, "every_attempt_has_a_name_of_its_own", "--nocapture", "--test-threads=1"];
    ProcessSpec { argv: argv.map(str::to_owned).into(), env, stdin: true, ..ProcessSpec::default() }
}

/// Lets a group of attempts in and holds them to their verdicts: every case of the group must have held.
pub(crate) async fn all_hold(sandbox: &dyn Sandbox, group: &str, facts: &[(&str, String)]) {
    let (text, exit) = run(sandbox, &attempt(group, facts)).await;
    judge(group, &text, &exit);
}

/// Reads the verdicts of a group.
pub(crate) fn judge(group: &str, text: &str, exit: &Exit) {
    let (mut held, mut open) = (0, Vec::new());
    for line in text.lines().filter_map(|line| line.strip_prefix("@\t")) {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [_, "held", ..] => held += 1,
            [name, "skipped", why, ..] => {
                held += 1;
                println!("skipped: {group}: {name}: {why}");
            }
            _ => open.push(line.replace('\t', ": ")),
        }
    }
    assert!(open.is_empty(), "these attempts of {group} did not fail:\n{}", open.join("\n"));
    let wanted =
        attack::groups().iter().find(|(name, _)| *name == group).map_or(0, |(_, cases)| cases().len());
    assert!(
        held == wanted && text.contains("@end"),
        "{group} broke off after {held} of {wanted}: {exit:?}\n{text}"
    );
}

/// Runs a script.
pub(crate) async fn sh(sandbox: &dyn Sandbox, script: &str) -> (String, Exit) {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    run(sandbox, &ProcessSpec { argv, ..ProcessSpec::default() }).await
}

pub(crate) fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("e{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a process to its end.
pub(crate) async fn run(sandbox: &dyn Sandbox, spec: &ProcessSpec) -> (String, Exit) {
    let mut process = sandbox.guest().start(&fresh_id(), spec).await.unwrap();
    finish(&mut process).await
}

/// Follows a process to its end.
pub(crate) async fn finish(process: &mut guest::Process) -> (String, Exit) {
    let mut text = Vec::new();
    loop {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => text.extend_from_slice(&data),
            Some(Output::Exit(exit)) => return (String::from_utf8_lossy(&text).trim().to_owned(), exit),
            None => panic!("the stream ended without an exit"),
        }
    }
}

/// Whether the sandbox takes commands as before.
pub(crate) async fn still_answers(sandbox: &dyn Sandbox) {
    sandbox.guest().ping().await.unwrap();
    let (text, exit) = sh(sandbox, "echo still here").await;
    assert_eq!((text.as_str(), exit.code), ("still here", 0));
}

pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain for: {what}");
}

/// Whether a file is there inside.
pub(crate) async fn exists(sandbox: &dyn Sandbox, path: &str) -> bool {
    sandbox.guest().stat(path).await.is_ok()
}

/// Every file below, links not followed.
pub(crate) fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
        }
        found.push(entry.path());
    }
}
