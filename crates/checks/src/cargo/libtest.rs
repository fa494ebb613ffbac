//! Results of libtest, of any number of test binaries and doc-tests, also as nextest shows them. Counts come from the
//! result lines; where those are missing because the output was cut or the process died, from the tests seen.

use std::collections::HashMap;

use protocol::Report;

use super::Region;
use super::panic::{Panics, Story};
use crate::scan;

/// Collects test results line by line.
#[derive(Default)]
pub(super) struct Libtest {
    section: Section,
    run: Run,
    total: Totals,
    report: Report,
    nextest: Option<Nextest>,
}

/// Where in the output of one test binary we are.
#[derive(Default, PartialEq, Eq)]
enum Section {
    /// Before the first test binary.
    #[default]
    Build,
    /// Among the `test … ok` lines.
    Running,
    /// In the blocks with the captured output of tests that passed.
    Successes,
    /// In the blocks with the captured output of tests that failed; the number is the story's.
    Failures(Option<usize>),
    /// In the closing list of failed names.
    List,
    /// After the result line, when cargo speaks again.
    Done,
}

/// What nextest said so far.
#[derive(Default)]
struct Nextest {
    passed: u32,
    summary: Option<Totals>,
    /// The failed test whose output follows, and its story.
    current: Option<(String, usize)>,
}

#[derive(Default, Clone, Copy)]
struct Totals {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// One test binary.
#[derive(Default)]
struct Run {
    failed: Names,
    stories: Vec<Story>,
    story_of: HashMap<String, usize>,
    blocks: Names,
    /// Panics outside any block, which tests print that are not captured.
    loose: Panics,
    seen: Totals,
    /// A result line inside a block: a test's own output, unless the real one never comes.
    doubtful: Option<Totals>,
}

/// Names in the order seen, each once.
#[derive(Default)]
struct Names {
    order: Vec<String>,
    known: std::collections::HashSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        if self.known.insert(name.to_owned()) {
            self.order.push(name.to_owned());
        }
    }
}

impl Run {
    /// The number of this test's story. Lines are added by number, since a name may be long and its lines many.
    fn story(&mut self, name: &str) -> usize {
        let next = self.stories.len();
        let story = *self.story_of.entry(name.to_owned()).or_insert(next);
        if story == next {
            self.stories.push(Story::default());
        }
        story
    }

    fn tell(&mut self, story: usize, line: &str) {
        if let Some(story) = self.stories.get_mut(story) {
            story.line(line);
        }
    }
}

impl Libtest {
    /// Takes the next line and says what surrounds it.
    pub(super) fn line(&mut self, line: &str) -> Region {
        if line.starts_with(" Nextest run ID ")
            || line.starts_with("    Starting ") && line.contains(" tests across ")
        {
            self.nextest.get_or_insert_default();
        }
        if self.nextest.is_some() {
            self.nextest_line(line);
        } else {
            self.libtest_line(line);
        }
        match self.section {
            Section::Build | Section::Done => Region::Build,
            Section::Running | Section::List => Region::Tests,
            Section::Successes | Section::Failures(_) => Region::Captured,
        }
    }

    /// Adds what was found to the report.
    pub(super) fn finish(mut self, report: &mut Report) {
        self.close(None);
        if let Some(nextest) = &self.nextest {
            self.total.passed = nextest.passed;
            self.total = nextest.summary.unwrap_or(self.total);
        }
        report.tests = self.report.tests;
        report.tests_passed = self.total.passed;
        report.tests_failed = self.total.failed;
        report.tests_skipped = self.total.skipped;
    }

    fn libtest_line(&mut self, line: &str) {
        if is_start(line) {
            let inside = matches!(self.section, Section::Failures(_)) && self.run.doubtful.is_none();
            if !inside {
                self.close(None);
                self.section = Section::Running;
                return;
            }
        }
        if let Some(result) = result(line) {
            if matches!(self.section, Section::Failures(_)) {
                self.run.doubtful = Some(result);
            } else {
                self.close(Some(result));
                self.section = Section::Done;
            }
            return;
        }
        if line == "successes:" && self.section == Section::Running {
            self.section = Section::Successes;
            return;
        }
        if line == "failures:" {
            self.run.loose.stop();
            self.section = match self.section {
                Section::Failures(_) => Section::List,
                _ => Section::Failures(None),
            };
            return;
        }
        if let Some(name) = block(line) {
            // The heading above it may have been cut away, so any block counts that is not under `successes:`.
            if self.section != Section::Successes {
                self.run.doubtful = None;
                self.run.blocks.add(name);
                self.section = Section::Failures(Some(self.run.story(name)));
            }
            return;
        }
        match &self.section {
            Section::Running => self.running(line),
            Section::Failures(Some(story)) => self.run.tell(*story, line),
            Section::List => {
                if let Some(name) = line.strip_prefix("    ") {
                    self.run.failed.add(name);
                }
            }
            Section::Build | Section::Done | Section::Successes | Section::Failures(None) => {}
        }
    }

