//! Checks that failed and of which their tool's parser found nothing that did: a step after the tests, a threshold, a script.
//! What that printed is read by the fallback, and shown as it is.

use protocol::{Report, Severity};

use crate::clean::{clean, tail};
use crate::fallback::Fallback;
use crate::{MAX_TAIL, Parser, digest, join, parse};

/// Most bytes of the output's end in which it is looked for the last result.
const LOOKED_AT: usize = 64 * 1024;
/// Most bytes that are shown of the beginning of an output.
const HEAD: usize = 1024;

/// Whether a report says of something that it failed.
pub fn names_a_failure(report: &Report) -> bool {
    report.tests_failed > 0
        || !report.tests.is_empty()
        || report.diagnostics.iter().any(|found| found.severity == Severity::Error)
}

/// Adds to the report of a check that failed what stands after the last result that its parser knows. Nothing where the
/// parser found what failed.
pub fn explain(report: &mut Report, output: &str) {
    if names_a_failure(report) || report.parser == "fallback" {
        return;
    }
    let output = clean(output);
    let mut other = Fallback.parse(after_the_last(&report.parser, tail(&output, LOOKED_AT)));
    other.diagnostics.retain(|found| found.severity == Severity::Error);
    let found = Report { diagnostics: other.diagnostics, parser: "fallback".to_owned(), ..Report::default() };
    join::join(report, found);
}

/// What stands after the last line from which on a parser still finds something. It is looked for by halves, so that a long
/// output is read a few times and not once for each line.
fn after_the_last<'a>(parser: &str, output: &'a str) -> &'a str {
    let tells = |text: &str| {
        parse(parser, text).is_some_and(|report| {
            report.parser == parser
                && (report.tests_passed > 0 || report.tests_skipped > 0 || !report.diagnostics.is_empty())
        })
    };
    let mut starts = vec![0];
    starts.extend(output.match_indices('\n').map(|(at, _)| at + 1));
    let last = starts.partition_point(|start| tells(&output[*start..]));
    starts.get(last).map_or("", |start| &output[*start..])
}

/// The beginning and the end of what a check printed that failed and did not say of what, as a model reads it.
pub fn unexplained(output: &str) -> String {
    let output = clean(output);
    let text = output.trim();
    let printed = if text.len() <= HEAD + MAX_TAIL {
        text.to_owned()
    } else {
        let head = &text[..text.floor_char_boundary(HEAD)];
        let head = head.rsplit_once('\n').map_or(head, |(whole, _)| whole);
        let end = tail(text, MAX_TAIL);
        let left = text.len() - head.len() - end.len();
        format!("{head}\n[… {left} bytes are left out here …]\n{end}")
    };
    if printed.is_empty() {
        return "It failed and printed nothing.".to_owned();
    }
    format!(
        "No test failed, and no error was recognised, so something else in this output is why it failed:\n{printed}"
    )
}

/// The digest of a check that failed: with the end of its output where nothing in it is known to have failed.
pub fn digest_failed(report: &Report) -> String {
    let text = digest(report);
    let end = report.tail.trim();
    if names_a_failure(report) || end.is_empty() || text.contains(end) {
        return text;
    }
    format!("{text}\nwhat failed was not recognised; the output ends with:\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n";

    fn explained(output: &str) -> Report {
        let mut report = parse("auto", output).unwrap();
        explain(&mut report, output);
        report
    }

    #[test]
    fn what_comes_after_the_tests_is_read_and_shown() {
        let output =
            format!("{TESTS}thread 'main' panicked at xtask/src/main.rs:9:5:\nthe schema is stale\n");
        let report = explained(&output);
        assert_eq!((report.parser.as_str(), report.tests_passed), ("cargo", 1));
        let found: Vec<(Option<&str>, &str)> =
            report.diagnostics.iter().map(|one| (one.file.as_deref(), one.message.as_str())).collect();
        assert_eq!(found, [(Some("xtask/src/main.rs"), "the schema is stale")]);

        let ends = "+ ./scripts/schema.sh\nthe schema is older than the code";
        let output = format!("{TESTS}{ends}\n");
        let report = explained(&output);
        assert!(!names_a_failure(&report), "{report:?}");
        assert!(unexplained(&output).ends_with(ends));
        assert!(digest_failed(&report).starts_with("1 test passed\nwhat failed was not recognised"));
        assert!(digest_failed(&report).ends_with(ends));
    }

    #[test]
    fn what_tests_printed_before_their_result_is_not_why_a_later_step_failed() {
        let output = format!("src/a.rs:3: error: expected by a test\n{TESTS}not formatted\n");
        let before = parse("cargo", &output).unwrap();
        let mut report = before.clone();
        explain(&mut report, &output);
        assert_eq!(report, before);
    }

    #[test]
    fn a_report_that_names_what_failed_is_left_as_it_is() {
        let output = "a.c:3:4: error: expected ';'\nb.c:1:1: error: unknown type name 'x'\n";
        let before = parse("auto", output).unwrap();
        assert_eq!(explained(output), before);
        assert_eq!(digest_failed(&before), digest(&before));
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let output = format!("first\n{}last\n", "line\n".repeat(10_000));
        let text = unexplained(&output);
        assert!(text.contains("failed:\nfirst\n") && text.ends_with("line\nlast"), "{text}");
        assert!(text.contains("bytes are left out here") && text.len() < 6 * 1024, "{}", text.len());
        assert_eq!(unexplained("\n"), "It failed and printed nothing.");
    }
}
