//! The tools, one file each: its name and what clients are told of it, its arguments, and what it does.

mod answer_session;
mod decide_session;
mod deliver_session;
mod diff_session;
mod list_environments;
mod list_sessions;
mod prompt_session;
mod read_session;
mod show_session;
mod start_session;
mod stop_session;
mod wait_session;

use std::pin::Pin;

use rmcp::model::{JsonObject, ToolAnnotations};

use super::answer::Answer;
use super::call::{Call, Reach};
use super::schema::{Field, schema};
use super::scope::Scope;

/// Every tool, in the order in which they are used.
pub(super) const ALL: [&Tool; 12] = [
    &list_environments::TOOL,
    &start_session::TOOL,
    &list_sessions::TOOL,
    &show_session::TOOL,
    &wait_session::TOOL,
    &read_session::TOOL,
    &prompt_session::TOOL,
    &answer_session::TOOL,
    &decide_session::TOOL,
    &stop_session::TOOL,
    &diff_session::TOOL,
    &deliver_session::TOOL,
];

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    pub(super) effect: Effect,
    fields: &'static [Field],
    pub(super) run: for<'a> fn(&'a mut Call, JsonObject) -> Doing<'a>,
}

/// A tool at work.
type Doing<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Answer>> + Send + 'a>>;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Looks,
    /// It adds work.
    Adds,
    /// It does what a person may want to be asked about first.
    Decides,
}

impl Effect {
    pub(super) fn changes(self) -> bool {
        self != Self::Looks
    }

    pub(super) fn reach(self) -> Reach {
        if self.changes() { Reach::Work } else { Reach::Look }
    }
}

impl Tool {
    /// What clients are told.
    pub(super) fn describe(&self, scope: &Scope) -> rmcp::model::Tool {
        let hints =
            ToolAnnotations::with_title(self.title).read_only(!self.effect.changes()).open_world(false);
        let hints = match self.effect {
            Effect::Looks => hints,
            Effect::Adds => hints.destructive(false),
            Effect::Decides => hints.destructive(true),
        };
        rmcp::model::Tool::new(self.name, self.description, schema(self.fields, scope))
            .with_title(self.title)
            .with_annotations(hints)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::commands::mcp::scope::Mode;

    fn described(environments: &[&str]) -> Vec<Value> {
        let scope = Scope::new(Mode::Change, environments.iter().map(|&name| name.to_owned()).collect());
        ALL.iter().map(|tool| serde_json::to_value(tool.describe(&scope)).unwrap()).collect()
    }

    #[test]
    fn every_tool_is_described_and_flat() {
        for tool in described(&[]) {
            let name = tool["name"].as_str().unwrap();
            assert!(tool["description"].as_str().unwrap().len() > 40, "{name}");
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
            for (field, about) in tool["inputSchema"]["properties"].as_object().unwrap() {
                assert!(about["description"].as_str().unwrap().len() > 10, "{name} {field}");
                assert!(!["object", "array"].contains(&about["type"].as_str().unwrap()), "{name} {field}");
            }
        }
    }

    #[test]
    fn a_restricted_server_starts_sessions_in_its_environments_only() {
        let start =
            |tools: Vec<Value>| tools.into_iter().find(|tool| tool["name"] == "start_session").unwrap();
        let open = start(described(&[]));
        assert_eq!(open["inputSchema"]["required"], serde_json::json!(["prompt"]));
        assert!(open["inputSchema"]["properties"]["repository"].is_object());
        let narrow = start(described(&["shop"]));
        assert_eq!(narrow["inputSchema"]["required"], serde_json::json!(["environment", "prompt"]));
        assert_eq!(narrow["inputSchema"]["properties"]["environment"]["enum"], serde_json::json!(["shop"]));
        assert!(narrow["inputSchema"]["properties"].get("repository").is_none());
    }
}
