//! The native Linux driver: no daemon, no container engine, as root or as an ordinary user.
//!
//! Under its directory: `sandboxes/<id>/` (socket, writable layer, state; see `launcher::spec::files`) and `bases/`
//! (the read-only layers). The launcher builds the walls; this side decides what is in them and finds them again.

mod base;
mod cgroups;
mod launch;
mod toolchains;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use launcher::spec::{Cause, Ended, FIRST_RANGE, Ids, Launch, RANGE, RANGES, State, files};
use protocol::SandboxId;
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::{Base, Driver, Error, Info, Life, Limits, Sandbox, Spec};

pub use base::HostBase;
pub use cgroups::Support as CgroupSupport;

/// The driver.
pub struct Native {
    sandboxes: PathBuf,
    base: HostBase,
    cgroups: cgroups::Support,
    ids: Ids,
    launcher: launch::Launcher,
}

impl Native {
    /// Opens the driver in a directory of its own and prepares what sandboxes share.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let sandboxes = dir.join("sandboxes");
        make_private(dir)?;
        make_private(&sandboxes)?;
        // A directory that cannot be read may well have something in it.
        let in_use = || std::fs::read_dir(&sandboxes).map_or(true, |mut entries| entries.next().is_some());
        let base = HostBase::prepare(&dir.join("bases"), dir, in_use)?;
        let ids = own_ids()?;
        let launcher = launch::Launcher::load()?;
        Ok(Self { sandboxes, base, cgroups: cgroups::Support::of_this_host(), ids, launcher })
    }

    /// What limits this host lets us set.
    pub fn cgroups(&self) -> &CgroupSupport {
        &self.cgroups
    }

    /// The base that sandboxes stand on.
    pub fn base(&self) -> &HostBase {
        &self.base
    }

    /// Whether this is the driver of an ordinary user.
    pub fn rootless(&self) -> bool {
        self.ids == Ids::Own
    }

    fn dir(&self, id: SandboxId) -> PathBuf {
        self.sandboxes.join(id.to_string())
    }

    fn launch(&self, spec: &Spec) -> Launch {
        let Base::Host = spec.base;
        let hostname = "sandbox".to_owned();
        let mut env = self.base.env.clone();
        env.push(("HOSTNAME".to_owned(), hostname.clone()));
        Launch {
            dir: self.dir(spec.id),
            layers: vec![self.base.layer.clone()],
            ids: self.ids,
            binds: self.base.binds.clone(),
            hidden: self.base.hidden.clone(),
            // Shared memory counts as nobody's, so it must not be able to use up all there is.
            shm_bytes: spec.limits.memory_bytes / 4,
            hostname,
            cgroups: self.cgroups.plan(spec.id, &spec.limits),
            rlimits: rlimits(&spec.limits, &self.cgroups),
            env,
            cwd: crate::WORKSPACE.to_owned(),
            wall_clock_ms: spec
                .limits
                .wall_clock
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            life: match spec.life {
                Life::Own => launcher::spec::Life::Own,
                Life::Tied => launcher::spec::Life::Tied,
            },
        }
    }
}

/// With 0 the kernel still runs a handler that is configured as a pipe, outside; with 1 it does not.
const NO_CORE: u64 = 1;

/// Limits of each process. Where no control group limits memory and the number of processes of all together, these
/// are the next best thing.
fn rlimits(limits: &Limits, cgroups: &cgroups::Support) -> Vec<(launcher::spec::Rlimit, u64)> {
    use launcher::spec::Rlimit;
    let mut rlimits = vec![(Rlimit::OpenFiles, limits.open_files), (Rlimit::Core, NO_CORE)];
    rlimits.push((Rlimit::Processes, limits.processes));
    if !cgroups.limits_memory() {
        rlimits.push((Rlimit::Data, limits.memory_bytes));
    }
    rlimits
}

/// Whose ids a sandbox gets. Root gives each a range of its own, unless it is root only of a small user namespace, as in
/// a rootless container; then it is as ordinary a user as any, provided that it is not the host's root after all.
fn own_ids() -> Result<Ids, Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Ids::Own);
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").map_err(Error::io("/proc/self/uid_map"))?;
    let lines: Vec<Vec<u64>> = map
        .lines()
        .map(|line| line.split_whitespace().filter_map(|number| number.parse().ok()).collect())
        .collect();
    let last = u64::from(FIRST_RANGE) + u64::from(RANGES) * u64::from(RANGE);
    let covers = |line: &Vec<u64>| matches!(line[..], [inside, _, count] if inside <= u64::from(FIRST_RANGE) && inside + count >= last);
    if lines.iter().any(covers) {
        return Ok(Ids::Range);
    }
    if lines.iter().any(|line| line.starts_with(&[0, 0])) {
        return Err(Error::Unsupported {
            message: "slipway runs as the host's root in a user namespace without ids for sandboxes"
                .to_owned(),
            hint: "run it as root outside of that namespace, or as an ordinary user".to_owned(),
        });
    }
    Ok(Ids::Own)
}

fn make_private(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::io(dir))
}

