//! The frames that some reader has yet to take. A frame goes when all have taken it, so a session that nothing happens
//! in holds none; and the oldest ones go when there are too many, which readers that are behind then find out.

use std::collections::VecDeque;

use super::Frame;

/// An empty ring keeps room for this many frames.
const ROOM: usize = 16;

/// A frame and who has not taken it.
struct Entry {
    order: u64,
    left: usize,
    frame: Frame,
}

/// Frames in order.
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Most frames.
    frames_limit: usize,
    /// Most bytes; the newest frame is kept whatever its size.
    bytes_limit: usize,
    /// Readers that have not seen everything up to here have missed something.
    missing: u64,
}

impl Ring {
    pub(super) const fn new(frames_limit: usize, bytes_limit: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, frames_limit, bytes_limit, missing: 0 }
    }

    /// Adds a frame that this many readers are to take. `order` is higher than that of any before it.
    pub(super) fn push(&mut self, order: u64, readers: usize, frame: Frame) {
        if readers == 0 {
            return;
        }
        self.bytes += frame.json.len();
        self.entries.push_back(Entry { order, left: readers, frame });
        while self.entries.len() > self.frames_limit
            || (self.bytes > self.bytes_limit && self.entries.len() > 1)
        {
            self.missing = self.drop_first().unwrap_or(self.missing);
        }
    }

    /// Whether a reader that has seen everything up to `seen` has missed a frame of this ring.
    pub(super) fn missed(&self, seen: u64) -> bool {
        seen < self.missing
    }

    /// The place of the first frame after `seen`.
    pub(super) fn place_after(&self, seen: u64) -> usize {
        self.entries.partition_point(|entry| entry.order <= seen)
    }

    /// The order of the frame at a place.
    pub(super) fn order(&self, place: usize) -> Option<u64> {
        self.entries.get(place).map(|entry| entry.order)
    }

    /// Takes the frame at a place for one reader.
    pub(super) fn take(&mut self, place: usize) -> Option<Frame> {
        let entry = self.entries.get_mut(place)?;
        entry.left = entry.left.saturating_sub(1);
        Some(entry.frame.clone())
    }

    /// One reader has no use for what came after `seen`.
    pub(super) fn skip_after(&mut self, seen: u64) {
        for place in self.place_after(seen)..self.entries.len() {
            if let Some(entry) = self.entries.get_mut(place) {
                entry.left = entry.left.saturating_sub(1);
            }
        }
    }

    /// Lets go of what everybody has.
    pub(super) fn tidy(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.left == 0) {
            self.drop_first();
        }
        if self.entries.is_empty() && self.entries.capacity() > ROOM {
            self.entries = VecDeque::new();
        }
    }

    fn drop_first(&mut self) -> Option<u64> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.frame.json.len();
        Some(entry.order)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
