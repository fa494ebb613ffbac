//! What a task asks to have removed. Only what it names plainly counts: `Remove the functions a and b`, `a should be deleted`.
//! That it leaves open what goes is a weaker sign.

/// Words that ask for it.
const VERBS: [&str; 8] = ["remove", "delete", "drop", "eliminate", "erase", "discard", "kill", "rid"];
/// Words that ask for something else in its place.
const CHANGES: [&str; 6] = ["inline", "replace", "merge", "fold", "rename", "convert"];
/// Words that ask for it to be in another place.
const MOVES: [&str; 5] = ["move", "extract", "relocate", "transfer", "migrate"];
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
/// Words of sentences after which a function may do nothing.
const EMPTIES: [&str; 12] = [
    "empty",
    "stub",
    "stubs",
    "no-op",
    "noop",
    "nothing",
    "placeholder",
    "placeholders",
    "pass",
    "none",
    "null",
    "notimplementederror",
];
/// Words for all functions of a file.
const ALL_OF_THEM: [&str; 5] = ["functions", "methods", "bodies", "everything", "all"];
/// Words of tasks after which a file may be a small part of itself.
const SHORTER: [&str; 8] =
    ["shorten", "shorter", "truncate", "condense", "empty", "scratch", "anew", "placeholder"];
/// Those of them that come before what they are about.
const BEFORE: [&str; 4] = ["shorten", "truncate", "condense", "empty"];
/// Those after which nothing of a file need stay.
const ANEW: [&str; 2] = ["scratch", "anew"];
/// Words for a file.
const FILES: [&str; 6] = ["file", "document", "page", "text", "everything", "whole"];
/// Words after which something else is spoken of.
const PREPOSITIONS: [&str; 13] =
    ["in", "of", "from", "to", "by", "for", "so", "with", "at", "on", "into", "that", "which"];
