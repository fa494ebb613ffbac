//! The world outside. Git on the host side: the sandbox has a plain clone and no credentials; the host keeps a bare
//! mirror, hands the sandbox a bundle, takes a verified bundle back, and pushes. The sandbox's `.git` is never read or run
//! on the host. Forges: pull requests, looked up before they are opened. The webhook: what is told to others.

mod change;
mod confined;
mod dot_git;
mod entries;
mod error;
mod forges;
mod git;
mod group;
mod held;
mod hidden;
mod history;
mod http;
mod image;
mod left;
mod lfs;
mod links;
mod mirror;
mod name;
mod objects;
mod pin;
mod push;
mod remote;
mod scratch;
mod signing;
mod submodules;
mod take;
mod texts;
mod token;
mod unfolds;
mod url;
mod webhook;
mod whole;

pub use entries::Entry;
pub use error::Error;
pub use forges::{
    Change, Check, CheckNews, CheckState, Comment, CommentNews, Comments, Device, Forge, Forges, Grant, Hook,
    Keyring, Kind, Login, Marks, NewPullRequest, News, Person, PullNews, PullRequest, Readiness, Repository,
    SignIn, Site, State, Told, Typed, Unheard, app, gitea, github, gitlab, open_fence, open_once, state_of,
};
pub use history::Patches;
pub use http::Refusal;
pub use left::LeftPush;
pub use lfs::{Large, Pointer};
pub use mirror::{Mirror, Mirrors, Tip, place_names, placed};
pub use objects::{PATCH_LIMIT, READ_LIMIT};
pub use pin::Placed;
pub use push::{Sent, Theirs};
pub use signing::{Renewed, Signing};
pub use submodules::{Moved, Reach, Submodule};
pub use take::{BUNDLE_LIMIT, Taken};
pub use texts::Listed;
pub use token::Token;
pub use unfolds::OBJECT_LIMIT;
pub use url::{covered_url, is_covered, public_url};
pub use webhook::Webhook;
pub use whole::Packed;
