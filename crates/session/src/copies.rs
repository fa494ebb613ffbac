//! Copies of files from before an upgrade. They are kept for a while, in case the older version is wanted back, and then go
//! with the garbage.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use protocol::{GarbageEntry, GarbageReport, Problem};

use crate::problem;

/// How many days a copy is kept.
const DAYS: u64 = 30;
const KEPT: Duration = Duration::from_secs(DAYS * 24 * 3600);

/// Adds the copies in a data directory to a report, and removes those whose time is over, unless it is only asked for.
pub(crate) async fn collect(dir: &Path, report: &mut GarbageReport) -> Result<(), Problem> {
    let (root, dry_run) = (dir.to_owned(), report.dry_run);
    let collected = tokio::task::spawn_blocking(move || look(&root, dry_run)).await;
    let entries =
        collected.map_err(io::Error::other).flatten().map_err(|error| problem::file(dir, &error))?;
    for entry in entries {
        if entry.remove {
            // They are no part of the budget, so what was used is raised by what goes.
            report.used_bytes += entry.bytes;
            report.freed_bytes += entry.bytes;
        }
        report.entries.push(entry);
    }
    Ok(())
}

/// Copies that are alike: there may be one for each session.
#[derive(Default)]
struct Group {
    files: u64,
    bytes: u64,
}

fn look(root: &Path, dry_run: bool) -> io::Result<Vec<GarbageEntry>> {
    let mut groups: BTreeMap<(String, bool), Group> = BTreeMap::new();
    let mut places = vec![(root.to_owned(), String::new())];
    let sessions = root.join("sessions");
    for session in std::fs::read_dir(&sessions)? {
        places.push((session?.path(), "sessions/*/".to_owned()));
    }
    for (dir, prefix) in places.iter().filter(|(dir, _)| dir.is_dir()) {
        for file in std::fs::read_dir(dir)? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            let Some(original) = original(&name).map(|original| dir.join(original)) else { continue };
            let Some((bytes, old)) = measure(&file.path())? else { continue };
            // One without the file that it is a copy of is all that somebody has.
            let remove = old && original.exists();
            if remove && !dry_run {
                std::fs::remove_file(file.path())?;
            }
            let group = groups.entry((format!("{prefix}{name}"), remove)).or_default();
            group.files += 1;
            group.bytes += bytes;
        }
    }
    Ok(groups.into_iter().map(|((id, remove), group)| entry(id, remove, &group)).collect())
}

fn entry(id: String, remove: bool, Group { files, bytes }: &Group) -> GarbageEntry {
    let what = if *files == 1 { "a copy".to_owned() } else { format!("{files} copies") };
    let reason = match remove {
        true => format!("{what} from before an upgrade more than {DAYS} days ago"),
        false => {
            format!("{what} from before an upgrade, kept for {DAYS} days in case the older version is wanted")
        }
    };
    GarbageEntry { kind: "copy".to_owned(), id, bytes: *bytes, remove, reason }
}

/// The name of the file that a file is a copy of, if it is one: `log.db` of `log.db.v1`.
fn original(name: &str) -> Option<&str> {
    let (original, version) = name.rsplit_once(".v")?;
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    (is_version && original.ends_with(".db")).then_some(original)
}

/// Size of a file, and whether its time is over; None for anything else, and for one that has gone meanwhile.
fn measure(path: &Path) -> io::Result<Option<(u64, bool)>> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A time that is still to come is that of a clock that was wrong.
    let age = found.modified()?.elapsed().unwrap_or_default();
    Ok(found.is_file().then(|| (found.len(), age > KEPT)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_copies_of_databases_are_copies() {
        assert_eq!(original("log.db.v1"), Some("log.db"));
        assert_eq!(original("catalogue.db.v12"), Some("catalogue.db"));
        for other in ["log.db", "log.db.v", "log.db.v1x", "itm_1.out.v1", "log.db.v1.new", ".v1"] {
            assert_eq!(original(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn copies_go_when_their_time_is_over_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, old: bool| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "12345").unwrap();
            let ago = if old { KEPT + Duration::from_secs(60) } else { KEPT / 2 };
            File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - ago).unwrap();
        };
        for (path, old) in [
            ("catalogue.db", true),
            ("catalogue.db.v1", true),
            ("sessions/ses_1/log.db", true),
            ("sessions/ses_1/log.db.v1", true),
            ("sessions/ses_2/log.db", true),
            ("sessions/ses_2/log.db.v1", true),
            ("sessions/ses_3/log.db", true),
            ("sessions/ses_3/log.db.v1", false),
            ("sessions/ses_4/log.db.v1", true),
        ] {
            file(path, old);
        }
        let collect = async |dry_run| {
            let mut report = GarbageReport {
                dry_run,
                used_bytes: 0,
                budget_bytes: 0,
                freed_bytes: 0,
                entries: Vec::new(),
            };
            super::collect(dir.path(), &mut report).await.unwrap();
            let told = report.entries.iter().map(|entry| (entry.id.clone(), entry.bytes, entry.remove));
            (report.freed_bytes, told.collect::<Vec<_>>())
        };
        let logs = "sessions/*/log.db.v1".to_owned();
        let stays = (logs.clone(), 10, false);
        let before = (15, vec![("catalogue.db.v1".to_owned(), 5, true), stays.clone(), (logs, 10, true)]);
        assert_eq!(collect(true).await, before, "it is only explained");
        assert_eq!(collect(false).await, before);
        assert_eq!(collect(false).await, (0, vec![stays]));
        assert!(dir.path().join("sessions/ses_3/log.db.v1").exists(), "it is young");
        assert!(dir.path().join("sessions/ses_4/log.db.v1").exists(), "it is all that is left");
        assert!(
            dir.path().join("sessions/ses_1/log.db").exists() && dir.path().join("catalogue.db").exists()
        );
    }
}
