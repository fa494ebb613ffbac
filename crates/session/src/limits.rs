//! What a sandbox may use, and what is said when it came to one of its limits: which one, how much it is, and which
//! key raises it.

mod said;

use std::time::Duration;

use protocol::event::LimitKind;
use protocol::{EventBody, SandboxId, SandboxLimits};
use sandbox::{Limits, Usage};

pub(crate) use said::Said;

/// The configured limits with the environment's own over them.
pub fn merge(configured: &Limits, own: &SandboxLimits) -> Limits {
    let mut limits = configured.clone();
    let set = |limit: &mut u64, own: Option<u64>| *limit = own.unwrap_or(*limit);
    limits.cpus = own.cpus.unwrap_or(limits.cpus);
    set(&mut limits.memory_bytes, own.memory_mb.map(mebibytes));
    set(&mut limits.processes, own.processes);
    set(&mut limits.open_files, own.open_files);
    set(&mut limits.disk_bytes, own.disk_mb.map(mebibytes));
    set(&mut limits.inodes, own.inodes);
    if let Some(seconds) = own.wall_clock_s {
        limits.wall_clock = (seconds > 0).then(|| Duration::from_secs(seconds));
    }
    limits.user_namespaces = own.user_namespaces.unwrap_or(limits.user_namespaces);
    limits
}

/// A size that is too large to write in bytes is no limit.
fn mebibytes(number: u64) -> u64 {
    number.saturating_mul(1 << 20)
}

/// A limit that a sandbox came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Which one.
    pub limit: LimitKind,
    /// What is said of it: how much it is, and which key raises it.
    pub message: String,
}

impl Hit {
    /// With what is said of it.
    pub fn new(limits: &Limits, limit: LimitKind) -> Self {
        Self { limit, message: words(limits, limit) }
    }

    /// The event that tells of it.
    pub fn event(&self, sandbox: SandboxId) -> EventBody {
        EventBody::LimitExceeded { sandbox, limit: self.limit, message: self.message.clone() }
    }
}

/// The limits that were reached between two looks at a sandbox, or that a failed command's output tells of.
pub fn reached(limits: &Limits, before: &Usage, after: &Usage, output: &str) -> Vec<Hit> {
    told(limits, before, after, &Said::by_failed(output))
}

/// The limits that were reached between two looks at a sandbox, or that a command's own words tell of.
pub(crate) fn told(limits: &Limits, before: &Usage, after: &Usage, said: &Said) -> Vec<Hit> {
    // Where a limit was reached before and nobody made room, the next write is refused without being counted.
    let over = |used: Option<u64>, limit: u64| used.is_some_and(|used| used > limit) && said.writes();
    let kinds = [
        // Without a control group the kernel refuses, and counts nothing.
        (
            LimitKind::Memory,
            after.memory_hits > before.memory_hits || (after.memory_bytes.is_none() && said.memory()),
        ),
        (
            LimitKind::Processes,
            after.process_hits > before.process_hits || (after.processes.is_none() && said.processes()),
        ),
        // Most programs end over it before anybody sees them.
        (LimitKind::OpenFiles, after.open_file_hits > before.open_file_hits || said.open_files()),
        (
            LimitKind::DiskBytes,
            after.disk_hits > before.disk_hits || over(after.disk_bytes, limits.disk_bytes),
        ),
        (LimitKind::DiskInodes, after.inode_hits > before.inode_hits || over(after.inodes, limits.inodes)),
        (
            LimitKind::SharedMemory,
            after.shared_memory_hits > before.shared_memory_hits || said.shared_memory(),
        ),
    ];
    let reached = kinds.into_iter().filter(|(_, reached)| *reached);
    reached.map(|(limit, _)| Hit::new(limits, limit)).collect()
}

