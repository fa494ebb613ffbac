//! The turn as a pure state machine: inputs in, effects out. No IO, no clock, no async; tests need none either.
//!
//! [`Turn`] decides, `session` does: it performs each [`Effect`], records every step in the log, and gives back
//! [`Input`]s. [`history::fold`] rebuilds the conversation from the log, so that a turn can go on after a restart.

mod answer;
mod effect;
pub mod history;
mod input;
mod prompt;
mod repetition;
mod rounds;
mod salvage;
pub mod tools;
mod turn;

pub use answer::normalise;
pub use effect::Effect;
pub use input::{CheckResult, Input, Limits, Setup, Verification};
pub use prompt::system_prompt;
pub use turn::Turn;
