//! Why a sandbox ended, as its driver knows it.

use std::fmt;

use protocol::event::LimitKind;

/// Why a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It came to a limit that nothing inside survives: the time of its life, or its memory.
    Limit(LimitKind),
    /// Whoever it was tied to went away.
    OwnerGone,
    /// It was told to end.
    Removed,
    /// Its first process ended or was killed, and no limit was the reason.
    Killed,
    /// Nobody was there to write down why.
    Unknown,
}

impl End {
    /// The limit that ended it, if one did.
    pub fn limit(self) -> Option<LimitKind> {
        match self {
            Self::Limit(limit) => Some(limit),
            Self::OwnerGone | Self::Removed | Self::Killed | Self::Unknown => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit(LimitKind::WallClock) => "its time limit was reached",
            Self::Limit(LimitKind::Memory) => "it ran out of memory",
            Self::Limit(LimitKind::Processes) => "it had too many processes",
            Self::Limit(LimitKind::OpenFiles) => "it had too many open files",
            Self::Limit(LimitKind::DiskBytes) => "it used too much of the disk",
            Self::Limit(LimitKind::DiskInodes) => "it had too many files",
            Self::Limit(LimitKind::SharedMemory) => "its shared memory was full",
            Self::OwnerGone => "the command it belonged to ended",
            Self::Removed => "it was removed",
            Self::Killed => "it was ended from outside",
            Self::Unknown => "it is gone",
        })
    }
}
