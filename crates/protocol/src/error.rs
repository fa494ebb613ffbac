//! Errors on the wire: problem+json with a stable code. The message says what happened; the hint says what to do.

use serde::{Deserialize, Serialize};

/// Stable codes that a client can act on. New ones may be added; none changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Code {
    /// The request is malformed.
    BadRequest,
    /// No or a wrong token.
    Unauthorized,
    /// The actor may not do this, or the request came from a foreign page or host name.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The thing exists already, or is in a state that does not allow this.
    Conflict,
    /// The client says that it has events which the log does not have.
    AfterEnd,
    /// What the client has is of another lineage than the log: the same numbers, other events.
    OtherLineage,
    /// The idempotency key was used for another request.
    IdempotencyMismatch,
    /// No environment has this name.
    EnvironmentNotFound,
    /// No model has this name, or none is configured.
    ModelNotFound,
    /// The repository cannot be read.
    RepositoryUnavailable,
    /// The repository has no such branch.
    BranchNotFound,
    /// A set-up step failed.
    SetupFailed,
    /// The sandbox could not be made, or died.
    SandboxUnavailable,
    /// The model server did not answer, or refused.
    ModelUnavailable,
    /// The model's answers could not be used.
    ModelMisbehaved,
    /// What a model was sent is not all that was said, or not as it was said. Nothing failed.
    ModelAdapted,
    /// An MCP server cannot be used. The work goes on without it.
    McpUnavailable,
    /// The data directory cannot be written.
    StorageFull,
    /// A log is damaged.
    StorageDamaged,
    /// The disk of the data directory failed to read or write.
    StorageFailed,
    /// The branch could not be delivered.
    DeliveryFailed,
    /// The body is larger than allowed.
    TooLarge,
    /// More at once, or more often, than allowed.
    RateLimited,
    /// The server ends and takes no more work; the next one does.
    ShuttingDown,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// The code's text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::AfterEnd => "after_end",
            Self::OtherLineage => "other_lineage",
            Self::IdempotencyMismatch => "idempotency_mismatch",
            Self::EnvironmentNotFound => "environment_not_found",
            Self::ModelNotFound => "model_not_found",
            Self::RepositoryUnavailable => "repository_unavailable",
            Self::BranchNotFound => "branch_not_found",
            Self::SetupFailed => "setup_failed",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::ModelUnavailable => "model_unavailable",
            Self::ModelMisbehaved => "model_misbehaved",
            Self::ModelAdapted => "model_adapted",
            Self::McpUnavailable => "mcp_unavailable",
            Self::StorageFull => "storage_full",
            Self::StorageDamaged => "storage_damaged",
            Self::StorageFailed => "storage_failed",
            Self::DeliveryFailed => "delivery_failed",
            Self::TooLarge => "too_large",
            Self::RateLimited => "rate_limited",
            Self::ShuttingDown => "shutting_down",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound | Self::EnvironmentNotFound | Self::ModelNotFound => 404,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::AfterEnd | Self::OtherLineage => 416,
            Self::RateLimited => 429,
            Self::IdempotencyMismatch
            | Self::RepositoryUnavailable
            | Self::BranchNotFound
            | Self::SetupFailed
            | Self::DeliveryFailed => 422,
            Self::Internal => 500,
            Self::ModelUnavailable | Self::ModelMisbehaved | Self::ModelAdapted | Self::McpUnavailable => 502,
            Self::SandboxUnavailable | Self::ShuttingDown => 503,
            Self::StorageFull | Self::StorageDamaged | Self::StorageFailed => 507,
        }
    }
}

/// An error body (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A stable code.
    pub code: Code,
    /// The HTTP status.
    pub status: u16,
    /// What happened, in a short sentence.
    pub title: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Number of the last event in the log, when more was asked for than there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
}

impl Problem {
    /// A problem with the code's own status.
    pub fn new(code: Code, title: impl Into<String>) -> Self {
        Self { code, status: code.status(), title: title.into(), hint: None, last_seq: None }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.title)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}
