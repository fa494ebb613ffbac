//! Examples of policies and of calls that wait.

use protocol::item::{BackgroundProcess, Output, Share, ToolCall};
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
        diff: Some("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,1 +1,1 @@\n-one\n+two\n".to_owned()),
    }
}

pub(super) fn diff_summary() -> DiffSummary {
    let file = FileChange { path: "src/cart.rs".to_owned(), insertions: 2, deletions: 1 };
    DiffSummary { files: vec![file], count: 1, insertions: 2, deletions: 1 }
}

/// A question of the model.
fn question() -> AskedCall {
    AskedCall {
        tool: "ask".to_owned(),
        input: json!({ "question": "Which one?", "options": "this\nthat" }),
        why: "the agent asks".to_owned(),
        kind: Vec::new(),
        options: vec!["this".to_owned(), "that".to_owned()],
        diff: None,
        ..asked_call()
    }
}

/// A call that left a command in the background, with its share.
fn background() -> Item {
    let item = ItemId::from_u128(13);
    let kind = ItemKind::ToolCall(ToolCall {
        call_id: "call_2".to_owned(),
        tool: "shell".to_owned(),
        input: json!({ "command": "npm run dev", "background": true }),
        limit_ms: None,
        output: Some(Output { text: "ready".to_owned(), bytes: 5, ..Output::default() }),
        exit_code: None,
        duration_ms: Some(1000),
        elapsed_ms: Some(2000),
        process: Some(BackgroundProcess { id: "p1".to_owned(), item, seen: 5, running: true }),
        share: Some(Share { written: 12, read: 2, cost_usd: Some(0.25) }),
        hooks: Vec::new(),
    });
    Item { id: item, status: ItemStatus::Completed, kind }
}

/// A call that waits for a person, how that is decided, another policy, a question, and a command in the background.
pub(super) fn events() -> [EventBody; 5] {
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
        EventBody::ApprovalRequested {
            approval: ApprovalId::from_u128(5),
            turn: TurnId::from_u128(2),
            question: "Which one?".to_owned(),
            gate: Gate::Question,
            call: Some(Box::new(question())),
            diff: None,
        },
        EventBody::ItemCompleted { turn: TurnId::from_u128(2), item: background() },
    ]
}

/// An approval of all of a kind, with another call.
pub(super) fn decide() -> Decide {
    Decide { approved: true, comment: None, input: Some(json!({ "command": "ls" })), all: true }
}
