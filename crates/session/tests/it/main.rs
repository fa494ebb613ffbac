//! Sessions through their front door, with the real parts: a scripted model over HTTP, real repositories, real
//! sandboxes, a real log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod delivered;
mod failures;
mod images;
mod resume;
mod snapshots;
mod stop;
mod support;
mod turns;
mod walls;
