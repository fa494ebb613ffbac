//! `slipway pr`: a session's pull request, and what can be done to it.

use std::path::PathBuf;

use anyhow::Context as _;
use protocol::event::ReviewState;
use protocol::{EditPullRequest, PullRequest, SessionId};

use super::Context;
use crate::exit::Exit;
use crate::interrupt::Interrupts;
use crate::render::{print, style, text};

/// Show a session's pull requests with the forge's checks, or change one.
#[derive(Debug, clap::Args)]
pub(crate) struct Pr {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Which of several repositories is meant, by the directory that it lies in
    #[arg(long, value_name = "NAME")]
    repo: Option<String>,
    /// Give it another title
    #[arg(long)]
    title: Option<String>,
    /// Give it the body in this file; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "describe")]
    body_file: Option<PathBuf>,
    /// Write its body anew from what the session is now
    #[arg(long)]
    describe: bool,
    /// Make it a draft
    #[arg(long, conflicts_with = "ready")]
    draft: bool,
    /// Make it ready for review
    #[arg(long)]
    ready: bool,
    /// Add a label; can be given several times
    #[arg(long, value_name = "NAME")]
    label: Vec<String>,
    /// Ask somebody for a review, by the name that they have at the forge; can be given several times
    #[arg(long, value_name = "NAME")]
    reviewer: Vec<String>,
    /// Say something below it
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Close it without merging it
    #[arg(long)]
    close: bool,
}

impl Pr {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let (session, repo) = (self.session, self.repo.clone());
        let edit = self.edit()?;
        let mut interrupts = Interrupts::catch()?;
        let asks = edit == EditPullRequest::default();
        let link = if asks { context.look().await? } else { context.link().await? };
        let asked = async {
            if !asks {
                return Ok((vec![link.api.edit_pull_request(session, repo.as_deref(), &edit).await?], false));
            }
            let names = match &repo {
                Some(_) => Vec::new(),
                None => link.api.session(session).await?.deliveries,
            };
            // Of several repositories, all that have one.
            let names: Vec<String> = names
                .into_iter()
                .filter(|one| one.number.is_some())
                .filter_map(|one| one.repository)
                .collect();
            if names.is_empty() {
                return Ok((vec![link.api.pull_request(session, repo.as_deref()).await?], false));
            }
            let mut pulls = Vec::new();
            for name in names {
                pulls.push(link.api.pull_request(session, Some(&name)).await?);
            }
            Ok::<_, anyhow::Error>((pulls, true))
        };
        let asked = asked.await;
        link.close(&mut interrupts).await?;
        let (pulls, several) = asked?;
        match (context.json, several, pulls.as_slice()) {
            (true, false, [pull]) => print::json(pull)?,
            (true, _, pulls) => print::json(&pulls)?,
            (false, _, pulls) => pulls.iter().try_for_each(show)?,
        }
        Ok(Exit::Done)
    }

    fn edit(self) -> anyhow::Result<EditPullRequest> {
        let body = match &self.body_file {
            None => None,
            Some(path) if path.as_os_str() == "-" => Some(
                std::io::read_to_string(std::io::stdin())
                    .context("cannot read the body from standard input")?,
            ),
            Some(path) => Some(
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
            ),
        };
        let draft = match (self.draft, self.ready) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        };
        Ok(EditPullRequest {
            title: self.title,
            body,
            describe: self.describe,
            draft,
            labels: self.label,
            reviewers: self.reviewer,
            comment: self.comment,
            close: self.close,
        })
    }
}

fn show(pull: &PullRequest) -> anyhow::Result<()> {
    let state = match (pull.state, pull.draft) {
        (ReviewState::Merged, _) => "merged",
        (ReviewState::Closed, _) => "closed",
        (ReviewState::Open, true) => "draft",
        (ReviewState::Open, false) => "open",
    };
    print::line(&text::harmless(&pull.url))?;
    let of = pull.repository.as_deref().map(|name| format!("{} ", text::harmless(name))).unwrap_or_default();
    style::note(&format!("{of}#{} {}: {}", pull.number, state, text::harmless(&pull.title)));
    for check in &pull.checks {
        let place = check.url.as_deref().map(|url| format!("  {}", text::harmless(url))).unwrap_or_default();
        style::note(&format!("{} {}{place}", check.state.as_str(), text::harmless(&check.name)));
    }
    Ok(())
}
