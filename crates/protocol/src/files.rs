//! The files of a session's workspace, to be looked at.

use serde::{Deserialize, Serialize};

/// Most entries of a directory that are listed.
pub const ENTRIES_LIMIT: usize = 2000;

/// `GET /sessions/{id}/files`: one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileList {
    /// The directory, from the workspace's root; empty for that itself.
    pub path: String,
    /// Where it was read.
    pub source: FilesSource,
    /// Directories first, then by name.
    pub entries: Vec<FileEntry>,
    /// Whether there are more than are listed.
    #[serde(default)]
    pub truncated: bool,
}

/// Where files were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FilesSource {
    /// In the sandbox, as they are now.
    Sandbox,
    /// In the work as the last turn left it.
    Kept,
    /// In the commit that the session began from.
    Base,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link.
    Symlink,
    /// Another repository.
    Submodule,
    /// Something else.
    Other,
}

/// Which state of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FileState {
    /// As it is now.
    #[default]
    Now,
    /// As it was when the session began.
    Base,
}
