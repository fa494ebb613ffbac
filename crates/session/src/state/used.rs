//! What the turn under way has used, as its log tells it.

use protocol::ItemStatus;
use protocol::item::ToolCall;

use super::TurnState;
use crate::budget::Used;

impl TurnState {
    pub(super) fn count_time(&mut self, duration_ms: Option<u64>) {
        self.tools_ms = self.tools_ms.saturating_add(duration_ms.unwrap_or(0));
        // The next answer says how long it was in all; until then this is what is known.
        self.elapsed_ms = self.elapsed_ms.saturating_add(duration_ms.unwrap_or(0));
    }

    /// How many calls of the work itself are recorded, with those for summaries and without one for a title.
    pub(crate) fn calls_in_line(&self) -> u32 {
        self.calls_in_line
    }

    /// What it used so far, `millis` of time at least.
    pub(super) fn used(&self, millis: u64) -> Used {
        Used::new(&self.spend, self.steps, millis.max(self.elapsed_ms))
    }

    /// What counts for the limits of a turn: what it used, and what the work used that it goes on with.
    pub(super) fn used_for_prompt(&self, millis: u64) -> Used {
        self.used(millis).and(self.carried)
    }

    pub(super) fn count_call(&mut self, status: ItemStatus, call: &ToolCall) {
        match (call.duration_ms, call.elapsed_ms) {
            // A command goes on while no server runs, and that time is not the turn's.
            (Some(duration), Some(elapsed)) => {
                let here = duration.min(elapsed.saturating_sub(self.elapsed_ms));
                self.tools_ms = self.tools_ms.saturating_add(here);
                self.elapsed_ms = self.elapsed_ms.max(elapsed);
            }
            (duration, _) => self.count_time(duration),
        }
        // A call that was refused for its arguments has no duration: it never ran.
        let ran = matches!(status, ItemStatus::Completed | ItemStatus::Failed) && call.duration_ms.is_some();
        if ran {
            self.tools_completed += 1;
            self.actions += u32::from(agent::policy::is_action(&call.tool, &call.input));
        } else {
            self.tools_skipped += 1;
        }
    }
}
