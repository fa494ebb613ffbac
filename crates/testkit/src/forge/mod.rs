//! A fake forge over real HTTP, beside real bare repositories: GitHub's pull requests as far as Slipway uses them, and a
//! receiver of notifications. It refuses what the real one would refuse, keeps a ledger of every request, and fails on
//! demand before or after it acted.

mod github;
mod ledger;
mod receiver;
mod server;
#[cfg(test)]
mod tests;

pub use ledger::{Entry, PullRequest};
pub use server::{Fault, On, Server};
