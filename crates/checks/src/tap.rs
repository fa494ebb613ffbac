//! TAP, the Test Anything Protocol, versions 12 to 14: numbered results, subtests by indentation, and why a test failed
//! as YAML or as comments below it.

use protocol::{Diagnostic, Report, Severity};

use crate::cases::{Cases, carried, failed};
use crate::findings::Findings;
use crate::node_test::{Spoken, is_of_file};
use crate::{Parser, js, scan};

/// The parser `tap`.
pub(crate) struct Tap;

impl Parser for Tap {
    fn name(&self) -> &'static str {
        "tap"
    }

    fn recognises(&self, output: &str) -> bool {
        let (mut planned, mut result) = (false, false);
        for line in output.lines() {
            if line.starts_with("TAP version ") {
                return true;
            }
            planned |= plan(line);
            result |= point(line).is_some_and(|point| point.numbered);
        }
        planned && result
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader.settle();
        let mut cases = reader.cases;
        if let Some(test) = cases.last_mut() {
            test.message.truncate(test.message.trim_end().len());
        }
        reader.spoken.findings(&cases).into_iter().for_each(|found| reader.findings.push(found));
        cases.report(reader.findings.into_vec())
    }
}

/// What a line that is neither a result nor a plan belongs to.
#[derive(Default, PartialEq, Eq)]
enum Told {
    /// Nothing.
    #[default]
    Nothing,
    /// A failed test's comments.
    Comments,
    /// A YAML block, which is a failed test's if its result was one that counts.
    Yaml { indent: usize, counts: bool },
}

#[derive(Default)]
struct Reader {
    cases: Cases,
    findings: Findings,
    told: Told,
    /// The last result may still get a YAML block, which is the failed test's if it failed.
    after_failure: bool,
    /// The key of the YAML block whose value goes on over several lines, and its indentation.
    key: Option<(String, usize)>,
    /// Indentation and name of the subtests around the line.
    around: Vec<(usize, String)>,
    /// Indentation of the result before; a result further left closes a subtest.
    depth: usize,
    /// What Node's runner passes on of what the files printed, before the results.
    spoken: Spoken,
    /// How the process of the file ended that the YAML block is about.
    exit: String,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Told::Yaml { indent: begun, counts } = self.told {
            if text == "..." && indent <= begun {
                // The block was the explanation; comments below it are about what comes next.
                self.told = Told::Nothing;
                self.after_failure = counts;
                self.settle();
            } else if counts {
                self.yaml(line, indent);
            }
            return;
        }
        if text == "---" {
            self.told = Told::Yaml { indent, counts: self.after_failure };
            self.key = None;
        } else if let Some(name) =
            text.strip_prefix("# Subtest: ").or_else(|| text.strip_prefix("# Subtest "))
        {
            self.around.retain(|(depth, _)| *depth < indent);
            self.around.push((indent, unescape(carried(name))));
            self.told = Told::Nothing;
        } else if let Some(point) = point(text) {
            self.point(&point, indent);
        } else if text == "}" {
            // The result stood above, so the next one at this depth is a test of its own.
            self.around.retain(|(depth, _)| *depth < indent);
            self.depth = indent;
            self.told = Told::Nothing;
        } else if plan(text) {
            // What is said below it is about all of them.
            self.told = Told::Nothing;
        } else if let Some(why) = text.strip_prefix("Bail out!") {
            self.told = Told::Nothing;
            self.findings.push(Diagnostic {
                severity: Severity::Error,
                file: None,
                line: None,
                column: None,
                code: None,
                message: format!("Bail out! {}", why.trim()).trim_end().to_owned(),
                ..Diagnostic::default()
            });
        } else if let Some(comment) = text.strip_prefix('#') {
            if self.told == Told::Comments {
                self.comment(comment);
            }
            let comment = comment.strip_prefix(' ').unwrap_or(comment);
            self.spoken.line(&comment.replace("\\#", "#"));
        } else {
            // A program that runs its tests itself crashes without a sign before its words.
            self.spoken.line(line);
        }
    }

    /// What is known of a file whose process failed is what it printed.
    fn settle(&mut self) {
        let exit = std::mem::take(&mut self.exit);
        if !std::mem::take(&mut self.after_failure) {
            return;
        }
        if let Some(test) = self.cases.last_mut().filter(|test| is_of_file(test)) {
            self.spoken.tell(test, &exit);
        }
    }

    fn point(&mut self, point: &Point<'_>, indent: usize) {
        let closes = indent < self.depth;
        self.depth = indent;
        // Perl names a subtest below its results, others above; either way its own result only sums up.
        self.around.retain(|(depth, _)| *depth < indent);
        self.told = Told::Nothing;
        self.after_failure = false;
        if point.opens {
            self.around.push((indent, unescape(point.name)));
            return;
        }
        if closes {
            return;
        }
        if point.ok || !js::is_script(point.name) {
            self.spoken.result();
        }
        if point.skipped {
            self.cases.skip();
        } else if point.ok {
            self.cases.pass();
        } else {
            let mut name = String::new();
            for (_, outer) in &self.around {
                name.push_str(outer);
                name.push_str(" > ");
            }
            name.push_str(&unescape(point.name));
            self.cases.push(failed(&name));
            self.told = Told::Comments;
            self.after_failure = true;
        }
    }

    fn yaml(&mut self, line: &str, indent: usize) {
        let text = &line[indent..];
        let Some(test) = self.cases.last_mut() else { return };
        if let Some((key, begun)) = &self.key
            && (indent > *begun || text.is_empty())
        {
            match key.as_str() {
                "error" | "message" => {
                    scan::push_line(&mut test.message, line.get(begun + 2..).unwrap_or(text).trim_end());
                }
                "stack" => {
                    // The first frame of the project is where it failed; the location is only where the test begins.
                    if let Some(place) = js::own_frame(text) {
                        (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
                        self.key = None;
                    }
                }
                _ => {}
            }
            return;
        }
        self.key = None;
        let Some((key, value)) = text.split_once(':') else { return };
        let value = value.trim();
        // Parts with names of their own, among them the message.
        if key == "error" && value.is_empty() {
            return;
        }
        if matches!(value, "" | "|" | "|-" | ">" | ">-") {
            self.key = Some((key.to_owned(), indent));
            return;
        }
        let value = unquote(value);
        // A value that goes on over several lines is left out.
        if value.starts_with('"') {
            return;
        }
        match key {
            "error" | "message" => scan::push_line(&mut test.message, value),
            "expected" | "wanted" => test.expected = Some(value.to_owned()),
            "actual" | "found" => test.actual = Some(value.to_owned()),
            "location" | "at" => {
                if let Some(place) = scan::place(value).filter(|_| test.line.is_none()) {
                    (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
                }
            }
            "exitCode" if value != "~" => self.exit = format!("exit code {value}"),
            "signal" if value != "~" => self.exit = format!("signal {value}"),
            "file" => test.file = Some(value.to_owned()),
            "line" => test.line = value.parse().ok(),
            _ => {}
        }
    }

    /// `#   at t/till.t line 3.`, `#          got: '3'` and any other comment below a failed test.
    fn comment(&mut self, comment: &str) {
        let Some(test) = self.cases.last_mut() else { return };
        let text = comment.trim();
        let place = text.strip_prefix("at ").and_then(|text| text.strip_suffix('.')).and_then(|text| {
            let (file, line) = text.rsplit_once(" line ")?;
            Some((file, line.parse::<u32>().ok()?))
        });
        if let Some((file, line)) = place {
            (test.file, test.line) = (Some(file.to_owned()), Some(line));
        } else if let Some(value) = text.strip_prefix("got: ") {
            test.actual = Some(unquote(value).to_owned());
        } else if let Some(value) = text.strip_prefix("expected: ") {
            test.expected = Some(unquote(value).to_owned());
        } else if !text.is_empty()
            && !text.starts_with("Failed test ")
            && !text.starts_with("Looks like you ")
        {
            scan::push_line(&mut test.message, text);
        }
    }
}

/// Whether the line says how many tests there are, `1..3`.
fn plan(line: &str) -> bool {
    let rest = line.strip_prefix("1..").and_then(scan::number).map(|(_, rest)| rest);
    rest.is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('#'))
}

