//! Which control groups a sandbox gets: on hosts with version 1, version 2, and both.
//!
//! Groups are made beside (v2) or below (v1) the one this process is in, one for each sandbox and with no parent of
//! our own, so that nothing stays when the sandbox is gone.

use std::path::{Path, PathBuf};

use launcher::spec::{Cgroup, Hierarchy, Setting};
use protocol::SandboxId;

use crate::Limits;

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
const CPU_PERIOD_US: f64 = 100_000.0;

/// A sandbox's share of processors that others want too, against 1024 and 100 of those who ask for nothing. All sandboxes
/// have the same; the server, which everybody waits for, goes before a command that takes what it can get.
const SHARES: u64 = 64;
const WEIGHT: u64 = 6;

/// What this host lets us limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Support {
    /// Version 1: controller and the directory under which groups can be made.
    v1: Vec<(String, PathBuf)>,
    /// Version 2: the directory under which groups can be made, and the controllers that work there, if any. Every group
    /// of this version can be frozen.
    v2: Option<(PathBuf, Vec<String>)>,
    /// Version 1: where groups that can be frozen are made, if there is no version 2 for it.
    freezer: Option<PathBuf>,
}

impl Support {
    /// Looks at this host.
    pub fn of_this_host() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self::find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn find(mountinfo: &str, own: &str) -> Self {
        let mut support = Self::default();
        for mount in mountinfo.lines().filter_map(Mount::parse) {
            if mount.kind == "cgroup" {
                for controller in CONTROLLERS {
                    if !mount.options.contains(&controller) || support.limits(controller) {
                        continue;
                    }
                    let parent = own_group(own, |names| names.split(',').any(|name| name == controller))
                        .and_then(|group| mount.locate(group));
                    if let Some(parent) = parent.filter(|parent| writable(parent)) {
                        support.v1.push((controller.to_owned(), parent));
                    }
                }
            }
        }
        for mount in mountinfo.lines().filter_map(Mount::parse) {
            if mount.kind == "cgroup2"
                && support.v2.is_none()
                && let Some(group) = own_group(own, str::is_empty)
                && let Some(start) = mount.locate(group)
            {
                // Without controllers a group can be made below any other, and is good for freezing.
                support.v2 = usable_parent(&start, Path::new(mount.point), &support)
                    .or_else(|| writable(&start).then(|| (start, Vec::new())));
            }
        }
        if support.v2.is_none() {
            support.freezer = mountinfo
                .lines()
                .filter_map(Mount::parse)
                .filter(|mount| mount.kind == "cgroup" && mount.options.contains(&"freezer"))
                .find_map(|mount| {
                    mount.locate(own_group(own, |names| names.split(',').any(|name| name == "freezer"))?)
                })
                .filter(|parent| writable(parent));
        }
        support
    }

    /// Whether all processes of a sandbox can be stopped for a moment.
    pub fn freezes(&self) -> bool {
        self.v2.is_some() || self.freezer.is_some()
    }

    fn limits(&self, controller: &str) -> bool {
        self.v1.iter().any(|(name, _)| name == controller)
            || self.v2.as_ref().is_some_and(|(_, names)| names.iter().any(|name| name == controller))
    }

    /// Whether the memory of all processes together is limited.
    pub fn limits_memory(&self) -> bool {
        self.limits("memory")
    }

