//! What a failed Rust test prints: panics in the format of today (place first, message below) and of Rust before 1.73
//! (message in quotes, then the place), and the notes libtest adds. From it comes why and where a test failed.

use protocol::{TestCase, TestStatus};

use crate::scan;

/// One panic.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Panic {
    pub(super) thread: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) message: String,
}

/// Reads panics out of lines.
#[derive(Default)]
pub(super) struct Panics {
    pub(super) found: Vec<Panic>,
    state: State,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// In the message of a panic whose place is known.
    Message,
    /// In the quoted message of the old format; the place comes at its end.
    Quoted,
    /// In a backtrace, which ends with a note.
    Backtrace,
}

impl Panics {
    /// Takes a line; false when it is no part of a panic.
    pub(super) fn line(&mut self, line: &str) -> bool {
        if let Some((thread, rest)) = announcement(line) {
            self.begin(thread, rest);
            return true;
        }
        match self.state {
            State::Idle => return false,
            State::Backtrace => {
                if line.starts_with("note: ") {
                    self.state = State::Idle;
                    return is_backtrace_note(line);
                }
            }
            State::Message | State::Quoted if line.starts_with("stack backtrace:") => {
                self.state = State::Backtrace
            }
            State::Message | State::Quoted if line.starts_with("note: ") => {
                self.state = State::Idle;
                return is_backtrace_note(line);
            }
            State::Message => self.push(line),
            State::Quoted => self.quoted(line),
        }
        true
    }

    /// Ends the message under way, because something else speaks.
    pub(super) fn stop(&mut self) {
        self.state = State::Idle;
    }

    fn begin(&mut self, thread: &str, rest: &str) {
        let mut panic = Panic { thread: thread.to_owned(), ..Panic::default() };
        if let Some(quoted) = rest.strip_prefix('\'') {
            self.found.push(panic);
            self.state = State::Quoted;
            self.quoted(quoted);
        } else {
            if let Some(place) = scan::place(rest) {
                panic.file = Some(place.file.to_owned());
                panic.line = Some(place.line);
            }
            self.found.push(panic);
            self.state = State::Message;
        }
    }

    fn quoted(&mut self, line: &str) {
        if let Some((text, at)) = line.rsplit_once("', ")
            && let Some(place) = scan::place(at)
            && place.rest.is_empty()
        {
            self.push(text);
            if let Some(panic) = self.found.last_mut() {
                panic.file = Some(place.file.to_owned());
                panic.line = Some(place.line);
            }
            self.state = State::Idle;
        } else {
            self.push(line);
        }
    }

    fn push(&mut self, line: &str) {
        if let Some(panic) = self.found.last_mut() {
            scan::push_line(&mut panic.message, line);
        }
    }
}

/// Reads `thread 'name' panicked at …`, with the thread's number that newer versions print.
fn announcement(line: &str) -> Option<(&str, &str)> {
    let (_, line) = line.split_once("thread '")?;
    let (thread, rest) = line.split_once(" panicked at ")?;
    let thread = match thread.rsplit_once(" (") {
        Some((name, id)) if id.strip_suffix(')').is_some_and(|id| id.bytes().all(|b| b.is_ascii_digit())) => {
            name
        }
        _ => thread,
    };
    Some((thread.strip_suffix('\'')?, rest))
}

fn is_backtrace_note(line: &str) -> bool {
    line.contains("RUST_BACKTRACE") || line.contains("backtrace")
}

/// Everything known about one failed test.
#[derive(Default)]
pub(super) struct Story {
    pub(super) panics: Panics,
    /// Lines that belong to no panic, bounded.
    pub(super) other: String,
}

impl Story {
    /// Takes a line of the test's captured output.
    pub(super) fn line(&mut self, line: &str) {
        if !self.panics.line(line) && !line.trim().is_empty() {
            // The end says more than the beginning, so a flood keeps its newest part.
            if self.other.len() > crate::MAX_TEXT {
                self.other.clear();
            }
            scan::push_line(&mut self.other, line);
        }
    }

    /// The failed test that this is the story of.
    pub(super) fn tell(self, name: &str) -> TestCase {
        let mut test = TestCase {
            name: name.to_owned(),
            status: TestStatus::Failed,
            file: None,
            line: None,
            message: String::new(),
            expected: None,
            actual: None,
            ..TestCase::default()
        };
        // The test's own thread decides; a panic elsewhere is what led to it.
        let panics = &self.panics.found;
        let own = panics.iter().rposition(|panic| panic.thread == name).or(panics.len().checked_sub(1));
        if let Some(panic) = own.and_then(|own| panics.get(own)) {
            test.file.clone_from(&panic.file);
            test.line = panic.line;
            assertion(&panic.message, &mut test);
        }
        if let Some(other) = panics.first().filter(|first| own != Some(0) && first.thread != name) {
            let place = match (&other.file, other.line) {
                (Some(file), Some(line)) => format!(" at {file}:{line}"),
                _ => String::new(),
            };
            let before =
                format!("before it, thread '{}' panicked{place}: {}", other.thread, other.message.trim());
            scan::push_line(&mut test.message, &before);
        }
        self.notes(&mut test);
        if test.message.is_empty() {
            test.message = self.summary();
        }
        if let Some((file, line)) = doc_test(name) {
            (test.file, test.line) = (Some(file.to_owned()), Some(line));
        }
        test
    }

