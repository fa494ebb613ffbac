//! Directories that every sandbox works in. A layer from elsewhere could have a link there, and whatever is then done in the
//! workspace, at home or in a temporary file would be done somewhere else.

use std::path::Path;

use crate::fault::{Context, Fault};
use crate::spec::Stage;

const PLACES: [&str; 4] = ["workspace", "home", "home/dev", "tmp"];

/// One that is a link in some systems, and is for their own use.
const OWN: &str = "run";

/// Refuses a root in which one of them is no directory. A whole system from elsewhere may have its own way with one of them.
pub(crate) fn check(root: &Path, own_system: bool) -> Result<(), Fault> {
    for place in PLACES.into_iter().chain((!own_system).then_some(OWN)) {
        let found = rustix::fs::lstat(root.join(place)).at(Stage::Mount, &format!("looking at /{place}"))?;
        let what = match rustix::fs::FileType::from_raw_mode(found.st_mode) {
            rustix::fs::FileType::Directory => continue,
            rustix::fs::FileType::Symlink => "a symbolic link",
            _ => "not a directory",
        };
        let message =
            format!("/{place} is {what} in the image or snapshot of this sandbox; make it a directory there");
        return Err(Fault::new(Stage::Mount, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for place in PLACES {
            std::fs::create_dir_all(dir.path().join(place)).unwrap();
        }
        std::os::unix::fs::symlink("tmp", dir.path().join(OWN)).unwrap();
        assert!(check(dir.path(), true).is_ok());
        assert!(check(dir.path(), false).unwrap_err().message.starts_with("/run is a symbolic link"));
        std::fs::remove_file(dir.path().join(OWN)).unwrap();
        std::fs::create_dir(dir.path().join(OWN)).unwrap();
        assert!(check(dir.path(), false).is_ok());
        for place in ["tmp", "home/dev", "workspace"] {
            let place = dir.path().join(place);
            std::fs::remove_dir(&place).unwrap();
            std::os::unix::fs::symlink("/run", &place).unwrap();
            let fault = check(dir.path(), false).unwrap_err();
            let name = place.strip_prefix(dir.path()).unwrap().display();
            assert!(fault.message.starts_with(&format!("/{name} is a symbolic link")), "{}", fault.message);
        }
        std::fs::remove_file(dir.path().join("workspace")).unwrap();
        std::fs::write(dir.path().join("workspace"), "").unwrap();
        assert!(check(dir.path(), false).unwrap_err().message.starts_with("/workspace is not a directory"));
        std::fs::remove_file(dir.path().join("workspace")).unwrap();
        assert!(check(dir.path(), false).unwrap_err().message.starts_with("looking at /workspace"));
    }
}
