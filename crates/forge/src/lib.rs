//! Git on the host side. The sandbox has a plain clone and no credentials; the host keeps a bare mirror, hands the
//! sandbox a bundle, takes a verified bundle back, and pushes. The sandbox's `.git` is never read or run on the host.

mod error;
mod git;
mod image;
mod mirror;
mod name;
mod objects;
mod push;
mod remote;
mod scratch;
mod take;
mod url;

pub use error::Error;
pub use mirror::{Mirror, Mirrors, Tip};
pub use objects::{PATCH_LIMIT, READ_LIMIT};
pub use take::BUNDLE_LIMIT;
pub use url::public_url;
