//! What ended a program, as runtimes tell it: an exception or a crash in a line or a few, then the stack, innermost first. Node's
//! also begins with the place, which for an error of syntax is the only one.

pub(crate) mod frames;

use protocol::{Diagnostic, Severity};

use crate::scan;
use frames::{Frame, frame, is_own, without_process};

/// Most lines of a message above its stack.
const MAX_LINES: usize = 16;
/// Most lines between Node's place and the error: the code, a caret and an empty line.
const MAX_HEAD: usize = 8;
/// Most lines that are told of a sanitizer's further stacks.
const MAX_MORE: usize = 8;

/// What ended a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Raised {
    /// The innermost file of the project, and its line, where it is told.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    /// What was said, and where the outermost call in the project was.
    pub(crate) message: String,
    /// Whether the program said that it ended with that, as Node does.
    pub(crate) ended: bool,
}

/// What a line is to the reader of traces.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Line {
    /// A part of a stack.
    Part,
    /// Something else, perhaps the message of a stack below.
    Other,
}

/// Reads traces out of lines.
#[derive(Default)]
pub(crate) struct Traces {
    /// What was said last: an error with what follows it, or else the last line.
    said: String,
    /// How many lines of that; none when it is no error.
    error_lines: usize,
    /// The place in a line of its own above, and how many lines ago.
    head: Option<(String, u32, Option<u32>)>,
    head_lines: usize,
    open: Option<Open>,
    /// What a sanitizer found, to which further stacks belong, and how many there were.
    sanitizer: Option<(Raised, usize)>,
    done: Vec<Raised>,
}

/// A stack under way.
struct Open {
    raised: Raised,
    outermost: Option<(String, u32)>,
    /// The next own frame is nearer to the reason than the one that is known.
    deeper: bool,
    go: bool,
}

impl Traces {
    /// Takes a line.
    pub(crate) fn line(&mut self, line: &str) -> Line {
        if let Some(frame) = frame(line) {
            self.frame(&frame);
            return Line::Part;
        }
        if let Some(open) = &mut self.open
            && open.goes_on(line)
        {
            return Line::Part;
        }
        self.close();
        if line.starts_with("goroutine ") && line.ends_with("]:") {
            // Those after the first are about nothing new.
            self.begin();
            self.open.as_mut().into_iter().for_each(|open| open.go = true);
            return Line::Part;
        }
        self.say(line);
        Line::Other
    }

    /// What was said is about no stack: another reader knows it.
    pub(crate) fn forget(&mut self) {
        self.said.clear();
        self.error_lines = 0;
        self.head = None;
    }

    /// What was found so far.
    pub(crate) fn take(&mut self) -> Vec<Raised> {
        std::mem::take(&mut self.done)
    }

    /// What was found, with what is under way: no line follows, or what follows is of another program.
    pub(crate) fn finish(&mut self) -> Vec<Raised> {
        self.close();
        if self.head.is_some() && self.error_lines > 0 {
            self.begin();
            self.close();
        }
        self.done.extend(self.sanitizer.take().map(|(raised, _)| raised));
        self.forget();
        self.take()
    }

