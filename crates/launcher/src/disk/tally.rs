//! What was counted so far, and when that is enough.

use std::collections::HashSet;

use rustix::fs::Stat;

/// A sum of files.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Bytes that they take on the disk.
    pub(super) bytes: u64,
    /// How many they are.
    pub(super) inodes: u64,
    enough: (u64, u64),
    /// Those that may be met again.
    seen: HashSet<u64>,
}

impl Tally {
    /// Nothing yet. More than this many bytes or files need not be counted.
    pub(super) fn up_to(bytes: u64, inodes: u64) -> Self {
        Self { enough: (bytes, inodes), ..Self::default() }
    }

    /// Adds a file.
    pub(super) fn add(&mut self, file: &Stat) {
        self.inodes += 1;
        self.bytes = self.bytes.saturating_add((file.st_blocks as u64).saturating_mul(512));
    }

    /// Adds a file that can be met in several ways, the first time.
    pub(super) fn add_once(&mut self, file: &Stat) {
        if self.seen.insert(file.st_ino) {
            self.add(file);
        }
    }

    /// Whether it is more than needs to be counted.
    pub(super) fn is_enough(&self) -> bool {
        self.bytes > self.enough.0 || self.inodes > self.enough.1
    }
}
