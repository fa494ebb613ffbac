//! What a sentence above a block says of it: of which file it is the text, or that it only shows something.

use super::blocks::{announces, ending, is_in, is_known, path};

/// Endings of files that are not there yet, beside those of languages that are known. In a sentence `math.floor` is no file.
const ENDINGS: [&str; 30] = [
    "json", "toml", "yaml", "yml", "md", "txt", "sh", "sql", "xml", "cfg", "ini", "csv", "kt", "swift",
    "php", "cs", "scala", "lua", "vue", "svelte", "ex", "exs", "hs", "pl", "r", "scss", "env", "proto", "tf",
    "conf",
];
/// Names that are no files in a sentence.
const PRODUCTS: [&str; 4] = ["node.js", "vue.js", "next.js", "three.js"];
/// Words of a sentence after which something is shown that is not to be written.
const SHOWS: [&str; 34] = [
    "example",
    "usage",
    "use",
    "used",
    "using",
    "output",
    "outputs",
    "print",
    "prints",
    "printed",
    "shows",
    "gives",
    "gave",
    "error",
    "errors",
    "fail",
    "fails",
    "failed",
    "failing",
    "failure",
    "traceback",
    "was",
    "before",
    "wrong",
    "bug",
    "instead",
    "old",
    "original",
    "run",
    "running",
    "see",
    "returns",
    "raises",
    "like",
];
/// Words that say nothing of what follows.
const PASSING: [&str; 17] = [
    "and", "also", "then", "next", "now", "first", "second", "the", "in", "for", "of", "to", "is", "here",
    "file", "change", "update",
];
/// What stands beside the fence of what something printed.
const OUTPUTS: [&str; 13] = [
    "",
    "text",
    "txt",
    "plaintext",
    "plain",
    "output",
    "console",
    "log",
    "stdout",
    "stderr",
    "traceback",
    "pytb",
    "none",
];
/// How lines begin that a program prints when it fails.
const PRINTED: [&str; 10] =
    ["Traceback (", "error:", "error[", "Error:", "ERROR", "FAILED", ">>> ", "$ ", "thread '", "E   "];

/// The file whose text follows this sentence: the one that is known, or the only one that looks like a file.
pub(super) fn named(sentence: &str, language: &str, known: &[&str]) -> Option<String> {
    let mut found: Vec<String> = words(sentence).filter_map(|word| path(word, known)).collect();
    if found.iter().any(|path| known.contains(&path.as_str())) {
        found.retain(|path| known.contains(&path.as_str()));
    } else {
        found.retain(|path| is_file(path));
    }
    found.sort();
    found.dedup();
    let [one] = found.as_slice() else { return None };
    // Where nothing stands beside the fence, it may be anything that the sentence speaks of.
    let meant = match language {
        "" => {
            announces(sentence)
                || words(sentence).all(|word| says_nothing(word) || path(word, known).is_some())
        }
        _ => !shows(sentence),
    };
    (meant && is_in(language, one)).then(|| one.clone())
}

/// Whether a block that is in no file seems to be meant for one.
pub(super) fn is_code(sentence: &str, language: &str, content: &str) -> bool {
    let shown = OUTPUTS.contains(&language) || ["diff", "patch"].contains(&language);
    !shown && !shows(sentence) && !is_output(content)
}

/// Whether a text is what a program printed.
pub(super) fn is_output(content: &str) -> bool {
    content
        .lines()
        .find(|line| !line.trim().is_empty())
        .is_none_or(|line| PRINTED.iter().any(|begin| line.starts_with(begin)))
}

/// Whether what follows a sentence is only shown.
fn shows(sentence: &str) -> bool {
    !announces(sentence) && words(sentence).any(|word| SHOWS.contains(&word.to_ascii_lowercase().as_str()))
}

fn says_nothing(word: &str) -> bool {
    !word.contains(char::is_alphanumeric) || PASSING.contains(&word.to_ascii_lowercase().as_str())
}

/// The words of a sentence without the marks around them.
fn words(sentence: &str) -> impl Iterator<Item = &str> {
    sentence.split_whitespace().map(|word| {
        let word = word.trim_start_matches(|letter: char| "()<>[]{}*`\"',;:!?#".contains(letter));
        let word = word.trim_end_matches(|letter: char| "()<>[]{}*`\"',;:!?.".contains(letter));
        word.strip_suffix("'s").unwrap_or(word)
    })
}

/// Whether a word that can be a path is the name of a file that is not there yet.
fn is_file(path: &str) -> bool {
    let ending = ending(path);
    let usual = ENDINGS.contains(&ending) || is_known(ending) || path.contains('/');
    usual && !PRODUCTS.contains(&path.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_a_sentence() {
        for sentence in [
            "And calc.py:",
            "The new calc.py:",
            "Here is the updated calc.py:",
            "Updated file calc.py",
            "Then, change calc.py to:",
            "calc.py (updated)",
            "calc.py - swap operands",
            "In calc.py:",
            "<calc.py>",
            "[calc.py]",
            "Update calc.py to use operator.add:",
            "**Now calc.py's turn**",
        ] {
            assert_eq!(named(sentence, "python", &["calc.py"]).as_deref(), Some("calc.py"), "{sentence}");
            assert_eq!(named(sentence, "rust", &["calc.py"]), None, "{sentence}");
            assert_eq!(named(sentence, "text", &["calc.py"]), None, "{sentence}");
        }
        assert_eq!(named("And src/new.py:", "python", &["calc.py"]).as_deref(), Some("src/new.py"));
        assert_eq!(named("And calc.py:", "", &["calc.py"]).as_deref(), Some("calc.py"));
        assert_eq!(named("Then the Makefile:", "make", &["Makefile"]).as_deref(), Some("Makefile"));
    }

    #[test]
    fn what_is_only_shown_is_no_file() {
        for sentence in [
            "Running calc.py gives this error:",
            "calc.py fails with:",
            "The bug in calc.py is here:",
            "Use calc.py like this:",
            "calc.py and util.py:",
            "It calls math.floor here:",
            "This needs Node.js now:",
            "Some code, e.g.",
        ] {
            assert_eq!(named(sentence, "python", &["calc.py", "util.py"]), None, "{sentence}");
        }
        assert_eq!(named("You get it from calc.py:", "", &["calc.py"]), None);
        assert!(is_output("Traceback (most recent call last):\n  x\n") && !is_output("x = 1\n"));
        assert!(is_code("Then:", "python", "x = 1\n") && !is_code("Then:", "", "x = 1\n"));
        assert!(!is_code("For example:", "python", "x = 1\n"));
    }
}
