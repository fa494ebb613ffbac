//! How much of a model's context a request takes. Tokens are counted by whoever serves the model; between two answers they
//! are estimated from bytes, at the rate that the last answer showed.

use protocol::chat::{Image, Message, Part, Request, ToolResult};

/// Tokens for a thousand bytes until an answer has shown the rate: more than any usual text needs.
const RATE: u64 = 340;
/// The rates that are believed; beyond them a server counts something else.
const RATES: std::ops::RangeInclusive<u64> = 120..=800;
/// What a message costs beside its text.
const FRAME: u64 = 16;

/// What a model can read, and how much of that an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Tokens of request and answer together.
    pub context: u64,
    /// Most tokens of one answer.
    pub answer: u64,
}

impl Window {
    /// A window in which an answer takes at most a quarter.
    pub fn new(context: u64, answer: u64) -> Self {
        Self { context, answer: answer.min(context / 4).max(1) }
    }

    /// Most tokens of a request. A part is left over, because estimates err.
    pub fn request(self) -> u64 {
        self.context.saturating_sub(self.answer).saturating_sub(self.context / 16)
    }

    /// Most bytes of one tool's output in this window beside a prompt of so many bytes, which is sent each time: no single one
    /// may push out everything else.
    pub fn output_bytes(self, prompt: usize) -> usize {
        let usual = self.context / 8 * 3;
        // A quarter is for instructions and tools; of what is left the conversation bears two fifths at once.
        let left = (self.request() / 4 * 3).saturating_sub(Meter::default().rated(prompt as u64));
        let most = Meter::default().bytes(left) / 5 * 2;
        usize::try_from(usual.min(most)).unwrap_or(usize::MAX).clamp(2 * 1024, 30 * 1024)
    }
}

/// Counts tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// Bytes of the last request with its answer, and the tokens that these were.
    measured: Option<(u64, u64)>,
}

impl Meter {
    /// Learns from an answer: so many bytes were so many tokens.
    pub(crate) fn measure(&mut self, bytes: u64, tokens: u64) {
        // A server that reports nothing teaches nothing; and who reports less than any text has, counts only what it had not
        // read before.
        if bytes > 0 && tokens.saturating_mul(1000) >= bytes.saturating_mul(*RATES.start()) {
            self.measured = Some((bytes, tokens));
        }
    }

    /// What was measured turned out to be too little.
    pub(crate) fn doubt(&mut self) {
        if self.rate() < RATE {
            self.measured = None;
        }
    }

    /// Tokens of so many bytes at the known rate.
    pub(crate) fn rated(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.rate()).div_ceil(1000)
    }

    /// Bytes that so many tokens are at the known rate.
    pub(crate) fn bytes(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(1000) / self.rate()
    }

    /// Tokens of a request of so many bytes. What was measured counts as it was, what came since by the rate.
    pub(crate) fn tokens(&self, bytes: u64) -> u64 {
        match self.measured {
            Some((known, tokens)) if bytes >= known => tokens.saturating_add(self.rated(bytes - known)),
            Some(_) | None => self.rated(bytes),
        }
    }

    fn rate(&self) -> u64 {
        let rate = |(bytes, tokens): (u64, u64)| tokens.saturating_mul(1000).div_ceil(bytes);
        self.measured.map_or(RATE, |measured| rate(measured).clamp(*RATES.start(), *RATES.end()))
    }
}

/// Bytes of a request, about as they are sent.
pub(crate) fn request_bytes(request: &Request) -> u64 {
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| len(&tool.name) + len(&tool.description) + len(&tool.schema.to_string()) + FRAME)
        .sum();
    let answer = request.answer.as_ref().map_or(0, |answer| len(&answer.schema.to_string()));
    len(&request.system) + tools + answer + messages_bytes(&request.messages)
}

/// Bytes of messages, about as they are sent.
pub(crate) fn messages_bytes(messages: &[Message]) -> u64 {
    messages.iter().map(message_bytes).sum()
}

/// Bytes of one message, about as it is sent.
pub(crate) fn message_bytes(message: &Message) -> u64 {
    FRAME
        + match message {
            Message::User { text, images } => len(text) + images_bytes(images),
            Message::Assistant { parts } => parts.iter().map(part_bytes).sum(),
            Message::Tools { results } => {
                let each = |result: &ToolResult| {
                    len(&result.text) + len(&result.call_id) + images_bytes(&result.images) + FRAME
                };
                results.iter().map(each).sum()
            }
        }
}

/// Bytes of text that cost about as much as these images do.
fn images_bytes(images: &[Image]) -> u64 {
    images.iter().map(|image| image.file.tokens() * 1000 / RATE).sum()
}

/// Bytes of one part, about as it is sent.
pub(crate) fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Text { text } => len(text),
        // Without a signature it goes back to hardly any server, and what those count is measured.
        Part::Reasoning { text, signature } => {
            signature.as_deref().map_or(0, |signed| len(text) + len(signed))
        }
        Part::Call(call) => len(&call.id) + len(&call.tool) + len(&call.arguments) + FRAME,
    }
}

fn len(text: &str) -> u64 {
    text.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_and_the_rest_is_rated() {
        let mut meter = Meter::default();
        assert_eq!(meter.tokens(1000), RATE);
        meter.measure(4000, 1000);
        assert_eq!(meter.tokens(4000), 1000);
        assert_eq!(meter.tokens(4400), 1100);
        assert_eq!(meter.tokens(2000), 500, "a shorter request is rated as a whole");
        meter.measure(4000, 0);
        assert_eq!(meter.tokens(4000), 1000, "no report changes nothing");
        meter.measure(8000, 40);
        assert_eq!(meter.tokens(8000), 2000, "nor does one of what was new");
        meter.measure(10, 1_000_000);
        assert_eq!(meter.rated(1000), 800, "no text has more tokens than that");
    }

    #[test]
    fn a_small_window_leaves_room_for_the_answer_and_for_errors() {
        let window = Window::new(16_384, 8192);
        assert_eq!((window.answer, window.request()), (4096, 11_264));
        assert_eq!(window.output_bytes(100), 6144);
        assert_eq!(window.output_bytes(18_000), 2738, "a long prompt leaves less");
        assert_eq!(Window::new(200_000, 8192).output_bytes(100), 30 * 1024);
        assert_eq!(Window::new(0, 10).request(), 0);
    }
}
