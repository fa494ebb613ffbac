//! `unshare` with every namespace and nothing else: the host's whole file system stays visible.

use super::{ECHO, Missing, Peer};

const NAME: &str = "unshare (namespaces only)";

pub(super) fn peer() -> Result<Peer, Missing> {
    let Some(unshare) = super::program("unshare") else { return Err(Missing::package(NAME, "util-linux")) };
    let flags = "--fork --pid --mount --net --ipc --uts --cgroup --user --map-root-user --";
    Ok(Peer::new(NAME, unshare, flags.split(' ').chain(ECHO)))
}
