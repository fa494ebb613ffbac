//! The output a process has made: both streams in the order they were read, addressed by byte.
//!
//! Whoever follows a process has a cursor here. While there is one, nothing it has not taken is dropped, and
//! [`Ring::full`] tells the pumps to stop reading instead. With nobody following, the newest output is kept.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use bytes::BytesMut;

use crate::frame::{self, HEADER, Kind};

/// Kept for someone who attaches again while there are followers; also how far behind the slowest of them may be.
const FOLLOWED: usize = 1 << 20;

/// Kept while nobody follows.
const ALONE: usize = 8 << 20;

/// Kept while nobody follows, once all rings together hold more than [`CROWD`].
const CROWDED: usize = 256 << 10;

/// When rings have to be modest, so that many chatty processes cannot eat the sandbox's memory.
pub(super) const CROWD: usize = 32 << 20;

/// Longest run of bytes stored in one piece, and so the longest payload of a frame.
const SEGMENT: usize = 64 << 10;

/// What a segment costs beside its bytes; counted, because a process can alternate streams byte by byte.
const OVERHEAD: usize = 64;

/// Bytes held by all rings together.
pub(super) type Held = Rc<Cell<usize>>;

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

struct Segment {
    stream: Stream,
    offset: u64,
    data: Vec<u8>,
}

impl Segment {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

struct Cursor {
    position: u64,
    waker: Option<Waker>,
}

/// Names a cursor.
pub(super) type CursorId = u64;

/// The ring.
pub(super) struct Ring {
    segments: VecDeque<Segment>,
    end: u64,
    cost: usize,
    held: Held,
    cursors: BTreeMap<CursorId, Cursor>,
    next_cursor: CursorId,
}

impl Ring {
    pub(super) fn new(held: Held) -> Self {
        Self { segments: VecDeque::new(), end: 0, cost: 0, held, cursors: BTreeMap::new(), next_cursor: 0 }
    }

    /// Bytes ever pushed.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the slowest follower is so far behind that nothing more may be read.
    pub(super) fn full(&self) -> bool {
        self.slowest().is_some_and(|position| self.end - position >= FOLLOWED as u64)
    }

    /// Appends what was read and wakes the followers.
    pub(super) fn push(&mut self, stream: Stream, mut data: &[u8]) {
        while !data.is_empty() {
            let taken = match self.segments.back_mut() {
                Some(last) if last.stream == stream && last.data.len() < SEGMENT => {
                    let taken = data.len().min(SEGMENT - last.data.len());
                    last.data.extend_from_slice(&data[..taken]);
                    self.cost += taken;
                    self.held.set(self.held.get() + taken);
                    taken
                }
                _ => {
                    let taken = data.len().min(SEGMENT);
                    self.segments.push_back(Segment {
                        stream,
                        offset: self.end,
                        data: data[..taken].to_vec(),
                    });
                    self.cost += taken + OVERHEAD;
                    self.held.set(self.held.get() + taken + OVERHEAD);
                    taken
                }
            };
            self.end += taken as u64;
            data = &data[taken..];
        }
        self.trim();
        self.wake();
    }

    /// A new follower that has seen everything before `position`.
    pub(super) fn attach(&mut self, position: u64) -> CursorId {
        let id = self.next_cursor;
        self.next_cursor += 1;
        self.cursors.insert(id, Cursor { position, waker: None });
        id
    }

    /// The follower has gone.
    pub(super) fn detach(&mut self, id: CursorId) {
        self.cursors.remove(&id);
    }

    /// Writes frames for the follower into `buffer`, at most about `room` bytes, and moves its cursor past them.
    pub(super) fn take(&mut self, id: CursorId, buffer: &mut BytesMut, room: usize) {
        let Some(cursor) = self.cursors.get_mut(&id) else { return };
        let first = self.segments.partition_point(|segment| segment.end() <= cursor.position);
        for segment in self.segments.range(first..) {
            let space = room.saturating_sub(buffer.len() + HEADER);
            if space == 0 {
                break;
            }
            // Before the first segment there is a gap where older output was dropped.
            let start = cursor.position.max(segment.offset);
            let skipped = usize::try_from(start - segment.offset).unwrap_or(usize::MAX);
            let payload = &segment.data[skipped.min(segment.data.len())..];
            let payload = &payload[..payload.len().min(space)];
            let kind = match segment.stream {
                Stream::Stdout => Kind::Stdout,
                Stream::Stderr => Kind::Stderr,
            };
            frame::encode(buffer, kind, start, payload);
            cursor.position = start + payload.len() as u64;
        }
        self.trim();
    }

