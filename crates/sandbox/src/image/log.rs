//! What a build says: all of it in a file, and the end of each step's output in memory.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// Bytes of the log of one build; what comes after is left out, so that a step that never stops talking fills no disk.
const LIMIT: u64 = 64 << 20;

/// Bytes of the end of an output that a status shows.
const TAIL: usize = 4 * 1024;

/// The log of one build.
pub(super) struct Log {
    file: Mutex<Option<File>>,
    limit: u64,
    written: std::sync::atomic::AtomicU64,
}

impl Log {
    /// Begins a new one in place of the last build's.
    pub(super) fn begin(path: &Path) -> Result<Self, Error> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        }
        // A reader of the last build's log keeps what it reads.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::io(path)(error)),
            _ => {}
        }
        let file = File::create_new(path).map_err(Error::io(path))?;
        Ok(Self { file: Mutex::new(Some(file)), limit: LIMIT, written: 0.into() })
    }

    /// One that keeps nothing.
    pub(super) fn nowhere() -> Self {
        Self { file: Mutex::new(None), limit: 0, written: 0.into() }
    }

    /// A line of our own.
    pub(super) fn line(&self, text: &str) {
        self.write(format!("{text}\n").as_bytes());
    }

    /// Output as it came. A disk that is full costs the log, not the build.
    pub(super) fn write(&self, data: &[u8]) {
        use std::sync::atomic::Ordering;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = file.as_mut() else { return };
        let before = self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        let room = usize::try_from(self.limit.saturating_sub(before)).unwrap_or(usize::MAX);
        let result = if data.len() <= room {
            open.write_all(data)
        } else {
            let end = format!("\n[the log ends here: it is {} MiB long]\n", self.limit >> 20);
            open.write_all(&data[..room]).and_then(|()| open.write_all(end.as_bytes()))
        };
        if let Err(error) = &result {
            tracing::warn!(%error, "the log of a build could not be written");
        }
        if result.is_err() || data.len() > room {
            *file = None;
        }
    }
}

/// The end of an output.
#[derive(Debug, Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    /// Takes more of it.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.0.extend_from_slice(&data[data.len().saturating_sub(TAIL)..]);
        // Cut only now and then, so that each byte is moved once.
        if self.0.len() > 2 * TAIL {
            self.0.drain(..self.0.len() - TAIL);
        }
    }

    /// The end as text, without what would move a terminal's cursor.
    pub(super) fn text(&self) -> String {
        let end = &self.0[self.0.len().saturating_sub(TAIL)..];
        let text = String::from_utf8_lossy(end);
        // A letter that was cut in two is no letter.
        let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
        let plain = |letter: char| match letter {
            '\r' => Some('\n'),
            '\n' | '\t' => Some(letter),
            letter if letter.is_control() => None,
            letter => Some(letter),
        };
        text.chars().filter_map(plain).collect::<String>().trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_end_and_no_longer() {
        let mut tail = Tail::default();
        for number in 0..10_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let text = tail.text();
        assert!(text.len() <= TAIL && text.ends_with("line 9999"), "{}", text.len());
        tail.push("é".repeat(TAIL).as_bytes());
        assert!(tail.text().chars().all(|letter| letter == 'é'));
        assert!(tail.0.len() <= 2 * TAIL);
    }

    #[test]
    fn a_tail_moves_no_cursor() {
        let mut tail = Tail::default();
        tail.push(b"10%\r20%\x1b[2J\x07\xff end");
        assert_eq!(tail.text(), "10%\n20%[2J\u{fffd} end");
    }

    #[test]
    fn a_log_is_bounded_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app/build.log");
        let mut log = Log::begin(&path).unwrap();
        log.limit = 10;
        log.line("one");
        log.write(b"0123456789");
        log.line("lost");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("one\n012345\n[the log ends here"), "{text}");
        assert!(!text.contains("lost"));
        Log::begin(&path).unwrap().line("next");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "next\n");
    }
}
