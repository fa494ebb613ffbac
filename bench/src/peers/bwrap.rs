//! `bwrap --unshare-all`, the sandbox of Flatpak and of several coding agents: namespaces and binds, no control groups, no
//! system-call filter unless one is handed to it.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use super::tree::{LOADER_CACHE, Tree};
use super::{ECHO, Missing, Peer};

const NAME: &str = "bwrap --unshare-all";

pub(super) fn peer(tree: &Tree) -> Result<Peer, Missing> {
    let Some(bwrap) = super::program("bwrap") else { return Err(Missing::package(NAME, "bubblewrap")) };
    let mut arguments = walls(tree);
    arguments.extend(ECHO.map(Into::into));
    Ok(Peer::new(NAME, bwrap, arguments))
}

/// What an idle sandbox of bwrap's runs: it waits for the end of its input, which comes however we end.
pub(crate) const IDLE: &str = "cat";

/// A sandbox of bwrap's that does nothing until its input is closed.
pub(crate) fn idle(tree: &Tree) -> Result<std::io::Result<Child>, Missing> {
    let Some(bwrap) = super::program("bwrap") else { return Err(Missing::package(NAME, "bubblewrap")) };
    let mut command = Command::new(bwrap);
    command.args(walls(tree)).arg(format!("/bin/{IDLE}"));
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn())
}

fn walls(tree: &Tree) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["--unshare-all", "--die-with-parent", "--new-session"].map(Into::into).into();
    for path in &tree.shown {
        arguments.extend(["--ro-bind".into(), path.into(), path.into()]);
    }
    for (path, target) in &tree.links {
        arguments.extend(["--symlink".into(), target.into(), path.into()]);
    }
    arguments.extend(["--ro-bind-try", LOADER_CACHE, LOADER_CACHE].map(Into::into));
    arguments.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--"].map(Into::into));
    arguments
}
