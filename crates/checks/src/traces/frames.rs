//! One line of a stack trace, as the runtimes of many languages print it.

use crate::scan::{self, Place};
use crate::{javac, js};

/// One line of a stack trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Where it is; functions of the runtime often are nowhere.
    pub(crate) place: Option<Place<'a>>,
    /// Whether that is a file of the project, as far as its path tells.
    pub(crate) own: bool,
}

/// Reads a frame. It is indented, or numbered, or begins with what only frames begin with.
pub(crate) fn frame(line: &str) -> Option<Frame<'_>> {
    let text = line.trim();
    let indented = line.starts_with([' ', '\t']);
    let place = match text.strip_prefix("at ").filter(|_| indented) {
        Some(rest) => at(rest)?,
        None => numbered(text, indented)
            .or_else(|| valgrind(text))
            .or_else(|| placed(text, indented).map(Some))?,
    };
    if place.as_ref().is_some_and(|place| !place.file.contains(char::is_alphabetic)) {
        return None;
    }
    let own = place.as_ref().is_some_and(|place| is_own(place.file)) && !javac::is_library(line);
    Some(Frame { place, own })
}

/// What follows `at`, in JavaScript, Java, C#, Rust and Swift.
fn at(rest: &str) -> Option<Option<Place<'_>>> {
    let rest = rest.strip_suffix(" {").unwrap_or(rest);
    // `Shop.Till.Add(Int32 a) in /home/dev/Till.cs:line 5`
    if let Some((_, source)) = rest.rsplit_once(" in ")
        && let Some((file, line)) = source.rsplit_once(":line ")
    {
        let (line, rest) = scan::number(line)?;
        return Some(Some(Place { file, line, column: None, rest }));
    }
    let place = js::bare_frame(rest);
    (place.is_some() || rest.ends_with(')') || rest.starts_with("node:")).then_some(place)
}

/// `#0 0x4011 in main /home/dev/a.c:5:3`, `#0 /home/dev/a.php(5): f()`, `#0  main () at a.c:5`, `#0      main (file:///a.dart:3:5)`,
/// rspec's `# ./spec/till_spec.rb:6:in …`, and `0 [ra] 0x4011 main + 12 in app at /home/dev/main.swift:3:5`.
fn numbered(text: &str, indented: bool) -> Option<Option<Place<'_>>> {
    if let Some(place) = text.strip_prefix("# ").filter(|_| indented).and_then(scan::place) {
        return (place.file.ends_with(".rb") && place.rest.starts_with(":in ")).then_some(Some(place));
    }
    let marked = text.strip_prefix('#');
    let (_, rest) = scan::number(marked.unwrap_or(text))?;
    if marked.is_none() {
        // `   3: shop::add`, with the place on the next line.
        if let Some(function) = rest.strip_prefix(": ").filter(|_| indented) {
            return (function.contains("::") || !function.contains(' ')).then_some(None);
        }
        let (function, source) = rest.rsplit_once(" at ")?;
        let place = whole(source).filter(|_| indented || function.starts_with(" ["))?;
        return function.contains(" 0x").then_some(Some(place));
    }
    let rest = rest.strip_prefix(' ')?.trim_start();
    if rest.starts_with("{main}") || rest.starts_with("[internal function]") {
        return Some(None);
    }
    if let Some((file, after)) = rest.split_once('(').filter(|(file, _)| file.ends_with(".php")) {
        let (line, rest) = scan::number(after)?;
        return Some(Some(Place { file, line, column: None, rest }));
    }
    // The module and its id may follow in brackets; without a source only they are there.
    let mut bare = rest;
    let mut place = js::bare_frame(bare);
    for _ in 0..2 {
        let Some((before, _)) = bare.rsplit_once(" (").filter(|_| place.is_none() && bare.ends_with(')'))
        else {
            break;
        };
        bare = before;
        place = js::bare_frame(bare);
    }
    (place.is_some() || rest.starts_with("0x") || rest.ends_with(')')).then_some(place)
}

/// `==77==    at 0x109: main (a.c:5)`.
fn valgrind(text: &str) -> Option<Option<Place<'_>>> {
    let rest = without_process(text)?.trim_start();
    let rest = rest.strip_prefix("at 0x").or_else(|| rest.strip_prefix("by 0x"))?;
    Some(js::bare_frame(rest))
}

/// What follows `==77==`, which valgrind and the sanitizers put before a line.
pub(super) fn without_process(text: &str) -> Option<&str> {
    let (_, rest) = scan::number(text.strip_prefix("==")?)?;
    rest.strip_prefix("==")
}

/// Frames that are little more than a place: of Go, Ruby, Lua, Elixir, Perl, Haskell, Julia and PHPUnit.
fn placed(text: &str, indented: bool) -> Option<Place<'_>> {
    if let Some(place) = whole(text).filter(|place| place.file.ends_with(".php")) {
        return Some(place);
    }
    if !indented {
        return None;
    }
    if let Some((_, source)) = text.split_once(", called at ") {
        return scan::place(source).filter(|place| place.rest.starts_with(" in "));
    }
    if let Some((_, source)) = text.rsplit_once(" called at ") {
        let (file, line) = source.rsplit_once(" line ")?;
        let (line, rest) = scan::number(line)?;
        return Some(Place { file, line, column: None, rest });
    }
    if let Some(source) = text.strip_prefix("@ ") {
        return source.rsplit_once(' ').and_then(|(_, source)| whole(source));
    }
    if let Some(place) = text.strip_prefix("from ").and_then(scan::place) {
        return place.rest.starts_with(":in ").then_some(place);
    }
    let bare = text.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(text, |(_, bare)| bare);
    let place = scan::place(bare).filter(|place| !place.file.contains(' '))?;
    let elixir = [".ex", ".exs", ".erl"].iter().any(|end| place.file.ends_with(end));
    let go = place.file.ends_with(".go") && (place.rest.is_empty() || place.rest.starts_with(" +0x"));
    let frame = go || place.rest.starts_with(": in ") || (elixir && place.rest.starts_with(": "));
    frame.then_some(place)
}

