//! The tests of each changed file before and after, told apart by name: which are gone, which are not run any more, and which
//! ask for less. One that was renamed, moved or rewritten to ask as much is none of these.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use protocol::{Weakening, WeakeningKind as Kind};

use super::assertion::{Assertion, Strength};
use super::body::{self, Body};
use super::diff::{Change, File};
use super::find::{self, Found};
use super::language::{self, Language};
use super::side::Side;
use super::{finding, quote};

/// The tests of one side of a file.
#[derive(Default)]
pub(super) struct Half {
    tests: Vec<Known>,
    /// Marks of what is around tests: what, its line, and the tests in it, which stand one after the other.
    blocks: Vec<(String, u32, Range<usize>)>,
    /// Marks outside of all tests: what and where.
    loose: Vec<(String, u32)>,
    only: Vec<(String, u32)>,
    /// Assertions outside of tests: in helpers, or where tests have no names.
    rest: Vec<Assertion>,
    functions: HashSet<String>,
    modules: HashSet<String>,
    /// The words of comments and strings too.
    words: HashSet<String>,
}

/// One test with what it does.
struct Known {
    name: String,
    scope: u64,
    line: u32,
    marks: Vec<(String, u32)>,
    body: Body,
    table: bool,
    /// The cases that it is run with, where they are written with it.
    rows: Option<usize>,
    /// Names that it uses, where they are of functions that the other side does not have.
    helped: bool,
}

/// Both sides of a file.
pub(super) struct Sides<'a> {
    pub(super) file: &'a File<'a>,
    old: Half,
    new: Half,
}

impl<'a> Sides<'a> {
    pub(super) fn of(file: &'a File<'a>) -> Self {
        let old = Half::of(file, file.old, Change::Removed, &HashSet::new());
        let new = Half::of(file, file.new, Change::Added, &old.functions);
        Self { file, old, new }
    }
}

impl Half {
    fn of(file: &File<'_>, path: &str, change: Change, known: &HashSet<String>) -> Self {
        let mut half = Self::default();
        let Some(language) = Language::of(path) else { return half };
        for hunk in &file.hunks {
            let side = Side::of(hunk, change, language);
            if is_for_tests(path, &side) {
                half.read(&side, path, known);
            }
        }
        half
    }

    fn read(&mut self, side: &Side, path: &str, known: &HashSet<String>) {
        let Found { mut tests, blocks, functions, modules, only } = find::tests(side);
        tests.sort_by_key(|test| test.at);
        let first = self.tests.len();
        let mut outside = 0;
        let rest = |from: usize, to: usize, half: &mut Self| {
            if from >= to {
                return;
            }
            let body = body::read(side, from..to);
            half.loose.extend(body.marks.into_iter().map(|mark| (mark.what, side.number(mark.at))));
            if language::is_test_path(path) {
                half.rest.extend(body.asserts);
            }
        };
        for test in &tests {
            rest(outside, test.begin, self);
            outside = outside.max(test.body.end);
            let body = body::of_test(side, test.body.clone());
            let marks = test.marks.iter().chain(&body.marks);
            let marks = marks.map(|mark| (mark.what.clone(), side.number(mark.at))).collect();
            let helped = !known.is_empty()
                && side.words(test.body.clone()).any(|(_, word)| {
                    let word = String::from_utf8_lossy(word);
                    functions.contains(&*word) && !known.contains(&*word)
                });
            self.tests.push(Known {
                name: test.name.clone(),
                scope: test.scope,
                line: side.number(test.at),
                marks,
                body,
                table: test.table,
                rows: super::rows::count(side, test.begin..test.body.start, test.body.clone()),
                helped,
            });
        }
        rest(outside, side.code.len(), self);
        for block in blocks {
            let begins = tests.partition_point(|test| test.at < block.range.start);
            let ends = tests.partition_point(|test| test.at < block.range.end);
            let inside = first + begins..first + ends.max(begins);
            for mark in block.marks {
                self.blocks.push((mark.what, side.number(mark.at), inside.clone()));
            }
        }
        self.only.extend(only.into_iter().map(|mark| (mark.what, side.number(mark.at))));
        self.loose.extend(loose(side));
        self.functions.extend(functions);
        self.modules.extend(modules);
        let words = side.text.split(|c: char| !c.is_alphanumeric() && c != '_');
        self.words.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }

    fn asserts(&self) -> usize {
        self.tests.iter().map(|test| counted(&test.body)).sum()
    }
}