    fn begin(&mut self) {
        let message = std::mem::take(&mut self.said);
        self.error_lines = 0;
        let (mut file, mut line, mut column) = (None, None, None);
        if let Some(head) = self.head.take() {
            (file, line, column) = (Some(head.0), Some(head.1), head.2);
        }
        let raised = Raised { file, line, column, message, ended: false };
        self.open = Some(Open { raised, outermost: None, deeper: false, go: false });
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        if self.open.is_none() {
            // A stack of nothing is a second one of the same error, such as another goroutine's.
            if self.said.is_empty() {
                return;
            }
            self.begin();
        }
        let Some(open) = &mut self.open else { return };
        let Some(place) = frame.place.as_ref().filter(|_| frame.own) else { return };
        if open.raised.line.is_none() || open.deeper {
            open.raised.file = Some(place.file.to_owned());
            (open.raised.line, open.raised.column) = (Some(place.line), place.column);
            (open.outermost, open.deeper) = (None, false);
        } else {
            open.outermost = Some((place.file.to_owned(), place.line));
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut raised = open.raised;
        if raised.message.is_empty() {
            return;
        }
        if let Some((known, stacks)) = &mut self.sanitizer {
            let last = raised.message.lines().next_back().unwrap_or_default();
            if let (Some(file), Some(line)) = (&raised.file, raised.line) {
                *stacks += 1;
                if *stacks <= MAX_MORE {
                    scan::push_line(&mut known.message, &format!("{} {file}:{line}", last.trim()));
                }
            }
            return;
        }
        if raised.line.is_none() {
            // Node's loader names who asked for what is not there.
            raised.file = imported_from(&raised.message);
        }
        if let Some((file, line)) = open.outermost {
            scan::push_line(&mut raised.message, &format!("called from {file}:{line}"));
        }
        if is_sanitizers(&raised.message) {
            raised.message = without_addresses(&raised.message);
            self.sanitizer = Some((raised, 0));
        } else {
            self.done.push(raised);
        }
    }

    fn say(&mut self, line: &str) {
        let process = without_process(line);
        let text = process.unwrap_or(line).trim_end();
        if text.starts_with("Node.js v") {
            // Also what is thrown and no error has a place above.
            if self.head.is_some() && !self.said.is_empty() {
                self.begin();
                self.close();
            }
            self.done.last_mut().into_iter().for_each(|raised| raised.ended = true);
        }
        if text.starts_with("Node.js v") || text.starts_with("SUMMARY: ") {
            self.done.extend(self.sanitizer.take().map(|(raised, _)| raised));
            self.forget();
            return;
        }
        if text.trim().is_empty() || is_label(text.trim()) {
            return;
        }
        if let Some(place) = alone(text) {
            self.forget();
            self.head = is_own(place.file).then(|| (place.file.to_owned(), place.line, place.column));
            self.head_lines = 0;
            return;
        }
        self.head_lines += 1;
        if self.head_lines > MAX_HEAD && self.error_lines == 0 {
            self.head = None;
        }
        if is_error(text) {
            let done = self.sanitizer.take_if(|_| is_sanitizers(text));
            self.done.extend(done.map(|(raised, _)| raised));
            clip(text.trim_start()).clone_into(&mut self.said);
            self.error_lines = 1;
        } else if (1..MAX_LINES).contains(&self.error_lines) {
            scan::push_line(&mut self.said, text);
            self.error_lines += 1;
        } else {
            clip(text.trim_start()).clone_into(&mut self.said);
            self.error_lines = 0;
        }
    }
}

impl Open {
    /// Whether the line belongs to the stack, though it is no frame.
    fn goes_on(&mut self, line: &str) -> bool {
        let text = line.trim();
        if text.starts_with("Caused by: ") || text.starts_with("[cause]: ") {
            scan::push_line(&mut self.raised.message, text);
            self.deeper = true;
            return true;
        }
        let more =
            text.starts_with("... ") && (text.ends_with(" more") || text.ends_with(" common frames omitted"));
        // In Go, the function stands above each place.
        let called = self.go
            && (text.starts_with("created by ")
                || text.starts_with("goroutine ")
                || (!line.starts_with(' ') && text.ends_with(')')));
        more || called || is_label(text)
    }
}

impl From<Raised> for Diagnostic {
    fn from(raised: Raised) -> Self {
        let (severity, file) = (severity_of(&raised.message), raised.file);
        Self {
            severity,
            file,
            line: raised.line,
            column: raised.column,
            message: raised.message,
            ..Self::default()
        }
    }
}

/// How bad it is by its first line: traces are also printed with warnings.
fn severity_of(message: &str) -> Severity {
    let first = message.lines().next().unwrap_or_default();
    if first.starts_with("Trace: ") {
        return Severity::Note;
    }
    let warns = first.contains("Warning: ") && !is_error(first);
    if warns { Severity::Warning } else { Severity::Error }
}

/// The file in `… imported from /home/dev/a.mjs` and in Node's list of who required it.
fn imported_from(message: &str) -> Option<String> {
    let (_, rest) =
        message.split_once(" imported from ").or_else(|| message.split_once("Require stack:\n- "))?;
    let file = rest.lines().next().unwrap_or_default().trim();
    (is_own(file) && crate::places::is_path(file)).then(|| file.to_owned())
}

/// `/home/dev/a.js:3` and nothing else, as Node puts it above the code. Only JavaScript's: others put a place below.
fn alone(text: &str) -> Option<scan::Place<'_>> {
    let bare = text.strip_prefix("file://").unwrap_or(text);
    let place = scan::place(bare).filter(|place| place.rest.is_empty())?;
    let known = place.file.starts_with("node:") || crate::js::is_script(place.file);
    (known && !place.file.contains(char::is_whitespace)).then_some(place)
}

/// A sanitizer's words without what is another in each run.
fn without_addresses(message: &str) -> String {
    let mut text = String::new();
    for line in message.lines() {
        let ends = [" on address 0x", " on unknown address 0x", " at 0x", " (pc 0x"];
        let end = ends.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
        scan::push_line(&mut text, &line[..end]);
    }
    text
}

fn is_sanitizers(text: &str) -> bool {
    text.contains("Sanitizer: ")
}

