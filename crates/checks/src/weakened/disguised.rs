//! What keeps tests from saying anything without touching an assertion: ways to end a run early, names that runners pass over,
//! stand-ins for the runner or for what is tested. Lines are read one by one, and what was there before does not count.

use std::collections::HashSet;

use protocol::{Weakening, WeakeningKind as Kind};

use super::diff::{Change, File, Line};
use super::language::{self, Language};
use super::{fewer, finding, quote, replaced};

/// Modules of Python that a file of the same name takes the place of.
const RUNNERS: [&str; 5] = ["pytest", "_pytest", "unittest", "sitecustomize", "usercustomize"];
/// Most examples that are next to none.
const FEW_EXAMPLES: u32 = 10;

/// What is found in a diff.
pub(super) fn found(files: &[File<'_>], found: &mut Vec<Weakening>) {
    // What a file does not say any more is told once.
    let told: HashSet<String> = found.iter().map(|one| one.file.clone()).collect();
    for file in files.iter().filter(|file| !file.new.is_empty()) {
        found.extend(stands_in(file));
        if file.old.is_empty() || !language::is_test_path(file.new) && !has_tests(file) {
            continue;
        }
        if !told.contains(file.path())
            && let Some((kind, line, what)) = of_tests(file)
        {
            found.push(finding(file, kind, Some(line), what));
        }
    }
}

/// Tests of Rust stand in any file.
fn has_tests(file: &File<'_>) -> bool {
    Language::of(file.new) == Some(Language::Rust) && file.lines().any(|line| line.text.contains("#[test]"))
}

fn added<'a, 'b>(file: &'b File<'a>) -> impl Iterator<Item = &'b Line<'a>> {
    file.hunks.iter().flatten().filter(|line| line.change == Change::Added && !is_comment(line.text))
}

fn is_comment(text: &str) -> bool {
    let text = text.trim_start();
    ["//", "/*", "*"].iter().any(|mark| text.starts_with(mark))
        || text.starts_with('#') && !text.starts_with("#[")
}

/// A word in code: letters before it would make it another one.
fn says(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '"' | '\'' | '`'))
    })
}

/// The lines that were there before, in one place or another.
fn lines_before<'b>(file: &'b File<'_>) -> HashSet<&'b str> {
    file.lines().filter(|line| line.change != Change::Added).map(|line| line.text.trim()).collect()
}

/// A file that takes the place of what runs tests, or of what they are written with.
fn stands_in(file: &File<'_>) -> Option<Weakening> {
    if file.old.is_empty() {
        let name = file.new.strip_suffix("/__init__.py").or_else(|| file.new.strip_suffix(".py"));
        let name = name.map(|path| path.rsplit('/').next().unwrap_or(path));
        if let Some(name) = name.filter(|name| RUNNERS.contains(name)) {
            let what = format!("Python takes this for {name}, so it decides what tests say");
            return Some(finding(file, Kind::TestsNarrowed, None, what));
        }
    }
    if Language::of(file.new) != Some(Language::Script) {
        return None;
    }
    let names = ["it", "test", "describe", "expect"];
    let line = added(file).find(|line| {
        let rest = ["globalThis.", "global."].iter().find_map(|owner| line.text.trim().strip_prefix(owner));
        let word = rest.and_then(|rest| rest.split_once('=')).map(|(word, _)| word.trim());
        word.is_some_and(|word| names.contains(&word))
    })?;
    let what = format!("what tests are written with is replaced: {}", quote(line.text));
    Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
}

type Told = (Kind, u32, String);

