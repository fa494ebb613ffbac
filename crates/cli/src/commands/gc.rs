//! `slipway gc`: what is on disk, what of it goes, and why.

use protocol::GarbageReport;

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style, table, text};

/// Remove layers, snapshots and images that nothing needs any more, or that are over the disk's budget. Nothing in use is
/// ever removed. What a snapshot holds and no commit does goes with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Gc {
    /// Only explain: what would go, what stays, and why
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look_for_long().await?;
        let report = link.api.collect_garbage(self.dry_run).await;
        link.close_now().await?;
        let report = report?;
        if context.json {
            print::json(&report)?;
        } else {
            tell(&report)?;
        }
        Ok(Exit::Done)
    }
}

fn tell(report: &GarbageReport) -> anyhow::Result<()> {
    // After the fact only what went is news; before it, what stays is half of the explanation.
    let shown = report.entries.iter().filter(|entry| entry.remove || report.dry_run);
    let rows: Vec<Vec<String>> = shown
        .map(|entry| {
            let fate = if entry.remove { "goes" } else { "stays" };
            // Of a sandbox only its layers are measured.
            let size = if entry.kind == "sandbox" { "-".to_owned() } else { text::bytes(entry.bytes) };
            [fate, &entry.kind, &entry.id, &size, &entry.reason].map(str::to_owned).into()
        })
        .collect();
    if !rows.is_empty() {
        print::line(&table::format(&["", "what", "id", "size", "why"], rows))?;
    }
    let verb = if report.dry_run { "would be freed" } else { "freed" };
    style::note(&format!(
        "{} of {} used; {} {verb}",
        text::bytes(report.used_bytes),
        text::bytes(report.budget_bytes),
        text::bytes(report.freed_bytes)
    ));
    if report.used_bytes.saturating_sub(report.freed_bytes) > report.budget_bytes {
        let why = if report.dry_run { "the reasons are above" } else { "slipway gc --dry-run says why" };
        style::note(&format!(
            "that is still more than the budget, but what stays is in use or too young ({why}); end sessions, remove \
             environments, or raise disk_budget_gb in [sandbox] of slipway.toml"
        ));
    }
    Ok(())
}
