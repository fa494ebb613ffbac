//! Servers of the Model Context Protocol, as a client sees them. A [`Server`] says what there is and how it is reached, a
//! [`Connection`] lists its tools and calls them, and [`presets`] has the hosted ones that are known by name.
//!
//! What a server says is never believed: names, descriptions and schemas are cut and cleaned before anybody sees them, and
//! nothing that it asks for (a model's answer, a person's input) is given.

mod called;
mod connection;
mod error;
mod filter;
mod host;
mod http;
mod key;
mod names;
mod oauth;
pub mod presets;
mod schema;
mod server;
mod tail;
mod tool;

pub use called::Called;
pub use connection::Connection;
pub use error::Error;
pub use filter::Filter;
pub use http::check_url;
pub use key::{Key, Value, Vault};
pub use names::{SEPARATOR, check_name, namespaced};
pub use oauth::{Login, Stored, secret_name};
pub use server::{Auth, Http, Place, Program, Server, TIMEOUT};
pub use tail::Tail;
pub use tool::Tool;
