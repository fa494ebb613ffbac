//! One reply of a scripted model: what it says, and what goes wrong on the way.

use std::time::Duration;

use protocol::Usage;
use protocol::chat::{Part, Stop};
use serde_json::Value;
use tokio::sync::watch;

/// What a model answers, or how it fails to.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) body: Body,
    pub(super) headers: Vec<(String, String)>,
    pub(super) faults: Faults,
}

/// What is sent.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// An answer in the format of the request.
    Answer(Answer),
    /// Events in the format of nobody: name (may be empty) and data.
    Events(Vec<(String, String)>),
    /// A response of any kind.
    Raw { status: u16, content_type: String, bytes: Vec<u8> },
    /// An error in the format of the request.
    Error { status: u16, message: String },
}

/// An answer, free of any format.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) parts: Vec<Part>,
    pub(super) stop: Option<Stop>,
    pub(super) usage: Reported,
    pub(super) whole: bool,
}

/// Which usage an answer reports.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Reported {
    /// About a token for every four bytes.
    #[default]
    Estimated,
    Exactly(Usage),
    Absent,
}

impl Answer {
    /// Why the answer ends, if the script does not say.
    pub(super) fn stop(&self) -> Stop {
        let calls = self.parts.iter().any(|part| matches!(part, Part::Call(_)));
        self.stop.unwrap_or(if calls { Stop::Tools } else { Stop::End })
    }

    /// The usage to report.
    pub(super) fn usage(&self, request: &Value) -> Option<Usage> {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        match self.usage {
            Reported::Exactly(usage) => Some(usage),
            Reported::Absent => None,
            Reported::Estimated => {
                let mut usage = Usage { input: tokens(request.to_string().len()), ..Usage::default() };
                for part in &self.parts {
                    match part {
                        Part::Text { text } => usage.output += tokens(text.len()),
                        Part::Reasoning { text, .. } => usage.reasoning += tokens(text.len()),
                        Part::Call(call) => usage.output += tokens(call.tool.len() + call.arguments.len()),
                    }
                }
                Some(usage)
            }
        }
    }
}

/// What goes wrong on the way.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    pub(super) stalls: Vec<(At, Until)>,
    pub(super) cut: Option<usize>,
    pub(super) pieces: Option<usize>,
    pub(super) delay: Option<Duration>,
}

/// A place in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before the status and headers.
    Response,
    /// Before this event, counted from zero; a body that is no stream is one event.
    Event(usize),
}

/// How long a stall lasts.
#[derive(Debug, Clone)]
pub enum Until {
    /// Until the gate opens.
    Gate(Gate),
    /// For this time.
    Elapsed(Duration),
}

impl From<&Gate> for Until {
    fn from(gate: &Gate) -> Self {
        Self::Gate(gate.clone())
    }
}

impl From<Duration> for Until {
    fn from(time: Duration) -> Self {
        Self::Elapsed(time)
    }
}

/// Holds replies back until it is opened, and tells when one is held. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(false), arrived: watch::Sender::new(0) }
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until a reply is held here, or was.
    pub async fn reached(&self) {
        // The sender is part of `self`, so the wait ends only with a value.
        drop(self.arrived.subscribe().wait_for(|count| *count > 0).await);
    }

    pub(super) async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        drop(self.open.subscribe().wait_for(|open| *open).await);
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self::from(Body::Answer(Answer::default()))
    }
}

impl From<Body> for Reply {
    fn from(body: Body) -> Self {
        Self { body, headers: Vec::new(), faults: Faults::default() }
    }
}

impl Reply {
    /// An answer that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().say(text)
    }

    /// A model that declines.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self::text(text).stop(Stop::Refusal)
    }

    /// A failure with this status, and the message as the format of the request puts it.
    pub fn status(status: u16, message: impl Into<String>) -> Self {
        Self::from(Body::Error { status, message: message.into() })
    }

    /// Any response at all, such as a proxy's HTML page.
    pub fn raw(status: u16, content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::from(Body::Raw { status, content_type: content_type.into(), bytes: bytes.into() })
    }

    /// A stream of these events, each with a name (which may be empty) and data, whatever the format of the request.
    pub fn events<N: Into<String>, D: Into<String>>(events: impl IntoIterator<Item = (N, D)>) -> Self {
        Self::from(Body::Events(events.into_iter().map(|(name, data)| (name.into(), data.into())).collect()))
    }

    /// Then says this.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.part(Part::Text { text: text.into() })
    }

    /// Then thinks this.
    #[must_use]
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.part(Part::Reasoning { text: text.into(), signature: None })
    }

    /// Then thinks this and signs it, in the formats that have signatures.
    #[must_use]
    pub fn signed_reasoning(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        self.part(Part::Reasoning { text: text.into(), signature: Some(signature.into()) })
    }

    /// Then calls this tool.
    #[must_use]
    pub fn call(self, tool: impl Into<String>, arguments: Value) -> Self {
        self.raw_call(tool, arguments.to_string())
    }

    /// Then calls this tool with arguments that may be broken.
    #[must_use]
    pub fn raw_call(self, tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.part(Part::Call(protocol::chat::Call {
            id: String::new(),
            tool: tool.into(),
            arguments: arguments.into(),
        }))
    }

    fn part(self, part: Part) -> Self {
        self.answering(|answer| answer.parts.push(part))
    }

    /// Reports this usage instead of an estimate.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        self.answering(|answer| answer.usage = Reported::Exactly(usage))
    }

    /// Reports no usage.
    #[must_use]
    pub fn without_usage(self) -> Self {
        self.answering(|answer| answer.usage = Reported::Absent)
    }

    /// Ends for this reason instead of the one that follows from the parts.
    #[must_use]
    pub fn stop(self, stop: Stop) -> Self {
        self.answering(|answer| answer.stop = Some(stop))
    }

    /// Sends one JSON object, even if a stream was asked for.
    #[must_use]
    pub fn whole(self) -> Self {
        self.answering(|answer| answer.whole = true)
    }

    /// Changes the answer; failures have none to change.
    fn answering(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            change(answer);
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Waits at this place, for a gate or for a time.
    #[must_use]
    pub fn stall(mut self, at: At, until: impl Into<Until>) -> Self {
        self.faults.stalls.push((at, until.into()));
        self
    }

    /// Closes the connection after this many events.
    #[must_use]
    pub fn cut(mut self, events: usize) -> Self {
        self.faults.cut = Some(events);
        self
    }

    /// Sends the body in pieces of this many bytes, without regard to events or characters.
    #[must_use]
    pub fn pieces(mut self, bytes: usize) -> Self {
        self.faults.pieces = Some(bytes.max(1));
        self
    }

    /// Waits this long before each piece, as a model does that writes slowly.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.faults.delay = Some(delay);
        self
    }
}
