//! Text on its way to the feed: coalesced, so that a token is not a frame, and for commands within a rate, so that a
//! flood of output costs readers nothing. What is left out shows as a jump of the offset.

use std::sync::Arc;
use std::time::Duration;

use protocol::ItemId;
use protocol::event::Channel;
use tokio::time::Instant;

use crate::feed::Stream;

/// Text waits at most this long.
const INTERVAL: Duration = Duration::from_millis(50);
/// Text of a model waits until it is this long.
const PIECE: usize = 4 * 1024;
/// Bytes a second of a command's output that readers get, and the longest burst.
const RATE: f64 = 64.0 * 1024.0;

/// How much readers get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Everything: a model's text.
    Whole,
    /// Within a rate: a command's output.
    Limited,
}

/// One text of one item.
pub(crate) struct Deltas {
    stream: Arc<Stream>,
    item: ItemId,
    channel: Channel,
    pace: Pace,
    /// Offset of `pending` in the text.
    offset: u64,
    pending: String,
    /// Bytes of a character that is not whole yet.
    carry: Vec<u8>,
    /// Text after `pending` that was left out.
    skipped: u64,
    due: Option<Instant>,
    allowance: f64,
    refilled: Instant,
}

impl Deltas {
    pub(crate) fn new(stream: &Arc<Stream>, item: ItemId, channel: Channel, pace: Pace) -> Self {
        Self {
            stream: Arc::clone(stream),
            item,
            channel,
            pace,
            offset: 0,
            pending: String::new(),
            carry: Vec::new(),
            skipped: 0,
            due: None,
            allowance: RATE,
            refilled: Instant::now(),
        }
    }

    /// When `flush` should be called at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// More text.
    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        // Once something was left out in this interval, what follows is left out too: a piece is contiguous.
        if self.skipped > 0 || !self.affordable(text.len()) {
            self.skipped += text.len() as u64;
        } else {
            self.pending.push_str(text);
        }
        self.due.get_or_insert_with(|| Instant::now() + INTERVAL);
        let full = self.pace == Pace::Whole && self.pending.len() >= PIECE;
        if full || self.due.is_some_and(|due| due <= Instant::now()) {
            self.flush();
        }
    }

    /// More bytes; a character that is cut at the end waits for its rest.
    pub(crate) fn push_bytes(&mut self, data: &[u8]) {
        self.carry.extend_from_slice(data);
        let whole = self.carry.len() - unfinished(&self.carry);
        let rest = self.carry.split_off(whole);
        let bytes = std::mem::replace(&mut self.carry, rest);
        self.push(&String::from_utf8_lossy(&bytes));
    }

    fn affordable(&mut self, bytes: usize) -> bool {
        if self.pace == Pace::Whole {
            return true;
        }
        let now = Instant::now();
        let earned = now.duration_since(self.refilled).as_secs_f64() * RATE;
        self.refilled = now;
        self.allowance = (self.allowance + earned).min(RATE);
        if self.allowance < bytes as f64 {
            return false;
        }
        self.allowance -= bytes as f64;
        true
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) {
        self.due = None;
        let text = std::mem::take(&mut self.pending);
        let next = self.offset + text.len() as u64 + std::mem::take(&mut self.skipped);
        if !text.is_empty() {
            self.stream.delta(self.item, self.channel, self.offset, text);
        }
        self.offset = next;
    }

    /// Goes on at a later place: what is between was not heard.
    pub(crate) fn jump_to(&mut self, offset: u64) {
        self.flush();
        self.carry.clear();
        self.offset = self.offset.max(offset);
    }

    /// Begins the text anew: a model call is made again.
    pub(crate) fn restart(&mut self) {
        self.offset = 0;
        self.pending.clear();
        self.carry.clear();
        self.skipped = 0;
        self.due = None;
    }
}

/// How many bytes at the end are the beginning of a character that may still become whole.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    for (from_end, byte) in bytes[last..].iter().rev().enumerate() {
        let needed = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return 0,
        };
        return if from_end + 1 < needed { from_end + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_of_utf8_join_to_the_whole(text in "\\PC{0,40}", cuts in proptest::collection::vec(0usize..200, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let (mut carry, mut joined, mut from) = (Vec::new(), String::new(), 0);
            for cut in cuts {
                carry.extend_from_slice(&bytes[from..cut]);
                from = cut;
                let whole = carry.len() - unfinished(&carry);
                let rest = carry.split_off(whole);
                joined.push_str(&String::from_utf8_lossy(&std::mem::replace(&mut carry, rest)));
            }
            prop_assert_eq!(joined, text);
        }
    }
}
