//! What stands under one heading of pytest's FAILURES and ERRORS: the lines marked `E`, the places passed on the way,
//! and how they tell where and why a test failed.

use protocol::TestCase;

use super::assertion;
use crate::cases::failed;
use crate::scan;

/// How pytest begins when a `conftest.py` cannot be loaded; no heading stands above it.
pub(super) const CONFTEST: &str = "ImportError while loading conftest";

/// What a block is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One test.
    Test,
    /// A file that could not be collected.
    Collection,
}

/// One block.
pub(super) struct Block {
    /// The test's heading, or the file that could not be collected.
    pub(super) title: String,
    pub(super) kind: Kind,
    stage: Option<&'static str>,
    errors: String,
    indent: Option<usize>,
    cause: Option<String>,
    other: String,
    first: Option<(String, u32)>,
    last: Option<(String, u32)>,
    outside: Option<(String, u32)>,
    captured: bool,
}

impl Block {
    /// A block under this heading.
    pub(super) fn new(title: &str) -> Self {
        let stages = [("ERROR at setup of ", "setup failed"), ("ERROR at teardown of ", "teardown failed")];
        let stage = stages.iter().find_map(|(prefix, stage)| Some((title.strip_prefix(prefix)?, *stage)));
        let conftest = title.strip_prefix(CONFTEST).map(|rest| rest.trim_matches([' ', '\'', '.']));
        let collecting = title.strip_prefix("ERROR collecting ").or(conftest);
        let name = collecting.or(stage.map(|(name, _)| name)).unwrap_or(title);
        Self {
            title: name.to_owned(),
            kind: if collecting.is_some() { Kind::Collection } else { Kind::Test },
            stage: stage.map(|(_, stage)| stage),
            errors: String::new(),
            indent: None,
            cause: None,
            other: String::new(),
            first: None,
            last: None,
            outside: None,
            captured: false,
        }
    }

    /// Takes a line below the heading.
    pub(super) fn line(&mut self, line: &str) {
        if scan::heading(line, '-').is_some_and(|title| title.starts_with("Captured ")) {
            self.captured = true;
        }
        if self.captured {
            return;
        }
        if let Some(text) = error_line(line) {
            let indent = *self.indent.get_or_insert(text.len() - text.trim_start().len());
            let text = text.get(indent..).filter(|_| text.as_bytes().iter().take(indent).all(|b| *b == b' '));
            let text = text.unwrap_or_else(|| line[1..].trim_start());
            if let Some(place) = scan::python_frame(text) {
                self.place(place.file, place.line);
            }
            scan::push_line(&mut self.errors, text.trim_end());
        } else if let Some(place) = scan::python_frame(line) {
            self.place(place.file, place.line);
        } else if let Some(place) = scan::place(line)
            && (place.rest.starts_with(": ") || place.rest == ":")
            && !line.starts_with([' ', '>'])
        {
            self.place(place.file, place.line);
        } else if line.starts_with("The above exception was the direct cause of")
            || line.starts_with("During handling of the above exception")
        {
            // The last exception is the failure; the one before it explains it.
            let errors = std::mem::take(&mut self.errors);
            self.cause = errors.lines().next().map(str::to_owned);
            self.indent = None;
            (self.first, self.last, self.outside) = (None, None, None);
        } else if !line.trim().is_empty() && !line.starts_with(' ') {
            if self.other.len() > crate::MAX_TEXT {
                self.other.clear();
            }
            scan::push_line(&mut self.other, line.trim_end());
        }
    }

    /// Notes a place on the way to the failure. Files of the project are shown relative, libraries absolute.
    fn place(&mut self, file: &str, line: u32) {
        let library =
            file.contains("site-packages/") || file.contains("/lib/python") || file.starts_with('<');
        if library {
            self.outside = Some((file.to_owned(), line));
        } else {
            let place = (file.to_owned(), line);
            self.first.get_or_insert_with(|| place.clone());
            self.last = Some(place);
        }
    }

    /// The failed test that this block tells of.
    pub(super) fn test(self, name: &str, root: Option<&str>) -> TestCase {
        let mut test = failed(name);
        // Without a line that says where the project is, a path that ends like the test's own file tells.
        let own = name.split_once("::").map_or(name, |(file, _)| file);
        let inferred = [&self.first, &self.last].into_iter().flatten().find_map(|(file, _)| {
            file.strip_suffix(own).filter(|_| !own.is_empty()).and_then(|root| root.strip_suffix('/'))
        });
        let root = root.or(inferred);
        let relative = |file: &str| {
            let inside =
                root.and_then(|root| file.strip_prefix(root)).and_then(|rest| rest.strip_prefix('/'));
            inside.unwrap_or(file).to_owned()
        };
        if let Some((file, line)) = self.last.as_ref().or(self.outside.as_ref()) {
            test.file = Some(relative(file));
            test.line = Some(*line);
        } else if self.kind == Kind::Collection {
            test.file = Some(self.title.clone());
        }
        test.message =
            if self.errors.is_empty() { closing(&self.other) } else { exception_first(&self.errors) };
        assertion::values(&test.message.clone(), &mut test);
        if let Some(stage) = self.stage {
            test.message = format!("{stage}: {}", test.message);
        }
        if let Some((file, line)) =
            self.first.as_ref().filter(|_| self.kind == Kind::Test && self.first != self.last)
        {
            scan::push_line(&mut test.message, &format!("called from {}:{line}", relative(file)));
        }
        if let Some(cause) = &self.cause {
            scan::push_line(&mut test.message, &format!("caused by: {cause}"));
        }
        test
    }
}

/// The text of a line marked `E`.
fn error_line(line: &str) -> Option<&str> {
    let text = line.strip_prefix('E')?;
    (text.is_empty() || text.starts_with("  ")).then_some(text)
}

/// A syntax error shows the place before it says what it is; the place is known already.
fn exception_first(errors: &str) -> String {
    let errors = errors.trim_end();
    match (errors.split_once('\n'), errors.rsplit_once('\n')) {
        (Some((first, _)), Some((rest, last))) if scan::python_frame(first).is_some() => {
            let code = rest.split_once('\n').map_or("", |(_, code)| code);
            format!("{last}\n{code}")
        }
        _ => errors.to_owned(),
    }
}

/// The last lines of a block without marked ones, such as a traceback in Python's own style.
fn closing(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("Traceback")).collect();
    lines.iter().skip(lines.len().saturating_sub(10)).map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}
