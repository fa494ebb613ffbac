//! The text output of pytest, quiet, normal or verbose and with any traceback style. [`block`] reads what stands under
//! one heading of FAILURES or ERRORS; here the sections, the short summary and the counts are put together with it.

mod assertion;
mod block;
mod lines;

use std::collections::{HashMap, HashSet, VecDeque};

use protocol::{Diagnostic, Report, Severity};

use self::block::{Block, Kind};
use self::lines::{Counts, counts, split_summary, title_of, verbose_result};
use crate::cases::failed;
use crate::findings::Findings;
use crate::{Parser, scan};

/// The parser `pytest`.
pub(crate) struct Pytest;

impl Parser for Pytest {
    fn name(&self) -> &'static str {
        "pytest"
    }

    fn recognises(&self, output: &str) -> bool {
        output.lines().any(|line| {
            matches!(
                scan::heading(line, '='),
                Some("test session starts" | "FAILURES" | "ERRORS" | "short test summary info")
            ) || counts(line).is_some()
                || line.ends_with(": No module named pytest")
                || line.contains(" -m pytest: error: ")
                || line.starts_with(block::CONFTEST)
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader.finish()
    }
}

/// The parts of the output, by their headings.
#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Section {
    /// Progress, before any heading or under the first.
    #[default]
    Progress,
    /// ERRORS and FAILURES.
    Blocks,
    /// The warnings.
    Warnings,
    /// The short summary.
    Summary,
    /// Anything else.
    Other,
}

