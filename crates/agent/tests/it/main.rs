//! The agent through its front door: inputs into [`agent::Turn`], effects out, and the log that a session would keep.

mod behaviour;
mod checks;
mod context;
mod dropped;
mod history;
mod modes;
mod overwrites;
mod pictures;
mod properties;
mod recorder;
mod script;
mod switch;
