//! What tests share: a scripted model over real HTTP, and repository fixtures. Only ever a dev-dependency.

pub mod model;
pub mod repo;
