//! `slipway restore`: puts a backup back, into an empty data directory or beside what is there.

use std::path::PathBuf;

use anyhow::Context as _;
use protocol::RestoreReport;
use tokio::io::AsyncReadExt;

use super::Context;
use super::backup::Progress;
use crate::exit::Exit;
use crate::render::{print, style, text};

/// Put a backup back; what is there is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// A file that `slipway backup` wrote
    file: PathBuf,
}

impl Restore {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        // A wrong file is told before a server is asked, or started.
        let path = self.file.clone();
        let manifest = tokio::task::spawn_blocking(move || session::backup::check(&path)).await??;
        style::note(&format!(
            "a backup of {}: {} sessions and {} repositories",
            text::age(manifest.made_at),
            manifest.sessions.len(),
            manifest.mirrors.len()
        ));
        let link = context.look_for_long().await?;
        let report = self.send(&link.api).await;
        link.close_now().await?;
        let report = report?;
        if context.json {
            print::json(&report)?
        } else {
            tell(&report)
        }
        Ok(Exit::Done)
    }

    async fn send(&self, api: &crate::api::Api) -> anyhow::Result<RestoreReport> {
        let file = tokio::fs::File::open(&self.file)
            .await
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        let pieces = futures_util::stream::try_unfold(
            (file, Progress::new("sent")),
            |(mut file, mut progress)| async move {
                let mut piece = bytes::BytesMut::with_capacity(64 * 1024);
                let read = file.read_buf(&mut piece).await?;
                progress.add(read);
                std::io::Result::Ok((read > 0).then(|| (piece.freeze(), (file, progress))))
            },
        );
        api.restore(reqwest::Body::wrap_stream(pieces)).await
    }
}

fn tell(report: &RestoreReport) {
    let count = |added: usize, left: usize, what: &str| {
        let left =
            if left == 0 { String::new() } else { format!(", {left} were there and stayed as they are") };
        style::note(&format!("{added} {what} added{left}"));
    };
    count(report.sessions.len(), report.sessions_left.len(), "sessions");
    count(report.environments.len(), report.environments_left.len(), "environments");
    count(report.mirrors.len(), report.mirrors_left.len(), "repositories");
    if report.keys > 0 {
        style::note(&format!(
            "{} idempotency keys added: commands that were done are not done again",
            report.keys
        ));
    }
    if report.placeholders_left {
        style::note(
            "secrets have other placeholders here than where the backup was made: a file in a restored workspace that \
             holds an old one must be written anew",
        );
    }
    if !report.secrets.is_empty() || !report.secrets_left.is_empty() {
        count(report.secrets.len(), report.secrets_left.len(), "secrets");
    }
    if report.notes > 0 {
        style::note(&format!("{} notes of the memory added", report.notes));
    }
    if !report.secrets_closed.is_empty() {
        style::note(&format!(
            "{} cannot be opened here: put the key of where the backup was made in its place (see `slipway secret ls`), or set \
             them again",
            report.secrets_closed.join(", ")
        ));
    }
    for session in &report.damaged {
        style::note(&format!("the log of {session} was damaged before the backup: it ends there"));
    }
}
