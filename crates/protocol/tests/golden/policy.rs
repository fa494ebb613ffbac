//! Examples of policies and of calls that wait.

use protocol::*;
use serde_json::json;

pub(super) fn policy() -> Policy {
    let path = PolicyRule {
        path: Some("migrations/**".to_owned()),
        reason: Some("the data team looks first".to_owned()),
        ..PolicyRule::tool(Permission::Ask, "write")
    };
    let host = PolicyRule {
        then: Permission::Deny,
        tool: None,
        path: None,
        command: None,
        host: Some("*.example.com".to_owned()),
        reason: None,
    };
    Policy { rules: vec![path, host], after_every: Some(5) }
}

pub(super) fn asked_call() -> AskedCall {
    let kind =
        PolicyRule { command: Some("git push *".to_owned()), ..PolicyRule::tool(Permission::Allow, "shell") };
    AskedCall {
        item: ItemId::from_u128(3),
        tool: "shell".to_owned(),
        input: json!({ "command": "git push origin" }),
        why: "ask tool \"shell\"".to_owned(),
        kind: vec![kind],
        after_every: false,
        options: Vec::new(),
    }
}

pub(super) fn diff_summary() -> DiffSummary {
    let file = FileChange { path: "src/cart.rs".to_owned(), insertions: 2, deletions: 1 };
    DiffSummary { files: vec![file], count: 1, insertions: 2, deletions: 1 }
}

/// A call that waits for a person, how that is decided, and another policy.
pub(super) fn events() -> [EventBody; 3] {
    let approval = ApprovalId::from_u128(4);
    [
        EventBody::ApprovalRequested {
            approval,
            turn: TurnId::from_u128(2),
            question: "Run shell?".to_owned(),
            gate: Gate::Call,
            call: Some(Box::new(asked_call())),
            diff: Some(Box::new(diff_summary())),
        },
        EventBody::ApprovalResolved {
            approval,
            approved: true,
            comment: None,
            input: Some(json!({ "command": "git push --dry-run" })),
            all: true,
        },
        EventBody::PolicyChanged { policy: policy(), command: None },
    ]
}

/// An approval of all of a kind, with another call.
pub(super) fn decide() -> Decide {
    Decide { approved: true, comment: None, input: Some(json!({ "command": "ls" })), all: true }
}
