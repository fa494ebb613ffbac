//! What a call has used when it ends before its answer does: it broke off, was stopped, or took too long. Its server has
//! told what it read, and bills it.

use protocol::Usage;
use protocol::chat::{Message, Part, Request};

use crate::client::Delta;

/// Bytes of a token, about, where nobody counted them.
pub(crate) const TOKEN: u64 = 4;

/// The same where a server never counts them: fewer than usual text has, so that a budget ends too early rather than too late.
const UNTOLD: u64 = 3;

/// Adds up the pieces of one answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    told: Usage,
    /// Bytes of the answer.
    bytes: u64,
}

impl Meter {
    /// Takes the next piece.
    pub fn push(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(piece) | Delta::Reasoning(piece) => self.bytes += piece.len() as u64,
            Delta::Call { tool, arguments, .. } => {
                self.bytes += (tool.as_ref().map_or(0, String::len) + arguments.len()) as u64;
            }
            Delta::Usage(usage) => self.told = *usage,
        }
    }

    /// What was used, where the server told anything. Most tell the length of the answer only at its end, so that is estimated.
    pub fn used(&self) -> Usage {
        if self.told.total() > 0 { with_answer(self.told, self.bytes) } else { self.told }
    }
}

/// The usage with an answer of at least so many bytes.
pub(crate) fn with_answer(usage: Usage, bytes: u64) -> Usage {
    let output = usage.output.max(bytes.div_ceil(TOKEN).saturating_sub(usage.reasoning));
    Usage { output, ..usage }
}

/// What a call used whose server did not say what it read: a request of so many bytes, and this answer.
pub(crate) fn estimated(told: Usage, request: &Request, sent: u64, answer: &[Part]) -> Usage {
    // Pictures are long on the wire, and few tokens.
    let pictures = request.messages.iter().map(|message| match message {
        Message::User { images, .. } => images.iter().map(|image| image.data.len() as u64).sum(),
        Message::Assistant { .. } | Message::Tools { .. } => 0,
    });
    let read = sent.saturating_sub(pictures.sum());
    let bytes = answer.iter().map(|part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.len(),
        Part::Call(call) => call.tool.len() + call.arguments.len(),
    });
    let written = (bytes.sum::<usize>() as u64).div_ceil(UNTOLD);
    let output = told.output.max(written.saturating_sub(told.reasoning));
    Usage { input: read.div_ceil(UNTOLD), output, ..told }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chat::Image;

    #[test]
    fn what_nobody_told_is_estimated_and_pictures_are_no_text() {
        let image = Image { media_type: "image/png".into(), data: "A".repeat(900) };
        let message = Message::User { text: "What is it?".into(), images: vec![image] };
        let request = Request { messages: vec![message], ..Request::default() };
        let answer = [Part::Text { text: "A cat, it seems.".into() }];
        let told = Usage { output: 1, ..Usage::default() };
        let used = estimated(told, &request, 1200, &answer);
        assert_eq!(used, Usage { input: 100, output: 6, ..Usage::default() });
    }

    #[test]
    fn what_was_told_counts_with_what_came_of_the_answer() {
        let mut meter = Meter::default();
        meter.push(&Delta::Text("eight by".into()));
        assert_eq!(meter.used(), Usage::default(), "nobody told anything");
        let told = Usage { input: 50_000, cache_write: 7000, output: 1, ..Usage::default() };
        meter.push(&Delta::Usage(told));
        assert_eq!(meter.used(), Usage { output: 2, ..told });
        meter.push(&Delta::Reasoning("four".into()));
        meter.push(&Delta::Call { index: 0, tool: Some("read".into()), arguments: "{}  ".into() });
        assert_eq!(meter.used(), Usage { output: 5, ..told });
        let last = Usage { output: 3, reasoning: 4, ..told };
        meter.push(&Delta::Usage(last));
        assert_eq!(meter.used(), last, "what is told is exact");
    }
}