fn of_tests(file: &File<'_>) -> Option<Told> {
    let had = |word: &str| file.lines().any(|line| line.change != Change::Added && line.text.contains(word));
    let now =
        |word: &str| file.lines().any(|line| line.change != Change::Removed && line.text.contains(word));
    let comes = |words: &[&str]| {
        let words: Vec<&&str> = words.iter().filter(|word| !had(word)).collect();
        added(file).find(|line| words.iter().any(|word| says(line.text, word)))
    };
    let not_run = |line: &Line<'_>| {
        (Kind::TestSkipped, line.number, format!("tests are not run, or may fail: {}", quote(line.text)))
    };
    let language = Language::of(file.new)?;
    let special = match language {
        Language::Python => comes(&["pytest.exit(", "sys.exit(0)", "sys.exit()", "raise SystemExit"])
            .or_else(|| added(file).find(|line| marks_as_skipped(line.text)))
            .or_else(|| no_test_any_more(file))
            .map(not_run)
            .or_else(|| examples(file))
            .or_else(|| replaced::in_python(file).map(stand_in)),
        Language::Script => comes(&["retryTimes("])
            .or_else(|| added(file).find(|line| skips_by_another_name(line.text)))
            .map(not_run)
            .or_else(|| mocks_itself(file))
            .or_else(|| replaced::in_script(file).map(stand_in)),
        Language::Go => added(file)
            .find(|line| line.text.starts_with("func TestMain("))
            .filter(|_| !now(".Run()"))
            .map(not_run),
        Language::Java => {
            let before = lines_before(file);
            let hidden = added(file).find(|line| {
                ["abstract class", "private void"].iter().any(|word| says(line.text, word))
                    && before.contains(without(line.text).as_str())
            });
            let import = |line: &&Line<'_>| is_import_of_test(line.text);
            let gone = file.lines().filter(|line| line.change == Change::Removed).find(import);
            // Another version of the same library is as good.
            let still = file.lines().any(|line| line.change != Change::Removed && import(&line));
            hidden.or(gone.filter(|_| now("@Test") && !still)).map(not_run)
        }
        Language::Rust => comes(&["macro_rules! assert", "macro_rules! panic"]).map(not_run),
        _ => None,
    };
    special.or_else(|| any_message(file)).or_else(|| on_a_condition(file)).or_else(|| fewer::found(file))
}

/// The same declaration as it was before.
fn without(text: &str) -> String {
    text.trim().replacen("abstract ", "", 1).replacen("private ", "", 1)
}

fn is_import_of_test(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("import org.junit.") && (text.ends_with(".Test;") || text.ends_with(".*;"))
        || text.starts_with("import org.testng.")
}

fn marks_as_skipped(text: &str) -> bool {
    (text.contains("applymarker(") || text.contains("add_marker("))
        && (text.contains("skip") || text.contains("xfail"))
}

/// A test of Python that is now something else: a fixture, a coroutine that nobody waits for, a method of a class that is not
/// collected because it has a constructor.
fn no_test_any_more<'b, 'a>(file: &'b File<'a>) -> Option<&'b Line<'a>> {
    let new: Vec<&Line<'_>> =
        file.hunks.iter().flatten().filter(|line| line.change != Change::Removed).collect();
    let waits = new.iter().any(|line| line.text.contains("await ") || line.text.contains("asyncio"));
    let before = lines_before(file);
    let names: HashSet<&str> = before.iter().filter_map(|line| line.split('(').next()).collect();
    let mut class: Option<&str> = None;
    for (at, line) in new.iter().enumerate() {
        let text = line.text.trim();
        if text.starts_with("class ") {
            class = Some(text);
        }
        if line.change != Change::Added {
            continue;
        }
        let test_below = new.get(at + 1).is_some_and(|next| {
            next.text.trim_start().starts_with("def test") && before.contains(next.text.trim())
        });
        let coroutine = text.strip_prefix("async ").is_some_and(|rest| {
            rest.starts_with("def test") && !waits && names.contains(rest.split('(').next().unwrap_or(rest))
        });
        let built = text.starts_with("def __init__(")
            && class.is_some_and(|class| class.starts_with("class Test") && !class.contains("TestCase"));
        if text.starts_with("@pytest.fixture") && test_below || coroutine || built {
            return Some(*line);
        }
    }
    None
}

/// Properties that are tried with next to no examples.
fn examples(file: &File<'_>) -> Option<Told> {
    let few = |line: &&Line<'_>| {
        let number = line.text.split_once("max_examples=").map(|(_, rest)| rest);
        let digits = number.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        digits.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|number| number < FEW_EXAMPLES)
    };
    let line = added(file).find(few)?;
    Some((Kind::RuleLoosened, line.number, format!("next to no examples are tried: {}", quote(line.text))))
}

