//! Images, built for real: repositories made with git, steps run in sandboxes of the native driver.

#![allow(clippy::unwrap_used)] // a test says what went wrong by panicking

#[path = "images/world.rs"]
mod world;

#[path = "images/endings.rs"]
mod endings;
#[path = "images/network.rs"]
mod network;
#[path = "images/programs.rs"]
mod programs;
#[path = "images/reuse.rs"]
mod reuse;
#[path = "images/steps.rs"]
mod steps;
