//! A session as tools tell it: what it is, how it stands, what waits for somebody, what it cost and where its work went.

use protocol::event::Delivery;
use protocol::{EventBody, Gate, ItemKind, Outcome, PendingApproval, Receipt, Session, Spend, Status};
use serde_json::{Value, json};

use super::answer::{Answer, cut};
use super::scope::Scope;
use crate::api::Api;
use crate::render::{approval, text};

/// Longest of what models and people wrote.
const WORDS: usize = 4000;
/// Longest of a prompt that waits.
const PROMPT: usize = 300;
/// How far back the end of the last turn is looked for.
const BACK: u64 = 180;

/// What the log says of the turn under way, or of the last one.
#[derive(Default)]
pub(super) struct End {
    outcome: Option<Outcome>,
    receipt: Option<Receipt>,
    words: Option<String>,
}

impl End {
    /// Reads the end of a session's log.
    pub(super) async fn of(api: &Api, session: &Session) -> anyhow::Result<Self> {
        let mut end = Self::default();
        let after = session.seq.saturating_sub(BACK);
        for event in api.events_after(session.id, after, session.lineage).await?.events {
            match event.body {
                EventBody::TurnStarted { .. } => end = Self::default(),
                EventBody::TurnFinished { outcome, receipt, .. } => {
                    (end.outcome, end.receipt) = (Some(outcome), Some(receipt));
                }
                EventBody::ItemCompleted { item, .. } => {
                    if let ItemKind::Message { text: words } = item.kind
                        && !words.trim().is_empty()
                    {
                        end.words = Some(cut(&text::harmless(words.trim()), WORDS));
                    }
                }
                _ => {}
            }
        }
        Ok(end)
    }
}

/// All of a session.
pub(super) fn whole(session: &Session, end: &End, scope: &Scope) -> Answer {
    let mut data = brief(session);
    let mut lines =
        vec![line(session), format!("environment {}, model {}", session.environment, session.model)];
    if let Some(reason) = &session.reason {
        lines.push(format!("reason: {}", cut(&text::harmless(reason), WORDS)));
    }
    if let Some(waits) = &session.approval {
        lines.push(format!("needs somebody: {} {}", gate(waits.gate), waits.id));
        lines.extend(asked(waits).lines().map(|line| format!("  {line}")));
        data["needs"] = needs(waits);
    }
    data["outcome"] = json!(end.outcome);
    if let Some(receipt) = &end.receipt {
        lines.extend(receipt_lines(receipt));
        data["changes"] = json!({
            "files": receipt.files_changed, "insertions": receipt.insertions, "deletions": receipt.deletions
        });
        data["checks"] = json!(receipt.checks);
        data["weakened"] = json!(receipt.weakened);
    }
    lines.push(format!("spend: {}", text::spend(&session.spend)));
    data["spend"] = spend(&session.spend);
    if let Some(delivery) = &session.delivery {
        lines.push(format!("delivery: {}", delivered(delivery)));
        data["delivery"] = self::delivery(delivery);
    }
    if !session.deliveries.is_empty() {
        lines.extend(session.deliveries.iter().map(|one| format!("  {}", delivered(one))));
        data["deliveries"] = session.deliveries.iter().map(self::delivery).collect();
    }
    if !session.queued.is_empty() {
        let paused = if session.paused { ", and the queue is paused" } else { "" };
        lines.push(format!("queue: {} prompts wait{paused}", session.queued.len()));
    }
    let queued = session.queued.iter().take(20);
    data["queued"] =
        queued.map(|prompt| json!({"prompt": prompt.id, "text": cut(&prompt.text, PROMPT)})).collect();
    data["paused"] = json!(session.paused);
    if let Some(words) = &end.words {
        lines.push(format!("last words: {words}"));
        data["last_words"] = json!(words);
    }
    lines.push(format!("log: {} events", session.seq));
    if let Some(next) = next(session, scope) {
        lines.push(format!("next: {next}"));
        data["next"] = json!(next);
    }
    Answer::new(lines.join("\n"), data)
}

/// A session in one line.
pub(super) fn line(session: &Session) -> String {
    format!("{}  {}  {}", session.id, session.status.as_str(), text::harmless(&session.title))
}

/// What lists have of a session.
pub(super) fn brief(session: &Session) -> Value {
    json!({
        "session": session.id,
        "title": session.title,
        "environment": session.environment,
        "model": session.model,
        "status": session.status,
        "reason": session.reason.as_ref().map(|reason| cut(reason, WORDS)),
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "seq": session.seq,
    })
}