/// Whether a text has tests: by where it is, or by what it says of itself where that is not enough.
fn is_for_tests(path: &str, side: &Side) -> bool {
    let by_itself = matches!(
        side.language,
        Language::Rust | Language::Go | Language::Java | Language::CSharp | Language::Bats
    );
    let frameworks = [
        "import unittest",
        "from unittest",
        "import pytest",
        "from pytest",
        "vitest",
        "node:test",
        "@jest/globals",
    ];
    by_itself || language::is_test_path(path) || frameworks.iter().any(|word| side.text.contains(word))
}

/// Words of Python by which tests can be kept from being run.
pub(super) const WORDS_OF_LOOSE: [&[u8]; 10] = [
    b"pytestmark",
    b"__test__",
    b"__unittest_skip__",
    b"load_tests",
    b"Exception",
    b"collect_ignore",
    b"collect_ignore_glob",
    b"_exit",
    b"del",
    b"delattr",
];

/// What outside of tests keeps a file's tests from being run.
fn loose(side: &Side) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let whole = 0..side.code.len();
    match side.language {
        Language::Python => {
            // A line is read once for each word, however often that is on it.
            let mut seen: HashSet<(usize, &[u8])> = HashSet::new();
            for (at, word) in side.words(whole) {
                let assigned = word.starts_with(b"test")
                    && side.next_code(at + word.len()).is_some_and(|(_, byte)| byte == b'=');
                let known = WORDS_OF_LOOSE.contains(&word);
                if !known && !assigned || !seen.insert((side.line_begin(at), if known { word } else { b"=" }))
                {
                    continue;
                }
                let line = || side.line_text(at);
                let what = match word {
                    b"pytestmark" if line().contains("skip") || line().contains("xfail") => "pytestmark",
                    b"__test__" if line().contains("False") => "__test__ = False",
                    b"__unittest_skip__" => "__unittest_skip__",
                    b"load_tests" if line().trim_start().starts_with("def ") => "load_tests",
                    b"Exception" if line().contains("skip.Exception") => "skip.Exception",
                    b"collect_ignore" | b"collect_ignore_glob" => "collect_ignore",
                    b"_exit" if line().contains("(0)") => "os._exit(0)",
                    // The rest of the line says which, so that each counts by itself.
                    b"del" | b"delattr" if takes_away(line()) => {
                        found.push((quote(line()), side.number(at)));
                        continue;
                    }
                    _ if assigned && is_overwritten(line(), word) => {
                        found.push((quote(line()), side.number(at)));
                        continue;
                    }
                    _ => continue,
                };
                found.push((what.to_owned(), side.number(at)));
            }
        }
        Language::Script => {
            found.extend(ends_well(side, b"exit", "process.exit(0)"));
        }
        Language::Go => {
            let tags = side.text.lines().take_while(|line| !line.starts_with("package ")).map(str::trim_end);
            let tags = tags.filter(|line| line.starts_with("//go:build") || line.starts_with("// +build"));
            found.extend(tags.map(|line| (line.to_owned(), side.number(0))));
            found.extend(ends_well(side, b"Exit", "os.Exit(0)"));
        }
        Language::Java | Language::CSharp | Language::Php => {
            let skips = |line: &str| skipping(side.language, line.trim());
            found.extend(
                (1..).zip(side.text.lines()).filter_map(|(number, line)| Some((skips(line)?, number))),
            );
        }
        _ => {}
    }
    found
}

/// The first call in code that ends the program as if all were well.
fn ends_well(side: &Side, word: &[u8], call: &str) -> Option<(String, u32)> {
    let (at, _) = side.words(0..side.code.len()).find(|(at, found)| {
        let before = call.find('(').map_or(0, |open| open - word.len());
        *found == word
            && at
                .checked_sub(before)
                .is_some_and(|at| side.text.as_bytes()[at..].starts_with(call.as_bytes()))
    })?;
    Some((call.to_owned(), side.number(at)))
}

/// Whether a line of Python takes tests away that were defined before it: `del Till.test_total`, `delattr(Till, "test_total")`.
fn takes_away(line: &str) -> bool {
    let test = |name: &str| name.rsplit('.').next().is_some_and(|name| name.trim().starts_with("test"));
    match line.trim().strip_prefix("del ") {
        // What a test does inside is its own matter: there it is indented.
        Some(names) => !line.starts_with([' ', '\t']) && names.split(',').any(test),
        None => line.contains("delattr(") && (line.contains("\"test") || line.contains("'test")),
    }
}

