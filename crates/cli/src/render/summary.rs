//! How a turn ended, and a patch, for people.

use std::io::IsTerminal;

use protocol::{Outcome, Receipt, Weakening};

use super::style::Paint;
use super::text;

/// What a turn did, in a few lines.
pub(crate) fn turn(outcome: Outcome, reason: Option<&str>, receipt: &Receipt, paint: Paint) -> String {
    let word = match outcome {
        Outcome::Done => paint.good("done"),
        Outcome::Cancelled => paint.warn("cancelled"),
        Outcome::Escalated | Outcome::Failed | Outcome::OutOfBudget => paint.bad(outcome.as_str()),
    };
    let mut lines = vec![match reason {
        Some(reason) => format!("{word}: {}", text::harmless(reason)),
        None => word,
    }];
    let checks: Vec<String> = receipt
        .checks
        .iter()
        .map(|check| {
            let mark = if check.passed { paint.good("passed") } else { paint.bad("failed") };
            format!("{} {mark}", check.name)
        })
        .collect();
    if !checks.is_empty() {
        lines.push(format!("  checks   {}", checks.join(", ")));
    }
    lines.push(format!(
        "  changes  {} files, +{} −{}",
        receipt.files_changed, receipt.insertions, receipt.deletions
    ));
    for Weakening { file, line, what, .. } in &receipt.weakened {
        let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        let told = text::harmless(&format!("{place}: {what}"));
        lines.push(format!("  {}  {told}", paint.warn("look at")));
    }
    if let Some(judgement) = &receipt.judgement {
        lines.push(format!("  judge    {}", text::judgement(judgement)));
    }
    lines.extend(text::mistakes(&receipt.mistakes).map(|told| format!("  mistakes {told}")));
    lines.push(format!("  spend    {}", text::spend(&receipt.spend)));
    lines.push(format!(
        "  time     {} ({} in the model, {} in tools and checks), {} steps, {} tool calls",
        text::duration(receipt.duration_ms),
        text::duration(receipt.model_ms),
        text::duration(receipt.tools_ms),
        receipt.steps,
        receipt.tools_completed
    ));
    lines.join("\n")
}

/// A patch, coloured on a terminal.
pub(crate) fn patch(patch: &str, paint: Paint) -> String {
    let colour = |line: &str| {
        let line = text::harmless(line);
        match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
                paint.bold(&line)
            }
            [b'+', ..] => paint.good(&line),
            [b'-', ..] => paint.bad(&line),
            [b'@', b'@', ..] => paint.work(&line),
            _ => line,
        }
    };
    if !std::io::stdout().is_terminal() {
        // Whoever reads it may want to apply it: not a byte is changed.
        return patch.to_owned();
    }
    patch.lines().map(colour).collect::<Vec<_>>().join("\n")
}