    /// Wakes this follower when there is more.
    pub(super) fn wait(&mut self, id: CursorId, waker: &Waker) {
        if let Some(cursor) = self.cursors.get_mut(&id) {
            cursor.waker = Some(waker.clone());
        }
    }

    /// Wakes all followers.
    pub(super) fn wake(&mut self) {
        for cursor in self.cursors.values_mut() {
            if let Some(waker) = cursor.waker.take() {
                waker.wake();
            }
        }
    }

    /// Drops the stored bytes that no follower still has to take.
    pub(super) fn clear(&mut self) {
        self.shrink(0);
    }

    fn slowest(&self) -> Option<u64> {
        self.cursors.values().map(|cursor| cursor.position).min()
    }

    fn trim(&mut self) {
        let limit = if !self.cursors.is_empty() {
            FOLLOWED
        } else if self.held.get() > CROWD {
            CROWDED
        } else {
            ALONE
        };
        self.shrink(limit);
    }

    fn shrink(&mut self, limit: usize) {
        let taken = self.slowest().unwrap_or(u64::MAX);
        while self.cost > limit && self.segments.front().is_some_and(|segment| segment.end() <= taken) {
            let Some(segment) = self.segments.pop_front() else { return };
            self.cost -= segment.data.len() + OVERHEAD;
            self.held.set(self.held.get() - segment.data.len() - OVERHEAD);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames as (kind, offset, payload length).
    fn take(ring: &mut Ring, id: CursorId, room: usize) -> Vec<(u8, u64, usize)> {
        let mut buffer = BytesMut::new();
        ring.take(id, &mut buffer, room);
        let mut frames = Vec::new();
        let mut rest = &buffer[..];
        while let Some((header, payload)) = rest.split_at_checked(HEADER) {
            let offset = u64::from_be_bytes(header[1..9].try_into().unwrap());
            let length = u32::from_be_bytes(header[9..].try_into().unwrap()) as usize;
            frames.push((header[0], offset, length));
            rest = &payload[length..];
        }
        frames
    }

    #[test]
    fn streams_keep_their_order_and_small_writes_are_joined() {
        let mut ring = Ring::new(Held::default());
        let id = ring.attach(0);
        for (stream, data) in
            [(Stream::Stdout, "ab"), (Stream::Stdout, "c"), (Stream::Stderr, "d"), (Stream::Stdout, "e")]
        {
            ring.push(stream, data.as_bytes());
        }
        assert_eq!(take(&mut ring, id, 1 << 16), [(1, 0, 3), (2, 3, 1), (1, 4, 1)]);
        assert_eq!(take(&mut ring, id, 1 << 16), []);
        ring.push(Stream::Stdout, b"f");
        assert_eq!(take(&mut ring, id, 1 << 16), [(1, 5, 1)], "a follower goes on inside a segment");
    }

    #[test]
    fn with_nobody_following_the_newest_output_stays_and_the_gap_shows() {
        let mut ring = Ring::new(Held::default());
        let piece = vec![7; SEGMENT];
        for _ in 0..256 {
            ring.push(Stream::Stdout, &piece);
        }
        assert!(!ring.full());
        let id = ring.attach(10);
        let frames = take(&mut ring, id, 1 << 20);
        assert!(frames[0].1 >= ring.end() - ALONE as u64 && frames[0].1 > 10, "{frames:?}");
    }

    #[test]
    fn nothing_is_dropped_that_a_follower_has_not_taken() {
        let held = Held::default();
        let mut ring = Ring::new(held.clone());
        let id = ring.attach(0);
        let mut pushed = 0;
        while !ring.full() {
            ring.push(Stream::Stdout, &[1; 1000]);
            pushed += 1000;
        }
        let mut taken = 0;
        while taken < pushed {
            for (_, offset, length) in take(&mut ring, id, 5000) {
                assert_eq!(offset, taken);
                taken += length as u64;
            }
        }
        assert_eq!(taken, pushed);
        assert!(!ring.full());
        assert!(held.get() <= FOLLOWED + SEGMENT);
        ring.detach(id);
        ring.clear();
        assert_eq!(held.get(), 0);
    }

    #[test]
    fn alternating_streams_cannot_eat_memory() {
        let held = Held::default();
        let mut ring = Ring::new(held.clone());
        for _ in 0..ALONE / 16 {
            ring.push(Stream::Stdout, b"o");
            ring.push(Stream::Stderr, b"e");
        }
        assert!(held.get() <= ALONE);
        assert!(ring.segments.len() <= ALONE / OVERHEAD);
    }
}
