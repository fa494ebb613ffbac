//! Control groups: which ones, and with what in them, the driver has decided (it knows v1, v2 and hybrid hosts); here
//! they are made, joined and removed.

use std::path::Path;

use crate::fault::{Context, Fault};
use crate::spec::{Cgroup, Stage};

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

/// Puts a process, and so everything it will start, into every group.
pub(crate) fn join(groups: &[Cgroup], pid: i32) -> Result<(), Fault> {
    for group in groups {
        let file = group.path.join("cgroup.procs");
        std::fs::write(&file, pid.to_string())
            .at(Stage::Cgroup, &format!("joining {}", group.path.display()))?;
        let members =
            std::fs::read_to_string(&file).at(Stage::Cgroup, "reading who is in the control group")?;
        if !members.lines().any(|line| line.trim() == pid.to_string()) {
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
