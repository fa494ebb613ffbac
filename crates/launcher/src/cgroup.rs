//! Control groups: which ones, and with what in them, the driver has decided (it knows v1, v2 and hybrid hosts); here
//! they are made, joined and removed.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use crate::fault::{Context, Fault};
use crate::spec::{Cgroup, Hierarchy, Stage};

/// Makes every group and writes its settings.
pub(crate) fn make(groups: &[Cgroup]) -> Result<(), Fault> {
    for group in groups {
        std::fs::create_dir_all(&group.path)
            .at(Stage::Cgroup, &format!("making the control group {}", group.path.display()))?;
        for setting in &group.settings {
            let file = group.path.join(&setting.file);
            match std::fs::write(&file, &setting.value) {
                Err(_) if setting.optional => {}
                other => {
                    other.at(Stage::Cgroup, &format!("writing {} to {}", setting.value, file.display()))?
                }
            }
        }
    }
    Ok(())
}

/// The group that init is born in, opened.
pub(crate) fn birthplace(groups: &[Cgroup]) -> Result<Option<OwnedFd>, Fault> {
    let Some(group) = groups.iter().find(|group| group.hierarchy == Hierarchy::V2) else { return Ok(None) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(&group.path, flags, Mode::empty())
        .at(Stage::Cgroup, &format!("opening {}", group.path.display()))
        .map(Some)
}

/// Puts this process, which must have a single thread, and so everything it will start, into the groups that it was not
/// born in.
pub(crate) fn enter(groups: &[Cgroup]) -> Result<(), Fault> {
    for group in groups.iter().filter(|group| group.hierarchy == Hierarchy::V1) {
        std::fs::write(group.path.join("tasks"), "0")
            .at(Stage::Cgroup, &format!("joining {}", group.path.display()))?;
    }
    Ok(())
}

/// Looks from outside whether a process is in every group.
pub(crate) fn verify(groups: &[Cgroup], pid: Pid) -> Result<(), Fault> {
    let own = std::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero()))
        .at(Stage::Verify, "reading the sandbox's control groups")?;
    for group in groups {
        let name = group.path.file_name().unwrap_or_default().to_string_lossy();
        // Each of our groups has a hierarchy of its own, so each accounts for a line.
        let wanted = groups.iter().filter(|other| other.path.ends_with(&*name)).count();
        if own.lines().filter(|line| line.ends_with(&format!("/{name}"))).count() < wanted {
            return Err(Fault::new(
                Stage::Verify,
                format!("the sandbox is not in its control group {}", group.path.display()),
            ));
        }
    }
    Ok(())
}

/// How many processes were killed for lack of memory.
pub(crate) fn oom_kills(groups: &[Cgroup]) -> u64 {
    groups
        .iter()
        .filter_map(|group| std::fs::read_to_string(group.path.join(group.oom_file.as_deref()?)).ok())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
                .collect::<Vec<_>>()
        })
        .sum()
}

/// Removes the groups. The kernel refuses while the last process is still on its way out, so this waits for it.
pub(crate) fn remove<'a>(groups: impl Iterator<Item = &'a Path>) {
    for path in groups {
        for _ in 0..500 {
            match std::fs::remove_dir(path) {
                Ok(()) => break,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(2)),
            }
        }
    }
}
