//! Finds the tests in a text: the name of each, its body, and what keeps it from being run. One file for each way in which
//! languages write tests.

mod calls;
mod lines;
mod methods;
mod python;
mod rust;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::language::Language;
use super::side::Side;

/// What a text has.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) tests: Vec<Test>,
    /// What is around tests and keeps all of them from being run: classes, modules, suites.
    pub(super) blocks: Vec<Block>,
    /// Functions that are no tests.
    pub(super) functions: HashSet<String>,
    /// Modules that are in files of their own.
    pub(super) modules: HashSet<String>,
    /// Marks that leave the other tests out.
    pub(super) only: Vec<Mark>,
}

/// One test.
#[derive(Debug, Default)]
pub(super) struct Test {
    pub(super) name: String,
    /// What it stands in, so that tests of the same name are told apart.
    pub(super) scope: u64,
    /// Where it begins: its name.
    pub(super) at: usize,
    /// Where its attributes begin.
    pub(super) begin: usize,
    pub(super) body: Range<usize>,
    pub(super) marks: Vec<Mark>,
    /// Whether it is run with several values.
    pub(super) table: bool,
}

/// Something that keeps tests from being run, or their failure from counting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) what: String,
    pub(super) at: usize,
}

/// What stands around tests.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) range: Range<usize>,
    pub(super) marks: Vec<Mark>,
}

/// The tests of a text.
pub(super) fn tests(side: &Side) -> Found {
    match side.language {
        Language::Rust => rust::find(side),
        Language::Python => python::find(side),
        Language::Script => calls::find(side),
        Language::Ruby | Language::Bats => lines::find(side),
        Language::Go
        | Language::Java
        | Language::CSharp
        | Language::Cpp
        | Language::Php
        | Language::Swift => methods::find(side),
    }
}

/// A scope within another.
fn scope(around: u64, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (around, name).hash(&mut hasher);
    hasher.finish()
}

/// A word of code as text.
fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// Whether a name begins with the word `test` and not with one that goes on, as `testify` does.
fn begins_with_test(name: &[u8]) -> bool {
    let rest = name.strip_prefix(b"test").or_else(|| name.strip_prefix(b"Test"));
    rest.is_some_and(|rest| rest.first().is_none_or(|next| !next.is_ascii_lowercase()))
}