    /// What libtest says of tests that should panic.
    fn notes(&self, test: &mut TestCase) {
        for line in self.other.lines() {
            if let Some(note) = line.strip_prefix("note: test did not panic as expected") {
                test.message = "test did not panic as expected".to_owned();
                if let Some(place) = note.strip_prefix(" at ").and_then(scan::place) {
                    (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
                }
            } else if line.starts_with("note: panic did not contain expected string") {
                test.message = "panic did not contain expected string".to_owned();
            } else if let Some(value) = line.trim_start().strip_prefix("panic message: ") {
                test.actual = Some(value.to_owned());
            } else if let Some(value) = line.trim_start().strip_prefix("expected substring: ") {
                test.expected = Some(value.to_owned());
            }
        }
    }

    /// The telling part of an output without a panic: from the first error, or else its last lines.
    fn summary(&self) -> String {
        let lines: Vec<&str> = self.other.lines().collect();
        let start = lines
            .iter()
            .position(|line| line.starts_with("error") || line.starts_with("Error: "))
            .unwrap_or(lines.len().saturating_sub(10));
        lines.iter().skip(start).take(10).copied().collect::<Vec<_>>().join("\n")
    }
}

/// Splits the values off an assertion's message. `assert_eq!(actual, expected)` puts the actual value left.
fn assertion(message: &str, test: &mut TestCase) {
    let compares =
        message.starts_with("assertion `left ") || message.starts_with("assertion failed: `(left ");
    if !compares {
        test.message = message.trim_end().to_owned();
        return;
    }
    let differs =
        message.starts_with("assertion `left != ") || message.starts_with("assertion failed: `(left != ");
    let (mut headline, mut left, mut right) = (String::new(), None::<String>, None::<String>);
    for line in message.lines() {
        if let Some(value) = line.trim_start().strip_prefix("left: ").filter(|_| left.is_none()) {
            left = Some(value.to_owned());
        } else if let Some(value) = line.trim_start().strip_prefix("right: ").filter(|_| right.is_none()) {
            right = Some(value.to_owned());
        } else if let Some(value) = right.as_mut().or(left.as_mut()) {
            scan::push_line(value, line);
        } else {
            scan::push_line(&mut headline, line);
        }
    }
    if message.starts_with("assertion failed: ") {
        left = left.map(|value| value.trim_end_matches(',').trim_matches('`').to_owned());
        right = right.map(|value| match value.strip_prefix('`').and_then(|value| value.split_once("`: ")) {
            Some((value, reason)) => {
                headline = format!("{headline}: {reason}");
                value.to_owned()
            }
            None => value.trim_matches('`').to_owned(),
        });
    }
    test.message = headline;
    let (left, right) = (left.map(trimmed), right.map(trimmed));
    if differs {
        if let Some(value) = left {
            scan::push_line(&mut test.message, &format!("both are {value}"));
        }
    } else {
        (test.actual, test.expected) = (left, right);
    }
}

fn trimmed(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text
}

/// A doc-test's name tells its place: `src/lib.rs - total (line 5)`.
fn doc_test(name: &str) -> Option<(&str, u32)> {
    let (file, rest) = name.split_once(" - ")?;
    let (line, end) = scan::number(rest.rsplit_once("(line ")?.1)?;
    (end == ")").then_some((file, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(name: &str, output: &str) -> TestCase {
        let mut story = Story::default();
        output.lines().for_each(|line| story.line(line));
        story.tell(name)
    }

    #[test]
    fn the_format_before_rust_1_73_is_read() {
        let test = tell(
            "t",
            "thread 't' panicked at 'assertion failed: `(left == right)`\n  left: `3`,\n right: `5`: one basket', src/lib.rs:30:9\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        );
        assert_eq!(test.message, "assertion failed: `(left == right)`: one basket");
        assert_eq!((test.actual.as_deref(), test.expected.as_deref()), (Some("3"), Some("5")));
        assert_eq!((test.file.as_deref(), test.line), (Some("src/lib.rs"), Some(30)));

        let plain = tell("t", "thread 't' panicked at 'it's, well, gone', src/a b.rs:2:1\n");
        assert_eq!(plain.message, "it's, well, gone");
        assert_eq!((plain.file.as_deref(), plain.line), (Some("src/a b.rs"), Some(2)));
    }

    #[test]
    fn values_over_several_lines_stay_whole() {
        let test = tell(
            "t",
            "thread 't' (7) panicked at src/lib.rs:1:1:\nassertion `left == right` failed\n  left: A {\n    b: 1,\n}\n right: A {\n    b: 2,\n}\n",
        );
        assert_eq!(test.actual.as_deref(), Some("A {\n    b: 1,\n}"));
        assert_eq!(test.expected.as_deref(), Some("A {\n    b: 2,\n}"));
    }

    #[test]
    fn the_last_panic_of_the_own_thread_is_the_failure() {
        let test = tell(
            "t",
            "thread 't' panicked at a.rs:1:1:\ncaught\nthread 't' panicked at a.rs:9:1:\nreal\nthread 'w' panicked at b.rs:2:2:\nlate\n",
        );
        assert_eq!((test.line, test.message.as_str()), (Some(9), "real"));
    }

    #[test]
    fn output_without_a_panic_gives_its_end() {
        let lines: String = (0..50).map(|n| format!("line {n}\n")).collect();
        assert!(tell("t", &lines).message.starts_with("line 40\n"));
    }
}
