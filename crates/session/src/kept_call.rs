//! What a call to a model has used while it is under way, kept beside the log: its server bills it, also when ours dies
//! before the answer is there.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use protocol::{EventBody, TurnId, Usage};
use serde::{Deserialize, Serialize};

/// The file in the session's directory.
const FILE: &str = "call";

/// How long a call must have gone on after its server told something; most are over by then.
pub(crate) const AFTER: Duration = Duration::from_millis(100);
/// How often it is written from then on.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// A call under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) turn: TurnId,
    /// Calls of the turn that were recorded before it, without those beside it, which come whenever they are over. As soon as
    /// it is recorded itself there are more.
    pub(crate) calls: u32,
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) elapsed_ms: u64,
}

impl Kept {
    /// Whether the turn's log lacks it, given the calls that it has.
    pub(crate) fn is_missing(&self, turn: TurnId, calls: u32) -> bool {
        self.turn == turn && self.calls == calls
    }

    /// What the log should have of it.
    pub(crate) fn into_body(self) -> EventBody {
        let Self { turn, model, usage, cost_usd, elapsed_ms, .. } = self;
        EventBody::UsageRecorded {
            turn,
            step: 0,
            model,
            usage,
            cost_usd,
            first_token_ms: 0,
            duration_ms: 0,
            elapsed_ms,
        }
    }
}

/// Keeps a call. A failure is told and not passed on: the call itself goes well.
pub(crate) fn keep(dir: &Path, kept: &Kept) {
    let written = || -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(dir.join(FILE))?;
        io::Write::write_all(&mut &file, &serde_json::to_vec(kept)?)
    };
    if let Err(error) = written() {
        tracing::warn!(path = %dir.join(FILE).display(), %error, "what a call has used could not be kept");
    }
}

/// Forgets the call that was kept last: it is in the log, or used nothing.
pub(crate) fn forget(dir: &Path) {
    match std::fs::remove_file(dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %dir.join(FILE).display(), %error, "what a call has used could not be forgotten");
        }
        _ => {}
    }
}

/// The call that was kept last. Half a file is none.
pub(crate) fn read(dir: &Path) -> Option<Kept> {
    let path = dir.join(FILE);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what a call had used cannot be read");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_last_is_read_and_half_of_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        let turn = TurnId::from_u128(7);
        let usage = Usage { input: 50_000, ..Usage::default() };
        let kept = Kept { turn, calls: 2, model: "m".into(), usage, cost_usd: Some(0.05), elapsed_ms: 9 };
        keep(dir.path(), &Kept { calls: 1, ..kept.clone() });
        keep(dir.path(), &kept);
        assert_eq!(read(dir.path()), Some(kept.clone()));
        assert!(kept.is_missing(turn, 2));
        assert!(!kept.is_missing(turn, 3), "it was recorded");
        assert!(!kept.is_missing(TurnId::from_u128(8), 2), "of another turn");
        let whole = std::fs::read(dir.path().join(FILE)).unwrap();
        for length in 0..whole.len() {
            std::fs::write(dir.path().join(FILE), &whole[..length]).unwrap();
            assert_eq!(read(dir.path()), None, "{length}");
        }
    }
}
