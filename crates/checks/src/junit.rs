//! JUnit's XML, as test runners of all languages write it in slightly different ways. The reader is tolerant: it wants
//! tags and attributes, no valid document, and expands nothing but the five named and the numbered entities.

use protocol::{Report, TestCase};

use crate::cases::{Cases, carried, failed};
use crate::node_test::{Spoken, is_of_file};
use crate::{Parser, js, places, scan};

/// The parser `junit`.
pub(crate) struct Junit;

impl Parser for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn recognises(&self, output: &str) -> bool {
        output.lines().any(|line| {
            let line = line.trim_start();
            line.starts_with("<testsuite") || (line.starts_with("<?xml") && line.contains("<testsuite"))
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        Pieces(output).for_each(|piece| reader.piece(&piece));
        reader.close();
        reader.cases.report(Vec::new())
    }
}

/// A piece of the document.
enum Piece<'a> {
    /// A tag's name, its attributes, and whether it has no content.
    Open(&'a str, &'a str, bool),
    /// The name of a tag that ends.
    Close(&'a str),
    /// Text with entities.
    Text(&'a str),
    /// Text as it is.
    Raw(&'a str),
}

/// Splits a document into its pieces, looking at each byte once; at what never ends the document ends.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            let text = self.0;
            if text.is_empty() {
                return None;
            }
            let Some(rest) = text.strip_prefix('<') else {
                let (piece, rest) = text.split_at(text.find('<').unwrap_or(text.len()));
                self.0 = rest;
                return Some(Piece::Text(piece));
            };
            // Whatever does not end takes the rest with it.
            self.0 = "";
            if let Some(rest) = rest.strip_prefix("![CDATA[") {
                let (raw, rest) = rest.split_once("]]>")?;
                self.0 = rest;
                return Some(Piece::Raw(raw));
            }
            if let Some(rest) = rest.strip_prefix("!--") {
                self.0 = rest.split_once("-->")?.1;
                continue;
            }
            let end = tag_end(rest)?;
            let (tag, rest) = (&rest[..end], &rest[end + 1..]);
            self.0 = rest;
            if tag.starts_with(['?', '!']) {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                return Some(Piece::Close(name.trim()));
            }
            let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let (name, attributes) = tag.split_at(tag.find(char::is_whitespace).unwrap_or(tag.len()));
            return Some(Piece::Open(name, attributes, empty));
        }
    }
}

/// Where the tag ends: at the first `>` outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    text.bytes().position(|byte| {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return true,
            (Some(_) | None, _) => {}
        }
        false
    })
}

/// The value of an attribute, decoded.
fn attribute(attributes: &str, wanted: &str) -> Option<String> {
    let mut rest = attributes;
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, next) = after[1..].split_once(quote)?;
        if name.trim() == wanted {
            return Some(decode(value));
        }
        rest = next;
    }
    None
}

/// Replaces the entities that XML knows without a document type; leaves others as they are.
fn decode(text: &str) -> String {
    const LONGEST: usize = 10;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let head = &after[..after.floor_char_boundary(LONGEST)];
        let known = head.find(';').and_then(|end| Some((entity(&after[..end])?, end + 1)));
        match known {
            Some((c, length)) => {
                out.push(c);
                rest = &after[length..];
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    // A numbered entity can spell what was cleaned away before, so what it spells is cleaned again.
    crate::clean(&out)
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        name => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            code.ok().and_then(char::from_u32)
        }
    }
}

/// A `testcase` while its content comes in.
struct Open {
    test: TestCase,
    outcome: Outcome,
    /// The text of the failure.
    body: String,
    /// Whether the text under way is the failure's.
    in_body: bool,
}

/// How a test case ended; being skipped outweighs a failure, which is how a known failure is told.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

#[derive(Default)]
struct Reader {
    cases: Cases,
    open: Option<Open>,
    /// The suite's name, if it is a file's.
    suite: Option<String>,
}

