//! What is remembered of an environment's image: the good one, how the last build went, and which layers do not go
//! together. Small JSON files, each replaced as a whole.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use protocol::{StepStatus, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Checked, Image, key};
use crate::{Error, LayerId};

/// `image.json`: the image that sandboxes start from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) image: Image,
    /// [`super::Recipe::digest`] of what it was built from.
    pub(super) recipe: String,
    /// The layers of its steps, topmost first, as they were before some were put together.
    pub(super) parts: Vec<LayerId>,
}

/// `last.json`: how the last build went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Last {
    /// The commit that was to be built.
    pub(super) commit: String,
    /// [`super::Recipe::digest`] of what was to be built.
    pub(super) recipe: String,
    /// Why it failed; None when it did not.
    pub(super) error: Option<String>,
    /// Why there is no image any more though it was built; says nothing as long as there is one.
    #[serde(default)]
    pub(super) removed: Option<String>,
    /// Its steps.
    pub(super) steps: Vec<StepStatus>,
    /// When it ended.
    pub(super) ended_at: Timestamp,
}

/// The files of all environments, below one directory.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Names that have a directory here, as far as they can be an environment's.
    pub(super) fn environments(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(Error::io(&self.dir))? {
            let entry = entry.map_err(Error::io(&self.dir))?;
            names.extend(entry.file_name().into_string().ok().filter(|name| is_name(name)));
        }
        Ok(names)
    }

    pub(super) fn image(&self, environment: &str) -> Option<Record> {
        read(&self.image_path(environment)).filter(|record: &Record| record.image.environment == environment)
    }

    pub(super) fn last(&self, environment: &str) -> Option<Last> {
        read(&self.last_path(environment))
    }

    pub(super) fn put_image(&self, environment: &str, record: &Record) -> Result<(), Error> {
        write(&self.image_path(environment), record)
    }

    pub(super) fn put_last(&self, environment: &str, last: &Last) -> Result<(), Error> {
        write(&self.last_path(environment), last)
    }

    pub(super) fn checked(&self, environment: &str) -> Vec<Checked> {
        read(&self.checked_path(environment)).unwrap_or_default()
    }

    pub(super) fn put_checked(&self, environment: &str, checked: &[Checked]) -> Result<(), Error> {
        write(&self.checked_path(environment), &checked)
    }

    /// Removes the image, and keeps how its build went.
    pub(super) fn forget_image(&self, environment: &str) -> Result<(), Error> {
        let path = self.image_path(environment);
        match std::fs::remove_file(&path) {
            Err(error) if !is_absent(&error) => Err(Error::io(path)(error)),
            _ => Ok(()),
        }
    }

    /// Removes what is ours; downloads and notes may live beside it under the same name.
    pub(super) fn forget(&self, environment: &str) -> Result<(), Error> {
        for path in [
            self.image_path(environment),
            self.last_path(environment),
            self.checked_path(environment),
            self.log_path(environment),
        ] {
            match std::fs::remove_file(&path) {
                Err(error) if !is_absent(&error) => return Err(Error::io(path)(error)),
                _ => {}
            }
        }
        match std::fs::remove_dir(self.of(environment)) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty || is_absent(&error) => {
                Ok(())
            }
            other => other.map_err(Error::io(self.of(environment))),
        }
    }

    pub(super) fn log_path(&self, environment: &str) -> PathBuf {
        self.of(environment).join("build.log")
    }

    /// Whether the layer under a key cannot be used as it was hoped.
    pub(super) fn has_note(&self, key: &str) -> bool {
        self.note_path(key).exists()
    }

    /// Notes that, so that it is not tried again.
    pub(super) fn note(&self, key: &str, why: &str) -> Result<(), Error> {
        write(&self.note_path(key), &why)
    }

    fn note_path(&self, key: &str) -> PathBuf {
        self.dir.join("notes").join(format!("{key}.json"))
    }

    fn image_path(&self, environment: &str) -> PathBuf {
        self.of(environment).join("image.json")
    }

    fn last_path(&self, environment: &str) -> PathBuf {
        self.of(environment).join("last.json")
    }

    fn checked_path(&self, environment: &str) -> PathBuf {
        self.of(environment).join("checks.json")
    }

    fn of(&self, environment: &str) -> PathBuf {
        // Whoever asks for something that cannot be a name gets a path inside all the same, where nothing is.
        if is_name(environment) {
            return self.dir.join(environment);
        }
        self.dir.join(format!(".{}", key::file_name(environment)))
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether it can be an environment's name, and so a directory's.
pub(super) fn is_name(name: &str) -> bool {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 64 && name.chars().all(good) && !name.starts_with(['.', '-'])
}

/// A file that is damaged is told of and then as good as missing: what it says is found out again by the next build.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if is_absent(&error) => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the record of an image cannot be read");
            return None;
        }
    };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the record of an image is damaged");
            None
        }
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let replace = || -> std::io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&serde_json::to_vec_pretty(value)?)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    replace().map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stack;

    fn record(environment: &str) -> Record {
        let image = Image {
            environment: environment.to_owned(),
            key: "k".to_owned(),
            stack: Stack::host().with("repo-1".parse().unwrap()),
            url: "https://git.example.com/app".to_owned(),
            branch: "main".to_owned(),
            commit: "c".to_owned(),
            built_at: Timestamp::UNIX_EPOCH,
            duration_ms: 1,
            bytes: 2,
            notes: Vec::new(),
        };
        Record { image, recipe: "r".to_owned(), parts: vec!["repo-1".parse().unwrap()] }
    }

    #[test]
    fn what_was_written_is_read_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        assert_eq!(files.image("app"), None);
        files.put_image("app", &record("app")).unwrap();
        assert_eq!(files.image("app"), Some(record("app")));
        assert_eq!(files.environments().unwrap(), ["app"]);
        files.forget("app").unwrap();
        files.forget("app").unwrap();
        assert_eq!(files.image("app"), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_record_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        files.put_image("app", &record("app")).unwrap();
        let path = files.image_path("app");
        let whole = std::fs::read(&path).unwrap();
        for damaged in [&b""[..], b"{}", b"\0\0\0", &whole[..whole.len() / 2]] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(files.image("app"), None);
        }
        files.put_image("app", &record("other")).unwrap();
        assert_eq!(files.image("app"), None, "a record of another environment");
    }

    #[test]
    fn how_checks_went_is_kept_and_goes_with_the_image_s_environment() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        assert_eq!(files.checked("app"), []);
        let checked = |commit: &str| Checked {
            image: "k".to_owned(),
            commit: commit.to_owned(),
            recipe: "r".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            checks: vec![super::super::CheckedOne {
                check: super::super::pending("test", "make test"),
                parser: "auto".to_owned(),
                report: protocol::Report::default(),
            }],
        };
        files.put_checked("app", &[checked("b"), checked("a")]).unwrap();
        assert_eq!(files.checked("app"), [checked("b"), checked("a")]);
        std::fs::write(files.checked_path("app"), "[{").unwrap();
        assert_eq!(files.checked("app"), [], "what is damaged is not known");
        files.forget("app").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_never_leads_outside() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        for odd in ["", ".", "..", "../x", "a/b", "a\nb", ".hidden", "-x", &"x".repeat(65)] {
            assert!(!is_name(odd), "{odd:?}");
            let path = files.log_path(odd);
            assert_eq!(path.parent().and_then(Path::parent), Some(dir.path()), "{odd:?}");
        }
        assert!(is_name("web-app_2.x"));
    }

    #[test]
    fn what_was_noted_stays_noted() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        assert!(!files.has_note("abc"));
        files.note("abc", "it changed tracked files").unwrap();
        assert!(Files::open(dir.path()).unwrap().has_note("abc"));
    }
}
