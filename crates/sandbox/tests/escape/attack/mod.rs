//! What runs inside: named attempts in groups, each in a process of its own, each with a verdict.
//!
//! The test program is started inside with the name of a group in its environment. It runs every case of the group and
//! prints one line for each, which `world` reads.

mod bombs;
mod devices;
mod disk;
mod kernel;
mod mounts;
mod namespaces;
mod nested;
mod privileges;
mod processes;
mod races;
mod reach;
mod sockets;
mod sys;

use std::io::{Read, Write};

pub(crate) use bombs::odd_names;

/// Variable that names the group to run.
pub(crate) const VARIABLE: &str = "SLIPWAY_ATTACK";

/// What came of an attempt.
pub(crate) enum Verdict {
    /// It was refused as it should be, or had no effect.
    Held,
    /// It got somewhere.
    Open(String),
    /// It cannot be tried here.
    Skipped(String),
}

/// One attempt.
pub(crate) struct Case {
    pub(crate) name: String,
    run: Box<dyn Fn() -> Verdict>,
    /// Signals that may end it, instead of an answer.
    ends_by: &'static [i32],
}

pub(crate) fn case(name: impl Into<String>, run: impl Fn() -> Verdict + 'static) -> Case {
    Case { name: name.into(), run: Box::new(run), ends_by: &[] }
}

impl Case {
    fn ends_by(self, signals: &'static [i32]) -> Self {
        Self { ends_by: signals, ..self }
    }
}

/// Holds if the call failed with one of these errors.
pub(crate) fn refused(result: Result<i64, i32>, wanted: &[i32]) -> Verdict {
    match result {
        Err(errno) if wanted.contains(&errno) => Verdict::Held,
        Err(errno) => Verdict::Open(format!("refused with {}", std::io::Error::from_raw_os_error(errno))),
        Ok(value) => Verdict::Open(format!("allowed, gave {value}")),
    }
}

/// Holds if it is true.
pub(crate) fn holds(truth: bool, otherwise: impl Into<String>) -> Verdict {
    if truth { Verdict::Held } else { Verdict::Open(otherwise.into()) }
}

/// The cases of a group.
type Cases = fn() -> Vec<Case>;

/// Every group by its name.
pub(crate) fn groups() -> Vec<(&'static str, Cases)> {
    vec![
        ("namespaces", namespaces::cases),
        ("mounts", mounts::cases),
        ("nested", nested::cases),
        ("kernel", kernel::cases),
        ("sockets", sockets::cases),
        ("processes", processes::cases),
        ("proc", processes::proc_cases),
        ("devices", devices::cases),
        ("privileges", privileges::cases),
        ("identity", privileges::identity_cases),
        ("reach", reach::cases),
        ("neighbour", reach::neighbour_cases),
        ("network", reach::network_cases),
        ("fork_bomb", bombs::fork_cases),
        ("memory_bomb", bombs::memory_cases),
        ("shm_bomb", bombs::shm_cases),
        ("memory_file_bomb", bombs::memory_file_cases),
        ("disk_bomb", disk::cases),
        ("closed_disk_bomb", disk::closed_cases),
        ("nameless_disk_bomb", disk::nameless_cases),
        ("mapped_disk_bomb", disk::mapped_cases),
        ("thread_disk_bomb", disk::thread_cases),
        ("moving_disk_bomb", disk::moving_cases),
        ("posted_disk_bomb", disk::posted_cases),
        ("inode_bomb", bombs::inode_cases),
        ("odd_trees", bombs::tree_cases),
        ("deep_tree", bombs::deep_cases),
        ("swap", races::swap_cases),
        ("plant", races::plant_cases),
        ("listen", reach::listen_cases),
    ]
}

/// The entry inside. Outside, where no group is asked for, it looks whether every case can be told from the others.
#[test]
fn every_attempt_has_a_name_of_its_own() {
    if let Ok(group) = std::env::var(VARIABLE) {
        run(&group);
    }
    for (name, cases) in groups() {
        let mut names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
        let all = names.len();
        assert!(all > 0, "{name} tries nothing");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "two cases of {name} have the same name");
    }
}

fn run(group: &str) -> ! {
    let cases = groups().into_iter().find(|(name, _)| *name == group).map(|(_, cases)| cases());
    let mut out = std::io::stdout().lock();
    for case in cases.unwrap_or_default() {
        let (word, detail) = match apart(&case) {
            Verdict::Held => ("held", String::new()),
            Verdict::Open(detail) => ("open", detail),
            Verdict::Skipped(detail) => ("skipped", detail),
        };
        writeln!(out, "\n@\t{}\t{word}\t{}", case.name, detail.replace(['\n', '\t'], " ")).unwrap();
    }
    writeln!(out, "\n@end").unwrap();
    out.flush().unwrap();
    drop(out);
    std::process::exit(0)
}

/// Runs a case in a process of its own, because some are meant to end theirs.
fn apart(case: &Case) -> Verdict {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the child has only this thread; it uses memory of its own and leaves with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(reader);
        // SAFETY: sets a timer that ends this process.
        unsafe { libc::alarm(60) };
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&case.run));
        let text = match verdict {
            Ok(Verdict::Held) => "h".to_owned(),
            Ok(Verdict::Open(detail)) => format!("o{detail}"),
            Ok(Verdict::Skipped(detail)) => format!("s{detail}"),
            Err(_) => "othe attempt itself failed".to_owned(),
        };
        let told = writer.write_all(text.as_bytes());
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(told.is_err())) };
    }
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let mut status = 0;
    // SAFETY: `status` is writable, and the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match text.split_at_checked(1) {
        Some(("h", _)) => Verdict::Held,
        Some(("o", detail)) => Verdict::Open(detail.to_owned()),
        Some(("s", detail)) => Verdict::Skipped(detail.to_owned()),
        _ if libc::WIFSIGNALED(status) && case.ends_by.contains(&libc::WTERMSIG(status)) => Verdict::Held,
        _ => Verdict::Open(format!("it ended with status {status:#x} and without a word")),
    }
}

/// A fact that the test outside tells: a port, a name, a path.
pub(crate) fn fact(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
