//! Backups: everything that cannot be made again, in one tar archive, while the sessions go on. In it are the
//! environments, each session's log and files, the idempotency keys, the key of the placeholders, the secrets as they are
//! sealed, the notes of the memory, and each mirror as a bundle; last comes a manifest with the size and the
//! checksum of every entry, so that an archive without its end is no archive. Images, snapshots and sandboxes are not in
//! it: they are made again from the rest. Nor is the key of the secrets, so that an archive does not give them away.

mod archive;
mod read;
mod write;

use std::path::Path;

use protocol::{Code, Problem, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

pub use read::check;

/// The form of archives that this program writes and reads.
const FORMAT: u32 = 1;
/// The last entry.
const MANIFEST: &str = "manifest.json";
/// The environments that were added by command.
const ENVIRONMENTS: &str = "environments.json";
/// The idempotency keys. Older archives have none.
const KEYS: &str = "keys.json";
/// What placeholders of secrets are made from. Older archives do not have it.
const PLACEHOLDERS: &str = "placeholders";
/// The secrets, sealed. Archives without any do not have it.
const SECRETS: &str = "secrets.json";
/// The notes of the memory. Archives without any do not have it.
const NOTES: &str = "notes.json";
/// The log in a session's directory.
const LOG: &str = "log.db";

/// What is in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the archive.
    pub format: u32,
    /// The program that wrote it.
    pub version: String,
    /// When it was finished.
    pub made_at: Timestamp,
    /// Every session, and where its log ends.
    pub sessions: Vec<SavedSession>,
    /// Sessions whose log was gone when the archive was made; nothing of them is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<SessionId>,
    /// Every mirror.
    pub mirrors: Vec<SavedMirror>,
    /// Every other entry, in order.
    pub entries: Vec<Entry>,
}

/// A session in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSession {
    /// Its id.
    pub id: SessionId,
    /// The last event.
    pub seq: u64,
    /// Why the log in the archive ends before the session's does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// A mirror in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMirror {
    /// Name of its entry, without folder and ending.
    pub name: String,
    /// What it is a mirror of, without credentials.
    pub url: String,
    /// What its HEAD names.
    pub head: String,
}

/// An entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

/// What an entry is, by its path. Any other path is refused, so that nothing can be written anywhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Manifest,
    Environments,
    Keys,
    Placeholders,
    Secrets,
    Notes,
    /// A file of a session.
    File(SessionId, String),
    /// A mirror, by name.
    Mirror(String),
}

impl Place {
    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        match (parts.next()?, parts.next(), parts.next(), parts.next()) {
            (MANIFEST, None, None, None) => Some(Self::Manifest),
            (ENVIRONMENTS, None, None, None) => Some(Self::Environments),
            (KEYS, None, None, None) => Some(Self::Keys),
            (PLACEHOLDERS, None, None, None) => Some(Self::Placeholders),
            (SECRETS, None, None, None) => Some(Self::Secrets),
            (NOTES, None, None, None) => Some(Self::Notes),
            ("sessions", Some(id), Some(file), None) if is_plain(file) => {
                Some(Self::File(id.parse().ok()?, file.to_owned()))
            }
            ("mirrors", Some(file), None, None) => {
                let name = file.strip_suffix(".bundle").filter(|name| is_plain(name))?;
                Some(Self::Mirror(name.to_owned()))
            }
            _ => None,
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Manifest => MANIFEST.to_owned(),
            Self::Environments => ENVIRONMENTS.to_owned(),
            Self::Keys => KEYS.to_owned(),
            Self::Placeholders => PLACEHOLDERS.to_owned(),
            Self::Secrets => SECRETS.to_owned(),
            Self::Notes => NOTES.to_owned(),
            Self::File(id, file) => format!("sessions/{id}/{file}"),
            Self::Mirror(name) => format!("mirrors/{name}.bundle"),
        }
    }
}

/// Whether a name is one that we give to files: it leads nowhere else, and is not hidden.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= 100 && !name.starts_with(['.', '-']) && name.bytes().all(plain)
}

/// A place for what is under way, in the data directory so that it can be moved into place.
fn scratch(dir: &Path) -> Result<tempfile::TempDir, Problem> {
    const PREFIX: &str = "backup-";
    // What a server left that was killed meanwhile is of no use to anybody.
    let abandoned = std::fs::read_dir(dir).into_iter().flatten().flatten().filter(|entry| {
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        entry.file_name().to_string_lossy().starts_with(PREFIX)
            && age.is_some_and(|age| age > std::time::Duration::from_secs(24 * 3600))
    });
    for entry in abandoned {
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove an abandoned directory");
        }
    }
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir).map_err(|error| crate::problem::file(dir, &error))
}

fn broken(error: tokio::task::JoinError) -> Problem {
    tracing::error!(%error, "a backup or a restore broke off with a fault");
    Problem::new(Code::Internal, "slipway made a mistake and could not go on")
        .hint("this is a fault of slipway: report it with the server's log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_paths_are_places() {
        let id = SessionId::from_u128(1);
        for place in [
            Place::Manifest,
            Place::Environments,
            Place::Keys,
            Place::Placeholders,
            Place::Secrets,
            Place::Notes,
            Place::File(id, "log.db".into()),
            Place::File(id, "itm_01.out".into()),
            Place::Mirror("shop-0a1b".into()),
        ] {
            assert_eq!(Place::parse(&place.path()), Some(place));
        }
        for bad in [
            "",
            "/etc/passwd",
            "../lock",
            "manifest.json/x",
            "sessions",
            "sessions/ses_1/log.db",
            &format!("sessions/{id}"),
            &format!("sessions/{id}/../x"),
            &format!("sessions/{id}/.."),
            &format!("sessions/{id}/.hidden"),
            &format!("sessions/{id}/a/b"),
            &format!("./sessions/{id}/log.db"),
            &format!("sessions//{id}/log.db"),
            "mirrors/a",
            "mirrors/.bundle",
            "mirrors/../a.bundle",
            "mirrors/a\\b.bundle",
        ] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
