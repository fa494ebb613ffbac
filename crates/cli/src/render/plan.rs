//! The model's to-do list.

use protocol::event::{PlanItem, PlanState};

use super::style::Paint;
use super::text;

/// The whole list, an item on each line.
pub(crate) fn lines(items: &[PlanItem], paint: Paint) -> String {
    let line = |item: &PlanItem| {
        let words = text::harmless(&item.text);
        match item.state {
            PlanState::Pending => format!("  ☐ {words}"),
            PlanState::InProgress => format!("  {} {}", paint.work("▸"), paint.bold(&words)),
            PlanState::Completed => format!("  {} {}", paint.good("✓"), paint.dim(&words)),
            PlanState::Skipped => format!("  {} {}", paint.dim("−"), paint.dim(&words)),
            PlanState::Failed => format!("  {} {words}", paint.bad("✗")),
        }
    };
    let lines: Vec<String> = items.iter().map(line).collect();
    format!("{} plan\n{}", paint.work("≡"), lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_sign() {
        use PlanState::{Completed, Failed, InProgress, Pending, Skipped};
        let items = [Completed, InProgress, Pending, Skipped, Failed]
            .map(|state| PlanItem { text: format!("{state:?}\x1b[2J"), state });
        let expected =
            "≡ plan\n  ✓ Completed[2J\n  ▸ InProgress[2J\n  ☐ Pending[2J\n  − Skipped[2J\n  ✗ Failed[2J";
        assert_eq!(lines(&items, Paint::plain()), expected);
    }
}
