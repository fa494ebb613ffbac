//! A fake forge over real HTTP, with real bare repositories behind `git http-backend`: the pull requests of GitHub, GitLab
//! and Gitea as far as Slipway uses them, over one store; a GitHub App; sign-in by device; signed webhooks; and a receiver of
//! notifications. It refuses what the real ones would refuse, notes it as a violation when the request itself was wrong,
//! keeps a ledger of every request, and fails on demand before or after it acted.

mod app;
mod asked;
mod device;
mod git;
mod gitea;
mod github;
mod gitlab;
mod hooks;
mod large;
mod ledger;
mod merge;
mod receiver;
mod record;
mod schema;
mod server;
#[cfg(test)]
mod tests;

pub use app::{APP_ID, APP_KEY};
pub use hooks::{Kind, Order};
pub use ledger::{Entry, PullRequest, Said};
pub use server::{Fault, On, Server};
