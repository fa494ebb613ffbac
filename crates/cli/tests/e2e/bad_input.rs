//! Bad input, and machines that do not play along: each gets a message that says what happened and what to do, the
//! right exit code, and leaves nothing behind. One file for each kind of trouble.

mod checks;
mod configuration;
mod disk;
mod encoding;
mod endless;
mod faults;
mod machine;
mod model;
mod names;
mod output;
mod ports;
mod repository;
mod streams;

use std::path::Path;

use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Events, Output, World};

/// The program that the harness runs, for worlds that run it through another one.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_slipway"))
}

/// Fails unless standard error has each of these words. Whatever happens, nothing of the program's inside is shown.
#[track_caller]
fn says(output: &Output, words: &[&str]) {
    for word in words {
        assert!(output.stderr.contains(word), "{word:?} is not said: {output}");
    }
    for inside in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
        assert!(!output.stderr.contains(inside), "{output}");
    }
}

/// Runs one turn on [`Repo::plain`] and gives how it ended, after a look at the rules that every turn keeps.
async fn turn(script: Script, code: i32) -> (Events, Server) {
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let events = turn_in(&world, code).await;
    world.finish().await;
    (events, model)
}

/// Runs one turn in a world that is set up already.
async fn turn_in(world: &World, code: i32) -> Events {
    let output = world.run(&["run", "--env", ENVIRONMENT, "--json", "Make the answer right"]).await;
    let output = output.expect_code(code);
    says(&output, &[]);
    let events = output.events();
    events.assert_gap_free(0);
    events.only("turn.finished");
    events
}

/// Why the one turn ended as it did.
#[track_caller]
fn reason(events: &Events) -> &str {
    events.only("turn.finished")["reason"].as_str().expect("a reason")
}

/// Whether this test may do what only root may; says that it is skipped when not.
fn root() -> bool {
    // SAFETY: geteuid only gives a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skipped("it needs root");
    }
    root
}

/// Says that a test did not look.
#[allow(clippy::print_stdout, reason = "whoever runs the tests should know")]
fn skipped(why: &str) {
    println!("skipped: {why}");
}
