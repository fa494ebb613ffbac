//! The daemon inside a sandbox, its wire messages, and the host-side client.
//!
//! HTTP/1.1 over a Unix socket (TCP or vsock elsewhere). Processes have ids chosen by the caller, live independently
//! of any connection, keep a ring of their output, and report their exit after the last byte.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "daemon")]
pub mod daemon;
#[cfg(any(feature = "client", feature = "daemon"))]
mod frame;
#[cfg(any(feature = "client", feature = "daemon"))]
mod query;
pub mod wire;

#[cfg(feature = "client")]
pub use client::{Client, Error, Output, Process};
pub use wire::{Exit, FileKind, ProcessSpec, ProcessState, Stat};
