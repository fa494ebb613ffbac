//! A map of a repository: what its files define, and which of it matters for a task.
//!
//! Files are read by tree-sitter, whose parsers are C and are given whatever a repository holds: so that happens in a process
//! of its own, which can do nothing but read and write its pipes ([`serve`]). What it tells is plain data; ranking it and
//! writing the map is done here ([`Map`]). Definitions that many other files name come first, and more so those that
//! the task speaks of.

mod confine;
mod language;
mod map;
mod rank;
mod serve;
mod symbols;

pub use confine::confine;
pub use language::reads;
pub use map::Map;
pub use serve::{Error, serve};
pub use symbols::{Definition, FileSymbols};

/// Larger files are not read: they are generated, or data.
pub const FILE_LIMIT: u64 = 256 * 1024;
