//! What a command's own words tell of limits that nobody counts: the kernel refuses, the program says so, and that is all
//! there is to see of it.

/// What a command printed.
pub(crate) struct Said {
    /// In small letters.
    text: String,
    /// Whether it failed. A text that only mentions a limit, such as a file that was shown, is told from a complaint by
    /// its form; where something failed, every mention counts.
    failed: bool,
    /// Whether it is the command's own words, and not what was made of them, of which limits were told already.
    first: bool,
}

const OPEN_FILES: [&str; 2] = ["too many open files", "emfile"];
const FULL: [&str; 1] = ["no space left on device"];
const MEMORY: [&str; 9] = [
    "memoryerror",
    "cannot allocate memory",
    "enomem",
    "bad_alloc",
    "out of memory",
    "memory allocation of",
    "allocation failed",
    "virtual memory exhausted",
    "insufficient memory",
];
const PROCESSES: [&str; 7] = [
    "cannot fork",
    "can't fork",
    "can't start new thread",
    "spawn eagain",
    "failed to create new os thread",
    "unable to create native thread",
    "limit of processes",
];
/// Said of many things; of processes only where one of the next words is beside it.
const UNAVAILABLE: [&str; 1] = ["resource temporarily unavailable"];
const MAKING_PROCESSES: [&str; 5] = ["fork", "clone", "thread", "spawn", "blockingioerror"];
/// How a write ends that is refused over the disk limit. One that is ended for it is counted.
const WRITES: [&str; 4] =
    ["file too large", "no space left on device", "file size limit exceeded", "signal 25"];

impl Said {
    /// By a command that ended like this.
    pub(crate) fn new(failed: bool, text: &str) -> Self {
        Self { text: text.to_ascii_lowercase(), failed, first: true }
    }

    /// In the account of something that failed.
    pub(crate) fn by_failed(text: &str) -> Self {
        Self { first: false, ..Self::new(true, text) }
    }

    /// The lines that complain with one of these.
    fn complaints<'a>(&'a self, phrases: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let complains = |line: &str| {
            phrases.iter().any(|phrase| {
                line.find(phrase)
                    .is_some_and(|at| self.failed || is_complaint(&line[..at], phrase, &line[at..]))
            })
        };
        self.text.lines().filter(move |line| complains(line))
    }

    /// Of a process that could open no more files.
    pub(super) fn open_files(&self) -> bool {
        self.complaints(&OPEN_FILES).next().is_some()
    }

    /// Of shared memory that is full.
    pub(super) fn shared_memory(&self) -> bool {
        let names = |text: &str| text.contains("/dev/shm");
        self.complaints(&FULL).any(|line| names(line) || (self.failed && names(&self.text)))
    }

    /// Of memory that was refused. A program that keeps its heap within bounds of its own speaks of that.
    pub(super) fn memory(&self) -> bool {
        self.complaints(&MEMORY).any(|line| !line.contains("heap"))
    }

    /// Of a process or a thread that could not be made.
    pub(super) fn processes(&self) -> bool {
        let made = |line: &str| MAKING_PROCESSES.iter().any(|word| line.contains(word));
        self.complaints(&PROCESSES).next().is_some() || self.complaints(&UNAVAILABLE).any(made)
    }

    /// Of something that could not be written, or was ended over it.
    pub(super) fn writes(&self) -> bool {
        self.failed && self.first && self.complaints(&WRITES).next().is_some()
    }
}

/// Whether the words are those of a program that names what went wrong: after what it was at, and with at most details
/// behind them.
fn is_complaint(before: &str, phrase: &str, rest: &str) -> bool {
    let begins =
        before.ends_with(": ") || before.ends_with("] ") || (before.is_empty() && !phrase.contains(' '));
    let after = rest.get(phrase.len()..).unwrap_or_default();
    begins && (after.is_empty() || after.starts_with([':', ',', '.', ';']) || after.starts_with(" ("))
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn complaints_of_programs_are_known() {
        for failed in [true, false] {
            let said = |text: &str| Said::new(failed, text);
            for text in [
                "OSError: [Errno 24] Too many open files: '/dev/null'",
                "Error: EMFILE: too many open files, open 'x'",
                "bash: /dev/null: Too many open files",
                "Error: Too many open files (os error 24)",
            ] {
                assert!(said(text).open_files(), "{text}");
            }
            assert!(said("dd: error writing '/dev/shm/x': No space left on device").shared_memory());
            assert!(!said("dd: error writing '/tmp/x': No space left on device").shared_memory());
            for text in [
                "Traceback (most recent call last):\n  x\nMemoryError",
                "cc1: virtual memory exhausted: Cannot allocate memory",
                "RangeError: Array buffer allocation failed",
            ] {
                assert!(failed || !text.contains("Array") || !said(text).memory());
                assert!(text.contains("Array") || said(text).memory(), "{text}");
            }
            for text in [
                "BlockingIOError: [Errno 11] Resource temporarily unavailable",
                "bash: fork: retry: Resource temporarily unavailable",
                "sh: 8: Cannot fork",
                "RuntimeError: can't start new thread",
            ] {
                assert!(said(text).processes(), "{text}");
            }
            assert!(!said("read: Resource temporarily unavailable").processes());
        }
        assert!(Said::by_failed("RangeError: Array buffer allocation failed").memory());
        let heap = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
        assert!(!Said::by_failed(heap).memory(), "that is a limit of its own");
    }

    #[test]
    fn what_only_mentions_a_limit_is_no_complaint() {
        for text in [
            "src/limits.rs:62:  || output.contains(\"Too many open files\")",
            "README.md:3:Too many open files are bad",
            "Too many open files",
            "- EMFILE, ENOMEM and the like",
            "if error == MemoryError:",
            "the words: out of memory errors are hard",
        ] {
            let said = Said::new(false, text);
            assert!(!said.open_files() && !said.memory() && !said.processes(), "{text}");
        }
        assert!(Said::by_failed("log has Too many open files in it").open_files());
    }
}
