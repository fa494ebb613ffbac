//! The world outside. Git on the host side: the sandbox has a plain clone and no credentials; the host keeps a bare
//! mirror, hands the sandbox a bundle, takes a verified bundle back, and pushes. The sandbox's `.git` is never read or run
//! on the host. Forges: pull requests, looked up before they are opened. The webhook: what is told to others.

mod change;
mod confined;
mod error;
mod forges;
mod git;
mod group;
mod held;
mod http;
mod image;
mod left;
mod links;
mod mirror;
mod name;
mod objects;
mod pin;
mod push;
mod remote;
mod scratch;
mod take;
mod texts;
mod token;
mod unfolds;
mod url;
mod webhook;
mod whole;

pub use error::Error;
pub use forges::{
    Change, Check, CheckState, Comment, Forge, Forges, Keyring, Login, Marks, NewPullRequest, Person,
    PullRequest, Readiness, Repository, State, app, gitea, github, gitlab, open_once, state_of,
};
pub use http::Refusal;
pub use left::LeftPush;
pub use mirror::{Mirror, Mirrors, Tip};
pub use objects::{PATCH_LIMIT, READ_LIMIT};
pub use pin::Placed;
pub use push::Sent;
pub use take::BUNDLE_LIMIT;
pub use texts::Listed;
pub use token::Token;
pub use unfolds::OBJECT_LIMIT;
pub use url::{covered_url, is_covered, public_url};
pub use webhook::Webhook;
pub use whole::Packed;