/// Whether a line of Python, outside of everything, puts something else in the place of a test: `Till.test_total = print`.
fn is_overwritten(line: &str, word: &[u8]) -> bool {
    let word = String::from_utf8_lossy(word);
    let Some((target, value)) = line.split_once('=') else { return false };
    let target = target.trim_end();
    let owned = target.strip_suffix(&*word).is_some_and(|owner| owner.ends_with('.'));
    !line.starts_with([' ', '\t'])
        && !value.starts_with('=')
        && (owned || target == word && value.trim() == "None")
}

/// What on a line skips tests that are no functions by themselves: of Scala and Kotest, of Pest, between `#if` and `#endif`.
fn skipping(language: Language, line: &str) -> Option<String> {
    let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    let skips = match language {
        Language::Java => {
            begins(&["ignore(\"", "xtest(", "xit(", "xdescribe(", "xcontext(", "xshould(", "xscenario("])
                || line.starts_with("\"!") && line.ends_with('{')
                || line.contains("config(enabled = false")
        }
        Language::CSharp => line.starts_with("#if "),
        Language::Php => {
            line.starts_with('}') && ["->skip(", "->todo(", "->skipOn"].iter().any(|word| line.contains(word))
        }
        _ => false,
    };
    skips.then(|| quote(line))
}

/// How many assertions of a test can fail.
fn counted(body: &Body) -> usize {
    body.asserts.iter().filter(|one| one.strength > Strength::Nothing).count()
}

impl Sides<'_> {
    /// The tests that are there before and after: the name, and what each asked for and asks for.
    pub(super) fn both(&self) -> Vec<(&str, &[Assertion], &[Assertion])> {
        let mut pairs = Pairs::default();
        pairs.by_name(&self.old, &self.new);
        let both = |(at, to): &(usize, usize)| {
            let (old, new) = (&self.old.tests[*at], &self.new.tests[*to]);
            (new.name.as_str(), old.body.asserts.as_slice(), new.body.asserts.as_slice())
        };
        pairs.same.iter().map(both).collect()
    }
}