#[async_trait::async_trait]
impl Driver for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn create(&self, spec: &Spec) -> Result<Arc<dyn Sandbox>, Error> {
        let launch = self.launch(spec);
        let dir = launch.dir.clone();
        std::fs::create_dir(&dir).map_err(Error::io(&dir))?;
        match self.launcher.launch(&launch).await {
            Ok(owner) => Ok(Arc::new(NativeSandbox {
                id: spec.id,
                guest: guest::Client::unix(dir.join(files::SOCKET)),
                dir,
                _owner: owner,
            })),
            Err(error) => {
                // The launcher cleans up behind itself, unless it was killed.
                remove_groups(launch.cgroups.iter().map(|group| group.path.as_path())).await?;
                launcher::tree::remove(&dir).map_err(Error::io(&dir))?;
                Err(error)
            }
        }
    }

    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        let dir = self.dir(id);
        let guest = guest::Client::unix(dir.join(files::SOCKET));
        if !monitored(&dir)? || guest.ping().await.is_err() {
            return Err(Error::NotFound(id));
        }
        Ok(Arc::new(NativeSandbox { id, guest, dir, _owner: None }))
    }

    async fn list(&self) -> Result<Vec<Info>, Error> {
        let mut list = Vec::new();
        for entry in std::fs::read_dir(&self.sandboxes).map_err(Error::io(&self.sandboxes))? {
            let entry = entry.map_err(Error::io(&self.sandboxes))?;
            // Anything else in there is not ours.
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let running = monitored(&entry.path())?;
            let pid = read_json::<State>(&entry.path().join(files::STATE)).map(|state| state.init);
            list.push(Info { id, running, pid: pid.filter(|_| running) });
        }
        list.sort_by_key(|info| info.id);
        Ok(list)
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Error> {
        let dir = self.dir(id);
        if !dir.exists() {
            return Ok(());
        }
        if let Some(state) = read_json::<State>(&dir.join(files::STATE)) {
            end(&dir, &state).await?;
        }
        let path = dir.clone();
        let removed = tokio::task::spawn_blocking(move || launcher::tree::remove(&path)).await;
        removed.map_err(std::io::Error::other).and_then(|result| result).map_err(Error::io(&dir))
    }
}

/// Ends a sandbox by ending pid 1, which only the monitor's own process can have been given; then waits until the
/// monitor has cleaned up.
async fn end(dir: &Path, state: &State) -> Result<(), Error> {
    if monitored(dir)? {
        if let Some(init) = i32::try_from(state.init).ok().and_then(rustix::process::Pid::from_raw) {
            // The monitor lives and has not reaped pid 1 yet, so this number is still its own; gone is as good.
            let _gone = rustix::process::kill_process(init, rustix::process::Signal::KILL);
        }
        let monitor = Path::new("/proc").join(state.monitor.to_string());
        for _ in 0..10_000 {
            // A tied sandbox's directory goes before its monitor does.
            let working = dir.exists() && monitored(dir)?;
            if !working && !monitor.exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // A monitor that was killed could not remove these.
    remove_groups(state.cgroups.iter().map(PathBuf::as_path)).await
}

/// Removes control groups. The kernel refuses while the last of many processes is on its way out.
async fn remove_groups(groups: impl Iterator<Item = &Path>) -> Result<(), Error> {
    for group in groups {
        let mut tries = 0;
        loop {
            match std::fs::remove_dir(group) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy && tries < 2000 => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::Io { path: group.to_owned(), source: error });
                }
                _ => break,
            }
        }
    }
    Ok(())
}

/// Whether the sandbox's monitor lives: it holds the lock as long as it does.
fn monitored(dir: &Path) -> Result<bool, Error> {
    let path = dir.join(files::LOCK);
    let lock = match rustix::fs::open(&path, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    {
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        other => other.map_err(|errno| Error::Io { path, source: errno.into() })?,
    };
    Ok(rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

struct NativeSandbox {
    id: SandboxId,
    guest: guest::Client,
    dir: PathBuf,
    /// For a tied life: closing it ends the sandbox.
    _owner: Option<launch::Owner>,
}

#[async_trait::async_trait]
impl Sandbox for NativeSandbox {
    fn id(&self) -> SandboxId {
        self.id
    }

    fn guest(&self) -> &guest::Client {
        &self.guest
    }

    async fn ended(&self) -> Option<String> {
        let ended: Option<Ended> = read_json(&self.dir.join(files::ENDED));
        match ended {
            Some(ended) => Some(describe(&ended)),
            None if monitored(&self.dir).unwrap_or(false) => None,
            None => Some("it is gone".to_owned()),
        }
    }
}

fn describe(ended: &Ended) -> String {
    match (ended.cause, ended.oom_kills) {
        (Cause::WallClock, _) => "its time limit was reached".to_owned(),
        (Cause::OwnerGone, _) => "the command it belonged to ended".to_owned(),
        (_, kills) if kills > 0 => "it ran out of memory".to_owned(),
        (Cause::Removed, _) => "it was removed".to_owned(),
        (Cause::Died, _) => "it was ended from outside".to_owned(),
    }
}
