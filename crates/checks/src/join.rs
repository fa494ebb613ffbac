//! One report of an output that several tools wrote, as a Makefile or a script makes it: what the others found is added to
//! what the one found that found most.

use std::collections::{HashMap, HashSet};

use protocol::{Diagnostic, Report, Severity};

use crate::MAX_ENTRIES;

/// Most bytes of a message that are compared.
const COMPARED: usize = 160;

/// About as many bytes of what tests say are looked at.
const QUOTED: usize = 64 * 1024;

/// Parsers of which the first reads what the second does, too.
const ALIKE: &[(&str, &str)] = &[("node-test", "tap"), ("gradle", "javac"), ("vitest", "jest")];

/// Whether both read the same lines, so that what one found is what the other did.
fn are_alike(one: &str, other: &str) -> bool {
    ALIKE.iter().any(|pair| *pair == (one, other) || *pair == (other, one))
}

/// Adds to a report what another tool said in the same output, and what the first does not have: parsers read each other's
/// lines where they look alike.
pub(crate) fn join(report: &mut Report, other: Report) {
    if are_alike(&report.parser, &other.parser) {
        return;
    }
    // What a test quotes of another tool was not said by that tool here.
    let (ours, theirs) = (quoted(report), quoted(&other));
    report.diagnostics.retain(|found| !is_in(found, &theirs));
    let names: HashSet<&str> = report.tests.iter().map(|test| test.name.as_str()).collect();
    let places: HashSet<(&str, u32)> =
        report.tests.iter().filter_map(|test| Some((test.file.as_deref()?, test.line?))).collect();
    let has = |name: &str, file: Option<&str>, line: Option<u32>| {
        names.contains(name) || file.zip(line).is_some_and(|place| places.contains(&place))
    };
    let of_both = other.tests.iter().any(|test| has(&test.name, test.file.as_deref(), test.line));
    let mut known: HashMap<(&str, u32), Vec<&str>> = HashMap::new();
    for found in &report.diagnostics {
        if let (Some(file), Some(line)) = (&found.file, found.line) {
            known.entry((file, line)).or_default().push(begin(&found.message));
        }
    }
    let is_new = |found: &Diagnostic| {
        // Without a place nobody can tell whose it is.
        let (Some(file), Some(line)) = (found.file.as_deref(), found.line) else { return false };
        let said = begin(&found.message);
        let told = known.get(&(file, line)).map(Vec::as_slice).unwrap_or_default();
        found.severity != Severity::Note
            && !places.contains(&(file, line))
            && !is_in(found, &ours)
            && !told.iter().any(|known| known.contains(said) || said.contains(known))
    };
    let diagnostics: Vec<_> = other.diagnostics.into_iter().filter(is_new).collect();
    let tests: Vec<_> =
        other.tests.into_iter().filter(|test| !has(&test.name, test.file.as_deref(), test.line)).collect();
    report.diagnostics.extend(diagnostics);
    report.diagnostics.sort_by_key(|found| found.severity != Severity::Error);
    report.diagnostics.truncate(MAX_ENTRIES);
    report.tests.extend(tests);
    report.tests.truncate(MAX_ENTRIES);
    if !of_both {
        report.tests_passed = report.tests_passed.saturating_add(other.tests_passed);
        report.tests_failed = report.tests_failed.saturating_add(other.tests_failed);
        report.tests_skipped = report.tests_skipped.saturating_add(other.tests_skipped);
    }
}

/// What the tests of a report say, the beginning of it.
fn quoted(report: &Report) -> String {
    let mut quoted = String::new();
    for test in &report.tests {
        if quoted.len() < QUOTED {
            let texts = [Some(&test.message), test.expected.as_ref(), test.actual.as_ref()];
            texts.into_iter().flatten().for_each(|text| quoted.push_str(text));
        }
    }
    quoted
}

/// Whether these texts have what a diagnostic says, with its place.
fn is_in(found: &Diagnostic, texts: &str) -> bool {
    let (Some(file), Some(line)) = (&found.file, found.line) else { return false };
    !texts.is_empty() && texts.contains(begin(&found.message)) && texts.contains(&format!("{file}:{line}"))
}

fn begin(message: &str) -> &str {
    let line = message.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(COMPARED)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_test_quotes_of_another_tool_is_not_told_as_that_tools() {
        let text = "running 1 test\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n\nthread 'a' (7) panicked at src/lib.rs:9:5:\nthe compiler says: main.c:3:4: error: expected ';'\nmain.c:3:4: error: expected ';'\n\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        let report = crate::parse("auto", text).unwrap();
        assert_eq!((report.parser.as_str(), report.tests.len()), ("cargo", 1), "{report:?}");
        assert_eq!(report.diagnostics, []);
        // Said beside it, it is.
        let both =
            crate::parse("auto", &format!("main.c:3:4: error: unknown type name 'x'\n{text}")).unwrap();
        assert_eq!((both.tests.len(), both.diagnostics.len()), (1, 1), "{both:?}");
    }
}