    /// Limits that cannot be set on this host, by name.
    pub fn missing(&self) -> Vec<&'static str> {
        CONTROLLERS.into_iter().filter(|controller| !self.limits(controller)).collect()
    }

    /// In words, for `slipway doctor`.
    pub fn describe(&self) -> String {
        let v1: Vec<&str> = self.v1.iter().map(|(name, _)| name.as_str()).collect();
        match (v1.is_empty(), &self.v2) {
            (true, None) => "none".to_owned(),
            (true, Some((_, names))) if names.is_empty() => "none".to_owned(),
            (true, Some((_, names))) => format!("{} (version 2)", names.join(", ")),
            (false, Some((_, names))) if names.is_empty() => format!("{} (version 1)", v1.join(", ")),
            (false, None) => format!("{} (version 1)", v1.join(", ")),
            (false, Some((_, names))) => {
                format!("{} (version 1), {} (version 2)", v1.join(", "), names.join(", "))
            }
        }
    }

    /// The groups of one sandbox.
    pub(super) fn plan(&self, id: SandboxId, limits: &Limits) -> Vec<Cgroup> {
        let name = format!("slipway-{id}");
        let quota = (limits.cpus * CPU_PERIOD_US).max(1000.0).round() as u64;
        let set = |file: &str, value: String| Setting { file: file.to_owned(), value, optional: false };
        let try_set = |file: &str, value: String| Setting { file: file.to_owned(), value, optional: true };
        let mut groups: Vec<Cgroup> = Vec::new();
        for (controller, parent) in &self.v1 {
            let memory = limits.memory_bytes.to_string();
            let (settings, oom_file) = match controller.as_str() {
                "memory" => (
                    vec![
                        set("memory.limit_in_bytes", memory.clone()),
                        try_set("memory.memsw.limit_in_bytes", memory),
                        try_set("memory.swappiness", "0".to_owned()),
                    ],
                    Some("memory.oom_control".to_owned()),
                ),
                "pids" => (vec![set("pids.max", limits.processes.to_string())], None),
                _ => (
                    vec![
                        set("cpu.cfs_period_us", format!("{CPU_PERIOD_US}")),
                        set("cpu.cfs_quota_us", quota.to_string()),
                        try_set("cpu.shares", SHARES.to_string()),
                    ],
                    None,
                ),
            };
            let path = parent.join(&name);
            // Controllers that are mounted together share one directory.
            match groups.iter_mut().find(|group| group.path == path) {
                Some(group) => {
                    group.settings.extend(settings);
                    group.oom_file = group.oom_file.take().or(oom_file);
                }
                None => groups.push(Cgroup { path, hierarchy: Hierarchy::V1, settings, oom_file }),
            }
        }
        if let Some((parent, controllers)) = &self.v2 {
            let mut settings = Vec::new();
            let has = |controller: &str| controllers.iter().any(|name| name == controller);
            if has("memory") {
                settings.push(set("memory.max", limits.memory_bytes.to_string()));
                settings.push(try_set("memory.swap.max", "0".to_owned()));
            }
            if has("pids") {
                settings.push(set("pids.max", limits.processes.to_string()));
            }
            if has("cpu") {
                settings.push(set("cpu.max", format!("{quota} {CPU_PERIOD_US}")));
                settings.push(try_set("cpu.weight", WEIGHT.to_string()));
            }
            let oom_file = has("memory").then(|| "memory.events".to_owned());
            groups.push(Cgroup { path: parent.join(&name), hierarchy: Hierarchy::V2, settings, oom_file });
        }
        let freezer = self.freezer.as_ref().map(|parent| parent.join(&name));
        if let Some(path) = freezer.filter(|path| groups.iter().all(|group| group.path != *path)) {
            groups.push(Cgroup { path, hierarchy: Hierarchy::V1, settings: Vec::new(), oom_file: None });
        }
        groups
    }
}

/// What control groups tell about a sandbox. What this host cannot tell is None.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Memory of all processes.
    pub(super) memory_bytes: Option<u64>,
    /// Processes and threads.
    pub(super) processes: Option<u64>,
    /// Processor time.
    pub(super) cpu_ms: Option<u64>,
    /// Processes that were killed because memory ran out.
    pub(super) memory_hits: u64,
    /// Times that a process could not be made because there were too many.
    pub(super) process_hits: u64,
}

impl Counters {
    /// Reads the groups of a sandbox ([`launcher::spec::State::cgroups`]), of whichever version each is.
    pub(super) fn read(groups: &[PathBuf]) -> Self {
        let text =
            |name: &str| groups.iter().find_map(|group| std::fs::read_to_string(group.join(name)).ok());
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        let field = |name: &str, key: &str| group_field(groups, name, key);
        Self {
            memory_bytes: number("memory.usage_in_bytes").or_else(|| number("memory.current")),
            processes: number("pids.current"),
            cpu_ms: field("cpu.stat", "usage_usec")
                .map(|micros| micros / 1000)
                .or_else(|| number("cpuacct.usage").map(|nanos| nanos / 1_000_000)),
            memory_hits: field("memory.oom_control", "oom_kill")
                .or_else(|| field("memory.events", "oom_kill"))
                .unwrap_or(0),
            process_hits: field("pids.events", "max").unwrap_or(0),
        }
    }
}

/// A field of a file that more than one group has, not all of them with this field.
fn group_field(groups: &[PathBuf], name: &str, key: &str) -> Option<u64> {
    groups.iter().find_map(|group| {
        let text = std::fs::read_to_string(group.join(name)).ok()?;
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
    })
}

