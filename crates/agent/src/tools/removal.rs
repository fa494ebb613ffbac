//! What a task asks to have removed. Only what it names plainly counts: `Remove the functions a and b`, `a should be deleted`.
//! That it leaves open what goes is a weaker sign.

/// Words that ask for it.
const VERBS: [&str; 7] = ["remove", "delete", "drop", "eliminate", "erase", "discard", "kill"];
/// Words that say that something is to be removed, after its name.
const PARTICIPLES: [&str; 5] = ["removed", "deleted", "dropped", "eliminated", "erased"];
/// Words of tasks in which code may go that they do not name.
const SIGNS: [&str; 10] = [
    "unused",
    "dead",
    "obsolete",
    "deprecated",
    "legacy",
    "redundant",
    "duplicate",
    "clean",
    "cleanup",
    "simplify",
];
/// Words that may stand between those and names.
const ARTICLES: [&str; 27] = [
    COMMA,
    "the",
    "a",
    "an",
    "all",
    "both",
    "and",
    "or",
    "also",
    "this",
    "these",
    "old",
    "unused",
    "dead",
    "obsolete",
    "deprecated",
    "legacy",
    "redundant",
    "duplicate",
    "entire",
    "whole",
    "public",
    "private",
    "global",
    "abstract",
    "static",
    "now",
];
/// Words for what has a name.
const NOUNS: [&str; 26] = [
    "function",
    "functions",
    "method",
    "methods",
    "class",
    "classes",
    "struct",
    "structs",
    "type",
    "types",
    "enum",
    "enums",
    "trait",
    "traits",
    "interface",
    "interfaces",
    "module",
    "modules",
    "helper",
    "helpers",
    "test",
    "tests",
    "table",
    "tables",
    "macro",
    "component",
];
/// Words after a name that make something else of it.
const PARTS: [&str; 22] = [
    "call",
    "calls",
    "comment",
    "comments",
    "doc",
    "docs",
    "docstring",
    "import",
    "imports",
    "argument",
    "arguments",
    "parameter",
    "parameters",
    "print",
    "prints",
    "usage",
    "usages",
    "use",
    "uses",
    "line",
    "lines",
    "body",
];
const COMMA: &str = ",";
/// Words between a name and what is to become of it.
const BETWEEN: usize = 4;

/// Whether a task asks to remove everything of these names. The tests of what is asked for may go with it.
pub(super) fn asks_for(task: &str, names: &[String], path: &str) -> bool {
    let (asked, in_test) = (named(task), is_test(path));
    let covers = |name: &String| {
        let own = last(name);
        asked.iter().any(|word| word == name || last(word) == own || in_test && is_test_of(own, word))
    };
    !names.is_empty() && names.iter().all(covers)
}

/// Whether code may go that a task does not name. `The unused function a` is one and has a name.
pub(super) fn leaves_open(task: &str) -> bool {
    let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let one = |word: &str| is(&NOUNS, word) && !word.ends_with('s') || word.eq_ignore_ascii_case("class");
    words(task).any(|words| {
        words
            .iter()
            .enumerate()
            .any(|(at, word)| is(&SIGNS, word) && !words.get(at + 1).is_some_and(|next| one(next)))
    })
}

/// The words of a task that stand where names of what is to go stand.
fn named(task: &str) -> Vec<String> {
    let mut found = Vec::new();
    for words in words(task) {
        let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
        for (at, word) in words.iter().enumerate() {
            if is(&VERBS, word)
                && !words[..at].last().is_some_and(|word| is(&["not", "never", "don't"], word))
            {
                found.extend(objects(&words[at + 1..]));
            }
            if is(&PARTICIPLES, word) {
                let before = &words[at.saturating_sub(BETWEEN)..at];
                if !before.iter().any(|word| is(&["not", "never"], word)) {
                    found.extend(before.iter().map(|word| (*word).to_owned()));
                }
            }
        }
    }
    found
}

