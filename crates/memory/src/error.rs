//! Why the memory could not do it.

use protocol::{NOTE_LIMIT, NoteId, SUBJECT_LIMIT};

/// Why the memory could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such note.
    #[error("no note {0}: `slipway memory ls` lists those that there are")]
    NoNote(NoteId),
    /// It says nothing.
    #[error("a note needs a text that says something")]
    Empty,
    /// It says too much.
    #[error("this note has {0} bytes, and at most {NOTE_LIMIT} are remembered: say it in a sentence or two")]
    TooLong(usize),
    /// Its subject is no subject.
    #[error("a subject is a word or two, of at most {SUBJECT_LIMIT} bytes and on one line")]
    Subject,
    /// It would tell a secret.
    #[error("this looks like {0}, and everybody reads notes: tell the name of a secret, never its value")]
    Secret(&'static str),
    /// It was replaced.
    #[error("note {0} was replaced by {1}: change that one")]
    Replaced(NoteId, NoteId),
    /// The file.
    #[error(transparent)]
    Store(#[from] store::Error),
}
