//! A scripted model over real HTTP. One port speaks chat completions, OpenAI's responses, Anthropic's messages and
//! Gemini's `generateContent`, streams as the real servers do, is strict about what it is sent, and can fail in every way
//! that a model server fails.
//!
//! ```no_run
//! # async fn example() {
//! use testkit::model::{Reply, Script, Server};
//!
//! let script = Script::new()
//!     .call("shell", serde_json::json!({"command": "make test"}))
//!     .answer(Reply::status(429, "slow down").header("retry-after", "1"))
//!     .say("All tests pass.");
//! let model = Server::start(script).await;
//! // … let something talk to `model.url()` …
//! assert!(model.violations().is_empty());
//! # }
//! ```

mod anthropic;
mod chat;
mod clouds;
mod gemini;
mod picture;
mod plan;
mod reply;
mod request;
mod responses;
mod script;
mod server;
mod small;
#[cfg(test)]
mod tests;

pub use reply::{At, Gate, Reply, Until};
pub use request::{Format, Request};
pub use script::Script;
pub use server::{Options, Server};
pub use small::{Seen, Small};