/// What is said of a limit that was reached.
fn words(limits: &Limits, limit: LimitKind) -> String {
    let what = match limit {
        LimitKind::Memory => format!(
            "its memory limit of {}: a process was ended, or refused more, because memory ran out",
            size(limits.memory_bytes)
        ),
        LimitKind::Processes => {
            format!("its limit of {} processes and threads: another could not be started", limits.processes)
        }
        LimitKind::OpenFiles => {
            format!("its limit of {} open files of one process: no more can be opened", limits.open_files)
        }
        LimitKind::DiskBytes => {
            format!("its disk limit of {}: no more can be written", size(limits.disk_bytes))
        }
        LimitKind::DiskInodes => {
            format!("its limit of {} files and directories: no more can be made", limits.inodes)
        }
        LimitKind::SharedMemory => format!(
            "the end of its shared memory: /dev/shm has {}, a part of the memory limit, and is full",
            size(limits.shared_bytes())
        ),
        LimitKind::WallClock => match limits.wall_clock {
            Some(limit) => format!("the end of its life of {} s, and was ended", limit.as_secs()),
            None => "the end of its life, and was ended".to_owned(),
        },
    };
    let key = sandbox::limit_key(limit);
    format!(
        "The sandbox came to {what}. Use less, or let a person raise it: {key} in the environment's limits, or in \
         [sandbox] of slipway.toml."
    )
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{bytes} bytes"),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_sets_what_it_names_and_no_more() {
        let configured = Limits { wall_clock: Some(Duration::from_secs(9)), ..Limits::default() };
        let own = SandboxLimits { memory_mb: Some(64), wall_clock_s: Some(0), ..SandboxLimits::default() };
        let merged = merge(&configured, &own);
        let want = Limits { memory_bytes: 64 << 20, wall_clock: None, ..configured.clone() };
        assert_eq!(merged, want);
        assert_eq!(merge(&configured, &SandboxLimits::default()), configured);
        let allowing = SandboxLimits { user_namespaces: Some(true), ..SandboxLimits::default() };
        assert!(merge(&configured, &allowing).user_namespaces && !configured.user_namespaces);
        let huge = SandboxLimits { disk_mb: Some(u64::MAX), ..SandboxLimits::default() };
        assert_eq!(merge(&configured, &huge).disk_bytes, u64::MAX);
    }

    #[test]
    fn a_limit_is_named_with_its_value_and_its_key() {
        let limits = Limits { memory_bytes: 64 << 20, open_files: 7, ..Limits::default() };
        let before = Usage { disk_hits: 2, ..Usage::default() };
        let after = Usage { memory_hits: 1, disk_hits: 2, ..Usage::default() };
        let hits = reached(&limits, &before, &after, "open: Too many open files");
        let kinds: Vec<LimitKind> = hits.iter().map(|hit| hit.limit).collect();
        assert_eq!(kinds, [LimitKind::Memory, LimitKind::OpenFiles]);
        assert!(hits[0].message.contains("64 MiB") && hits[0].message.contains("memory_mb"), "{hits:?}");
        assert!(
            hits[1].message.contains(" 7 open files") && hits[1].message.contains("open_files"),
            "{hits:?}"
        );
        assert_eq!(reached(&limits, &after, &after, "fine"), []);
    }

    #[test]
    fn where_nothing_is_counted_the_commands_words_are_believed() {
        let limits = Limits::default();
        let none = Usage::default();
        let counted = Usage { memory_bytes: Some(1), processes: Some(1), ..Usage::default() };
        let kinds = |usage: &Usage, said: &Said| {
            told(&limits, usage, usage, said).into_iter().map(|hit| hit.limit).collect::<Vec<_>>()
        };
        let said = Said::by_failed("MemoryError");
        assert_eq!(kinds(&none, &said), [LimitKind::Memory]);
        assert_eq!(kinds(&counted, &said), []);
        let said = Said::new(false, "BlockingIOError: [Errno 11] Resource temporarily unavailable");
        assert_eq!(kinds(&none, &said), [LimitKind::Processes]);
        assert_eq!(kinds(&counted, &said), []);
        let said = Said::new(false, "OSError: [Errno 24] Too many open files: 'x'");
        assert_eq!(kinds(&counted, &said), [LimitKind::OpenFiles]);
    }

    #[test]
    fn a_write_that_is_refused_over_the_disk_limit_is_told_each_time() {
        let limits = Limits { disk_bytes: 10, ..Limits::default() };
        let over = Usage { disk_bytes: Some(11), disk_hits: 1, ..Usage::default() };
        let hits = |usage: &Usage, text: &str| told(&limits, usage, usage, &Said::new(true, text)).len();
        assert_eq!(hits(&over, "head: write error: File too large"), 1);
        assert_eq!(hits(&over, "some other fault"), 0);
        assert_eq!(reached(&limits, &over, &over, "it failed: File too large"), [], "it was told before");
        assert_eq!(hits(&Usage { disk_bytes: Some(9), ..over }, "File too large"), 0);
    }
}
