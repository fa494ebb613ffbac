//! Named places at which a test can end the process, as a power cut or `kill -9` would. What a server must survive
//! is decided between two steps that belong together; these are the places between them.
//!
//! With the feature `armed`, `SLIPWAY_FAILPOINT=NAME` or `NAME:N` in the environment ends the process by SIGKILL when the
//! place is reached for the first or the Nth time. Without it nothing of this is in the program.

/// Declares the places: each with its name and what has happened when it is reached.
macro_rules! points {
    ($($(#[$about:meta])+ $point:ident = $name:literal,)+) => {
        /// A place between two steps that belong together.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point {
            $($(#[$about])+ $point,)+
        }

        impl Point {
            /// Every place.
            pub const ALL: &[Self] = &[$(Self::$point,)+];

            /// The name in the environment variable.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

points! {
    /// A new session's log is there and empty.
    LogCreated = "log-created",
    /// Events are about to be committed.
    Appending = "appending",
    /// Events are on disk, and nobody knows yet.
    Appended = "appended",
    /// An idempotency key is claimed, and its command not begun.
    KeyClaimed = "key-claimed",
    /// A command was carried out, and its answer not kept.
    CommandDone = "command-done",
    /// A turn began, and nothing was done for it.
    TurnBegun = "turn-begun",
    /// A sandbox was made, and the log does not say that it is ready.
    SandboxMade = "sandbox-made",
    /// The model answered, and the log does not have the answer.
    ModelAnswered = "model-answered",
    /// The log has a command, and the sandbox has not seen it.
    ToolStarting = "tool-starting",
    /// A command runs in the sandbox, and nobody follows it.
    ToolStarted = "tool-started",
    /// A command has ended, and the log does not have the result.
    ToolEnded = "tool-ended",
    /// The log has a command's result, and the sandbox still holds it.
    ToolRecorded = "tool-recorded",
    /// The checks passed, and the work is not kept.
    ChecksPassed = "checks-passed",
    /// The mirror has the work, and the session does not know it.
    WorkKept = "work-kept",
    /// The log has the intent to push, and nothing was pushed.
    DeliveryIntended = "delivery-intended",
    /// The remote has the branch, and the log does not say so.
    Pushed = "pushed",
    /// The log says that the branch is pushed, and nothing more.
    DeliveryRecorded = "delivery-recorded",
    /// The forge has the pull request, and the log does not say so.
    PullRequestOpened = "pull-request-opened",
    /// The receiver has a notification, and the log does not say so.
    Notified = "notified",
    /// Everything of a turn is done but its end.
    TurnFinishing = "turn-finishing",
    /// A turn is finished, and no snapshot taken.
    TurnFinished = "turn-finished",
    /// A snapshot is taken, and the log does not name it.
    SnapshotTaken = "snapshot-taken",
    /// A stop was recorded, and the turn not told.
    StopRecorded = "stop-recorded",
}

/// Ends the process here, if that was asked for.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub fn hit(_: Point) {}

/// Ends the process here, if that was asked for.
#[cfg(feature = "armed")]
pub fn hit(point: Point) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static HITS: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var("SLIPWAY_FAILPOINT").ok()?;
        let (name, count) = value.split_once(':').unwrap_or((&value, "1"));
        Some((name.to_owned(), count.parse().unwrap_or(1)))
    });
    if let Some((name, count)) = wanted
        && name == point.name()
        && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        // SAFETY: a signal to our own process; SIGKILL runs no handler, so nothing can be tidied up.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        // The signal comes before anything else happens on this thread.
        loop {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Point;

    #[test]
    fn names_are_different() {
        let mut names: Vec<_> = Point::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
