//! A small server with tools that behave in every way that a client must bear.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp::Vault;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Longer than anything here takes; a test that waits for it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and what it saw.
#[derive(Clone, Default)]
pub(crate) struct Shop {
    /// Calls, by tool.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    /// A slow call began.
    pub(crate) waiting: Arc<Notify>,
    /// A slow call was cancelled.
    pub(crate) cancelled: Arc<Notify>,
    more: Arc<Mutex<bool>>,
}

fn tool(name: &'static str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else { panic!() };
    Tool::new(name, format!("Does {name}."), Arc::new(schema))
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // In two pages.
        if page.and_then(|page| page.cursor).is_none() {
            let text =
                json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
            let mut first =
                ListToolsResult::with_all_items(vec![tool("echo", text), tool("fail", json!({}))]);
            first.next_cursor = Some("second".to_owned());
            return Ok(first);
        }
        let mut second = vec![tool("slow", json!({})), tool("more", json!({})), tool("echo", json!({}))];
        if *self.more.lock().unwrap() {
            second.push(tool("new", json!({})));
        }
        Ok(ListToolsResult::with_all_items(second))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.calls.lock().unwrap().push(call.name.to_string());
        let text = |text: &str| Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
        match &*call.name {
            "echo" => {
                let said = call.arguments.unwrap_or_default();
                text(said.get("text").and_then(Value::as_str).unwrap_or_default())
            }
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("out of stock")]).into()),
            "slow" => {
                self.waiting.notify_one();
                context.ct.cancelled().await;
                self.cancelled.notify_one();
                text("too late")
            }
            "more" => {
                *self.more.lock().unwrap() = true;
                context.peer.notify_tool_list_changed().await.unwrap();
                text("there is more now")
            }
            other => Err(ErrorData::invalid_params(format!("there is no {other}"), None)),
        }
    }
}

/// A vault in memory.
#[derive(Debug, Default)]
pub(crate) struct Drawer(pub(crate) Mutex<BTreeMap<String, String>>);

impl Vault for Drawer {
    fn get(&self, name: &str) -> Result<Option<zeroize::Zeroizing<String>>, String> {
        Ok(self.0.lock().unwrap().get(name).cloned().map(zeroize::Zeroizing::new))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        self.0.lock().unwrap().insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }
}

/// Arguments of a call.
pub(crate) fn arguments(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap()
}
