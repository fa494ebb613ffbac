//! One model call as a stream. A provider is a few lines on top of a wire format; keys live here and cannot be printed.
//!
//! [`Client::complete`] makes one call and never repeats it by itself; [`retry_delay`] says whether and when the caller
//! should. Sessions and sandboxes are unknown here.

mod body;
mod client;
mod error;
mod model;
mod price;
mod retry;
mod sse;
mod wire;

pub use client::{Answer, Client, Delta, Timeouts};
pub use error::{Class, Error};
pub use model::{Key, Model, Provider};
pub use price::{Price, cost_usd};
pub use retry::{attempts, retry_delay};