/// One line of mountinfo, as far as it matters here.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1)?.split(',').collect();
        Some(Self { root, point, kind, options })
    }

    /// Where a group of this hierarchy is in the file system.
    fn locate(&self, group: &str) -> Option<PathBuf> {
        let below = if self.root == "/" { group } else { group.strip_prefix(self.root)? };
        Some(Path::new(self.point).join(below.trim_start_matches('/')))
    }
}

/// The group this process is in, from /proc/self/cgroup.
fn own_group(own: &str, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let names = fields.next()?;
        let group = fields.next()?;
        wanted(names).then_some(group)
    })
}

fn writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The nearest group, from our own upwards, under which groups with limits can be made: version 2 allows that only
/// where no process lives.
fn usable_parent(start: &Path, top: &Path, support: &Support) -> Option<(PathBuf, Vec<String>)> {
    let wanted: Vec<&str> =
        CONTROLLERS.into_iter().filter(|name| !support.v1.iter().any(|(have, _)| have == name)).collect();
    if wanted.is_empty() {
        return None;
    }
    let mut at = Some(start);
    while let Some(dir) = at {
        let words = |file: &str| -> Vec<String> {
            let text = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        let usable: Vec<&str> = {
            let present = words("cgroup.controllers");
            wanted.iter().copied().filter(|name| present.iter().any(|have| have == name)).collect()
        };
        // Only the root of the hierarchy may have processes beside groups; it is the one without a `cgroup.type`.
        let is_root = !dir.join("cgroup.type").exists();
        if !usable.is_empty() && writable(dir) && (is_root || words("cgroup.procs").is_empty()) {
            let enabled = words("cgroup.subtree_control");
            let missing: Vec<String> = usable
                .iter()
                .filter(|name| !enabled.iter().any(|have| have == *name))
                .map(|name| format!("+{name}"))
                .collect();
            let done = missing.is_empty()
                || std::fs::write(dir.join("cgroup.subtree_control"), missing.join(" ")).is_ok();
            if done {
                return Some((dir.to_owned(), usable.into_iter().map(str::to_owned).collect()));
            }
        }
        at = if dir == top { None } else { dir.parent() };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { cpus: 1.5, memory_bytes: 1 << 30, processes: 100, ..Limits::default() }
    }

    fn values(groups: &[Cgroup]) -> Vec<String> {
        let setting = |group: &Cgroup, setting: &Setting| {
            let parent = group
                .path
                .parent()
                .and_then(Path::file_name)
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            format!("{parent}: {}={}", setting.file, setting.value)
        };
        groups
            .iter()
            .flat_map(|group| group.settings.iter().map(|s| setting(group, s)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn version_1_groups_are_made_below_our_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display();
        for part in ["memory/ours", "pids", "cpu"] {
            std::fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        let mounts = format!(
            "30 24 0:26 / {root}/memory rw - cgroup cgroup rw,memory\n31 24 0:27 / {root}/pids rw - cgroup cgroup rw,pids\n\
             32 24 0:28 / {root}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 24 0:29 / {root}/unified rw - cgroup2 cgroup2 rw"
        );
        let support = Support::find(&mounts, "4:memory:/ours\n3:pids:/\n1:cpu,cpuacct:/\n0::/");
        assert!(support.missing().is_empty(), "{support:?}");
        assert_eq!(
            values(&support.plan(SandboxId::from_u128(1), &limits())),
            [
                "ours: memory.limit_in_bytes=1073741824",
                "ours: memory.memsw.limit_in_bytes=1073741824",
                "ours: memory.swappiness=0",
                "pids: pids.max=100",
                "cpu: cpu.cfs_period_us=100000",
                "cpu: cpu.cfs_quota_us=150000",
                "cpu: cpu.shares=64",
            ]
        );
    }

    #[test]
    fn version_2_groups_are_made_where_no_process_lives() {
        let dir = tempfile::tempdir().unwrap();
        let leaf = dir.path().join("user.slice/app.slice/ours.scope");
        std::fs::create_dir_all(&leaf).unwrap();
        for (group, procs) in
            [("user.slice", ""), ("user.slice/app.slice", ""), ("user.slice/app.slice/ours.scope", "12\n")]
        {
            let group = dir.path().join(group);
            std::fs::write(group.join("cgroup.type"), "domain").unwrap();
            std::fs::write(group.join("cgroup.procs"), procs).unwrap();
            std::fs::write(group.join("cgroup.controllers"), "cpu memory pids").unwrap();
            std::fs::write(group.join("cgroup.subtree_control"), "memory").unwrap();
        }
        let mounts = format!("33 24 0:29 / {} rw - cgroup2 cgroup2 rw,nsdelegate", dir.path().display());
        let support = Support::find(&mounts, "0::/user.slice/app.slice/ours.scope");
        assert!(support.missing().is_empty(), "{support:?}");
        let enabled =
            std::fs::read_to_string(dir.path().join("user.slice/app.slice/cgroup.subtree_control")).unwrap();
        assert_eq!(enabled, "+pids +cpu");
        assert_eq!(
            values(&support.plan(SandboxId::from_u128(1), &limits())),
            [
                "app.slice: memory.max=1073741824",
                "app.slice: memory.swap.max=0",
                "app.slice: pids.max=100",
                "app.slice: cpu.max=150000 100000",
                "app.slice: cpu.weight=6",
            ]
        );
    }

    #[test]
    fn a_hybrid_host_takes_what_version_1_lacks_from_version_2() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("pids")).unwrap();
        let unified = dir.path().join("unified");
        std::fs::create_dir_all(&unified).unwrap();
        std::fs::write(unified.join("cgroup.controllers"), "memory").unwrap();
        std::fs::write(unified.join("cgroup.procs"), "1\n").unwrap();
        std::fs::write(unified.join("cgroup.subtree_control"), "").unwrap();
        let root = dir.path().display();
        let mounts = format!(
            "31 24 0:27 / {root}/pids rw - cgroup cgroup rw,pids\n33 24 0:29 / {root}/unified rw - cgroup2 cgroup2 rw"
        );
        let support = Support::find(&mounts, "3:pids:/\n0::/");
        assert_eq!(support.missing(), ["cpu"]);
        assert_eq!(support.describe(), "pids (version 1), memory (version 2)");
    }

    #[test]
    fn a_group_to_freeze_is_planned_on_every_kind_of_host() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display();
        for part in ["freezer", "unified", "pids"] {
            std::fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        let first = format!(
            "30 24 0:26 / {root}/pids rw - cgroup cgroup rw,pids\n31 24 0:27 / {root}/freezer rw - cgroup cgroup rw,freezer"
        );
        let planned = |mounts: &str| -> Vec<PathBuf> {
            let support = Support::find(mounts, "3:freezer:/\n2:pids:/\n0::/");
            assert!(support.freezes());
            let groups = support.plan(SandboxId::from_u128(1), &limits());
            groups.iter().map(|group| group.path.parent().unwrap().to_owned()).collect()
        };
        assert_eq!(planned(&first), [dir.path().join("pids"), dir.path().join("freezer")]);
        let both = format!("{first}\n33 24 0:29 / {root}/unified rw - cgroup2 cgroup2 rw");
        assert_eq!(planned(&both), [dir.path().join("pids"), dir.path().join("unified")]);
    }

    #[test]
    fn counters_are_read_from_either_version() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for (file, content) in [
            ("one/memory.usage_in_bytes", "4096\n"),
            ("one/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("one/cpu.stat", "nr_periods 0\n"),
            ("two/memory.current", "8192\n"),
            ("two/memory.events", "low 0\noom 3\noom_kill 1\n"),
            ("two/pids.current", "7\n"),
            ("two/pids.events", "max 5\n"),
            ("two/cpu.stat", "usage_usec 1234567\nuser_usec 1\n"),
        ] {
            std::fs::create_dir_all(dir.path().join(file).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(file), content).unwrap();
        }
        let second = Counters {
            memory_bytes: Some(8192),
            processes: Some(7),
            cpu_ms: Some(1234),
            memory_hits: 1,
            process_hits: 5,
        };
        assert_eq!(Counters::read(std::slice::from_ref(&two)), second);
        assert_eq!(
            Counters::read(&[one, two]),
            Counters { memory_bytes: Some(4096), memory_hits: 2, ..second }
        );
        assert_eq!(Counters::read(&[]), Counters::default());
    }

    #[test]
    fn a_host_without_writable_groups_has_none() {
        let support = Support::find("33 24 0:29 / /nonexistent rw - cgroup2 cgroup2 rw", "0::/user.slice");
        assert_eq!(support.missing(), CONTROLLERS);
        assert!(support.plan(SandboxId::from_u128(1), &limits()).is_empty());
    }
}
