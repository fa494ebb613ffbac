//! A client of MCP in lines of JSON.

use serde_json::{Value, json};

use crate::harness::{Output, Running, World};

/// The newest version of the protocol that begins with `initialize`.
pub(super) const VERSION: &str = "2025-11-25";

/// A client that has introduced itself.
pub(super) struct Client {
    pub(super) running: Running,
    last: u64,
}

impl Client {
    /// Starts `slipway mcp` with more arguments.
    pub(super) async fn start(world: &World, arguments: &[&str]) -> Self {
        let running = world.start(&[&["mcp"], arguments].concat());
        let mut client = Self { running, last: 0 };
        client.introduce().await;
        client
    }

    /// A client of a program that was started already.
    pub(super) fn of(running: Running) -> Self {
        Self { running, last: 0 }
    }

    /// Says who it is, and gives what the server says.
    pub(super) async fn introduce(&mut self) -> Value {
        let about = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "by hand", "version": "1"},
        });
        let server = self.ask("initialize", about).await["result"].clone();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        server
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.running.write(format!("{message}\n").as_bytes()).await;
    }

    /// Sends a request and gives its id.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The answer to a request.
    pub(super) async fn answer(&self, id: u64) -> Value {
        self.running.line(|line| line["id"] == id && line.get("method").is_none()).await
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.answer(id).await
    }

    /// Calls a tool and gives its result, whether it is an error or not.
    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert!(answer.get("error").is_none(), "{tool}: {answer}");
        let result = answer["result"].clone();
        assert!(!text(&result).is_empty() && result["structuredContent"].is_object(), "{tool}: {result}");
        result
    }

    /// Calls a tool that must succeed, and gives its data.
    pub(super) async fn data(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must fail, and gives what it says.
    pub(super) async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let title = result["structuredContent"]["error"]["title"].as_str().unwrap();
        assert!(text(&result).starts_with(title), "{tool}: {result}");
        text(&result).to_owned()
    }

    /// Starts a session and gives its id.
    pub(super) async fn session(&mut self, environment: &str, prompt: &str) -> String {
        let started = self.data("start_session", json!({"environment": environment, "prompt": prompt})).await;
        started["session"].as_str().unwrap().to_owned()
    }

    /// Waits until a session is at rest.
    pub(super) async fn settled(&mut self, session: &str) -> Value {
        self.data("wait_session", json!({"session": session, "timeout_s": 50})).await
    }

    /// The names of the tools.
    pub(super) async fn tools(&mut self) -> Vec<Value> {
        let list = self.ask("tools/list", json!({})).await;
        list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}")).clone()
    }

    /// Ends the input. The program must end by itself, well, and with nothing but the protocol on its standard output.
    pub(super) async fn leave(mut self) -> Output {
        self.running.close_stdin();
        let output = self.running.wait().await.expect_code(0);
        for line in output.stdout.lines() {
            let message: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output}"));
            assert_eq!(message["jsonrpc"], "2.0", "{output}");
        }
        output
    }
}

/// The text of a result.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// The names of tools.
pub(super) fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}
