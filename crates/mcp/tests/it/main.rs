//! The client against real servers: in this process over pipes and over HTTP with a strict sign-in, programs on this machine,
//! and, in the slow tier, servers that others wrote.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod access;
mod http;
mod others;
mod pipes;
mod programs;
mod shop;