    /// A line while tests run: a result, or a panic that was not captured.
    fn running(&mut self, line: &str) {
        if let Some(name) = line.strip_suffix(" --- FAILED") {
            self.run.loose.stop();
            self.run.failed.add(name);
            self.run.seen.failed += 1;
        } else if let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            self.run.loose.stop();
            let name = [" - should panic", " - compile fail", " - compile"]
                .iter()
                .find_map(|mode| name.strip_suffix(mode))
                .unwrap_or(name);
            if outcome.starts_with("ok") {
                self.run.seen.passed += 1;
            } else if outcome.starts_with("FAILED") {
                self.run.failed.add(name);
                self.run.seen.failed += 1;
            } else if outcome.starts_with("ignored") {
                self.run.seen.skipped += 1;
            }
        } else if line == "FAILED" || line == "ok" || line.is_empty() || line.starts_with("error: ") {
            self.run.loose.stop();
        } else {
            self.run.loose.line(line);
        }
    }

    /// Nextest shows each failed test's libtest output indented, and the test's own output under `stderr ───`.
    fn nextest_line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        let Some(nextest) = &mut self.nextest else { return };
        if nextest.summary.is_some() {
            return;
        }
        if let Some((verb, rest)) = trimmed.split_once(" [")
            && line.starts_with("  ")
            && let Some((_, rest)) = rest.split_once("] ")
        {
            let passed = matches!(verb, "PASS" | "LEAK" | "SLOW" | "FLAKY");
            let failed = matches!(verb, "FAIL" | "TIMEOUT" | "ABORT") || verb.starts_with("SIG");
            if verb == "Summary" {
                nextest.summary = Some(summary(rest));
                self.close(None);
                self.section = Section::Done;
                return;
            }
            if passed || failed {
                let name = rest.rsplit(' ').next().unwrap_or(rest).to_owned();
                nextest.passed += u32::from(verb == "PASS");
                nextest.current = None;
                self.close(None);
                self.section = Section::Running;
                if failed {
                    self.run.failed.add(&name);
                    let story = self.run.story(&name);
                    self.nextest.get_or_insert_default().current = Some((name, story));
                }
                return;
            }
        }
        if let (Some((name, story)), Section::Running) = (&nextest.current, &self.section)
            && let Some(inner) = line.strip_prefix("    ")
        {
            let noise = is_start(inner)
                || result(inner).is_some()
                || inner == "failures:"
                || block(inner).is_some()
                || inner.starts_with("test ")
                || inner.strip_prefix("    ").is_some_and(|listed| listed == name);
            if !noise {
                self.run.tell(*story, inner);
            }
        }
    }

    /// Ends the run of one test binary.
    fn close(&mut self, result: Option<Totals>) {
        let mut run = std::mem::take(&mut self.run);
        let result = result.or(run.doubtful);
        let mut failed = std::mem::take(&mut run.failed);
        // Blocks name failures too; without a list of names they are all there is.
        if failed.order.is_empty() {
            failed = std::mem::take(&mut run.blocks);
        }
        for panic in std::mem::take(&mut run.loose.found) {
            if failed.known.contains(&panic.thread) {
                let story = run.story(&panic.thread);
                if let Some(story) = run.stories.get_mut(story) {
                    story.panics.found.push(panic);
                }
            }
        }
        let mut seen = run.seen;
        seen.failed = seen.failed.max(u32::try_from(failed.order.len()).unwrap_or(u32::MAX));
        self.total.add(result.unwrap_or(seen));
        let room = crate::MAX_ENTRIES.saturating_sub(self.report.tests.len());
        for name in failed.order.iter().take(room) {
            let story = run.story_of.get(name).and_then(|story| run.stories.get_mut(*story));
            let story = story.map(std::mem::take).unwrap_or_default();
            self.report.tests.push(story.tell(name));
        }
    }
}

/// `running 12 tests`.
fn is_start(line: &str) -> bool {
    line.strip_prefix("running ")
        .and_then(scan::number)
        .is_some_and(|(_, rest)| rest == " tests" || rest == " test")
}

/// `---- name stdout ----`.
fn block(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    inner.strip_suffix(" stdout").or(inner.strip_suffix(" stderr"))
}

/// `test result: FAILED. 1 passed; 10 failed; 1 ignored; …`.
fn result(line: &str) -> Option<Totals> {
    let (_, rest) = line.split_once("test result: ")?;
    let (_, rest) = rest.split_once(". ")?;
    let (passed, rest) = scan::number(rest)?;
    let (failed, rest) = scan::number(rest.strip_prefix(" passed; ")?)?;
    let (skipped, rest) = scan::number(rest.strip_prefix(" failed; ")?)?;
    rest.starts_with(" ignored").then_some(Totals { passed, failed, skipped })
}

/// `14 tests run: 3 passed (1 slow), 11 failed, 2 skipped`.
fn summary(text: &str) -> Totals {
    let mut totals = Totals::default();
    let counts = text.split_once(": ").map_or(text, |(_, counts)| counts);
    for (count, word) in counts.split(", ").filter_map(|part| scan::number(part.trim())) {
        let word = word.trim_start();
        if word.starts_with("passed") {
            totals.passed = count;
        } else if word.starts_with("failed")
            || word.starts_with("timed out")
            || word.starts_with("exec failed")
        {
            totals.failed = totals.failed.saturating_add(count);
        } else if word.starts_with("skipped") {
            totals.skipped = count;
        }
    }
    totals
}
