//! Python's doctest run by itself: a block for each example that says something else than the documentation.

use protocol::TestCase;

use crate::cases::failed;
use crate::scan;

/// Reads blocks out of lines.
#[derive(Default)]
pub(super) struct Doctests {
    /// The line of stars above was the last one.
    ruled: bool,
    part: Part,
    test: Option<TestCase>,
    failed: u32,
    passed: u32,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Part {
    #[default]
    Outside,
    Heading,
    Example,
    Expected,
    Got,
    Raised,
}

impl Doctests {
    /// Takes a line; gives the test that it ends.
    pub(super) fn line(&mut self, line: &str) -> Option<TestCase> {
        let ruled =
            std::mem::replace(&mut self.ruled, line.len() >= 40 && line.bytes().all(|byte| byte == b'*'));
        if self.ruled {
            return self.finish();
        }
        if ruled
            && let Some(place) = scan::python_frame(line).filter(|_| line.starts_with("File "))
            && let Some(name) = place.rest.strip_prefix(", in ")
        {
            let mut test = failed(name);
            (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
            (self.test, self.part) = (Some(test), Part::Heading);
            return None;
        }
        self.count(line);
        let test = self.test.as_mut()?;
        self.part = match line {
            "Failed example:" => Part::Example,
            "Expected:" => Part::Expected,
            "Got:" => Part::Got,
            "Exception raised:" => Part::Raised,
            "Expected nothing" => {
                test.expected = Some("nothing".to_owned());
                Part::Expected
            }
            "Got nothing" => {
                test.actual = Some("nothing".to_owned());
                Part::Got
            }
            // All else is indented, but for the counts and what `-v` tells of the next example.
            _ if !line.starts_with("    ") && !line.trim().is_empty() => return self.finish(),
            _ => {
                let text = line.get(4..).unwrap_or_default();
                match self.part {
                    Part::Expected => push(&mut test.expected, text),
                    Part::Got | Part::Raised => push(&mut test.actual, text),
                    Part::Example => scan::push_line(&mut test.message, text),
                    Part::Outside | Part::Heading => {}
                }
                self.part
            }
        };
        None
    }

    /// Whether the last line was a part of a block.
    pub(super) fn is_inside(&self) -> bool {
        self.test.is_some()
    }

    /// The test under way, as far as it was told.
    pub(super) fn finish(&mut self) -> Option<TestCase> {
        let part = std::mem::take(&mut self.part);
        let mut test = self.test.take()?;
        if let Some(value) = &mut test.actual {
            value.truncate(value.trim_end().len());
            // Of a traceback, the last line says what was raised.
            if value.starts_with("Traceback (most recent call last):") {
                let last = value.lines().next_back().unwrap_or_default().to_owned();
                if part == Part::Raised {
                    test.message.push_str(&format!("\n{last}"));
                }
                *value = last;
            }
        }
        if let Some(value) = &mut test.expected {
            value.truncate(value.trim_end().len());
            if value.starts_with("Traceback (most recent call last):") {
                *value = value.lines().next_back().unwrap_or_default().to_owned();
            }
        }
        test.message.truncate(test.message.trim_end().len());
        Some(test)
    }

    /// How many examples failed, by what is said at the end.
    pub(super) fn failed(&self) -> u32 {
        self.failed
    }

    /// How many examples passed, which only `-v` says.
    pub(super) fn passed(&self) -> u32 {
        self.passed
    }

    /// `***Test Failed*** 3 failures.` and `3 passed and 2 failed.`
    fn count(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("***Test Failed*** ")
            && let Some((failed, _)) = scan::number(rest)
        {
            self.failed = self.failed.saturating_add(failed);
        } else if let Some((passed, rest)) = scan::number(line)
            && let Some(rest) = rest.strip_prefix(" passed")
            && (rest == "." || rest.starts_with(" and ") && rest.ends_with(" failed."))
        {
            self.passed = self.passed.saturating_add(passed);
        }
    }
}

fn push(value: &mut Option<String>, line: &str) {
    scan::push_line(value.get_or_insert_default(), line);
}
