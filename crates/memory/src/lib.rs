//! Memory across sessions: facts, decisions and error patterns of a repository, an environment or a person.
//!
//! A note is found by its words (full text) and by its meaning (embeddings); both rankings are fused, and below a
//! threshold nothing is offered. What is told twice becomes one note, what says otherwise replaces, and what an agent
//! wrote and nobody used fades. The rules are in `docs/decisions/0014-memory.md`; the SQL is in `store`.
//!
//! Calls block, some for as long as an embedding endpoint takes: they are for a thread that may wait.

mod bearing;
mod bundled;
mod credentials;
mod embedder;
mod error;
mod fading;
mod gist;
mod lexicon;
mod likeness;
#[cfg(test)]
mod measure;
mod notebook;
mod recall;
mod scale;
mod stop_words;
mod wordpiece;
mod words;

pub use bearing::bears_on;
pub use bundled::Bundled;
pub use embedder::{EmbedError, Embedder};
pub use error::Error;
pub use fading::freshness;
pub use notebook::{Draft, Memory};
pub use recall::{Occasion, Query, Recalled};
pub use scale::Scale;
