//! The promises of the public contract, each through the binary: a real server, a real sandbox, a real repository, and
//! a scripted model over HTTP. Every test ends by looking for what it may have left behind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod backup;
mod bad_input;
mod bench;
mod budgets;
mod canary;
mod control;
mod crash;
mod decisions;
mod demo;
mod egress;
mod forge;
mod gc;
mod harness;
mod images;
mod injection;
mod limits;
mod maps;
mod mcp;
mod mcp_login;
mod mcp_servers;
mod memory;
mod models;
mod pictures;
mod policies;
mod program;
mod pull_request_news;
mod pull_requests;
mod run;
mod sandbox;
mod secrets;
mod server;
mod sessions;
mod several;
mod snapshots;
mod start;
mod stored_secrets;
mod team;
mod terminal;