/// Where a branch went, in words.
pub(super) fn delivered(delivery: &Delivery) -> String {
    let state = serde_json::to_value(delivery.state).unwrap_or_default();
    let commit: String = delivery.commit.iter().flat_map(|commit| commit.chars().take(10)).collect();
    let mut words = format!("{} {}", state.as_str().unwrap_or_default(), delivery.branch);
    if !commit.is_empty() {
        words.push_str(&format!(" at {commit}"));
    }
    words.push_str(&format!(" to {}", text::harmless(&delivery.remote)));
    if let Some(url) = &delivery.url {
        words.push_str(&format!("; pull request {}", text::harmless(url)));
    }
    if let Some(error) = &delivery.error {
        words.push_str(&format!("; {}", cut(&text::harmless(error), WORDS)));
    }
    words
}

/// The same as data.
pub(super) fn delivery(delivery: &Delivery) -> Value {
    let Delivery { state, repository, branch, commit, remote, url, number, error, .. } = delivery;
    let mut data = json!({
        "state": state, "branch": branch, "commit": commit, "remote": remote, "url": url, "number": number,
        "error": error.as_ref().map(|error| cut(error, WORDS)),
    });
    if let Some(repository) = repository {
        data["repository"] = json!(repository);
    }
    data
}

fn asked(waits: &PendingApproval) -> String {
    cut(&approval::lines(waits).join("\n"), WORDS)
}

fn needs(waits: &PendingApproval) -> Value {
    let call = waits.call.as_deref().filter(|_| waits.gate != Gate::Question);
    let options = waits.call.as_deref().map(|call| call.options.clone()).unwrap_or_default();
    json!({
        "approval": waits.id,
        "gate": waits.gate,
        "question": cut(&waits.question, WORDS),
        "options": options,
        "tool": call.map(|call| &call.tool),
        "shown": call.map(|_| asked(waits)),
        "since": waits.since,
    })
}

fn gate(gate: Gate) -> &'static str {
    match gate {
        Gate::Question => "question",
        Gate::Call => "a call of the agent is to be approved,",
        Gate::Host => "hosts are to be approved,",
        Gate::Delivery => "the push of the work is to be approved,",
    }
}

fn receipt_lines(receipt: &Receipt) -> Vec<String> {
    let checks: Vec<String> = receipt
        .checks
        .iter()
        .map(|check| {
            format!("{} {}", text::harmless(&check.name), if check.passed { "passed" } else { "failed" })
        })
        .collect();
    let mut lines = vec![format!(
        "changes: {} files, +{} −{}",
        receipt.files_changed, receipt.insertions, receipt.deletions
    )];
    if !checks.is_empty() {
        lines.push(format!("checks: {}", checks.join(", ")));
    }
    for weakened in &receipt.weakened {
        lines.push(format!("look at {}: {}", text::harmless(&weakened.file), text::harmless(&weakened.what)));
    }
    lines.extend(receipt.judgement.as_ref().map(|found| format!("judge: {}", text::judgement(found))));
    lines
}

fn spend(spend: &Spend) -> Value {
    json!({
        "tokens_in": spend.usage.prompt(),
        "tokens_out": spend.usage.output + spend.usage.reasoning,
        "calls": spend.calls,
        "cost_usd": spend.cost_usd,
        "unpriced_calls": spend.unpriced_calls,
    })
}

/// What can be done now, with the tools that are offered.
fn next(session: &Session, scope: &Scope) -> Option<String> {
    if crate::node::is_under_way(session) {
        return Some("wait for it with wait_session".to_owned());
    }
    if !scope.changes() {
        return None;
    }
    let id = session.id;
    match (session.status, &session.approval) {
        (_, Some(waits)) if waits.gate == Gate::Question => {
            Some(format!("answer with answer_session, approval {}", waits.id))
        }
        (_, Some(waits)) => Some(format!("a person decides: decide_session, approval {}", waits.id)),
        (Status::OutOfBudget, _) => Some(format!("a person raises the budget: slipway budget {id}")),
        (Status::Queued, _) => Some(format!("the queue is paused; go on with: slipway queue {id} resume")),
        (Status::Escalated | Status::Failed, _) => {
            Some("read_session tells what happened; go on with prompt_session".to_owned())
        }
        (Status::Done | Status::Cancelled, _) => Some("diff_session shows the work".to_owned()),
        (Status::Working | Status::Waiting, _) => None,
    }
}
