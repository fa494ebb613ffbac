//! What a session waits for, as a person is shown it before they decide.

use protocol::{AskedCall, DiffSummary, Gate, PendingApproval, SessionId};

use super::text;

/// Most lines of one argument of a call.
const LINES: usize = 40;
/// Most files that are listed.
const FILES: usize = 20;

/// The question, the call and what was changed so far.
pub(crate) fn lines(approval: &PendingApproval) -> Vec<String> {
    let mut lines: Vec<String> = approval.question.lines().map(text::harmless).collect();
    match &approval.call {
        Some(call) if approval.gate == Gate::Question => lines.extend(options(call)),
        Some(call) => lines.extend(call_lines(call, approval.gate)),
        None => {}
    }
    if let Some(diff) = &approval.diff {
        lines.extend(diff_lines(diff));
    }
    lines
}

/// How it is decided.
pub(crate) fn how(session: SessionId, gate: Gate, call: Option<&AskedCall>) -> String {
    if gate == Gate::Question {
        return format!(
            "answer with: slipway answer {session} TEXT; or let the agent decide: slipway reject {session} [--comment TEXT]"
        );
    }
    let more = match (gate, call) {
        (Gate::Call, Some(call)) if call.kind.is_empty() && !call.after_every => " [--edit JSON]",
        (Gate::Call, Some(_)) => " [--edit JSON] [--all]",
        (Gate::Call | Gate::Delivery | Gate::Host | Gate::Question, _) => "",
    };
    format!(
        "decide with: slipway approve {session}{more} [--comment TEXT], or slipway reject {session} [--comment TEXT]"
    )
}

/// What was decided, in a word.
pub(crate) fn word(gate: Gate, approved: bool) -> &'static str {
    match (gate, approved) {
        (Gate::Question, true) => "answered",
        (Gate::Question, false) => "left to the agent",
        (Gate::Delivery | Gate::Call | Gate::Host, true) => "approved",
        (Gate::Delivery | Gate::Call | Gate::Host, false) => "rejected",
    }
}

/// The answers to choose from, with their numbers.
pub(crate) fn options(call: &AskedCall) -> impl Iterator<Item = String> {
    call.options.iter().zip(1..).map(|(option, number)| format!("  {number}. {}", text::harmless(option)))
}

fn call_lines(call: &AskedCall, gate: Gate) -> Vec<String> {
    let mut lines = vec![format!("  {}", text::harmless(&call.tool))];
    match call.input.as_object() {
        Some(arguments) => {
            for (name, value) in arguments {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let count = value.lines().count();
                let mut shown = value.lines().take(LINES);
                lines.push(format!(
                    "    {}: {}",
                    text::harmless(name),
                    text::harmless(shown.next().unwrap_or_default())
                ));
                lines.extend(shown.map(|line| format!("      {}", text::harmless(line))));
                if count > LINES {
                    lines.push(format!("      … {} more lines", count - LINES));
                }
            }
        }
        None => lines.push(format!("    {}", text::harmless(&call.input.to_string()))),
    }
    if call.after_every {
        lines.push("  --all: do not ask again after so many actions in this session".to_owned());
    }
    // Hosts are allowed for the rest of the session, or not at all.
    let with = if gate == Gate::Host { "if approved" } else { "--all" };
    for rule in &call.kind {
        lines.push(format!("  {with}: {} for the rest of this session", text::harmless(&rule.to_string())));
    }
    lines
}

fn diff_lines(diff: &DiffSummary) -> Vec<String> {
    let mut lines: Vec<String> = diff
        .files
        .iter()
        .take(FILES)
        .map(|file| {
            format!("  +{:<5} −{:<5} {}", file.insertions, file.deletions, text::harmless(&file.path))
        })
        .collect();
    let more = (diff.count as usize).saturating_sub(lines.len());
    if more > 0 {
        lines.push(format!("  … {more} more files"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use protocol::{ApprovalId, FileChange, ItemId, Permission, PolicyRule, Timestamp};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_shown_with_all_that_it_says_and_no_control_characters() {
        let kind =
            PolicyRule { command: Some("git push *".into()), ..PolicyRule::tool(Permission::Allow, "shell") };
        let call = AskedCall {
            item: ItemId::from_u128(1),
            tool: "shell".into(),
            input: json!({"command": "git push\n\u{1b}[2Jrm x", "timeout_ms": 5}),
            why: "ask".into(),
            kind: vec![kind],
            after_every: false,
            options: Vec::new(),
            diff: None,
        };
        let file = FileChange { path: "a\u{7}b".into(), insertions: 1, deletions: 2 };
        let approval = PendingApproval {
            id: ApprovalId::from_u128(1),
            question: "Run it?".into(),
            gate: Gate::Call,
            since: Timestamp::UNIX_EPOCH,
            call: Some(Box::new(call)),
            diff: Some(Box::new(DiffSummary { files: vec![file], count: 3, insertions: 1, deletions: 2 })),
        };
        let shown = lines(&approval).join("\n");
        assert!(shown.contains("command: git push\n") && shown.contains("rm x"), "{shown}");
        assert!(shown.contains("timeout_ms: 5") && shown.contains("… 2 more files"), "{shown}");
        assert!(shown.contains("--all: allow tool \"shell\" command \"git push *\""), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
        assert!(how(SessionId::from_u128(1), Gate::Call, approval.call.as_deref()).contains("[--all]"));
        assert!(!how(SessionId::from_u128(1), Gate::Delivery, None).contains("--edit"));
    }
}
