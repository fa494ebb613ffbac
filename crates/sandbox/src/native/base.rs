//! The base `host`: the host's system directories and toolchains, read-only, over a small layer of our own.
//!
//! The layer has the mount points and a copy of the few things under /etc that programs need to start. It holds
//! nobody's home, no keys, no tokens and no sockets: only names on a list, and of those only what every user of the
//! host may read.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use launcher::spec::{Bind, INSIDE_ID, Ids};
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::toolchains::Toolchains;
use crate::Error;

/// Raised when the layer's content changes in a way that the key would not show.
const LAYOUT: u32 = 3;

/// Top-level names that are links on most systems and directories on some.
const SYSTEM: [&str; 8] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store"];

/// What programs need from /etc. Configuration that may hold passwords or tokens (git, pip, npm, apt, ssh) is not here.
const ETC: [&str; 21] = [
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "pki/tls/openssl.cnf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "timezone",
    "mime.types",
    "magic",
    "protocols",
    "services",
    "os-release",
    "debian_version",
    "fonts",
    "terminfo",
    "bash.bashrc",
];

/// Names under /etc that begin with one of these.
const ETC_PREFIXES: [&str; 4] = ["java-", "python3", "perl", "ruby"];

/// Covered below the system's directories: the global settings of npm and its likes, which may hold tokens.
const HIDDEN: [&str; 2] = ["/usr/etc", "/usr/local/etc"];

/// More than this is not what the list above is meant for.
const ETC_LIMIT: u64 = 64 << 20;

/// The prepared base.
#[derive(Debug, Clone)]
pub struct HostBase {
    /// The read-only layer.
    pub layer: PathBuf,
    /// What of the host is shown over it.
    pub binds: Vec<Bind>,
    /// What of that is covered.
    pub hidden: Vec<PathBuf>,
    /// Variables of every process.
    pub env: Vec<(String, String)>,
    /// As long as it is held the layer is not removed.
    lock: Option<Arc<OwnedFd>>,
}

/// A file that is locked while the value lives.
fn lock(path: &Path, operation: FlockOperation) -> Result<OwnedFd, Error> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let locked = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .and_then(|file| rustix::fs::flock(&file, operation).map(|()| file));
    locked.map_err(|errno| Error::Io { path: path.to_owned(), source: errno.into() })
}

impl HostBase {
    /// Makes the layer unless one with the same content is there. Layers that nobody uses are removed when no sandbox
    /// can stand on them.
    pub(super) fn prepare(dir: &Path, private: &Path, in_use: impl Fn() -> bool) -> Result<Self, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let path: Vec<PathBuf> =
            std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
        let private = private.canonicalize().map_err(Error::io(private))?;
        let toolchains = Toolchains::find(&path, &[private]);
        let system = System::find();
        let etc = etc_sources();
        let ids = super::own_ids()?;
        let name = format!("host-{:016x}", key(&toolchains, &system, &etc, ids));
        let mut binds = system.binds();
        binds.extend(toolchains.dirs.iter().map(|dir| Bind { source: dir.clone(), target: dir.clone() }));
        let mut base = Self {
            layer: dir.join(&name),
            binds,
            hidden: HIDDEN.iter().map(PathBuf::from).collect(),
            env: host_env(&toolchains),
            lock: None,
        };
        // One at a time, also across processes: what is built here is shared by all of them.
        let _building = lock(&dir.join("lock"), FlockOperation::LockExclusive)?;
        let held = lock(&dir.join(format!("{name}.lock")), FlockOperation::LockShared)?;
        base.lock = Some(Arc::new(held));
        if !in_use() {
            remove_unused(dir)?;
        }
        if !base.layer.is_dir() {
            build(&base.layer, &system, &base.binds, &etc, ids)?;
        }
        Ok(base)
    }

    /// The directories of the host's toolchains that are shown beside the system's own.
    pub fn toolchains(&self) -> impl Iterator<Item = &Path> {
        self.binds.iter().map(|bind| bind.source.as_path()).filter(|source| source.components().count() > 2)
    }
}

fn host_env(toolchains: &Toolchains) -> Vec<(String, String)> {
    let path: Vec<String> = toolchains.path.iter().map(|dir| dir.display().to_string()).collect();
    let mut env = env(&path.join(":"));
    env.extend(toolchains.env.iter().cloned());
    env
}