#[derive(Default)]
struct Reader {
    section: Section,
    root: Option<String>,
    blocks: Vec<Block>,
    /// Whether the last block is still open; with `--tb=line` failures have no heading.
    in_block: bool,
    /// Failed tests by the short summary or the verbose progress, in order: node id and message.
    named: Vec<(String, String)>,
    /// Where in `named` a node id is.
    known: HashMap<String, usize>,
    diagnostics: Findings,
    seen: Counts,
    counts: Option<Counts>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(found) = counts(line) {
            self.counts = Some(found);
            self.section = Section::Other;
            return;
        }
        if let Some(title) = scan::heading(line, '=') {
            self.in_block = false;
            self.section = match title {
                "test session starts" => Section::Progress,
                "FAILURES" | "ERRORS" => Section::Blocks,
                "short test summary info" => Section::Summary,
                title if title.starts_with("warnings summary") => Section::Warnings,
                _ => Section::Other,
            };
            return;
        }
        if let Some(title) = scan::heading(line, '_').filter(|_| self.section == Section::Blocks) {
            self.blocks.push(Block::new(title));
            self.in_block = true;
            return;
        }
        if self.complaint(line) {
            return;
        }
        match self.section {
            Section::Blocks => {
                if let Some(block) = self.blocks.last_mut().filter(|_| self.in_block) {
                    block.line(line);
                }
            }
            Section::Progress => self.progress(line),
            Section::Summary => self.summary(line),
            Section::Warnings => self.warning(line),
            Section::Other => {}
        }
    }

    /// What pytest says when it cannot even begin.
    fn complaint(&mut self, line: &str) -> bool {
        if line.starts_with(block::CONFTEST) {
            self.blocks.push(Block::new(line));
            self.in_block = true;
            self.section = Section::Blocks;
            return true;
        }
        let message = if let Some(message) = line.strip_prefix("ERROR: ") {
            message
        } else if let Some((_, message)) = line.split_once(" -m pytest: error: ") {
            message
        } else if let Some(message) =
            line.strip_prefix("INTERNALERROR> ").filter(|text| !text.starts_with(' '))
        {
            message
        } else if line.ends_with(": No module named pytest") {
            line
        } else {
            return false;
        };
        // The usage is not what is wrong; the line after it says that.
        if message.starts_with("usage: ") {
            return true;
        }
        self.diagnostics.push(error(message.to_owned()));
        true
    }

    fn progress(&mut self, line: &str) {
        if let Some(root) = line.strip_prefix("rootdir: ") {
            self.root = Some(root.split(", ").next().unwrap_or(root).to_owned());
        } else if let Some((id, outcome)) = verbose_result(line) {
            self.seen.add(outcome, 1);
            if matches!(outcome, "FAILED" | "ERROR") {
                self.name(id, "");
            }
        } else {
            // `tests/test_a.py ..F.s    [ 40%]`, or the letters alone.
            let letters = line.split_once('[').map_or(line, |(letters, _)| letters).trim_end();
            let letters = match letters.rsplit_once(' ') {
                Some((file, letters)) if file.ends_with(".py") => letters,
                Some(_) => return,
                None => letters,
            };
            if letters.bytes().all(|letter| b".FEsxXu,".contains(&letter)) {
                for letter in letters.chars() {
                    let outcome = match letter {
                        '.' | 'X' => "PASSED",
                        'F' => "FAILED",
                        'E' => "ERROR",
                        's' | 'x' => "SKIPPED",
                        _ => continue,
                    };
                    self.seen.add(outcome, 1);
                }
            }
        }
    }

    fn summary(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("FAILED ").or(line.strip_prefix("ERROR ")) {
            let (id, message) = split_summary(rest);
            self.name(id, message);
        } else if let Some(rest) = line.strip_prefix("SUBFAILED")
            && let Some((part, message)) = rest.split_once(" - ")
            && let Some((part, id)) = part.rsplit_once(' ')
        {
            // `SUBFAILED[message] (i=1) path::test - why`, under the heading `test [message] (i=1)`.
            self.name(&format!("{id} {}", part.trim_start()), message);
        }
    }

    fn name(&mut self, id: &str, message: &str) {
        let at = *self.known.entry(id.to_owned()).or_insert(self.named.len());
        match self.named.get_mut(at) {
            Some((_, known)) if !message.is_empty() => message.clone_into(known),
            Some(_) => {}
            None => self.named.push((id.to_owned(), message.to_owned())),
        }
    }

    fn warning(&mut self, line: &str) {
        let Some(text) = line.strip_prefix("  ").filter(|text| !text.starts_with(' ')) else { return };
        let Some(place) = scan::place(text) else { return };
        let Some(message) = place.rest.strip_prefix(": ") else { return };
        self.diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            file: Some(self.relative(place.file)),
            line: Some(place.line),
            column: None,
            code: message.split_once(": ").map(|(category, _)| category.to_owned()),
            message: message.to_owned(),
            ..Diagnostic::default()
        });
    }

    fn relative(&self, file: &str) -> String {
        let root = self.root.as_deref().unwrap_or_default();
        let inside =
            file.strip_prefix(root).filter(|_| !root.is_empty()).and_then(|rest| rest.strip_prefix('/'));
        inside.unwrap_or(file).to_owned()
    }

    fn finish(mut self) -> Report {
        let mut report = Report::default();
        // A block's heading has the test's name but not its file; the summary has both, in the same order.
        let mut by_title: HashMap<String, VecDeque<Block>> = HashMap::new();
        let mut unnamed = Vec::new();
        let titles: HashSet<String> = self.named.iter().map(|(id, _)| title_of(id)).collect();
        let mut collecting = Vec::new();
        for block in std::mem::take(&mut self.blocks) {
            match block.kind {
                Kind::Collection => collecting.push(block),
                Kind::Test if titles.contains(&block.title) => {
                    by_title.entry(block.title.clone()).or_default().push_back(block);
                }
                Kind::Test => unnamed.push(block),
            }
        }
        let broken_files: HashSet<&str> = collecting.iter().map(|block| block.title.as_str()).collect();
        let mut collection_errors = u32::try_from(collecting.len()).unwrap_or(u32::MAX);
        for (id, message) in &self.named {
            if !id.contains("::") {
                if !broken_files.contains(id.as_str()) {
                    collection_errors = collection_errors.saturating_add(1);
                    let file = Some(id.clone());
                    self.diagnostics
                        .push(Diagnostic { file, ..error(or_else(message, "could not be collected")) });
                }
                continue;
            }
            let block = by_title.get_mut(&title_of(id)).and_then(VecDeque::pop_front);
            let mut test = block.map_or_else(|| failed(id), |block| block.test(id, self.root.as_deref()));
            if test.message.is_empty() {
                test.message.clone_from(message);
            }
            if test.file.is_none() {
                test.file = id.split_once("::").map(|(file, _)| file.to_owned());
            }
            if test.expected.is_none() {
                assertion::values(message, &mut test);
            }
            report.tests.push(test);
        }
        let mut leftover: Vec<Block> = by_title.into_values().flatten().collect();
        leftover.sort_by(|one, other| one.title.cmp(&other.title));
        report.tests.extend(unnamed.into_iter().chain(leftover).map(|block| {
            let title = block.title.clone();
            block.test(&title, self.root.as_deref())
        }));
        for block in collecting {
            let file = block.title.clone();
            let place = block.test(&file, self.root.as_deref());
            let message = or_else(&place.message, "could not be collected");
            self.diagnostics.push(Diagnostic { file: place.file, line: place.line, ..error(message) });
        }
        report.diagnostics = self.diagnostics.into_vec();
        report.diagnostics.sort_by_key(|found| found.severity);

        let counts = self.counts.unwrap_or(self.seen);
        let found = u32::try_from(report.tests.len()).unwrap_or(u32::MAX);
        let counted = counts.failed.saturating_add(counts.errors.saturating_sub(collection_errors));
        report.tests_failed = counted.max(found);
        report.tests_passed = counts.passed;
        report.tests_skipped = counts.skipped;
        report
    }
}

fn error(message: String) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: None,
        line: None,
        column: None,
        code: None,
        message,
        ..Diagnostic::default()
    }
}

fn or_else(message: &str, otherwise: &str) -> String {
    if message.is_empty() { otherwise.to_owned() } else { message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_was_cut_off_still_counts() {
        let report = Pytest.parse(
            "===== test session starts =====\ntests/a.py::x PASSED  [ 33%]\ntests/a.py::y FAILED  [ 66%]\n",
        );
        assert_eq!((report.tests_passed, report.tests_failed), (1, 1));
        assert_eq!(report.tests[0].name, "tests/a.py::y");
        let letters = Pytest.parse("..F.s  [ 40%]\n.....");
        assert_eq!((letters.tests_passed, letters.tests_failed, letters.tests_skipped), (8, 1, 1));
    }
}
