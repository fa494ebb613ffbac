//! What the demo brings along: a small repository with a failing test, and a model that knows just that repository.

pub(crate) mod model;
pub(crate) mod repository;
mod script;
