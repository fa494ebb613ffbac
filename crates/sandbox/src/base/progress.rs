//! Tells what happens, and not too often.

use std::sync::Mutex;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(400);

/// Whoever is told what happens.
pub(super) struct Progress<'a> {
    tell: &'a (dyn Fn(String) + Send + Sync),
    last: Mutex<Option<Instant>>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(tell: &'a (dyn Fn(String) + Send + Sync)) -> Self {
        Self { tell, last: Mutex::new(None) }
    }

    /// Something that must be said.
    pub(super) fn say(&self, line: impl Into<String>) {
        (self.tell)(line.into());
    }

    /// How far something is; said only if nothing like it was said just before.
    pub(super) fn step(&self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            *last = Some(now);
            drop(last);
            (self.tell)(line());
        }
    }
}

/// `34 of 120 MiB`.
pub(super) fn of(done: u64, all: u64) -> String {
    let (unit, name) = if all < 10 << 20 { (1 << 10, "KiB") } else { (1 << 20, "MiB") };
    format!("{} of {} {name}", done / unit, all.div_ceil(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_steps_is_few_lines() {
        let lines = Mutex::new(Vec::new());
        let tell = |line: String| lines.lock().unwrap().push(line);
        let progress = Progress::new(&tell);
        for done in 0..1000 {
            progress.step(|| of(done << 20, 1000 << 20));
        }
        progress.say("done");
        let lines = lines.lock().unwrap();
        assert_eq!(lines.first().unwrap(), "0 of 1000 MiB");
        assert_eq!(lines.last().unwrap(), "done");
        assert!(lines.len() < 10, "{lines:?}");
    }
}
