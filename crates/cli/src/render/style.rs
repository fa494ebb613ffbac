//! Colours, on a terminal only, and the one way in which notes and errors look.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// Paints text, or leaves it as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    colour: bool,
}

/// For standard error.
pub(crate) fn stderr() -> Paint {
    static PAINT: OnceLock<Paint> = OnceLock::new();
    *PAINT.get_or_init(|| Paint { colour: wanted(std::io::stderr().is_terminal()) })
}

/// For standard output.
pub(crate) fn stdout() -> Paint {
    static PAINT: OnceLock<Paint> = OnceLock::new();
    *PAINT.get_or_init(|| Paint { colour: wanted(std::io::stdout().is_terminal()) })
}

/// <https://no-color.org> and dumb terminals are respected.
fn wanted(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !set("NO_COLOR") && std::env::var("TERM").is_ok_and(|term| term != "dumb")
}

impl Paint {
    /// Without colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colour: false }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn is_coloured(self) -> bool {
        self.colour
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn work(self, text: &str) -> String {
        self.paint("34", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }
}

/// Says something on standard error.
#[allow(clippy::print_stderr)] // this is where talk goes out
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// A remark.
pub(crate) fn note(text: &str) {
    say(&stderr().dim(text));
}

/// An error: what happened, and what to do.
pub(crate) fn error(text: &str) {
    say(&format!("{} {text}", stderr().bad("error:")));
}
