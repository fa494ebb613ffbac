//! How long the turn under way has taken, kept beside the log while there is a limit on time: a server that dies in a long
//! call or command forgets no more than the last second, however often it dies.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use protocol::TurnId;

/// The file in the session's directory.
const FILE: &str = "elapsed";

/// How often it is written.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Keeps how many milliseconds a turn has taken. What is written is always of the same length, over what was there, so that
/// whoever dies meanwhile leaves the one or the other.
pub(crate) fn keep(dir: &Path, turn: TurnId, millis: u64) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(dir.join(FILE))?;
    file.write_all(format!("{turn} {millis:020}\n").as_bytes())
}

/// The turn of which it was kept last, and its milliseconds.
pub(crate) fn read(dir: &Path) -> Option<(TurnId, u64)> {
    let path = dir.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "how long a turn took cannot be read; the log tells most of it");
            return None;
        }
    };
    // A power cut may leave anything, and then the log tells most of it.
    let (turn, millis) = text.strip_suffix('\n')?.split_once(' ')?;
    Some((turn.parse().ok()?, millis.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_last_is_read_and_half_of_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        let (one, two) = (TurnId::from_u128(1), TurnId::from_u128(u128::MAX));
        keep(dir.path(), two, u64::MAX).unwrap();
        assert_eq!(read(dir.path()), Some((two, u64::MAX)));
        keep(dir.path(), one, 7).unwrap();
        assert_eq!(read(dir.path()), Some((one, 7)));
        let whole = std::fs::read(dir.path().join(FILE)).unwrap();
        for length in 0..whole.len() {
            std::fs::write(dir.path().join(FILE), &whole[..length]).unwrap();
            assert_eq!(read(dir.path()), None, "{length}");
        }
    }
}
