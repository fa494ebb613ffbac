//! Why there is no sandbox. Every message says what to do.

use protocol::SandboxId;

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine does not allow a layer of isolation that the driver promises. It never runs without it.
    #[error("{message}\n  {hint}")]
    Unsupported {
        /// What is missing.
        message: String,
        /// How to get it.
        hint: String,
    },
    /// There is no such sandbox, or it no longer runs.
    #[error("there is no running sandbox {0}")]
    NotFound(SandboxId),
    /// It could not be started.
    #[error("the sandbox could not be started: {0}")]
    Start(String),
    /// It is needed: a sandbox stands on it.
    #[error("{what} is in use by {by}")]
    InUse {
        /// What was to be removed.
        what: String,
        /// Who needs it.
        by: String,
    },
    /// There is no such layer.
    #[error("there is no layer {0}")]
    NoLayer(crate::LayerId),
    /// An image, a base or a service could not be made; the message has what there is to know.
    #[error("{message}\n  {hint}")]
    Build {
        /// What went wrong, with the end of the output.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The same, and the likely reason is a limit that the sandbox came to meanwhile.
    #[error("{message}\n  {hint}")]
    Limit {
        /// The sandbox; it may be gone.
        sandbox: SandboxId,
        /// Which limit.
        limit: protocol::event::LimitKind,
        /// What went wrong, with the end of the output.
        message: String,
        /// What to do.
        hint: String,
    },
    /// There would be more on the disk than there may be.
    #[error("{message}\n  {hint}")]
    NoRoom {
        /// How much there is.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The directory of the sandboxes cannot be used.
    #[error("{}", describe(path, source))]
    Io {
        /// The file or directory.
        path: std::path::PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

fn describe(path: &std::path::Path, source: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let path = path.display();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("the disk that holds {path} is full: free some space and try again")
        }
        ErrorKind::PermissionDenied => {
            format!("this user may not use {path}: give another data directory with --data-dir")
        }
        _ => format!("cannot use {path}"),
    }
}

impl Error {
    /// All that there is to say in one text, where nobody asks for causes.
    pub fn in_full(&self) -> String {
        use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, StorageFull};
        match self {
            Self::Io { source, .. }
                if !matches!(source.kind(), StorageFull | QuotaExceeded | PermissionDenied) =>
            {
                format!("{self}: {source}")
            }
            _ => self.to_string(),
        }
    }

    pub(crate) fn io(path: impl Into<std::path::PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