/// A place that is all of the text.
fn whole(text: &str) -> Option<Place<'_>> {
    scan::place(text).filter(|place| place.rest.is_empty())
}

/// Whether the file is none of a language's own, a package's or the system's.
pub(crate) fn is_own(file: &str) -> bool {
    const ROOTS: [&str; 9] =
        ["/usr/", "/rustc/", "../sysdeps/", "../csu/", "../nptl/", "./nptl/", "internal/", "ext:", "Swift/"];
    const INSIDE: [&str; 9] = [
        "/vendor/",
        "/gems/",
        "/pkg/mod/",
        "/go/src/",
        "/.cargo/registry/",
        "/rustlib/",
        "site-packages/",
        "/lib/python",
        "/libsanitizer/",
    ];
    js::is_own(file)
        && !file.starts_with('[')
        && (file.starts_with("/usr/src/") || !ROOTS.iter().any(|root| file.starts_with(root)))
        && !INSIDE.iter().any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_many_languages_are_read() {
        for (line, file, number, own) in [
            ("    at Object.<anonymous> (/home/dev/a.js:3:8)", "/home/dev/a.js", 3, true),
            (
                "    at Module._compile (node:internal/modules/cjs/loader:1521:14) {",
                "node:internal/modules/cjs/loader",
                1521,
                false,
            ),
            ("    at async file:///home/dev/a.mjs:1:2", "/home/dev/a.mjs", 1, true),
            ("\tat shop.Till.add(Till.java:12)", "Till.java", 12, true),
            ("\tat java.base/java.util.Objects.requireNonNull(Objects.java:334)", "Objects.java", 334, false),
            (
                "   at Shop.Till.Add(Int32 a, Int32 b) in /home/dev/Till.cs:line 5",
                "/home/dev/Till.cs",
                5,
                true,
            ),
            ("             at ./src/main.rs:2:5", "./src/main.rs", 2, true),
            (
                "             at /rustc/90b35a6/library/core/src/panicking.rs:74:14",
                "/rustc/90b35a6/library/core/src/panicking.rs",
                74,
                false,
            ),
            ("    #0 0x5650a38b725b in peek /home/dev/san.c:4", "/home/dev/san.c", 4, true),
            (
                "    #0 0x4011 in main /home/dev/san.cpp:4:9 (/home/dev/san+0x11) (BuildId: 3a)",
                "/home/dev/san.cpp",
                4,
                true,
            ),
            (
                "    #2 0x7f5b in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58",
                "../sysdeps/nptl/libc_start_call_main.h",
                58,
                false,
            ),
            ("#0  peek (p=0x1) at san.c:4", "san.c", 4, true),
            ("#0 /home/dev/a.php(5): Shop\\Till->add(1, 2)", "/home/dev/a.php", 5, true),
            ("#0      add (file:///home/dev/a.dart:3:5)", "/home/dev/a.dart", 3, true),
            ("==77==    at 0x109156: peek (san.c:4)", "san.c", 4, true),
            (
                "0 [ra] 0x000055d0 add + 12 in app at /home/dev/main.swift:3:5",
                "/home/dev/main.swift",
                3,
                true,
            ),
            ("\t/home/dev/main.go:8 +0x1d", "/home/dev/main.go", 8, true),
            (
                "\t/usr/local/go/src/runtime/panic.go:88 +0x1d",
                "/usr/local/go/src/runtime/panic.go",
                88,
                false,
            ),
            ("\tfrom a.rb:6:in `<main>'", "a.rb", 6, true),
            (
                "     # ./spec/till_spec.rb:6:in `block (2 levels) in <top (required)>'",
                "./spec/till_spec.rb",
                6,
                true,
            ),
            ("    (shop 0.1.0) lib/till.ex:3: Till.add/2", "lib/till.ex", 3, true),
            ("\ta.lua:3: in function 'add'", "a.lua", 3, true),
            ("\tmain::add(1) called at a.pl line 5", "a.pl", 5, true),
            ("  error, called at Till.hs:3:5 in main:Main", "Till.hs", 3, true),
            ("/home/dev/tests/TillTest.php:12", "/home/dev/tests/TillTest.php", 12, true),
        ] {
            let found = frame(line).unwrap_or_else(|| panic!("{line}"));
            let place = found.place.unwrap_or_else(|| panic!("{line}"));
            assert_eq!((place.file, place.line, found.own), (file, number, own), "{line}");
        }
        for line in [
            "    at new Promise (<anonymous>)",
            "    #4 0x5650 in _start (/home/dev/san+0x1100)",
            "#1 {main}",
        ] {
            assert_eq!(frame(line), Some(Frame { place: None, own: false }), "{line}");
        }
        for line in [
            "    at 12:30 it stopped",
            "at Till.add (a.js:3:4)",
            "# 3 things to do",
            "#12 was merged at 10:30",
            "    see a.c:3: maybe",
            "/home/dev/a.js:3",
            "3 tests at a.js:3",
        ] {
            assert_eq!(frame(line), None, "{line}");
        }
    }
}