/// One result.
struct Point<'a> {
    ok: bool,
    numbered: bool,
    skipped: bool,
    /// The tests that it sums up follow in braces.
    opens: bool,
    name: &'a str,
}

/// Reads `not ok 3 - name # SKIP why` and `ok 1 - name # time=2ms {`.
fn point(line: &str) -> Option<Point<'_>> {
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let (numbered, rest) = scan::number(rest).map_or((false, rest), |(_, rest)| (true, rest));
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (rest, opens) = rest.trim_end().strip_suffix(" {").map_or((rest, false), |rest| (rest, true));
    let (name, directive) = match rest.rsplit_once("# ").filter(|(name, _)| !name.ends_with('\\')) {
        Some((name, directive)) if is_directive(directive) => (name, Some(directive)),
        Some((name, directive)) if directive.starts_with("time=") => (name, None),
        _ => (rest, None),
    };
    Some(Point { ok, numbered, skipped: directive.is_some(), opens, name: name.trim() })
}

/// Whether the text says that the test does not count.
fn is_directive(text: &str) -> bool {
    ["skip", "todo"].iter().any(|word| text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(word)))
}

fn unescape(name: &str) -> String {
    name.trim().replace("\\#", "#").replace("\\\\", "\\")
}

fn unquote(value: &str) -> &str {
    let value = value.trim();
    ['\'', '"'].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_with_and_without_numbers_and_directives() {
        let told = |line| point(line).map(|point| (point.ok, point.skipped, point.name));
        assert_eq!(told("not ok 3 - a - b"), Some((false, false, "a - b")));
        assert_eq!(told("ok"), Some((true, false, "")));
        assert_eq!(told("ok 2 # skip no network"), Some((true, true, "")));
        assert_eq!(told("not ok 2 - a # TODO"), Some((false, true, "a")));
        assert_eq!(told("ok 1 - a \\# todo"), Some((true, false, "a \\# todo")));
        assert_eq!(told("okay then"), None);
        assert_eq!(told("not ok 1 - a # time=5.98ms {"), Some((false, false, "a")));
        assert!(point("ok 1 - a {").is_some_and(|point| point.opens && point.name == "a"));
        assert_eq!(told("ok 1 - é# sk"), Some((true, false, "é# sk")));
    }

    #[test]
    fn prose_is_not_recognised() {
        assert!(!Tap.recognises("ok\nnot ok, says he\n1..2 of them\n"));
        assert!(Tap.recognises("1..2\nok 1\n"));
    }
}