impl Reader {
    fn piece(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Open("testcase", attributes, empty) => {
                self.close();
                let mut open = begin(attributes);
                if open.test.line.is_some() && open.test.file.is_none() {
                    // A linter's suite is a file.
                    open.test.file = self.suite.as_deref().map(|suite| carried(suite).to_owned());
                }
                self.open = Some(open);
                if *empty {
                    self.close();
                }
            }
            Piece::Open("testsuite", attributes, _) => {
                self.suite = attribute(attributes, "name").filter(|name| places::is_path(name));
            }
            Piece::Open(tag @ ("failure" | "error" | "skipped"), attributes, empty) => {
                let Some(open) = &mut self.open else { return };
                if *tag == "skipped" {
                    open.outcome = Outcome::Skipped;
                    return;
                }
                if open.outcome == Outcome::Passed {
                    open.outcome = Outcome::Failed;
                }
                let message = attribute(attributes, "message").or_else(|| attribute(attributes, "type"));
                message
                    .into_iter()
                    .for_each(|message| scan::push_line(&mut open.test.message, message.trim()));
                open.in_body = !*empty;
            }
            Piece::Close("testcase") => self.close(),
            Piece::Close("failure" | "error") => {
                if let Some(open) = &mut self.open {
                    open.in_body = false;
                }
            }
            Piece::Text(text) => self.text(&decode(text)),
            Piece::Raw(text) => self.text(text),
            Piece::Open(..) | Piece::Close(_) => {}
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(open) = self.open.as_mut().filter(|open| open.in_body) {
            text.lines().for_each(|line| scan::push_line(&mut open.body, line));
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        match open.outcome {
            Outcome::Passed => self.cases.pass(),
            Outcome::Skipped => self.cases.skip(),
            Outcome::Failed => self.cases.push(told(open.test, &open.body)),
        }
    }
}

fn begin(attributes: &str) -> Open {
    let name = attribute(attributes, "name").unwrap_or_default();
    let class = attribute(attributes, "classname").filter(|class| *class != name && class != "test");
    let name = match class {
        Some(class) if class.is_empty() => name,
        Some(class) if class.contains('/') => format!("{class} > {name}"),
        Some(class) => format!("{class}.{name}"),
        None => name,
    };
    let mut test = failed(&name);
    test.file = attribute(attributes, "file").or_else(|| attribute(attributes, "filepath"));
    test.line = attribute(attributes, "line").and_then(|line| line.parse().ok());
    Open { test, outcome: Outcome::Passed, body: String::new(), in_body: false }
}

/// Finds the place in the failure's text, and what was compared.
fn told(mut test: TestCase, body: &str) -> TestCase {
    if let Some(panic) = crate::cargo::panicked(body).filter(|_| test.line.is_none()) {
        return TestCase { name: test.name, ..panic };
    }
    if test.message.is_empty() {
        body.trim().clone_into(&mut test.message);
    }
    if test.line.is_none() {
        let frame = body.lines().find_map(own_frame);
        // Python tells the innermost place last.
        let place = frame.or_else(|| body.lines().filter_map(python_place).next_back());
        if let Some((file, line)) = place {
            (test.file, test.line) = (Some(file.to_owned()), Some(line));
        }
    }
    if is_of_file(&test) {
        // Node's reporter leaves out what the file printed.
        let exit = body.split_once("exitCode: ").and_then(|(_, rest)| scan::number(rest));
        let exit = exit.map_or_else(String::new, |(code, _)| format!("exit code {code}"));
        Spoken::default().tell(&mut test, &exit);
    }
    crate::javac::values(&mut test);
    test
}

fn own_frame(line: &str) -> Option<(&str, u32)> {
    let place = js::frame(line).filter(|place| !crate::javac::is_library(line) && js::is_own(place.file))?;
    Some((place.file, place.line))
}

fn python_place(line: &str) -> Option<(&str, u32)> {
    let place = scan::python_frame(line).or_else(|| {
        scan::place(line).filter(|place| place.rest.starts_with(": ") && !place.file.contains(' '))
    })?;
    Some((place.file, place.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_decoded_once_and_unknown_ones_stay() {
        assert_eq!(decode("&lt;a&gt; &amp;lt; &#65;&#x42; &eacute; &"), "<a> &lt; AB &eacute; &");
        assert_eq!(decode("&#27;[31m&#xD800;&#99999999999;é&é;"), "&#xD800;&#99999999999;é&é;");
    }

    #[test]
    fn a_greater_sign_in_an_attribute_and_a_cut_document_are_survived() {
        let text = r#"<testsuite><testcase name="a > b"><failure message='no'><![CDATA[x]]></failure></testcase><testcase name="c"><error message="gone"#;
        let report = Junit.parse(text);
        assert_eq!((report.tests_failed, report.tests_passed), (1, 1));
        assert_eq!(report.tests[0].name, "a > b");
    }

    #[test]
    fn the_projects_own_frame_is_the_place() {
        let text = "<testsuite><testcase classname=\"shop.TillTest\" name=\"adds\"><failure message=\"expected: &lt;5&gt; but was: &lt;3&gt;\">\n\tat org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:39)\n\tat shop.TillTest.adds(TillTest.java:5)\n</failure></testcase></testsuite>";
        let test = &Junit.parse(text).tests[0];
        assert_eq!(
            (test.name.as_str(), test.file.as_deref(), test.line),
            ("shop.TillTest.adds", Some("TillTest.java"), Some(5))
        );
        assert_eq!((test.expected.as_deref(), test.actual.as_deref()), (Some("5"), Some("3")));
    }
}
