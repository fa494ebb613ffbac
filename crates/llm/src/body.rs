//! The body of an answer as its bytes come: a stream of events, one whole object, or something that is no answer.

use crate::error::excerpt;
use crate::sse;
use crate::wire::{self, Fault, Fold, Progress, Sink};

/// How much is kept of a text that looks like events and has none.
const BEGINNING_LIMIT: usize = 4096;

/// Why an answer that had begun did not become whole.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server fell silent.
    Silent,
    /// What came is not an answer.
    Fault(Fault),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The body of an answer, judged by its first byte: content types are often wrong.
#[derive(Debug)]
pub(crate) enum Body {
    /// Nothing but white space so far.
    Unknown(Vec<u8>),
    /// Events, and the beginning of the text in case that there are none.
    Events { decoder: sse::Decoder, beginning: Vec<u8>, any: bool },
    /// Something that is no stream, kept until its end.
    Whole(Vec<u8>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Unknown(Vec::new())
    }
}

impl Body {
    /// Takes the next bytes.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        fold: &mut dyn Fold,
        sink: &mut Sink<'_>,
    ) -> Result<Progress, Trouble> {
        match self {
            Self::Unknown(seen) => {
                seen.extend_from_slice(piece);
                // The bytes of a byte order mark are never the first of JSON, HTML or an event.
                let mark = "\u{feff}".as_bytes();
                let first = seen.iter().find(|byte| !byte.is_ascii_whitespace() && !mark.contains(byte));
                let Some(first) = first.copied() else { return Ok(Progress::Open) };
                let seen = std::mem::take(seen);
                if !matches!(first, b':' | b'd' | b'e' | b'i' | b'r') {
                    *self = Self::Whole(seen);
                    return Ok(Progress::Open);
                }
                *self = Self::Events { decoder: sse::Decoder::default(), beginning: Vec::new(), any: false };
                self.push(&seen, fold, sink)
            }
            Self::Whole(seen) => {
                seen.extend_from_slice(piece);
                Ok(Progress::Open)
            }
            Self::Events { decoder, beginning, any } => {
                if !*any && beginning.len() < BEGINNING_LIMIT {
                    beginning.extend_from_slice(piece);
                }
                let mut events = Vec::new();
                let limit = decoder.push(piece, &mut events);
                let mut progress = Progress::Open;
                for event in &events {
                    *any = true;
                    progress = match fold.event(event, sink) {
                        // Whatever failed after it, the answer is whole.
                        Err(_) if progress == Progress::Settled => return Ok(Progress::Closed),
                        progress => progress?,
                    };
                    if progress == Progress::Closed {
                        return Ok(progress);
                    }
                }
                limit.map_err(|sse::TooLarge| {
                    let limit = sse::EVENT_LIMIT / 1024 / 1024;
                    Fault::malformed(format!("has an event of more than {limit} MiB"))
                })?;
                Ok(progress)
            }
        }
    }

    /// Takes the end of the body; what was no stream is read now, and so is a last event that nothing ends but this.
    pub(crate) fn end(mut self, fold: &mut dyn Fold, sink: &mut Sink<'_>) -> Result<(), Trouble> {
        if let Self::Events { decoder, any, .. } = &mut self
            && let Some(event) = decoder.rest().filter(is_whole)
        {
            *any = true;
            fold.event(&event, sink)?;
        }
        let text = match &self {
            Self::Events { any: true, .. } => return Ok(()),
            Self::Events { beginning: text, .. } | Self::Unknown(text) | Self::Whole(text) => {
                String::from_utf8_lossy(text)
            }
        };
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Err(Fault::malformed("is empty").into());
        }
        if matches!(self, Self::Whole(_)) && text.starts_with(['{', '[']) {
            let answer = wire::json(text)?;
            return Ok(fold.whole(&answer, sink)?);
        }
        Err(Fault::malformed(format!("is neither JSON nor a stream of events: {}", excerpt(text))).into())
    }
}

/// Whether an event has all its data. All formats send objects, of which no beginning is one.
fn is_whole(event: &sse::Event) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok() || event.data.trim() == "[DONE]"
}