/// The names that come right after a verb: to the first word that is neither one of a list nor about one.
fn objects(words: &[&str]) -> Vec<String> {
    let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let mut found: Vec<String> = Vec::new();
    let mut joined = true;
    for (at, word) in words.iter().enumerate() {
        if is(&ARTICLES, word) || is(&NOUNS, word) {
            joined |= is(&["and", "or", "also", COMMA], word);
            continue;
        }
        let part = words.get(at + 1).is_some_and(|next| is(&PARTS, next));
        if !joined || part || !is_name(word) {
            break;
        }
        joined = false;
        found.push((*word).to_owned());
    }
    found
}

/// The words of each sentence without the marks around them, and commas as words of their own.
fn words(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let ends = |letter: char| matches!(letter, '!' | '?' | ';' | '\n');
    text.split(ends).flat_map(|text| text.split(". ")).map(|sentence| {
        let mut words = Vec::new();
        for word in sentence.split_whitespace() {
            words.push(word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '_'));
            words.extend(word.ends_with(COMMA).then_some(COMMA));
        }
        words.retain(|word| !word.is_empty());
        words
    })
}

fn is_name(word: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || ['_', '.', ':', '$', '#'].contains(&letter);
    word.chars().all(inside) && word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// The last part of a name such as `R.Name` or `T::name`.
fn last(name: &str) -> &str {
    name.rsplit(['.', ':']).next().unwrap_or(name)
}

/// Whether a file has tests, by its name.
pub(crate) fn is_test(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| ["test", "tests", "spec"].contains(&word))
}

/// Whether a test is called after this.
fn is_test_of(test: &str, name: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace('_', "");
    let (test, name) = (plain(test), plain(last(name)));
    name.len() > 1 && test.contains("test") && test.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(task: &str, names: &[&str]) -> bool {
        asks_for(task, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), "calc.py")
    }

    #[test]
    fn what_is_named_after_the_word_for_it_is_asked_for() {
        for task in [
            "Remove the function sub from calc.py",
            "remove `sub`.",
            "Fix add. Then delete the unused method Calc.sub, please.",
            "The function sub should be removed.",
            "Please drop sub() and say why",
            "Remove sub, and fix add",
        ] {
            assert!(asks(task, &["sub"]), "{task}");
        }
        assert!(asks("Delete `add`, `sub` and the class Calc from calc.py", &["add", "sub", "Calc"]));
        assert!(asks("Remove the method Name", &["R.Name"]));
    }

    #[test]
    fn what_is_only_spoken_of_is_not() {
        for task in [
            "Fix add as sub does it",
            "Remove the blanks from sub",
            "Remove the call to sub",
            "Remove the sub docstring",
            "Remove sub's comment",
            "Remove add and fix sub",
            "Do not remove sub",
            "sub must not be removed",
            "Make add remove blanks. See sub.",
            "Remove add; keep sub",
        ] {
            assert!(!asks(task, &["sub"]), "{task}");
        }
        assert!(!asks("Remove sub", &["sub", "mul"]), "all of it must be asked for");
        assert!(!asks("Remove sub", &[]));
    }

    #[test]
    fn tests_go_with_what_they_test() {
        let names = ["test_sub".to_owned(), "TestSubMore".to_owned()];
        assert!(asks_for("Remove sub from calc.py", &names, "tests/test_calc.py"));
        assert!(!asks_for("Remove sub from calc.py", &names, "calc.py"));
        assert!(!asks_for("Remove sub from calc.py", &["test_add".to_owned()], "test_calc.py"));
    }

    #[test]
    fn tests_are_known_by_their_name() {
        assert!(is_test("a/test_cart.py") && is_test("cart.spec.ts") && !is_test("latest.py"));
    }

    #[test]
    fn a_task_that_names_nothing_leaves_open_what_goes() {
        for task in ["Clean up calc.py", "Remove the unused functions", "There is dead code in calc.py."] {
            assert!(leaves_open(task), "{task}");
        }
        for task in [
            "Fix the removal of blanks",
            "Add mul",
            "Remove the unused function sub",
            "Remove sub and fix add",
        ] {
            assert!(!leaves_open(task), "{task}");
        }
    }
}
