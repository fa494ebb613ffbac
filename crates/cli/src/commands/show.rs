//! `slipway show`: one session in full.

use protocol::event::ReviewState;
use protocol::{EventBody, Item, ItemKind, Session, SessionId, Status};

use super::Context;
use crate::exit::Exit;
use crate::render::{approval, budget, live, memory, print, style, summary, table, text};

/// Show a session: status, checks, spend, delivery.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Show the calls of the agent instead: how each ended, how long it took, and its share of tokens and cost
    #[arg(long)]
    calls: bool,
}

impl Show {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let found = async {
            anyhow::Ok((link.api.session(self.session).await?, link.api.events(self.session).await?))
        }
        .await;
        link.close_now().await?;
        let (session, events) = found?;
        if self.calls {
            let items = calls(&events);
            match context.json {
                true => print::json(&items)?,
                false => print::line(&table::format(&HEAD, items.iter().filter_map(|item| row(item))))?,
            }
            return Ok(Exit::Done);
        }
        if context.json {
            print::json(&session)?;
            return Ok(Exit::Done);
        }
        print::line(&overview(&session))?;
        for event in &events {
            if let EventBody::TurnFinished { outcome, reason, receipt, .. } = &event.body {
                print::line(&summary::turn(*outcome, reason.as_deref(), receipt, style::stdout()))?;
            }
            if let Some(line) = memory::line(&event.body) {
                print::line(&format!("memory: {line}"))?;
            }
        }
        Ok(Exit::Done)
    }
}

const HEAD: [&str; 7] = ["call", "ended", "took", "bytes", "wrote", "reads", "cost"];

/// The calls that ended, in order.
fn calls(events: &[protocol::Event]) -> Vec<&Item> {
    let items = events.iter().filter_map(|event| match &event.body {
        EventBody::ItemCompleted { item, .. } => Some(item),
        _ => None,
    });
    items.filter(|item| matches!(item.kind, ItemKind::ToolCall(_))).collect()
}

/// A call in a line.
fn row(item: &Item) -> Option<Vec<String>> {
    let ItemKind::ToolCall(call) = &item.kind else { return None };
    let ended = match call.exit_code {
        Some(code) => format!("exit {code}"),
        None => serde_json::to_value(item.status).ok()?.as_str()?.to_owned(),
    };
    let did = call.hooks.iter().filter(|run| run.did != protocol::HookDeed::Passed);
    let ended = did.fold(ended, |ended, run| format!("{ended}, hook {}", run.did.as_str()));
    let share = call.share.unwrap_or_default();
    Some(vec![
        live::describe(call),
        ended,
        call.duration_ms.map(text::duration).unwrap_or_default(),
        call.output.as_ref().map(|output| output.bytes.to_string()).unwrap_or_default(),
        share.written.to_string(),
        share.read.to_string(),
        share.cost_usd.map(|cost| format!("${cost:.6}")).unwrap_or_default(),
    ])
}

fn overview(session: &Session) -> String {
    let mut lines = vec![
        format!("{}  {}", session.id, text::harmless(&session.title)),
        format!("status       {}", session.status.as_str()),
    ];
    if let Some(reason) = &session.reason {
        lines.push(format!("reason       {}", text::harmless(reason)));
    }
    lines.push(format!("environment  {}", session.environment));
    lines.push(format!("model        {}", session.model));
    lines.push(format!("created      {} ({} ago)", session.created_at, text::age(session.created_at)));
    lines.push(format!("spend        {}", text::spend(&session.spend)));
    if session.turn_spend != session.spend {
        let which = if session.turn.is_some() { "this turn" } else { "last turn" };
        lines.push(format!("{which}    {}", text::spend(&session.turn_spend)));
    }
    if !session.spent.is_empty() {
        lines.push(indented(&budget::spent(&session.spent, None)));
    }
    if !session.budgets.is_unlimited() {
        lines.push("budget".to_owned());
        lines.push(indented(&budget::table(session)));
    }
    for delivery in session.all_deliveries() {
        let state =
            serde_json::to_value(delivery.state).ok().and_then(|state| state.as_str().map(str::to_owned));
        lines.push(format!(
            "branch       {} ({}) at {}",
            delivery.branch,
            state.unwrap_or_default(),
            delivery.remote
        ));
        let review = delivery.review.map(|review| match review.state {
            ReviewState::Open => "",
            ReviewState::Closed => " (closed)",
            ReviewState::Merged => " (merged)",
        });
        let review = review.unwrap_or_default();
        lines
            .extend(delivery.url.as_ref().map(|url| format!("pull request {}{review}", text::harmless(url))));
        lines.extend(delivery.error.as_ref().map(|error| format!("             {error}")));
    }
    if let Some(approval) = &session.approval {
        let shown = approval::lines(approval).join("\n");
        lines.push(format!("waits        {}", indented(&shown).trim_start()));
        lines.push(indented(&approval::how(session.id, approval.gate, approval.call.as_deref())));
    }
    for rule in &session.policy.rules {
        lines.push(format!("policy       {}", text::harmless(&rule.to_string())));
    }
    lines.extend(
        session.policy.after_every.map(|every| format!("policy       ask after every {every} actions")),
    );
    for rule in &session.granted {
        lines.push(format!("granted      {}", text::harmless(&rule.to_string())));
    }
    for skill in &session.skills {
        let id = |id: &str| id.get(..12).unwrap_or(id).to_owned();
        let commit = skill.commit.as_deref().map(|commit| format!(" at commit {}", id(commit)));
        let (name, source) = (&skill.name, text::harmless(&skill.source));
        lines.push(text::harmless(&format!(
            "skill        {name} of {source}{}, tree {}",
            commit.unwrap_or_default(),
            id(&skill.tree)
        )));
    }
    if session.paused && session.status == Status::OutOfBudget {
        lines.push("queue        stays until there is more of the budget".to_owned());
    } else if session.paused {
        lines.push(format!("queue        paused; go on with: slipway queue {} resume", session.id));
    }
    for prompt in &session.queued {
        let writers = super::queue::writers(prompt);
        lines.push(format!("queued       {writers}: {}", text::first_line(&prompt.text)));
    }
    lines.join("\n")
}

/// Under the values of the other lines.
fn indented(table: &str) -> String {
    table.lines().map(|line| format!("             {line}")).collect::<Vec<_>>().join("\n")
}
