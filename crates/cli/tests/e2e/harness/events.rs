//! A session's stream as a client gets it: durable events and what goes by, as plain JSON, because the names on the wire
//! are what is promised.

use serde_json::Value;

/// The frames of one session in the order they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events {
    /// Events that are in the log.
    pub(crate) durable: Vec<Value>,
    /// Everything else.
    pub(crate) ephemeral: Vec<Value>,
}

impl Events {
    /// Reads lines of JSON.
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Self {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Adds a frame.
    pub(crate) fn push(&mut self, frame: Value) {
        if frame.get("seq").is_some() { self.durable.push(frame) } else { self.ephemeral.push(frame) }
    }

    /// The sequence numbers.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.durable.iter().map(|event| event["seq"].as_u64().unwrap()).collect()
    }

    /// Fails unless the events are exactly those after `after`, each once and in order.
    #[track_caller]
    pub(crate) fn assert_gap_free(&self, after: u64) {
        let expected: Vec<u64> = (after + 1..).take(self.durable.len()).collect();
        assert_eq!(self.numbers(), expected, "gap or repetition");
    }

    /// The data of the events of one type.
    pub(crate) fn of(&self, name: &str) -> Vec<&Value> {
        self.durable.iter().filter(|event| event["type"] == name).map(|event| &event["data"]).collect()
    }

    /// The data of the one event of this type.
    #[track_caller]
    pub(crate) fn only(&self, name: &str) -> &Value {
        let found = self.of(name);
        assert_eq!(found.len(), 1, "{name} should be there once: {found:?}");
        found[0]
    }

    /// The names of the types, each once, in alphabetical order.
    pub(crate) fn types(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.durable.iter().map(|event| event["type"].as_str().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The finished items of one kind.
    pub(crate) fn items(&self, kind: &str) -> Vec<&Value> {
        let items = self.of("item.completed").into_iter().map(|data| &data["item"]);
        items.filter(|item| item["kind"] == kind).collect()
    }

    /// The finished calls of one tool.
    pub(crate) fn calls(&self, tool: &str) -> Vec<&Value> {
        self.items("tool_call").into_iter().filter(|item| item["tool"] == tool).collect()
    }

    /// The session's id.
    pub(crate) fn session(&self) -> &str {
        self.durable[0]["session"].as_str().unwrap()
    }
}

impl FromIterator<Value> for Events {
    fn from_iter<I: IntoIterator<Item = Value>>(frames: I) -> Self {
        let mut events = Self::default();
        frames.into_iter().for_each(|frame| events.push(frame));
        events
    }
}
