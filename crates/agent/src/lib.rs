//! The turn as a pure state machine: inputs in, effects out. No IO, no clock, no async; tests need none either.
//!
//! [`Turn`] decides, `session` does: it performs each [`Effect`], records every step in the log, and gives back
//! [`Input`]s. [`history::fold`] rebuilds the conversation from the log, so that a turn can go on after a restart.

mod answer;
pub mod compaction;
mod drone;
mod effect;
mod fit;
pub mod history;
mod html;
mod input;
pub mod judgement;
mod loose;
mod mode;
pub mod nearby;
pub mod notes;
mod plateau;
pub mod policy;
mod prompt;
mod pythonic;
mod quoting;
mod repetition;
mod rounds;
mod salvage;
pub mod share;
pub mod skills;
mod summary;
mod survey;
pub mod tools;
mod turn;
mod window;

pub use answer::normalise;
pub use effect::Effect;
pub use history::Past;
pub use input::{CheckResult, Input, Limits, Profile, Setup, Verification};
pub use loose::beside_thoughts;
pub use mode::FileText;
pub use prompt::system_prompt;
pub use summary::summary;
pub use survey::{files_that_matter, is_worth_reading};
pub use turn::Turn;
pub use window::Window;
