//! The tools of MCP servers that the session's turns offered last. A turn that goes on after a restart has those that it had.

use std::sync::Arc;

use protocol::{EventBody, McpTool, TurnId};
use serde::{Deserialize, Serialize};

use super::State;

/// What was offered last, and by which turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Offered {
    turn: Option<TurnId>,
    tools: Arc<Vec<McpTool>>,
}

impl Offered {
    /// Takes in what a turn offers from here on.
    pub(super) fn take_in(&mut self, body: &EventBody) {
        let EventBody::ToolsListed { turn, tools, as_before, .. } = body else { return };
        self.turn = Some(*turn);
        if !as_before {
            self.tools = Arc::new(tools.clone());
        }
    }
}

impl State {
    /// What the turn under way offers; None where nobody has asked its servers yet.
    pub(crate) fn offered(&self) -> Option<Arc<Vec<McpTool>>> {
        let now = self.turn().map(|turn| turn.id);
        (now.is_some() && now == self.offered.turn).then(|| Arc::clone(&self.offered.tools))
    }

    /// What was offered last, by whichever turn.
    pub(crate) fn offered_last(&self) -> Arc<Vec<McpTool>> {
        Arc::clone(&self.offered.tools)
    }
}
