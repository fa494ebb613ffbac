//! Attempts to get out of a sandbox of the native driver, or to harm its host; all of them must fail.
//!
//! The attempts are in `escape/attack`: this very program is copied into a sandbox and runs them there with raw system
//! calls. Beside them are the tests that let them in, each with what must be true outside. Everything is done as root and,
//! when the tests run as root, once more as an ordinary user.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking
#![allow(clippy::print_stdout)] // and what it could not try by printing

#[path = "escape/mod.rs"]
mod suite;
