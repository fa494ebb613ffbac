//! `slipway backup`: everything that cannot be made again in one file, while the sessions go on.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use futures_util::StreamExt;
use session::backup::Manifest;
use tokio::io::AsyncWriteExt;

use super::Context;
use crate::api::Api;
use crate::exit::{Exit, Usage};
use crate::render::{print, style, text};

/// Write everything to one file, while sessions go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// Where to write it; must not be there yet
    file: PathBuf,
}

impl Backup {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        if self.file.exists() {
            let error = anyhow!("{} is there already: choose another name", self.file.display());
            return Err(Usage(error).into());
        }
        let link = context.look_for_long().await?;
        let written = self.write(&link.api).await;
        link.close_now().await?;
        let (manifest, bytes) = written?;
        let damaged: Vec<String> = manifest
            .sessions
            .iter()
            .filter(|session| session.damage.is_some())
            .map(|session| session.id.to_string())
            .collect();
        if context.json {
            print::json(&serde_json::json!({
                "file": self.file, "bytes": bytes, "made_at": manifest.made_at,
                "sessions": manifest.sessions.len(), "mirrors": manifest.mirrors.len(), "damaged": damaged,
                "lost": manifest.lost,
            }))?;
        } else {
            style::note(&format!(
                "{}: {} sessions and {} repositories, {}, every checksum checked",
                self.file.display(),
                manifest.sessions.len(),
                manifest.mirrors.len(),
                text::bytes(bytes)
            ));
        }
        if !damaged.is_empty() {
            style::error(&format!(
                "these logs are damaged and were saved up to the damage: {}",
                text::harmless(&damaged.join(", "))
            ));
        }
        if !manifest.lost.is_empty() {
            let lost: Vec<String> = manifest.lost.iter().map(ToString::to_string).collect();
            style::error(&format!(
                "the logs of these sessions are gone, and nothing of them was saved: {}\n  an earlier backup may have them",
                lost.join(", ")
            ));
        }
        let whole = damaged.is_empty() && manifest.lost.is_empty();
        Ok(if whole { Exit::Done } else { Exit::Failed })
    }

    /// Writes the file under another name first, so that it is whole or not there.
    async fn write(&self, api: &Api) -> anyhow::Result<(Manifest, u64)> {
        let mut part = self.file.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let written = receive(api, &part).await;
        if written.is_err() {
            // What is left of it is of no use.
            drop(std::fs::remove_file(&part));
        }
        let (manifest, bytes) = written?;
        std::fs::rename(&part, &self.file)
            .with_context(|| format!("cannot write {}", self.file.display()))?;
        Ok((manifest, bytes))
    }
}

async fn receive(api: &Api, part: &Path) -> anyhow::Result<(Manifest, u64)> {
    let cannot = || format!("cannot write {}", part.display());
    let mut pieces = api.backup().await?;
    let file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(part);
    let mut file = tokio::fs::File::from_std(file.with_context(cannot)?);
    let mut progress = Progress::new("received");
    while let Some(piece) = pieces.next().await {
        let piece = piece.context("the backup broke off: the server's log says why")?;
        file.write_all(&piece).await.with_context(cannot)?;
        progress.add(piece.len());
    }
    file.sync_all().await.with_context(cannot)?;
    let path = part.to_owned();
    let manifest = tokio::task::spawn_blocking(move || session::backup::check(&path)).await??;
    Ok((manifest, progress.bytes))
}

/// Says now and then how far it is.
pub(super) struct Progress {
    what: &'static str,
    pub(super) bytes: u64,
    told: Instant,
}

impl Progress {
    const PAUSE: Duration = Duration::from_secs(2);

    pub(super) fn new(what: &'static str) -> Self {
        Self { what, bytes: 0, told: Instant::now() }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.told.elapsed() >= Self::PAUSE {
            style::note(&format!("{} {}", self.what, text::bytes(self.bytes)));
            self.told = Instant::now();
        }
    }
}
