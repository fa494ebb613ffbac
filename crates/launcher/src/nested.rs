//! Namespaces that programs inside make for themselves, where the environment allows it: browsers and other tools that
//! put their own parts into sandboxes.
//!
//! A program is root in such a namespace, and of nothing outside it: the walls belong to a namespace above. What it can then
//! reach is more of the kernel, so the filter stays as narrow as those tools allow.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::fault::{Context, Fault};
use crate::spec::{Cgroup, Hierarchy, Ids, Launch, Stage};

/// What programs inside may do with namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// Nothing.
    Refused,
    /// Make them, but for those of control groups: whoever makes one gets to see the groups that it begins at. An ordinary
    /// user's sandbox has the user's own id, so it could write to them; and on some hosts they are not the sandbox's own.
    ButControlGroups,
    /// Make them.
    Allowed,
}

impl Nesting {
    /// What a launch allows. To be asked in the sandbox.
    pub(crate) fn of(launch: &Launch) -> Result<Self, Fault> {
        if !launch.user_namespaces {
            return Ok(Self::Refused);
        }
        let hierarchies = std::fs::read_to_string("/proc/self/cgroup")
            .at(Stage::UserNamespace, "reading which control groups there are")?;
        Ok(match launch.ids {
            Ids::Range if has_group_in_each(&hierarchies, &launch.cgroups) => Self::Allowed,
            Ids::Range | Ids::Own => Self::ButControlGroups,
        })
    }
}

/// Whether a sandbox has a group of its own wherever there are any. Of version 1 there are many hierarchies, and it has one
/// in those only that limit something: in the others it would see the host's.
fn has_group_in_each(hierarchies: &str, groups: &[Cgroup]) -> bool {
    let own = groups.iter().any(|group| group.hierarchy == Hierarchy::V2);
    own && hierarchies.lines().all(|line| line.starts_with("0::"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_are_shown_only_where_all_are_the_sandboxs_own() {
        let group = |hierarchy| Cgroup { path: "/x".into(), hierarchy, settings: Vec::new(), oom_file: None };
        let (first, second) = ([group(Hierarchy::V1)], [group(Hierarchy::V1), group(Hierarchy::V2)]);
        assert!(has_group_in_each("0::/\n", &second));
        assert!(!has_group_in_each("0::/\n", &first), "it would be the server's");
        assert!(!has_group_in_each("0::/\n", &[]));
        assert!(!has_group_in_each("5:devices:/\n4:memory:/\n0::/\n", &second));
        assert!(!has_group_in_each("1:name=systemd:/\n0::/\n", &second));
    }
}
