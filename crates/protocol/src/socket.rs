//! Messages over the WebSocket beside the events. Events come in their own envelopes ([`Event`](crate::Event) and
//! [`Ephemeral`](crate::Ephemeral)); what is here is what a client says, and what it is told that is no event.
//!
//! Text messages are JSON. A binary message carries bytes of a terminal, both ways: the terminal's number in four bytes,
//! most significant first, and then the bytes.

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, LineageId, Problem, SessionId, VERSION};

/// What a client says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ClientMessage {
    /// Follow a session: what came after `after`, then what happens. Once more begins anew. Answered by `subscribed` or
    /// `unsubscribed`; one that another takes the place of before it began has no answer of its own.
    Subscribe {
        /// The session.
        session: SessionId,
        /// Number of the last event that the client has; 0 for all.
        #[serde(default)]
        after: u64,
        /// The lineage that those events are of, as the server told it. Without it, other events under the same numbers are
        /// not noticed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lineage: Option<LineageId>,
    },
    /// Follow it no more. Answered by `unsubscribed`.
    Unsubscribe {
        /// The session.
        session: SessionId,
    },
    /// Be told when something in the list of sessions changed. Answered by `list.changed`, which also comes when something did.
    #[serde(rename = "list.subscribe")]
    ListSubscribe {},
    /// Be told of it no more.
    #[serde(rename = "list.unsubscribe")]
    ListUnsubscribe {},
    /// A person writes a prompt; all who follow the session are told.
    Typing {
        /// The session, which must be followed.
        session: SessionId,
    },
    /// Asks for a sign of life. Answered by `ping`.
    Ping {
        /// Anything; it is not looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        id: Option<serde_json::Value>,
    },
    /// `POST /sessions/{id}/prompts`. Answered by `reply`.
    Prompt {
        /// Comes back in the reply.
        id: String,
        /// The session.
        session: SessionId,
        /// What is to be done.
        prompt: String,
        /// Stop the turn under way and do this next.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
        /// As the header `Idempotency-Key`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// `POST /sessions/{id}/stop`. Answered by `reply`.
    Stop {
        /// Comes back in the reply.
        id: String,
        /// The session.
        session: SessionId,
        /// Pause the queue too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pause: bool,
        /// As the header `Idempotency-Key`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// `POST /sessions/{id}/approvals/{approval}`. Answered by `reply`.
    Approve {
        /// Comes back in the reply.
        id: String,
        /// The session.
        session: SessionId,
        /// The approval.
        approval: ApprovalId,
        /// Whether the work may go on.
        approved: bool,
        /// What the agent is told with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// What the call is run with in place of what the model wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<serde_json::Value>,
        /// Allow all of its kind for the rest of the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
        /// As the header `Idempotency-Key`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Opens a shell in the session's sandbox. Answered by `terminal.opened` or `terminal.closed`.
    #[serde(rename = "terminal.open")]
    TerminalOpen {
        /// The number that the client gives it, for this connection.
        terminal: u32,
        /// The session.
        session: SessionId,
        /// Characters of a line.
        columns: u16,
        /// Lines.
        rows: u16,
        /// With a name it outlives the connection for a minute, and whoever opens that name has it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The terminal has another size.
    #[serde(rename = "terminal.resize")]
    TerminalResize {
        /// The terminal.
        terminal: u32,
        /// Characters of a line.
        columns: u16,
        /// Lines.
        rows: u16,
    },
    /// Ends the shell. Answered by `terminal.closed`.
    #[serde(rename = "terminal.close")]
    TerminalClose {
        /// The terminal.
        terminal: u32,
    },
}

/// What a client is told that is no event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerMessage {
    /// Version of the envelope.
    pub v: u8,
    /// The session, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// What it says.
    #[serde(flatten)]
    pub body: ServerBody,
}

impl ServerMessage {
    /// With the current version.
    pub fn new(session: Option<SessionId>, body: ServerBody) -> Self {
        Self { v: VERSION, session, body }
    }
}

/// What a client is told that is no event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ServerBody {
    /// The session is followed: its events come.
    Subscribed {
        /// The lineage of the log. Send it back with `after`. Absent where the log is too damaged to tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lineage: Option<LineageId>,
    },
    /// The session is not followed, or no more.
    Unsubscribed {
        /// Why, unless the client asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    },
    /// The answer to a command, as the HTTP API gives it.
    Reply {
        /// The command's.
        id: String,
        /// The HTTP status.
        status: u16,
        /// The body, when the command was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        result: Option<serde_json::Value>,
        /// Why it was not done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    },
    /// The shell runs.
    #[serde(rename = "terminal.opened")]
    TerminalOpened {
        /// The terminal.
        terminal: u32,
        /// What the person should know of the sandbox that was made for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notices: Vec<String>,
    },
    /// There is no such terminal any more.
    #[serde(rename = "terminal.closed")]
    TerminalClosed {
        /// The terminal.
        terminal: u32,
        /// How the shell ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Why it did not begin, or broke off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    },
    /// Something in the list of sessions may have changed: ask for it again.
    #[serde(rename = "list.changed")]
    ListChanged {},
    /// A message could not be understood; nothing was done.
    Error {
        /// What is wrong with it.
        problem: Problem,
    },
    /// The connection is alive.
    Ping {},
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn messages_of_clients_have_flat_fields() {
        let session = SessionId::from_u128(1);
        let read = |text: &str| serde_json::from_str::<ClientMessage>(text);
        let text = format!(r#"{{"type":"subscribe","session":"{session}","after":3}}"#);
        assert_eq!(read(&text).unwrap(), ClientMessage::Subscribe { session, after: 3, lineage: None });
        assert_eq!(read(r#"{"type":"ping","id":7}"#).unwrap(), ClientMessage::Ping { id: Some(7.into()) });
        let open = format!(
            r#"{{"type":"terminal.open","terminal":1,"session":"{session}","columns":80,"rows":24}}"#
        );
        let ClientMessage::TerminalOpen { terminal: 1, columns: 80, rows: 24, name: None, .. } =
            read(&open).unwrap()
        else {
            panic!("{open}")
        };
        for wrong in [
            format!(r#"{{"type":"subscribe","session":"{session}","aftr":3}}"#),
            r#"{"type":"dance"}"#.to_owned(),
            r#"{"type":"subscribe","session":"nothing"}"#.to_owned(),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_of_the_server_look_like_events() {
        let session = SessionId::from_u128(1);
        let closed = ServerBody::TerminalClosed { terminal: 2, exit_code: Some(0), problem: None };
        let text = serde_json::to_string(&ServerMessage::new(Some(session), closed)).unwrap();
        let expected = format!(
            r#"{{"v":1,"session":"{session}","type":"terminal.closed","data":{{"terminal":2,"exit_code":0}}}}"#
        );
        assert_eq!(text, expected);
        let error =
            ServerMessage::new(None, ServerBody::Error { problem: Problem::new(Code::BadRequest, "no") });
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<ServerMessage>(&text).unwrap(), error);
        assert!(text.starts_with(r#"{"v":1,"type":"error","data":{"problem":{"#), "{text}");
    }
}
