//! Session logs and the catalogue; the only SQL in the project.
//!
//! A session's log is one SQLite file, `sessions/<id>/log.db`; large outputs are files beside it. The catalogue,
//! `catalogue.db`, has what spans sessions: environments, the index of sessions, idempotency keys. The log is the
//! truth: the index is a projection that can be folded again. Secrets are sealed files beside it, and the notes of
//! the memory are `memory.db`.
//!
//! The async functions only pass messages; a few plain threads do the IO and commit in groups, so that an answer
//! always means "on disk". What is synced is a journal that all logs share, so many writers share one sync.

mod catalogue;
mod chain;
mod copy;
mod database;
mod ends;
mod error;
mod journal;
mod layout;
mod lock;
mod log;
mod logfile;
mod notes;
mod overview;
#[cfg(feature = "power-cuts")]
pub mod power;
mod row;
mod secrets;
mod store;
mod thread;
mod writer;

pub use catalogue::{Claim, Outline, Page, SavedKey};
pub use copy::{Copied, append_to_copy, check_copy};
pub use error::{Error, Holder};
pub use log::{Draft, Epoch, Log};
pub use logfile::KeptFold;
pub use notes::{Mark, Matches, NoteKeys, Notes};
pub use secrets::{KnownSecret, Sealed, SecretError, Secrets};
pub use store::{KeysBefore, Store};
pub use writer::Counts;
