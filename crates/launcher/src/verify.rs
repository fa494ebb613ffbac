//! The self-test: before the guest takes its first command it looks whether every promised wall stands, and refuses to
//! run when one does not. Nothing falls back silently.

use std::collections::BTreeMap;
use std::path::Path;

use crate::fault::{Context, Fault, check};
use crate::spec::{INSIDE_ID, Launch, Stage};

const NAMESPACES: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
const OVERLAY_MAGIC: i64 = 0x794c_7630;

/// The namespaces this process is in.
pub(crate) fn namespaces() -> Result<BTreeMap<&'static str, String>, Fault> {
    NAMESPACES
        .iter()
        .map(|name| {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}"))
                .at(Stage::Verify, &format!("reading the {name} namespace"))?;
            Ok((*name, link.to_string_lossy().into_owned()))
        })
        .collect()
}

/// Looks from the inside, as the last thing before the guest starts.
pub(crate) fn walls(launch: &Launch, outside: &BTreeMap<&'static str, String>) -> Result<(), Fault> {
    let missing = |what: String| Err(Fault::new(Stage::Verify, what));
    for (name, link) in &namespaces()? {
        if outside.get(name) == Some(link) {
            return missing(format!("the sandbox shares the host's {name} namespace"));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").at(Stage::Verify, "reading its own status")?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or("")
            .trim()
            .to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        if u64::from_str_radix(&field(set), 16) != Ok(0) {
            return missing(format!("capabilities are left: {set} is {}", field(set)));
        }
    }
    for (name, wanted) in [("NoNewPrivs", "1"), ("Seccomp", "2")] {
        if field(name) != wanted {
            return missing(format!("{name} is {} and not {wanted}", field(name)));
        }
    }
    for name in ["Uid", "Gid"] {
        if field(name).split_whitespace().any(|id| id != INSIDE_ID.to_string()) {
            return missing(format!("{name} is {} and not {INSIDE_ID}", field(name)));
        }
    }
    let devices =
        std::fs::read_to_string("/proc/self/net/dev").at(Stage::Verify, "listing network interfaces")?;
    if let Some(other) = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .find(|name| *name != "lo")
    {
        return missing(format!("there is a network interface beside loopback: {other}"));
    }
    let root = rustix::fs::statfs("/").at(Stage::Verify, "looking at the root")?;
    if root.f_type as i64 != OVERLAY_MAGIC {
        return missing("the root is not the sandbox's own".to_owned());
    }
    for shown in launch.binds.iter().map(|bind| bind.target.as_path()).chain([Path::new("/proc/sys")]) {
        let flags =
            rustix::fs::statvfs(shown).at(Stage::Verify, &format!("looking at {}", shown.display()))?.f_flag;
        if !flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            return missing(format!("{} can be written", shown.display()));
        }
    }
    // Without the filter the kernel would say that there is no such descriptor.
    // SAFETY: plain numbers, of which one is no descriptor.
    let joined = check(unsafe { libc::syscall(libc::SYS_setns, -1, 0) });
    if joined.map_err(|error| error.raw_os_error()) != Err(Some(libc::EPERM)) {
        return missing("system calls are not filtered".to_owned());
    }
    if launch.user_namespaces {
        return Ok(());
    }
    // An ordinary process may do this on most hosts, so only the filter can be what refuses it.
    // SAFETY: a new user namespace does not touch file descriptors or memory; if it is made, this process ends.
    match unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER) } {
        Err(rustix::io::Errno::PERM) => Ok(()),
        _ => missing("user namespaces can be made".to_owned()),
    }
}
