//! Looks for what a test left behind. Each test has a directory of its own, so everything that belongs to it can be told
//! from what belongs to others: processes and mounts by the directory, control groups by the sandboxes that were in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Where sandboxes' directories can be, under the data directory.
const SANDBOXES: [&str; 3] = ["native/sandboxes", "one-off/sandboxes", "demo/data/native/sandboxes"];

/// Takes note of every sandbox while a test runs.
pub(super) struct Watch {
    root: PathBuf,
    seen: Arc<Mutex<BTreeSet<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at the sandboxes under a test's directory.
    pub(super) fn start(root: &Path) -> Self {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (root, seen, stop) = (root.to_owned(), Arc::clone(&seen), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    seen.lock().unwrap().extend(sandboxes(&root).into_iter().map(|(id, _)| id));
                    std::thread::sleep(Duration::from_millis(10));
                }
            })
        };
        Self { root: root.to_owned(), seen, stop, thread: Some(thread) }
    }

    /// Waits until there is nothing left, and gives what stays.
    pub(super) async fn wait_until_clean(&self) -> Vec<String> {
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let traces = self.traces();
            if traces.is_empty() || tokio::time::Instant::now() > end {
                return traces;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What there is now, one line each.
    pub(super) fn traces(&self) -> Vec<String> {
        let directories =
            sandboxes(&self.root).into_iter().map(|(_, path)| format!("directory {}", path.display()));
        let mut traces: Vec<String> = directories.collect();
        let root = self.root.to_string_lossy();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        traces
            .extend(mounts.lines().filter(|line| line.contains(&*root)).map(|line| format!("mount {line}")));
        let seen = self.seen.lock().unwrap();
        traces.extend(
            control_groups(Path::new("/sys/fs/cgroup"), 0)
                .into_iter()
                .filter(|path| seen.iter().any(|id| path.ends_with(format!("slipway-{id}"))))
                .map(|path| format!("control group {}", path.display())),
        );
        traces.extend(
            processes(&root, &seen).into_iter().map(|(pid, words)| format!("process {pid}: {words}")),
        );
        traces
    }

    /// Ends whatever a failed test left, so that it does not disturb others.
    pub(super) fn kill_rest(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        let seen = self.seen.lock().unwrap();
        for (pid, words) in processes(&self.root.to_string_lossy(), &seen) {
            // A monitor ends by itself when its sandbox does, and takes the control groups with it.
            if words.starts_with("slipway-monitor") {
                continue;
            }
            // SAFETY: kill takes two numbers. The process was just seen to belong to this test's own directory.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

/// Ids and directories of the sandboxes that are there now.
pub(super) fn sandboxes(root: &Path) -> Vec<(String, PathBuf)> {
    let dirs = SANDBOXES.iter().filter_map(|dir| fs::read_dir(root.join("data").join(dir)).ok()).flatten();
    dirs.flatten().map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

/// The control groups of all sandboxes of this machine.
fn control_groups(dir: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name().to_string_lossy().starts_with("slipway-") {
            found.push(entry.path());
        } else if depth < 8 {
            found.extend(control_groups(&entry.path(), depth + 1));
        }
    }
    found
}

/// Processes that have to do with the directory (arguments, working directory, program, open files) or run in one of
/// the sandboxes, and what they are.
fn processes(root: &str, sandboxes: &BTreeSet<String>) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    let own = i32::try_from(std::process::id()).unwrap();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let dir = entry.path();
        if pid == own || is_zombie(&dir) {
            continue;
        }
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap_or_default()).into_owned();
        let link = |path: PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(root));
        let files = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten().map(|file| file.path());
        let arguments = read("cmdline").replace('\0', " ");
        let groups = read("cgroup");
        let ours = arguments.contains(root)
            || ["cwd", "root", "exe"].into_iter().any(|name| link(dir.join(name)))
            || files.into_iter().any(link)
            || sandboxes.iter().any(|id| groups.contains(id.as_str()));
        if ours {
            found.push((pid, format!("{} {arguments}", read("comm").trim())));
        }
    }
    found
}

/// A process that ended and was not waited for yet is only an entry in a table; its parent sees to it.
fn is_zombie(dir: &Path) -> bool {
    let stat = fs::read_to_string(dir.join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z') || rest.is_empty())
}
