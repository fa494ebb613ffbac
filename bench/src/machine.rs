//! Facts about the machine, without which a number says little.

use serde::Serialize;

/// The machine and the moment.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// When the run began.
    pub(crate) at: String,
    pub(crate) system: String,
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    /// Of one, five and fifteen minutes, when the run began.
    pub(crate) load: String,
    /// How much of the processors others used in the second before the run; much above zero spoils it.
    pub(crate) busy_percent: f64,
    /// File system of the temporary directory, where sandboxes and bundles of this run live.
    pub(crate) temporary_directory: String,
    pub(crate) root: bool,
}

impl Machine {
    /// Looks at this one.
    pub(crate) fn look() -> Self {
        let uname = rustix::system::uname();
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str, separator: char| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix(separator));
            line.map(|value| value.trim().trim_matches('"').to_owned()).unwrap_or_default()
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal", ':');
        let memory: u64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        Self {
            at: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
            system: field(&read("/etc/os-release"), "PRETTY_NAME", '='),
            kernel: format!("{} {}", uname.release().to_string_lossy(), uname.machine().to_string_lossy()),
            processor: field(&read("/proc/cpuinfo"), "model name", ':'),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory / 1024,
            load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            busy_percent: busy_percent(),
            temporary_directory: file_system(&std::env::temp_dir()),
            root: rustix::process::geteuid().is_root(),
        }
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "{} · {} · Linux {} · {} · {} cores · {} MiB · load {}, {:.0} % busy · temporary files on {} · {}\n",
            self.at,
            self.system,
            self.kernel,
            self.processor,
            self.cores,
            self.memory_mib,
            self.load,
            self.busy_percent,
            self.temporary_directory,
            if self.root { "root" } else { "ordinary user" },
        )
    }
}

/// Share of the processors' time that was used, over one second: the load average still tells of what is long over.
fn busy_percent() -> f64 {
    let read = || {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let times: Vec<f64> = all.filter_map(|time| time.parse().ok()).collect();
        let idle: f64 = times.iter().skip(3).take(2).sum();
        (times.iter().take(8).sum::<f64>(), idle)
    };
    let before = read();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let after = read();
    let (whole, idle) = (after.0 - before.0, after.1 - before.1);
    if whole > 0.0 { (1.0 - idle / whole) * 100.0 } else { 0.0 }
}

/// Type of the file system that a directory is on.
fn file_system(dir: &std::path::Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut best = (0, "unknown".to_owned());
    for mount in mounts.lines() {
        let mut fields = mount.split(' ').skip(1);
        if let (Some(point), Some(kind)) = (fields.next(), fields.next())
            && dir.starts_with(point)
            && point.len() >= best.0
        {
            best = (point.len(), kind.to_owned());
        }
    }
    best.1
}
