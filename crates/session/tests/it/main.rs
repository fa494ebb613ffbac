//! Sessions through their front door, with the real parts: a scripted model over HTTP, real repositories, real
//! sandboxes, a real log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod approvals;
mod arrival;
mod background;
mod backup;
mod base_budget;
mod budget;
mod context;
mod delivered;
mod embedding;
mod failures;
mod feedback;
mod gate;
mod hooks;
mod images;
mod large;
mod long_outputs;
mod mcp;
mod memory;
mod mistakes;
mod models;
mod modes;
mod nested;
mod once;
mod others;
mod outbox;
mod patches;
mod pictures;
mod plan;
mod policies;
mod questions;
mod queue;
mod resume;
mod routes;
mod services;
mod setup;
mod shares;
mod skills;
mod sleep;
mod snapshots;
mod spending;
mod stop;
mod stop_anywhere;
mod stop_delivery;
mod stored_secrets;
mod support;
mod terminal;
mod told;
mod turns;
mod twisted;
mod unbuilt;
mod walls;
mod web;
