//! The way out of a sandbox, over real sockets: a made-up outside with real servers behind it, and clients that speak
//! byte by byte.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test says what went wrong by panicking

mod explicit;
mod fetch;
mod life;
mod lookups;
mod names;
mod real;
mod secrets;
mod told;
mod transparent;
mod world;
