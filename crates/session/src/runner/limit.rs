//! When a call of the model is ended if it does not end by itself, so that whoever waits for it knows until when.

use std::time::Duration;

use agent::tools::Invocation;
use protocol::{Item, ItemKind};

use super::Runner;
use super::tools::search;

impl Runner {
    /// When a call is ended; None where nothing ends it, or where it takes no time.
    pub(super) fn limit_ms(&self, tool: &Invocation) -> Option<u64> {
        let limit = match tool {
            Invocation::Shell { timeout_ms, background: false, .. } => {
                Duration::from_millis(*timeout_ms).min(self.context.options.command_timeout)
            }
            Invocation::Process { wait_ms, .. } if *wait_ms > 0 => Duration::from_millis(*wait_ms),
            Invocation::Search { .. } => search::TIME,
            Invocation::WebFetch { .. } => sandbox::egress::FETCH_TIME,
            Invocation::Mcp { server, .. } => self.mcp.server(server)?.timeout,
            _ => return None,
        };
        u64::try_from(limit.as_millis()).ok()
    }

    /// A call as it begins to run: people and hooks can have changed what it is run with.
    pub(super) fn with_limit(&self, item: &Item, tool: &Invocation) -> Item {
        let mut item = item.clone();
        if let ItemKind::ToolCall(call) = &mut item.kind {
            call.limit_ms = self.limit_ms(tool);
        }
        item
    }
}