/// Variables that every sandbox has.
pub(super) fn env(path: &str) -> Vec<(String, String)> {
    [
        ("PATH", path),
        ("HOME", "/home/dev"),
        ("USER", "dev"),
        ("LOGNAME", "dev"),
        ("SHELL", "/bin/sh"),
        ("TERM", "dumb"),
        // Most tools then neither ask questions nor draw progress bars.
        ("CI", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The system's own directories, as links or as directories.
#[derive(Debug, Hash)]
struct System {
    links: Vec<(&'static str, PathBuf)>,
    dirs: Vec<&'static str>,
}

impl System {
    fn find() -> Self {
        let mut system = Self { links: Vec::new(), dirs: Vec::new() };
        for name in SYSTEM {
            let path = Path::new("/").join(name);
            match std::fs::read_link(&path) {
                Ok(target) => system.links.push((name, target)),
                Err(_) if path.is_dir() => system.dirs.push(name),
                Err(_) => {}
            }
        }
        system
    }

    fn binds(&self) -> Vec<Bind> {
        self.dirs
            .iter()
            .map(|name| Path::new("/").join(name))
            .map(|path| Bind { source: path.clone(), target: path })
            .collect()
    }
}

/// Files and directories under /etc to copy.
fn etc_sources() -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = ETC.iter().map(PathBuf::from).collect();
    if let Ok(entries) = std::fs::read_dir("/etc") {
        let mut more: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| ETC_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
            .map(PathBuf::from)
            .collect();
        more.sort();
        names.extend(more);
    }
    names.retain(|name| Path::new("/etc").join(name).symlink_metadata().is_ok());
    names
}

fn key(toolchains: &Toolchains, system: &System, etc: &[PathBuf], ids: Ids) -> u64 {
    let mut hasher = DefaultHasher::new();
    (LAYOUT, &toolchains.dirs, system, ids == Ids::Range).hash(&mut hasher);
    for name in etc {
        if let Ok(data) = Path::new("/etc").join(name).symlink_metadata() {
            (name, data.mtime(), data.mtime_nsec(), data.size()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Removes layers that no driver holds. The caller has the lock of the whole directory.
fn remove_unused(dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(Error::io(dir))?.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(layer) = name.to_str().and_then(|name| name.strip_suffix(".lock")) else { continue };
        // A driver that uses it holds the lock; so do we for our own.
        if lock(&entry.path(), FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let layer = dir.join(layer);
        launcher::tree::remove(&layer).map_err(Error::io(&layer))?;
        std::fs::remove_file(entry.path()).map_err(Error::io(entry.path()))?;
    }
    Ok(())
}

fn build(layer: &Path, system: &System, binds: &[Bind], etc: &[PathBuf], ids: Ids) -> Result<(), Error> {
    // Built aside and moved into place, so that a layer is either whole or not there.
    let building = layer.with_extension(format!("new-{}", std::process::id()));
    let filled = fill(&building, system, binds, etc).and_then(|()| give(&building, ids));
    let result = filled.and_then(|()| match std::fs::rename(&building, layer) {
        Err(_) if layer.is_dir() => Ok(()),
        other => other,
    });
    if building.exists() {
        launcher::tree::remove(&building).map_err(Error::io(&building))?;
    }
    result.map_err(Error::io(layer))
}

fn fill(root: &Path, system: &System, binds: &[Bind], etc: &[PathBuf]) -> std::io::Result<()> {
    make_dir(root, 0o755)?;
    for dir in [
        "dev",
        "etc",
        "home/dev",
        "mnt",
        "opt",
        "proc",
        "run/slipway",
        "sys",
        "var/cache",
        "var/lib",
        "var/log",
        "workspace",
    ] {
        make_dir(&root.join(dir), 0o755)?;
    }
    for dir in ["tmp", "var/tmp"] {
        make_dir(&root.join(dir), 0o1777)?;
    }
    for (name, target) in &system.links {
        symlink(target, root.join(name))?;
    }
    for bind in binds {
        let place = root.join(bind.target.strip_prefix("/").unwrap_or(&bind.target));
        if bind.source.is_dir() {
            make_dir(&place, 0o755)?;
        } else {
            if let Some(parent) = place.parent() {
                make_dir(parent, 0o755)?;
            }
            std::fs::write(place, "")?;
        }
    }
    let mut budget = ETC_LIMIT;
    for name in etc {
        copy(&Path::new("/etc").join(name), &root.join("etc").join(name), &mut budget)?;
    }
    for (name, content) in [
        (
            "passwd",
            "root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        ),
        ("group", "root:x:0:\ntty:x:5:\ndev:x:1000:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"),
        ("hostname", "sandbox\n"),
        ("resolv.conf", "nameserver 127.0.0.1\n"),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
        ),
    ] {
        std::fs::write(root.join("etc").join(name), content)?;
    }
    Ok(())
}

/// Gives the inside user what is its own. An ordinary user's files are that user's anyway.
fn give(root: &Path, ids: Ids) -> std::io::Result<()> {
    if ids == Ids::Own {
        return Ok(());
    }
    ["home/dev", "run/slipway", "workspace"]
        .iter()
        .try_for_each(|own| std::os::unix::fs::lchown(root.join(own), Some(INSIDE_ID), Some(INSIDE_ID)))
}

fn make_dir(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Copies what every user of the host may read; links stay links.
fn copy(source: &Path, target: &Path, budget: &mut u64) -> std::io::Result<()> {
    let Ok(data) = source.symlink_metadata() else { return Ok(()) };
    if let Some(parent) = target.parent() {
        make_dir(parent, 0o755)?;
    }
    if data.is_symlink() {
        return symlink(std::fs::read_link(source)?, target);
    }
    if data.is_dir() {
        if data.mode() & 0o005 != 0o005 {
            return Ok(());
        }
        make_dir(target, 0o755)?;
        for entry in std::fs::read_dir(source)? {
            let entry = entry?;
            copy(&entry.path(), &target.join(entry.file_name()), budget)?;
        }
    } else if data.is_file() && data.mode() & 0o004 != 0 && data.len() <= *budget {
        *budget -= data.len();
        std::fs::copy(source, target)?;
        std::fs::set_permissions(target, std::fs::Permissions::from_mode(0o644 | (data.mode() & 0o111)))?;
    }
    Ok(())
}