fn is_label(text: &str) -> bool {
    const LABELS: [&str; 7] = [
        "stacktrace:",
        "stack trace:",
        "stack backtrace:",
        "stack traceback:",
        "backtrace:",
        "callstack (from hascallstack):",
        "error message:",
    ];
    let crashed = text.starts_with("Thread ") && text.ends_with(" crashed:");
    crashed
        || text.len() <= 40 && LABELS.iter().any(|label| label.eq_ignore_ascii_case(text))
        || text.starts_with("(Use `node ")
}

fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(crate::MAX_TEXT)]
}

/// Whether the line is how an error begins: a word for it, or an exception's name with what it says.
pub(crate) fn is_error(text: &str) -> bool {
    const BEGINS: [&str; 16] = [
        "panic: ",
        "fatal error: ",
        "Fatal error: ",
        "Exception in thread ",
        "Unhandled exception",
        "Unhandled Exception",
        "Uncaught ",
        "Error: ",
        "ERROR: ",
        "error: ",
        "terminate called ",
        "** (",
        "Caused by: ",
        "WARNING: ThreadSanitizer: ",
        "WARNING: MemorySanitizer: ",
        "WARNING: DATA RACE",
    ];
    const NAMES: [&str; 6] = ["Error", "Exception", "Failure", "Fault", "Throwable", "Panic"];
    let text = text.trim_start();
    if BEGINS.iter().any(|begin| text.starts_with(begin)) {
        return true;
    }
    let name = text.split_once(": ").map_or(text, |(name, _)| name);
    let name = name.strip_suffix(':').unwrap_or(name);
    // `AssertionError [ERR_ASSERTION]: …`
    let name = name.strip_suffix(']').and_then(|name| name.split_once(" [")).map_or(name, |(name, _)| name);
    let word = |c: char| c.is_alphanumeric() || "_.$\\:".contains(c);
    name.len() <= 200
        && name.starts_with(|c: char| c.is_alphabetic())
        && name.chars().all(word)
        && NAMES.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(text: &str) -> Vec<(Option<String>, Option<u32>, String)> {
        let mut traces = Traces::default();
        text.lines().for_each(|line| {
            traces.line(line);
        });
        traces.finish().into_iter().map(|raised| (raised.file, raised.line, raised.message)).collect()
    }

    #[test]
    fn node_tells_an_error_of_syntax_by_the_place_above() {
        let text = "/home/dev/a.js:1\nexports.add=(a,b)=>a+;\n                     ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe (node:internal/modules/cjs/loader:1464:18)\n    at Object.<anonymous> (/home/dev/a.test.js:3:17)\n\nNode.js v20.20.2\n";
        let message = "SyntaxError: Unexpected token ';'\ncalled from /home/dev/a.test.js:3".to_owned();
        assert_eq!(raised(text), [(Some("/home/dev/a.js".to_owned()), Some(1), message)]);
        let thrown = "/home/dev/a.js:3\nthrow 'no till';\n^\nno till\n(Use `node --trace-uncaught ...` to show where the exception was thrown)\n\nNode.js v20.20.2\n";
        assert_eq!(raised(thrown), [(Some("/home/dev/a.js".to_owned()), Some(3), "no till".to_owned())]);
    }

    #[test]
    fn the_reason_of_an_exception_is_the_place() {
        let text = "Exception in thread \"main\" java.lang.IllegalStateException: closed\n\tat Main.main(Main.java:5)\nCaused by: java.lang.NullPointerException: no till\n\tat java.base/java.util.Objects.requireNonNull(Objects.java:259)\n\tat Main.f(Main.java:3)\n\tat Main.main(Main.java:5)\n\t... 1 more\nlater\n";
        let message = "Exception in thread \"main\" java.lang.IllegalStateException: closed\nCaused by: java.lang.NullPointerException: no till\ncalled from Main.java:5";
        assert_eq!(raised(text), [(Some("Main.java".to_owned()), Some(3), message.to_owned())]);
    }

    #[test]
    fn the_stacks_of_all_goroutines_are_one_panic() {
        let text = "panic: no till\n\ngoroutine 7 [running]:\nmain.f({0x1, 0x2}, 0x3)\n\t/home/dev/main.go:8 +0x1d\nmain.main()\n\t/home/dev/main.go:4 +0x2\n\ngoroutine 8 [chan receive]:\nmain.g()\n\t/home/dev/main.go:20 +0x2\ncreated by main.main\n\t/home/dev/main.go:3 +0x2\nexit status 2\n";
        let found = raised(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0.as_deref(), found[0].1), (Some("/home/dev/main.go"), Some(8)));
    }

    #[test]
    fn what_is_said_far_above_is_no_reason() {
        let text = format!("Error: old\n{}\tat a.B.c(B.java:3)\n", "busy\n".repeat(30));
        assert_eq!(raised(&text), [(Some("B.java".to_owned()), Some(3), "busy".to_owned())]);
    }
}