/// Words that make code in general of the word before them, and not one thing.
const CODE: [&str; 8] = ["code", "things", "parts", "stuff", "logic", "ones", "definitions", "up"];
/// Words before tests.
const OF_TESTS: [&str; 6] = ["unit", "integration", "existing", "inline", "its", "their"];
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
const NOUNS: [&str; 60] = [
    "message",
    "messages",
    "resource",
    "resources",
    "variable",
    "variables",
    "output",
    "outputs",
    "rule",
    "rules",
    "route",
    "routes",
    "step",
    "steps",
    "protocol",
    "extension",
    "key",
    "keys",
    "target",
    "targets",
    "job",
    "jobs",
    "section",
    "sections",
    "script",
    "scripts",
    "service",
    "services",
    "setting",
    "settings",
    "constructor",
    "constructors",
    "getter",
    "setter",
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

/// Whether a task asks to remove something: it, or one of those that it is in, which are named after it. The tests of what is
/// asked for may go with it.
pub(super) fn asks_for(task: &str, names: &[&str], path: &str) -> bool {
    let verbs = [VERBS.as_slice(), CHANGES.as_slice()].concat();
    let (asked, in_test) = (named(task, &verbs), is_test(path));
    let covers = |name: &&str| {
        let (own, of) = (last(name), name.rsplit_once(['.', ':']).map(|(of, _)| of.trim_end_matches(':')));
        asked.iter().any(|word| {
            word == name || last(word) == own || of == Some(word) || in_test && is_test_of(own, word)
        })
    };
    names.iter().any(covers) || names.iter().any(|name| is_called_test(name)) && speaks_of_tests(task, &verbs)
}

/// Whether a task asks to have nothing in the function of one of these names.
pub(super) fn empties(task: &str, names: &[&str]) -> bool {
    let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let about = |word: &str| is(&ALL_OF_THEM, word) || names.iter().any(|name| last(word) == last(name));
    words(task).any(|words| {
        let at = words.iter().position(|word| is(&EMPTIES, word));
        at.is_some() && !denied(&words, at) && words.iter().any(|word| about(word.trim_end_matches("'s")))
    })
}

/// Whether a task asks to have something elsewhere.
pub(super) fn moves(task: &str, name: &str) -> bool {
    let asked = named(task, &MOVES).iter().any(|word| last(word) == last(name));
    asked || is_called_test(name) && speaks_of_tests(task, &MOVES)
}

/// Whether these verbs are about tests, and not about those of something.
fn speaks_of_tests(task: &str, verbs: &[&str]) -> bool {
    let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    words(task).any(|words| {
        let verb = words.iter().position(|word| is(verbs, word));
        let Some(objects) = verb.map(|at| &words[at + 1..]) else { return false };
        let before = objects.iter().take_while(|word| is(&ARTICLES, word) || is(&OF_TESTS, word)).count();
        let restricted =
            objects.get(before + 1).is_some_and(|next| is(&["of", "for", "that", "which"], next));
        objects.get(before).is_some_and(|word| is(&["tests"], word)) && !restricted && !denied(&words, verb)
    })
}

/// Whether a word is one that is not to be done.
fn denied(words: &[&str], at: Option<usize>) -> bool {
    let before = at.and_then(|at| words[..at].last());
    before.is_some_and(|word| ["not", "never", "don't"].contains(&word.to_lowercase().as_str()))
}

/// Whether something has the name of a test.
fn is_called_test(name: &str) -> bool {
    let own = last(name).to_lowercase();
    own.starts_with("test")
        || own.ends_with("test")
        || own.ends_with("tests")
        || own.ends_with("_spec")
        || ["it ", "test ", "describe "].iter().any(|word| name.starts_with(word))
}

/// Whether code may go that a task does not name. `The unused function a` is one and has a name, and `simplify a` is about a.
pub(super) fn leaves_open(task: &str, path: &str) -> bool {
    let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let several = |word: &str| is(&NOUNS, word) && word.ends_with('s') && !word.eq_ignore_ascii_case("class");
    let open = |word: &str| several(word) || is(&CODE, word) || is(&FILES, word) || is_file(word, path);
    words(task).any(|words| {
        let signs = words.iter().enumerate().filter(|(_, word)| is(&SIGNS, word));
        signs.map(|(at, _)| &words[at + 1..]).any(|after| {
            let mut after = after.iter().filter(|word| !is(&ARTICLES, word));
            after.next().is_none_or(|word| open(word) || is(&PREPOSITIONS, word))
        })
    })
}

/// Whether a task is about having less of a file: of the file, and not of something in it.
pub(super) fn makes_shorter(task: &str, path: &str) -> bool {
    about_file(task, path, &SHORTER)
}

/// Whether a task is about writing a file anew.
pub(super) fn writes_anew(task: &str, path: &str) -> bool {
    about_file(task, path, &ANEW)
}

/// Whether one of these words is said of a file.
fn about_file(task: &str, path: &str, signs: &[&str]) -> bool {
    let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let names = |words: &[&str]| {
        let mut spoken_of = words.iter().take_while(|word| !is(&PREPOSITIONS, word));
        spoken_of.any(|word| is(&FILES, word) || is_file(word, path))
    };
    let mut before = false;
    for words in words(task) {
        for (at, word) in words.iter().enumerate().filter(|(_, word)| is(signs, word)) {
            let about = if is(&BEFORE, word) { &words[at + 1..] } else { &words[..at] };
            let about = match about.iter().rposition(|word| is(&["make", "and", "then", COMMA], word)) {
                Some(begin) if !is(&BEFORE, word) => &about[begin + 1..],
                Some(_) | None => about,
            };
            let it = about.iter().find(|word| !is(&["rewrite", "write", "start", "begin"], word));
            if names(about) || before && it.is_some_and(|word| is(&["it", "this"], word)) {
                return true;
            }
        }
        // What `it` is in the next sentence.
        before = names(&words);
    }
    false
}

/// Whether a word is the name of a file, with or without its ending.
fn is_file(word: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    [path, name, stem].iter().any(|known| !known.is_empty() && known.eq_ignore_ascii_case(word))
}

/// The words of a task that stand where names of what is to go stand.
fn named(task: &str, verbs: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for words in words(task) {
        let is = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
        for (at, word) in words.iter().enumerate() {
            if is(verbs, word) && !denied(&words, Some(at)) {
                let of = usize::from(is(&["rid"], word) && words.get(at + 1) == Some(&"of"));
                found.extend(objects(&words[at + 1 + of..]));
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
        let next = words.get(at + 1).copied().unwrap_or_default();
        // A word for what has a name is one itself where none comes after it.
        let ends = next.is_empty() || is(&PREPOSITIONS, next) || is(&ARTICLES, next);
        let noun = is(&NOUNS, word) && (!joined || word.ends_with('s') || !ends);
        if is(&ARTICLES, word) || noun {
            joined |= is(&["and", "or", "also", COMMA], word);
            continue;
        }
        if !joined || is(&PARTS, next) || !is_name(word) {
            break;
        }
        joined = false;
        let of_tests = is(&["test", "tests"], next);
        found.push(if of_tests { format!("test_{word}") } else { (*word).to_owned() });
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
    let inside = |letter: char| letter.is_alphanumeric() || ['_', '.', ':', '$', '#', '-'].contains(&letter);
    word.chars().all(inside) && word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

/// The last part of a name such as `R.Name`, `T::name` or `get name`.
fn last(name: &str) -> &str {
    name.rsplit(['.', ':', ' ']).next().unwrap_or(name)
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

    fn asks_in(path: &str, task: &str, names: &[&str]) -> bool {
        names.iter().all(|name| asks_for(task, &[name], path))
    }

    fn asks(task: &str, names: &[&str]) -> bool {
        asks_in("calc.py", task, names)
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
        assert!(
            asks("Inline the helper `helper` into add", &["helper"]) && asks("Drop the helper", &["helper"])
        );
        assert!(!asks("Drop the helper sub", &["helper"]), "it has another name");
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
    }

    #[test]
    fn tests_go_with_what_they_test() {
        let names = ["test_sub", "TestSubMore"];
        assert!(asks_in("tests/test_calc.py", "Remove sub from calc.py", &names));
        assert!(!asks("Remove sub from calc.py", &names));
        assert!(!asks_in("test_calc.py", "Remove sub from calc.py", &["test_add"]));
        // And not the other way round.
        assert!(asks_in("test_calc.py", "Remove the sub tests", &names));
        assert!(!asks("Remove the sub test", &["sub"]));
    }

    #[test]
    fn a_task_can_be_about_having_less_of_a_file() {
        for (task, path) in [
            ("Make the README shorter.", "README.md"),
            ("Write ci.yml anew", ".github/workflows/ci.yml"),
            ("Shorten notes.txt to ten lines", "notes.txt"),
            ("Rewrite the file from scratch.", "notes.txt"),
            ("notes.txt is too long. Make it shorter.", "notes.txt"),
            ("The README should be shorter", "README.md"),
        ] {
            assert!(makes_shorter(task, path), "{task}");
        }
        for task in [
            "Make addition commute in m.c",
            "Remove the trailing comma",
            "Make the TITLE shorter",
            "Make the title of notes.txt shorter",
            "Shorten the first line in notes.txt",
            "The title in notes.txt is too long. Make it shorter.",
            "Make other.txt shorter",
        ] {
            assert!(!makes_shorter(task, "notes.txt"), "{task}");
        }
        assert!(
            asks("Remove the job lint", &["jobs.lint"])
                && asks("Drop the key dev-dependencies", &["dev-dependencies"])
        );
        assert!(
            asks("Remove the constructor Calc", &["Calc.Calc"]) && asks("Remove the setter x", &["set x"])
        );
    }

    #[test]
    fn tests_are_known_by_their_name() {
        assert!(is_test("a/test_cart.py") && is_test("cart.spec.ts") && !is_test("latest.py"));
    }

    #[test]
    fn a_task_that_names_nothing_leaves_open_what_goes() {
        for task in ["Clean up calc.py", "Remove the unused functions", "There is dead code in calc.py."] {
            assert!(leaves_open(task, "calc.py"), "{task}");
        }
        for task in [
            "Simplify add",
            "Clean the title",
            "Remove unused imports",
            "Mend the dead link",
            "Fix the removal of blanks",
            "Add mul",
            "Remove the unused function sub",
            "Remove sub and fix add",
        ] {
            assert!(!leaves_open(task, "calc.py"), "{task}");
        }
    }
}
