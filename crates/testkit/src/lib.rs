//! What tests share: a scripted model and a fake forge over real HTTP, and repository fixtures. Only ever a
//! dev-dependency.

pub mod embeddings;
pub mod forge;
pub mod model;
pub mod repo;
