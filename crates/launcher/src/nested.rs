//! Namespaces that programs inside make for themselves, where the environment allows it: browsers and other tools that
//! put their own parts into sandboxes.
//!
//! A program is root in such a namespace, and of nothing outside it: the walls belong to a namespace above. What it can then
//! reach is more of the kernel, so the filter stays as narrow as those tools allow.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::fault::{Context, Fault};
use crate::spec::{Ids, Launch, Stage};

/// What programs inside may do with namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// Nothing.
    Refused,
    /// Make them, but for those of control groups. An ordinary user's sandbox has the user's own id, so it could write to
    /// the control groups that it would get to see.
    ButControlGroups,
    /// Make them.
    Allowed,
}

impl Nesting {
    /// What a launch allows.
    pub(crate) fn of(launch: &Launch) -> Self {
        match (launch.user_namespaces, launch.ids) {
            (false, _) => Self::Refused,
            (true, Ids::Own) => Self::ButControlGroups,
            (true, Ids::Range) => Self::Allowed,
        }
    }
}

/// Namespaces of one kind in one sandbox. A browser has one or two for each of its processes.
const MOST: &str = "1024";

/// Kinds of namespaces that the kernel counts.
const KINDS: [&str; 8] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"];

/// Bounds how many namespaces there can be below the one that this process is in now. They are also counted for whoever
/// runs the launcher, who could otherwise make no more sandboxes. Needs the capabilities of the namespace.
pub(crate) fn bound(kernel_settings: &OwnedFd) -> Result<(), Fault> {
    for kind in KINDS {
        let name = format!("user/max_{kind}_namespaces");
        let file = match openat(kernel_settings, &name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            // A kernel that does not know the kind.
            Err(Errno::NOENT) => continue,
            other => other.at(Stage::UserNamespace, &format!("opening {name}"))?,
        };
        rustix::io::write(&file, MOST.as_bytes()).at(Stage::UserNamespace, &format!("setting {name}"))?;
    }
    Ok(())
}
