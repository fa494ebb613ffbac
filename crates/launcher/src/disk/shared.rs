//! Whether `/dev/shm` is full. The kernel keeps its limit; here it is only seen, so that it can be told.

use std::os::fd::OwnedFd;

/// Looks at one sandbox's shared memory.
#[derive(Debug)]
pub(super) struct Shared {
    directory: OwnedFd,
    full: bool,
}

impl Shared {
    /// As the sandbox begins with it.
    pub(super) fn new(directory: OwnedFd) -> Self {
        Self { directory, full: false }
    }

    /// Whether it is full and was not when it was last looked at.
    pub(super) fn filled(&mut self) -> bool {
        let data = rustix::fs::fstatvfs(&self.directory);
        let before = std::mem::replace(&mut self.full, data.is_ok_and(|data| data.f_bfree == 0));
        self.full && !before
    }
}
