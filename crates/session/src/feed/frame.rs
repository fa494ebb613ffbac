//! What readers are sent: one JSON text for each thing, made once and shared by all of them.

use std::ops::Deref;

use bytes::Bytes;
use protocol::{Ephemeral, EphemeralBody, Event, SessionId};

/// One thing to send to a reader.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The durable event's number; None for ephemeral ones.
    pub seq: Option<u64>,
    /// Type name, for SSE.
    pub kind: &'static str,
    /// The JSON text, made once for all readers.
    pub json: Text,
}

impl Frame {
    pub(crate) fn durable(event: &Event) -> Self {
        Self { seq: Some(event.seq), kind: event.body.name(), json: json(event) }
    }

    pub(crate) fn ephemeral(session: SessionId, body: EphemeralBody) -> Self {
        let kind = match &body {
            EphemeralBody::Delta { .. } => "delta",
            EphemeralBody::Live { .. } => "live",
            EphemeralBody::Presence { .. } => "presence",
            EphemeralBody::Typing { .. } => "typing",
            EphemeralBody::Ping {} => "ping",
        };
        Self { seq: None, kind, json: json(&Ephemeral::new(session, body)) }
    }
}

/// A text whose copies share its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(Bytes);

impl Text {
    /// The shared bytes, which are UTF-8.
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        // It was made from a string, so nothing is ever left out.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

fn json(value: &impl serde::Serialize) -> Text {
    match serde_json::to_string(value) {
        Ok(text) => text.into(),
        // Our own types have string keys and no failing serializers, so this does not happen; a reader that gets
        // an empty object is better off than a server that ends.
        Err(error) => {
            tracing::error!(%error, "a frame could not be written as JSON");
            Text::from("{}".to_owned())
        }
    }
}
