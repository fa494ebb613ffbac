//! Slowing a sandbox down while it may be taking more than it may. Counting very many files takes seconds, and nothing but
//! its processor time holds back how many more it makes meanwhile: the kernel limits the length of files, not their number.
//!
//! Making room frees what was taken, so whoever does that is not slowed down.

use std::path::PathBuf;

use crate::spec::Cgroup;

/// Processor time in each tenth of a second, in millionths: a twentieth of one processor.
const SLOW_US: u32 = 5_000;

/// The files that say how much processor time there is, of version 2 and 1.
const FILES: [&str; 2] = ["cpu.max", "cpu.cfs_quota_us"];

/// Of one sandbox. Without a control group for it, it does nothing.
#[derive(Debug, Default)]
pub(super) struct Brake {
    /// The file, with what is in it usually and what slows down.
    quota: Option<(PathBuf, String, String)>,
    on: bool,
}

impl Brake {
    /// Of a sandbox in these control groups.
    pub(super) fn of(groups: &[Cgroup]) -> Self {
        let settings = groups.iter().flat_map(|group| group.settings.iter().map(move |one| (group, one)));
        let quota = settings
            .filter(|(_, setting)| FILES.contains(&setting.file.as_str()))
            .map(|(group, setting)| {
                // Version 2 has the period behind the quota.
                let slow = match setting.value.split_once(' ') {
                    Some((_, period)) => format!("{SLOW_US} {period}"),
                    None => SLOW_US.to_string(),
                };
                (group.path.join(&setting.file), setting.value.clone(), slow)
            })
            .next();
        Self { quota, on: false }
    }

    /// Puts it on or takes it off. What cannot be done is tried again with the next look.
    pub(super) fn set(&mut self, on: bool) {
        let Some((file, usual, slow)) = self.quota.as_ref().filter(|_| self.on != on) else { return };
        if std::fs::write(file, if on { slow } else { usual }).is_ok() {
            self.on = on;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Hierarchy, Setting};

    #[test]
    fn it_is_put_on_and_taken_off_again() {
        for (file, usual, slow) in
            [("cpu.max", "200000 100000", "5000 100000"), ("cpu.cfs_quota_us", "150000", "5000")]
        {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(file);
            std::fs::write(&path, usual).unwrap();
            let setting = |file: &str, value: &str| Setting {
                file: file.to_owned(),
                value: value.to_owned(),
                optional: false,
            };
            let group = Cgroup {
                path: dir.path().to_owned(),
                hierarchy: Hierarchy::V2,
                settings: vec![setting("pids.max", "7"), setting(file, usual)],
                oom_file: None,
            };
            let mut brake = Brake::of(&[group]);
            let now = || std::fs::read_to_string(&path).unwrap();
            brake.set(false);
            assert_eq!(now(), usual);
            brake.set(true);
            brake.set(true);
            assert_eq!(now(), slow);
            brake.set(false);
            assert_eq!(now(), usual);
        }
        Brake::of(&[]).set(true);
    }
}
