//! The messages of the WebSocket, as they are written; pinned like every other word of the protocol.
//! `UPDATE_GOLDEN=1` writes them anew.

use protocol::{ApprovalId, ClientMessage, Code, LineageId, Problem, ServerBody, ServerMessage, SessionId};
use serde_json::json;

fn said() -> Vec<ClientMessage> {
    let session = SessionId::from_u128(1);
    let id = || "c1".to_owned();
    let key = || Some("k1".to_owned());
    vec![
        ClientMessage::Subscribe { session, after: 24, lineage: None },
        ClientMessage::Unsubscribe { session },
        ClientMessage::Typing { session },
        ClientMessage::Ping { id: None },
        ClientMessage::Prompt { id: id(), session, prompt: "fix it".to_owned(), now: true, key: key() },
        ClientMessage::Stop { id: id(), session, pause: true, key: None },
        ClientMessage::Approve {
            id: id(),
            session,
            approval: ApprovalId::from_u128(2),
            approved: false,
            comment: Some("not yet".to_owned()),
            input: None,
            all: false,
            key: None,
        },
        ClientMessage::TerminalOpen {
            terminal: 1,
            session,
            columns: 80,
            rows: 24,
            name: Some("main".to_owned()),
        },
        ClientMessage::TerminalResize { terminal: 1, columns: 132, rows: 43 },
        ClientMessage::TerminalClose { terminal: 1 },
        ClientMessage::Subscribe { session, after: 24, lineage: Some(LineageId::from_u128(9)) },
        ClientMessage::Approve {
            id: id(),
            session,
            approval: ApprovalId::from_u128(2),
            approved: true,
            comment: None,
            input: Some(serde_json::json!({ "command": "ls" })),
            all: true,
            key: key(),
        },
        ClientMessage::ListSubscribe {},
        ClientMessage::ListUnsubscribe {},
    ]
}

fn told() -> Vec<ServerMessage> {
    let problem = || Some(Problem::new(Code::NotFound, "there is no such session"));
    let reply = |result, problem| ServerBody::Reply { id: "c1".to_owned(), status: 202, result, problem };
    let about_one = [
        ServerBody::Subscribed { lineage: None },
        ServerBody::Unsubscribed { problem: None },
        ServerBody::Unsubscribed { problem: problem() },
        reply(Some(json!({ "id": "prm_1" })), None),
        reply(None, problem()),
        ServerBody::TerminalOpened { terminal: 1, notices: vec!["the branch moved".to_owned()] },
        ServerBody::TerminalClosed { terminal: 1, exit_code: Some(0), problem: None },
        ServerBody::TerminalClosed { terminal: 1, exit_code: None, problem: problem() },
        ServerBody::Subscribed { lineage: Some(LineageId::from_u128(9)) },
    ]
    .map(|body| ServerMessage::new(Some(SessionId::from_u128(1)), body));
    let others = [
        ServerBody::Error { problem: Problem::new(Code::BadRequest, "what?") },
        ServerBody::Ping {},
        ServerBody::ListChanged {},
    ]
    .map(|body| ServerMessage::new(None, body));
    about_one.into_iter().chain(others).collect()
}

#[test]
fn messages_are_written_as_they_always_were() {
    let mut lines = String::new();
    for message in said() {
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<ClientMessage>(&text).unwrap(), message);
        lines += &(text + "\n");
    }
    for message in told() {
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<ServerMessage>(&text).unwrap(), message);
        lines += &(text + "\n");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/socket.jsonl");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &lines).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), lines);
}
