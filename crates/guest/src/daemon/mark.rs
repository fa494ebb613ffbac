//! A mark that every descendant of a process carries, whatever it does to its session, its parents and its variables.
//!
//! It is the hard limit of the time that a real-time process may run without a pause. A limit is inherited by everything,
//! no exec changes it, and nobody in a sandbox can raise it. What it limits does not exist there: nothing may become a
//! real-time process. The numbers are so large that they would limit nothing even then. A process that lowers the limit on
//! purpose takes the mark off; it is then looked for by its variables.

use std::cell::Cell;

use rustix::process::{Resource, Rlimit};

/// Marks begin below this where there is no limit: a few ten thousand years.
const HIGHEST: u64 = 1 << 60;

/// So many processes can be told apart; more than a guest ever starts.
const MOST: u64 = 1 << 40;

/// The limit that is the mark.
const LIMIT: Resource = Resource::Rttime;

/// How the kernel calls it in a list.
const NAME: &str = "Max realtime timeout";

/// The marks that were not given yet.
pub(super) struct Marks {
    below: u64,
    given: Cell<u64>,
}

impl Marks {
    /// Below whatever limit the daemon itself has, which may be another one's mark.
    pub(super) fn new() -> Self {
        let below = rustix::process::getrlimit(LIMIT).maximum.unwrap_or(HIGHEST);
        Self { below, given: Cell::new(0) }
    }

    /// Another one; None when there is no room for marks.
    pub(super) fn next(&self) -> Option<u64> {
        let given = self.given.get() + 1;
        if self.below < HIGHEST / 2 || given > MOST {
            return None;
        }
        self.given.set(given);
        Some(self.below - given)
    }
}

/// Marks this process. Only a system call, so that it can be made between fork and exec.
pub(super) fn put(mark: u64) {
    // One without a mark is still found by its session, its parents and its variables.
    let _unmarked = rustix::process::setrlimit(LIMIT, Rlimit { current: Some(mark), maximum: Some(mark) });
}

/// The mark of a process; None for one that is gone or has none.
pub(super) fn of(pid: i32) -> Option<u64> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

fn parse(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(NAME))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_is_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max realtime priority     0                    0                    \n\
                    Max realtime timeout      7                    1152921504606846970  us        \n";
        assert_eq!(parse(text), Some((1 << 60) - 6));
        assert_eq!(parse("Max realtime timeout      unlimited            unlimited            us"), None);
        assert_eq!(parse(""), None);
        assert!(of(std::process::id().cast_signed()).is_none_or(|mark| mark > 0));
    }

    #[test]
    fn no_two_are_alike_and_none_is_above_what_there_is() {
        let marks = Marks { below: HIGHEST, given: Cell::new(0) };
        assert_eq!((marks.next(), marks.next()), (Some(HIGHEST - 1), Some(HIGHEST - 2)));
        assert_eq!(Marks { below: 5, given: Cell::new(0) }.next(), None);
        assert_eq!(Marks { below: HIGHEST, given: Cell::new(MOST) }.next(), None);
    }
}