/// `describe.skip` where it is not called but given another name, or chosen.
fn skips_by_another_name(text: &str) -> bool {
    ["describe", "it", "test", "suite", "context"].iter().any(|word| {
        ["skip", "todo"].iter().any(|how| {
            let whole = format!("{word}.{how}");
            says(text, &whole)
                && text.split_once(&whole).is_some_and(|(_, rest)| {
                    rest.trim_start().starts_with([';', ')', ',', ':']) || rest.is_empty()
                })
        })
    })
}

/// A test that replaces the module that it is named after.
fn mocks_itself(file: &File<'_>) -> Option<Told> {
    let name = file.new.rsplit('/').next()?;
    let stem = name.split('.').next()?;
    let line = added(file).find(|line| {
        let called = ["jest.mock(", "vi.mock(", "mock.module("].iter().find_map(|call| {
            says(line.text, call).then(|| line.text.split_once(call).map(|(_, rest)| rest)).flatten()
        });
        let path = called.and_then(|rest| rest.split(['\'', '"', '`']).nth(1));
        path.is_some_and(|path| {
            let last = path.rsplit('/').next().unwrap_or(path);
            path.starts_with('.') && last.split('.').next() == Some(stem)
        })
    })?;
    Some(stand_in(line))
}

/// What is said where a test has a stand-in for what it tests.
fn stand_in(line: &Line<'_>) -> Told {
    (Kind::AssertionRemoved, line.number, format!("what is tested is replaced: {}", quote(line.text)))
}

/// A failure whose words were looked at, and are not any more.
fn any_message(file: &File<'_>) -> Option<Told> {
    let of = |change: Change| file.lines().filter(move |line| line.change == change);
    for (call, asked, bare) in [
        ("raises(", "match=", "raises("),
        ("should_panic", "expected", "should_panic"),
        ("assertRaisesRegex(", "", "assertRaises("),
    ] {
        let asks = |line: &&Line<'_>| {
            let text: String = line.text.chars().filter(|c| *c != ' ').collect();
            let anything =
                ["match=\".*\"", "match='.*'", "match=\"\"", "match=''", "match=r\".*\"", "expected=\"\""];
            text.contains(call) && text.contains(asked) && !anything.iter().any(|all| text.contains(all))
        };
        let (before, now) =
            (of(Change::Removed).filter(asks).count(), of(Change::Added).filter(asks).count());
        let gone = of(Change::Removed).find(asks);
        // Where the call itself is gone, the assertion is, and that is told elsewhere.
        let still = of(Change::Added).find(|line| line.text.contains(bare) && !asks(line));
        if now < before
            && let (Some(gone), Some(still)) = (gone, still)
        {
            let what = format!("any message is taken now: {} was {}", quote(still.text), quote(gone.text));
            return Some((Kind::AssertionRemoved, still.number, what));
        }
    }
    None
}

/// What was asked for always, and now depends on where it is run.
fn on_a_condition(file: &File<'_>) -> Option<Told> {
    const PLACES: [&str; 8] = [
        "process.env",
        "import.meta.env",
        "os.environ",
        "os.getenv(",
        "os.Getenv(",
        "env::var(",
        "System.getenv(",
        "ENV[",
    ];
    const BEGIN: [&str; 8] =
        ["def test", "it(", "test(", "func Test", "#[test]", "@Test", "describe(", "it '"];
    let condition = |line: &&Line<'_>| {
        line.change == Change::Added
            && !is_comment(line.text)
            && (says(line.text, "if ") || says(line.text, "unless "))
            && PLACES.iter().any(|place| says(line.text, place))
    };
    let before = lines_before(file);
    let blocks = file.hunks.iter().flat_map(|hunk| super::blocks(hunk));
    let line = blocks
        // A new test may depend on what it likes.
        .filter(|block| {
            !block.iter().any(|line| {
                line.change == Change::Added
                    && BEGIN.iter().any(|word| line.text.trim_start().starts_with(word))
                    && !before.contains(line.text.trim())
            })
        })
        .find_map(|block| block.iter().find(condition))?;
    let what = format!("a test depends on where it is run: {}", quote(line.text));
    Some((Kind::TestSkipped, line.number, what))
}
