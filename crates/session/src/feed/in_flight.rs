//! The text of an item that is not completed yet, for readers that come late or fell behind.

use protocol::event::Channel;
use protocol::{EphemeralBody, ItemId};

/// How much of an item's text a late reader is given.
pub(super) const IN_FLIGHT: usize = 64 * 1024;

/// One text of one item.
pub(super) struct InFlight {
    pub(super) item: ItemId,
    pub(super) channel: Channel,
    offset: u64,
    text: String,
}

impl InFlight {
    pub(super) fn new(item: ItemId, channel: Channel, offset: u64) -> Self {
        Self { item, channel, offset, text: String::new() }
    }

    pub(super) fn push(&mut self, offset: u64, text: &str) {
        // A hole (output that was left out) or a new start (a model call made again) begins the kept text anew.
        if offset != self.offset + self.text.len() as u64 {
            self.text.clear();
            self.offset = offset;
        }
        self.text.push_str(text);
        if self.text.len() > IN_FLIGHT {
            let mut cut = self.text.len() - IN_FLIGHT;
            while !self.text.is_char_boundary(cut) {
                cut += 1;
            }
            self.text.drain(..cut);
            self.offset += cut as u64;
        }
    }

    /// All of it as one delta, which stands for whatever the reader has from its offset on.
    pub(super) fn delta(&self) -> EphemeralBody {
        let Self { item, channel, offset, text } = self;
        EphemeralBody::Delta { item: *item, channel: *channel, offset: *offset, text: text.clone() }
    }
}