/// What became of the tests of all files.
pub(super) fn compare(all: &[Sides<'_>], found: &mut Vec<Weakening>) {
    let mut moved = Moved::of(all);
    // The modules of Rust whose files are gone, or are called otherwise.
    let left = all.iter().filter(|sides| sides.file.new != sides.file.old);
    let left: HashSet<&str> = left.filter_map(|sides| module_of(sides.file.old)).collect();
    for (index, sides) in all.iter().enumerate() {
        one(index, sides, all, &left, &mut moved, found);
    }
}

/// The new tests of all files that have no old one in their own file, by name.
struct Moved(HashMap<String, Vec<(usize, usize)>>);

impl Moved {
    fn of(all: &[Sides<'_>]) -> Self {
        let mut by_name: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for (index, sides) in all.iter().enumerate() {
            let old: HashSet<&str> = sides.old.tests.iter().map(|test| test.name.as_str()).collect();
            for (at, test) in
                sides.new.tests.iter().enumerate().filter(|(_, test)| !old.contains(test.name.as_str()))
            {
                by_name.entry(test.name.clone()).or_default().push((index, at));
            }
        }
        by_name.values_mut().for_each(|list| list.reverse());
        Self(by_name)
    }

    /// Takes a test of this name in another file where runners find it.
    fn take(&mut self, name: &str, from: &str, all: &[Sides<'_>]) -> Option<(usize, usize)> {
        let list = self.0.get_mut(name)?;
        let at = list.last().copied().filter(|(index, _)| {
            let to = all[*index].file.new;
            to == from || !language::leaves_collection(from, to)
        })?;
        list.pop();
        Some(at)
    }
}

/// The module that a file of Rust is: `a` of `src/a.rs` and `src/a/mod.rs`.
fn module_of(path: &str) -> Option<&str> {
    let path = path.strip_suffix(".rs")?;
    path.strip_suffix("/mod").unwrap_or(path).rsplit('/').next()
}

fn one(
    index: usize,
    sides: &Sides<'_>,
    all: &[Sides<'_>],
    left: &HashSet<&str>,
    moved: &mut Moved,
    found: &mut Vec<Weakening>,
) {
    let Sides { file, old, new } = sides;
    if !file.new.is_empty()
        && file.old != file.new
        && !file.old.is_empty()
        && language::leaves_collection(file.old, file.new)
    {
        if file.hunks.is_empty() || !old.tests.is_empty() {
            let what =
                format!("{} was renamed, and test runners do not look for tests under this name", file.old);
            found.push(finding(file, Kind::TestFileDeleted, None, what));
        }
        return;
    }
    let mut pairs = Pairs::default();
    pairs.by_name(old, new);
    let mut gone: Vec<usize> = Vec::new();
    for at in pairs.left(old) {
        match moved.take(&old.tests[at].name, file.old, all) {
            Some((other, to)) => {
                if let Some(told) = weaker(&old.tests[at], &all[other].new.tests[to]) {
                    found.push(finding(all[other].file, told.0, Some(told.1), told.2));
                }
                if other == index {
                    pairs.taken.insert(to);
                }
            }
            None => gone.push(at),
        }
    }
    if file.new.is_empty() {
        let all_moved = !old.tests.is_empty() && gone.is_empty();
        if language::is_test_path(file.old) && !all_moved {
            let what = match gone.as_slice() {
                [] => "the file was deleted".to_owned(),
                [one] => format!("the file was deleted, with the test {}", old.tests[*one].name),
                more => format!("the file was deleted, with {} tests", more.len()),
            };
            found.push(finding(file, Kind::TestFileDeleted, None, what));
        }
        return;
    }
    let renamed = pairs.renamed(&mut gone, old, new);
    let before = found.len();
    for (at, to) in pairs.same.iter().chain(&renamed) {
        if let Some((kind, line, what)) = weaker(&old.tests[*at], &new.tests[*to]) {
            found.push(finding(file, kind, Some(line), what));
        }
    }
    for at in gone {
        let Known { name, line, .. } = &old.tests[at];
        let (kind, what) = if new.functions.contains(name) {
            (Kind::TestSkipped, format!("{name} is no test any more"))
        } else if new.words.contains(name) {
            (
                Kind::TestRemoved,
                format!(
                    "the test {name} is not run any more: it is in a comment, a string or a place that runners do not look at, or was taken away"
                ),
            )
        } else {
            (Kind::TestRemoved, format!("the test {name} was removed"))
        };
        found.push(finding(file, kind, Some(*line), what));
    }
    let kept: HashSet<usize> = pairs.same.iter().chain(&renamed).map(|(_, to)| *to).collect();
    around(file, old, new, &kept, found);
    if found.len() == before {
        outside(file, old, new, found);
    }
    for module in old.modules.difference(&new.modules) {
        let tests = language::is_test_path(file.new) || module.contains("test");
        let goes = left.contains(module.as_str());
        if tests && !goes && !new.functions.contains(module) && new.tests.len() <= old.tests.len() {
            let what = format!("the module {module} is not part of the tests any more");
            found.push(finding(file, Kind::TestRemoved, None, what));
        }
    }
}

/// Which old tests are which new ones.
#[derive(Default)]
struct Pairs {
    same: Vec<(usize, usize)>,
    /// New ones that an old one has.
    taken: HashSet<usize>,
    /// Old ones that have a new one.
    found: HashSet<usize>,
}

impl Pairs {
    /// By what they stand in and their name, then by name alone.
    fn by_name(&mut self, old: &Half, new: &Half) {
        for exact in [true, false] {
            let key = |test: &Known| (if exact { test.scope } else { 0 }, test.name.clone());
            let mut free: HashMap<(u64, String), Vec<usize>> = HashMap::new();
            for (at, test) in new.tests.iter().enumerate().rev().filter(|(at, _)| !self.taken.contains(at)) {
                free.entry(key(test)).or_default().push(at);
            }
            for (at, test) in old.tests.iter().enumerate() {
                if self.found.contains(&at) {
                    continue;
                }
                if let Some(to) = free.get_mut(&key(test)).and_then(Vec::pop) {
                    self.same.push((at, to));
                    self.taken.insert(to);
                    self.found.insert(at);
                }
            }
        }
    }

    fn left(&self, old: &Half) -> Vec<usize> {
        (0..old.tests.len()).filter(|at| !self.found.contains(at)).collect()
    }

    /// Takes from those that are gone the ones that have another name now: the same body first, then one for one, as long
    /// as there are as many new ones.
    fn renamed(&mut self, gone: &mut Vec<usize>, old: &Half, new: &Half) -> Vec<(usize, usize)> {
        let mut renamed = Vec::new();
        let mut by_body: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, test) in new.tests.iter().enumerate().filter(|(at, _)| !self.taken.contains(at)) {
            by_body.entry(test.body.hash).or_default().push(at);
        }
        gone.retain(|at| match by_body.get_mut(&old.tests[*at].body.hash).and_then(Vec::pop) {
            Some(to) => {
                self.taken.insert(to);
                renamed.push((*at, to));
                false
            }
            None => true,
        });
        let come: Vec<usize> = (0..new.tests.len()).filter(|at| !self.taken.contains(at)).collect();
        if !gone.is_empty() && gone.len() <= come.len() {
            renamed.extend(gone.drain(..).zip(come));
        }
        renamed
    }
}

/// How a test asks for less than it did: what kind, on which line, in words.
fn weaker(old: &Known, new: &Known) -> Option<(Kind, u32, String)> {
    let name = &new.name;
    let known: HashSet<&str> = old.marks.iter().map(|(what, _)| what.as_str()).collect();
    if let Some((mark, line)) = new.marks.iter().find(|(what, _)| !known.contains(what.as_str()))
        && old.marks.len() <= new.marks.len()
    {
        return Some((Kind::TestSkipped, *line, format!("{name} is not run, or may fail: {mark}")));
    }
    let (had, has) = (counted(&old.body), counted(&new.body));
    let kind = Kind::AssertionRemoved;
    if new.body.statements == 0 && old.body.statements > 0 {
        return Some((kind, new.line, format!("the body of {name} is empty")));
    }
    if has < had {
        let now: HashSet<&str> = new.body.asserts.iter().map(|one| one.text.as_str()).collect();
        let lost = old.body.asserts.iter().find(|one| !now.contains(one.text.as_str()));
        if let Some(nothing) = new.body.asserts.iter().find(|one| one.strength == Strength::Nothing) {
            return Some((
                kind,
                nothing.line,
                format!("{name}: this checks nothing: {}", quote(&nothing.text)),
            ));
        }
        if let Some((why, count)) =
            new.body.lost.filter(|(_, count)| *count > old.body.lost.map_or(0, |(_, count)| count))
        {
            return Some((
                kind,
                new.line,
                format!("{name}: {count} of its assertions count for nothing: {why}"),
            ));
        }
        // Several written out became one in a loop or a table, or in a function that is new.
        let gathered =
            has > 0 && (new.body.loops && !old.body.loops || new.table && !old.table) || new.helped;
        if gathered {
            return None;
        }
        let line = lost.map_or(new.line, |lost| lost.line);
        let quoted = lost.map(|lost| quote(&lost.text)).unwrap_or_default();
        let what = match had - has {
            1 => format!("{name}: an assertion was removed: {quoted}"),
            more => format!("{name}: {more} assertions were removed, the first: {quoted}"),
        };
        return Some((kind, line, what));
    }
    if let (Some(before), Some(now)) = (old.rows, new.rows.or(old.table.then_some(0)))
        && now < before
        && has <= had
    {
        let what = match before - now {
            1 => format!("{name}: a case of {before} was removed"),
            more => format!("{name}: {more} of its {before} cases were removed"),
        };
        return Some((kind, new.line, what));
    }
    looser(old, new)
}

/// Whether assertions were replaced by ones that ask for less.
fn looser(old: &Known, new: &Known) -> Option<(Kind, u32, String)> {
    let texts = |body: &Body| body.asserts.iter().map(|one| one.text.clone()).collect::<HashSet<_>>();
    let (before, now) = (texts(&old.body), texts(&new.body));
    let gone: Vec<&Assertion> = old.body.asserts.iter().filter(|one| !now.contains(&one.text)).collect();
    let come: Vec<&Assertion> = new.body.asserts.iter().filter(|one| !before.contains(&one.text)).collect();
    let strong = |list: &[&Assertion]| list.iter().filter(|one| one.strength >= Strength::Related).count();
    let told = |from: &Assertion, to: &Assertion| {
        let what = format!(
            "{}: an assertion asks for less: {} was {}",
            new.name,
            quote(&to.text),
            quote(&from.text)
        );
        Some((Kind::AssertionRemoved, to.line, what))
    };
    if strong(&come) < strong(&gone)
        && let Some(to) = come.iter().find(|one| one.strength < Strength::Related)
        && let Some(from) = gone
            .iter()
            .find(|one| one.strength >= Strength::Related && one.subject == to.subject)
            .or(gone.first())
    {
        return told(from, to);
    }
    let mut exact: HashMap<&str, &Assertion> = HashMap::new();
    for one in gone.iter().filter(|one| one.strength == Strength::Exact) {
        exact.entry(one.subject.as_str()).or_insert(one);
    }
    let still: HashSet<&str> = new
        .body
        .asserts
        .iter()
        .filter(|one| one.strength == Strength::Exact)
        .map(|one| one.subject.as_str())
        .collect();
    let to = come.iter().find(|one| {
        one.strength == Strength::Related
            && exact.contains_key(one.subject.as_str())
            && !still.contains(one.subject.as_str())
    });
    if let Some(to) = to {
        return told(exact.get(to.subject.as_str())?, to);
    }
    // The same with another number may be farther off.
    let mut near: HashMap<&str, (&Assertion, f64)> = HashMap::new();
    for one in &gone {
        if let Some(slack) = one.slack {
            near.entry(one.subject.as_str()).or_insert((one, slack));
        }
    }
    come.iter().find_map(|one| {
        let (from, before) = near.get(one.subject.as_str())?;
        told(from, one).filter(|_| one.slack.is_some_and(|now| now > *before))
    })
}

/// Marks on what stands around tests, and of whole files.
fn around(file: &File<'_>, old: &Half, new: &Half, kept: &HashSet<usize>, found: &mut Vec<Weakening>) {
    let mut before: HashMap<&str, usize> = HashMap::new();
    for (what, ..) in &old.blocks {
        *before.entry(what).or_default() += 1;
    }
    let mut known = |what: &str| match before.get_mut(what).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            true
        }
        None => false,
    };
    // How many of the tests up to each are still there: blocks may stand in blocks, each with the same tests in it.
    let mut still = vec![0_usize];
    for at in 0..new.tests.len() {
        still.push(still[at] + usize::from(kept.contains(&at)));
    }
    for (what, line, inside) in &new.blocks {
        // Where nothing is known of what is inside, as of a module in another file, it counts.
        let counts =
            inside.is_empty() && !old.modules.is_empty() || still.get(inside.end) > still.get(inside.start);
        if !known(what) && counts {
            let what = format!("tests are not run, or may fail: {what}");
            found.push(finding(file, Kind::TestSkipped, Some(*line), what));
        }
    }
    let had: HashSet<&str> = old.loose.iter().map(|(what, _)| what.as_str()).collect();
    let mut told = HashSet::new();
    for (what, line) in &new.loose {
        let counts = !file.old.is_empty() && (!kept.is_empty() || new.tests.is_empty());
        if counts && !had.contains(what.as_str()) && told.insert(what) {
            let what = format!("tests are not run, or may fail: {what}");
            found.push(finding(file, Kind::TestSkipped, Some(*line), what));
        }
    }
    if let Some((what, line)) = new.only.first().filter(|_| old.only.is_empty()) {
        let what = format!("{what}… leaves the other tests out");
        found.push(finding(file, Kind::TestsNarrowed, Some(*line), what));
    }
}

/// Assertions that are in no test that is known by name: in helpers, in programs that are tests as a whole.
fn outside(file: &File<'_>, old: &Half, new: &Half, found: &mut Vec<Weakening>) {
    let count = |list: &[Assertion]| list.iter().filter(|one| one.strength > Strength::Nothing).count();
    let (had, has) = (count(&old.rest), count(&new.rest));
    let come = new.asserts().saturating_sub(old.asserts());
    if had <= has + come {
        return;
    }
    let now: HashSet<&str> = new.rest.iter().map(|one| one.text.as_str()).collect();
    let nothing = new.rest.iter().find(|one| one.strength == Strength::Nothing);
    let Some(first) = old.rest.iter().find(|one| !now.contains(one.text.as_str())) else { return };
    let (line, what) = match (nothing, had - has) {
        (Some(nothing), _) => (nothing.line, format!("this checks nothing: {}", quote(&nothing.text))),
        (None, 1) => (first.line, format!("an assertion was removed: {}", quote(&first.text))),
        (None, more) => {
            (first.line, format!("{more} assertions were removed, the first: {}", quote(&first.text)))
        }
    };
    found.push(finding(file, Kind::AssertionRemoved, Some(line), what));
}
