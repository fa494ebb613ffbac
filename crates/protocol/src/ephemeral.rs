//! Events that are never stored: what a reader that is late misses.

use serde::{Deserialize, Serialize};

use crate::{ItemId, LineageId, SessionId, VERSION};

/// An event that is never stored. A reader that is late misses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ephemeral {
    /// Version of the envelope.
    pub v: u8,
    /// The session.
    pub session: SessionId,
    /// What happened.
    #[serde(flatten)]
    pub body: EphemeralBody,
}

impl Ephemeral {
    /// With the current version.
    pub fn new(session: SessionId, body: EphemeralBody) -> Self {
        Self { v: VERSION, session, body }
    }
}

/// What happened, fleetingly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EphemeralBody {
    /// More of an item that is in progress.
    Delta {
        /// The item.
        item: ItemId,
        /// Which of its texts.
        channel: Channel,
        /// Where in the text this piece begins, in bytes; a gap shows that something was missed.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// Everything up to `seq` was sent; what follows happens now.
    Live {
        /// The last durable event that was sent.
        seq: u64,
        /// The lineage of the log, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lineage: Option<LineageId>,
    },
    /// Who watches now; the whole list each time.
    Presence {
        /// Their names.
        people: Vec<String>,
    },
    /// Somebody writes a prompt.
    Typing {
        /// Their name.
        person: String,
    },
    /// The connection is alive.
    Ping {},
}

/// Which text of an item a delta belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Channel {
    /// A message's text.
    Text,
    /// Reasoning.
    Reasoning,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}
