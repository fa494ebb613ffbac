//! Servers of the Model Context Protocol: those that an environment uses, and the tools that they offered to a turn.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A server that an environment uses: the name of one of the configuration file, or a program in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum McpUse {
    /// One that `[mcp.NAME]` of the configuration file describes.
    Named(String),
    /// One that runs in the sandbox and has nothing that the sandbox does not have.
    Program(McpProgram),
}

/// A server that runs in the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpProgram {
    /// Its name, which its tools begin with.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that are set for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Only these of its tools, by name; `*` stands for any part of one. All where it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// None of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// How many seconds it has for an answer; 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
}

impl McpUse {
    /// The server's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Program(program) => &program.name,
        }
    }
}

impl<'de> Deserialize<'de> for McpUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = McpUse;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an MCP server, or { name, command } of one that runs in the sandbox")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<McpUse, E> {
                Ok(McpUse::Named(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<McpUse, A::Error> {
                McpProgram::deserialize(de::value::MapAccessDeserializer::new(map)).map(McpUse::Program)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A tool of a server, as a turn offers it to its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpTool {
    /// What the model calls it: the server's name, two underscores, and the tool's name as far as providers take it.
    pub name: String,
    /// The server.
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// What it does, in the server's words.
    pub description: String,
    /// JSON schema of its arguments.
    pub schema: Value,
}

/// A server that a turn does without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpMissing {
    /// The server.
    pub server: String,
    /// Why.
    pub reason: String,
}
