//! What a call has used when it ends before its answer does: it broke off, was stopped, or took too long. Its server has
//! told what it read, and bills it.

use protocol::Usage;
use protocol::chat::{Image, Message, Part, Request};

use crate::client::Delta;

/// Bytes of a token, about, where nobody counted them.
pub(crate) const TOKEN: u64 = 4;

/// The same where a server never counts them: fewer than usual text has, so that a budget ends too early rather than too late.
const UNTOLD: u64 = 3;

/// Adds up the pieces of one answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    told: Usage,
    /// Tokens of the request, about, once the server took it.
    accepted: u64,
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
            Delta::Accepted { tokens } => self.accepted = *tokens,
        }
    }

    /// What was used. Most servers tell the length of the answer only at its end, and many tell nothing before it; that is
    /// estimated.
    pub fn used(&self) -> Usage {
        let told = self.told;
        if told.prompt() == 0 && self.accepted > 0 {
            let written = self.bytes.div_ceil(UNTOLD).saturating_sub(told.reasoning);
            let output = told.output.max(written);
            let estimated = self.accepted + (output - told.output);
            return Usage { input: self.accepted, output, estimated, ..told };
        }
        if told.total() > 0 { with_answer(told, self.bytes) } else { told }
    }

    /// What was used when the server itself ended the call: nobody bills one that it gave no word of, unless it says so.
    pub(crate) fn used_by_a_failure(self) -> Usage {
        let accepted = if self.bytes > 0 { self.accepted } else { 0 };
        Self { accepted, ..self }.used()
    }
}

/// The usage with an answer of at least so many bytes.
pub(crate) fn with_answer(usage: Usage, bytes: u64) -> Usage {
    let output = usage.output.max(bytes.div_ceil(TOKEN).saturating_sub(usage.reasoning));
    Usage { output, estimated: usage.estimated + (output - usage.output), ..usage }
}

/// About how many tokens a request of so many bytes has.
pub(crate) fn request_tokens(request: &Request, sent: u64) -> u64 {
    estimated(Usage::default(), request, sent, &[]).input
}

/// What a call used whose server did not say what it read: a request of so many bytes, and this answer.
pub(crate) fn estimated(told: Usage, request: &Request, sent: u64, answer: &[Part]) -> Usage {
    // Images are long on the wire, and few tokens.
    let images = request.messages.iter().map(|message| match message {
        Message::User { images, .. } => cost(images),
        Message::Tools { results } => results.iter().map(|result| cost(&result.images)).fold((0, 0), add),
        Message::Assistant { .. } => (0, 0),
    });
    // A model that sees none was not sent them.
    let (length, tokens) =
        Some(images.fold((0, 0), add)).filter(|(length, _)| *length < sent).unwrap_or_default();
    let read = sent - length;
    let bytes = answer.iter().map(|part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.len(),
        Part::Call(call) => call.tool.len() + call.arguments.len(),
    });
    let written = (bytes.sum::<usize>() as u64).div_ceil(UNTOLD);
    let output = told.output.max(written.saturating_sub(told.reasoning));
    let input = read.div_ceil(UNTOLD) + tokens;
    Usage { input, output, estimated: input + (output - told.output), ..told }
}

/// Bytes and tokens of images.
fn cost(images: &[Image]) -> (u64, u64) {
    let sent = images.iter().filter(|image| !image.data.is_empty());
    sent.map(|image| (image.data.len() as u64, image.file.tokens())).fold((0, 0), add)
}

fn add(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ImageFile;

    #[test]
    fn what_nobody_told_is_estimated_and_pictures_are_no_text() {
        let file = ImageFile { width: 750, height: 100, ..ImageFile::default() };
        let image = Image { file, data: "A".repeat(900).into() };
        let message = Message::User { text: "What is it?".into(), images: vec![image] };
        let request = Request { messages: vec![message], ..Request::default() };
        let answer = [Part::Text { text: "A cat, it seems.".into() }];
        let told = Usage { output: 1, ..Usage::default() };
        let used = estimated(told, &request, 1200, &answer);
        assert_eq!(used, Usage { input: 200, output: 6, estimated: 205, ..Usage::default() }, "one was told");
    }

    #[test]
    fn a_call_that_was_accepted_counts_though_nothing_is_told_before_its_end() {
        let mut meter = Meter::default();
        meter.push(&Delta::Accepted { tokens: 60_000 });
        assert_eq!(meter.used().input, 60_000, "it is read while nobody hears of it");
        assert_eq!(meter.used_by_a_failure(), Usage::default(), "its server refused it after all");
        meter.push(&Delta::Text("nine byte".into()));
        let used = Usage { input: 60_000, output: 3, estimated: 60_003, ..Usage::default() };
        assert_eq!((meter.used(), meter.used_by_a_failure()), (used, used));
        let told = Usage { input: 50_000, output: 1, ..Usage::default() };
        meter.push(&Delta::Usage(told));
        assert_eq!(meter.used(), Usage { output: 3, estimated: 2, ..told }, "what is told is exact");
    }

    #[test]
    fn what_was_told_counts_with_what_came_of_the_answer() {
        let mut meter = Meter::default();
        meter.push(&Delta::Text("eight by".into()));
        assert_eq!(meter.used(), Usage::default(), "nobody told anything");
        let told = Usage { input: 50_000, cache_write: 7000, output: 1, ..Usage::default() };
        meter.push(&Delta::Usage(told));
        assert_eq!(meter.used(), Usage { output: 2, estimated: 1, ..told });
        meter.push(&Delta::Reasoning("four".into()));
        meter.push(&Delta::Call { index: 0, tool: Some("read".into()), arguments: "{}  ".into() });
        assert_eq!(meter.used(), Usage { output: 5, estimated: 4, ..told });
        let last = Usage { output: 3, reasoning: 4, ..told };
        meter.push(&Delta::Usage(last));
        assert_eq!(meter.used(), last, "what is told is exact");
    }
}
