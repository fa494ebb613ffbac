//! What tests share: a scripted model, a fake forge and an MCP server with its sign-in over real HTTP, and repository fixtures. Only ever a
//! dev-dependency.

pub mod embeddings;
pub mod forge;
pub mod mcp;
pub mod model;
pub mod repo;
