//! `slipway approve` and `slipway reject`: decide what a session waits for.

use anyhow::{Context as _, anyhow};
use protocol::{Decide, PendingApproval, SessionId};

use super::Context;
use crate::connect::Link;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{approval, live, print, style, summary};

/// Approve what a session waits for: the push of its work, or a call of the agent. It is shown first. Whoever is first
/// decides.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Reject it
    #[arg(long)]
    reject: bool,
    /// What the agent is told
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Run the call with these arguments instead, as JSON; - reads them from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "reject")]
    edit: Option<String>,
    /// Allow all of its kind for the rest of the session; --show says what that is
    #[arg(long, conflicts_with = "reject")]
    all: bool,
    /// Only show what waits, with the whole diff so far; decide nothing
    #[arg(long, conflicts_with_all = ["reject", "comment", "edit", "all"])]
    show: bool,
}

/// Reject what a session waits for. With a comment the agent goes on with what it says. Without one, a call is left out,
/// and a turn whose push is rejected ends as escalated.
#[derive(Debug, clap::Args)]
pub(crate) struct Reject {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// What the agent is told
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

impl Reject {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let Self { session, comment } = self;
        let approve = Approve { session, reject: true, comment, edit: None, all: false, show: false };
        approve.run(context).await
    }
}

impl Approve {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        if self.show {
            return self.look(context).await;
        }
        let decide = Decide {
            approved: !self.reject,
            comment: self.comment.clone(),
            input: self.edit.as_deref().map(arguments).transpose()?,
            all: self.all,
        };
        settle(self.session, context, |_| Ok(decide)).await
    }

    /// Shows what waits and decides nothing.
    async fn look(&self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let found = async {
            let (_, pending) = pending(&link, self.session).await?;
            anyhow::Ok((pending, link.api.diff(self.session).await?))
        }
        .await;
        link.close_now().await?;
        let (pending, diff) = found?;
        if context.json {
            print::json(&pending)?;
            return Ok(Exit::Done);
        }
        for line in approval::lines(&pending) {
            print::line(&line)?;
        }
        if !diff.patch.is_empty() {
            print::text(&summary::patch(&diff.patch, style::stdout()))?;
        }
        style::note(&approval::how(self.session, pending.gate, pending.call.as_deref()));
        Ok(Exit::Done)
    }
}

async fn pending(link: &Link, session: SessionId) -> anyhow::Result<(protocol::Session, PendingApproval)> {
    let mut found = link.api.session(session).await?;
    match found.approval.take() {
        Some(pending) => Ok((found, pending)),
        None => {
            Err(Usage(anyhow!("{session} does not wait for a person: it is {}", found.status.as_str()))
                .into())
        }
    }
}

/// Decides on what a session waits for, and goes on with it where nobody else is there to.
pub(super) async fn settle(
    session: SessionId,
    context: Context,
    decide: impl FnOnce(&PendingApproval) -> anyhow::Result<Decide>,
) -> anyhow::Result<Exit> {
    let mut interrupts = Interrupts::catch()?;
    let link = context.link().await?;
    let result = tell(&link, session, decide, &mut interrupts, context.json).await;
    let closed = link.close(&mut interrupts).await;
    let exit = result?;
    closed?;
    Ok(exit)
}

async fn tell(
    link: &Link,
    session: SessionId,
    decide: impl FnOnce(&PendingApproval) -> anyhow::Result<Decide>,
    interrupts: &mut Interrupts,
    json: bool,
) -> anyhow::Result<Exit> {
    let (before, pending) = pending(link, session).await?;
    let decide = decide(&pending)?;
    if !json {
        approval::lines(&pending).iter().for_each(|line| style::note(line));
    }
    let decision = link.api.decide(session, pending.id, &decide).await?;
    if json {
        print::json(&decision)?;
    } else {
        style::note(approval::word(decision.gate, decision.approved));
    }
    if !link.is_own() {
        if !json {
            style::note(&format!("watch it with: slipway attach {session}"));
        }
        return Ok(Exit::Done);
    }
    // Nobody else is there to go on with it.
    let on_interrupt = live::OnInterrupt::Stop;
    let (after, lineage) = (before.seq, before.lineage);
    live::Watch { api: &link.api, session, after, lineage, on_interrupt, json }.run(interrupts).await
}

/// Arguments of a call.
fn arguments(text: &str) -> anyhow::Result<serde_json::Value> {
    let text = if text == "-" {
        std::io::read_to_string(std::io::stdin())
            .context("the arguments on standard input cannot be read")
            .map_err(Usage)?
    } else {
        text.to_owned()
    };
    let value: serde_json::Value = serde_json::from_str(&text)
        .context("--edit takes the arguments of the call as JSON, such as '{\"command\": \"ls\"}'")
        .map_err(Usage)?;
    match value.is_object() {
        true => Ok(value),
        false => Err(Usage(anyhow!("--edit takes all arguments of the call as one JSON object")).into()),
    }
}
