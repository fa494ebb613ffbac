//! One model call as a stream. A provider is a few lines on top of a wire format; keys live here and cannot be printed.
//!
//! [`Client::complete`] makes one call and never repeats it by itself; [`retry_delay`] says whether and when the caller
//! should. [`Model::profile`] says what a model is good for. Sessions and sandboxes are unknown here.

mod body;
mod client;
mod complaint;
mod convert;
mod echoes;
mod embeddings;
mod error;
mod hints;
mod images;
mod key;
mod meter;
mod model;
mod prepare;
mod price;
mod probe;
mod profile;
mod provider;
mod quirks;
mod retry;
#[cfg(test)]
mod splits;
mod sse;
mod thinking;
mod veil;
mod wire;

pub use client::{Answer, Client, Delta, Timeouts};
pub use embeddings::Embeddings;
pub use error::{Class, Error};
pub use key::Key;
pub use meter::Meter;
pub use model::{Effort, KeyPlace, Model, Overrides};
pub use price::{Price, cost_usd, price};
pub use probe::{Findings, ToolCalls};
pub use profile::{Profile, Source};
pub use provider::Provider;
pub use retry::{Again, Failures, LONGEST_WAIT, attempts, retry_delay};
