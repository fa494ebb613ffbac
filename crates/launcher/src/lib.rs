//! Builds the walls of a native sandbox with raw system calls, then becomes its monitor.
//!
//! This is its own small static program because building namespaces is only safe in a process with a single thread,
//! and because a small program starts many times faster than the whole of `slipway`. The native driver embeds it, runs it from a
//! sealed memory file, writes a [`spec::Launch`] to its standard input and reads a [`spec::Report`] from its output.
//!
//! Two processes come of it: the *monitor* (outside, no thread, a few hundred KiB), which enforces the wall-clock
//! limit and cleans up when the sandbox ends, whether or not a server is alive; and *init* (inside, pid 1), which
//! builds the walls around itself and then runs the guest daemon.

pub mod given;
pub mod rights;
pub mod spec;
pub mod tree;

#[cfg(feature = "run")]
mod cgroup;
#[cfg(feature = "run")]
mod control;
#[cfg(feature = "run")]
mod disk;
#[cfg(feature = "run")]
mod fault;
#[cfg(feature = "run")]
mod ids;
#[cfg(feature = "run")]
mod init;
#[cfg(feature = "run")]
mod landlock;
#[cfg(feature = "run")]
pub mod monitor;
#[cfg(feature = "run")]
mod mounts;
#[cfg(feature = "run")]
mod nested;
#[cfg(feature = "run")]
mod network;
#[cfg(feature = "run")]
mod places;
#[cfg(feature = "run")]
mod privileges;
#[cfg(feature = "run")]
mod seccomp;
#[cfg(feature = "run")]
mod verify;
#[cfg(feature = "run")]
mod watch;
