//! What is known of single words where two notes are compared: which are forms of one, which say nothing, which rule each other out,
//! and which name things that stand beside each other. A word that is in none of the lists is only like itself.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::stop_words::is_glue;

/// Words that deny what their clause says.
const NEGATIONS: [&str; 15] = [
    "avoid",
    "banned",
    "cannot",
    "disallowed",
    "except",
    "forbidden",
    "neither",
    "never",
    "no",
    "nor",
    "not",
    "prohibited",
    "stop",
    "unless",
    "without",
];

/// Words that allow what their clause says.
const PERMISSIONS: [&str; 5] = ["allow", "allowed", "allows", "permitted", "permits"];

/// Words that may be there or not.
const FILLERS: [&str; 18] = [
    "actually",
    "already",
    "always",
    "anymore",
    "currently",
    "ever",
    "have",
    "here",
    "nowadays",
    "now",
    "really",
    "simply",
    "still",
    "today",
    "use",
    "used",
    "uses",
    "using",
];

/// Words that every text may have, and that change what it says all the same.
const TELLING: [&str; 9] = ["both", "few", "more", "most", "need", "only", "other", "same", "some"];

/// What stands before a noun.
const DETERMINERS: [&str; 18] = [
    "a", "an", "any", "each", "every", "her", "his", "its", "my", "our", "the", "their", "these", "this",
    "those", "whose", "your", "per",
];

/// What stands before what is done to something, or what it is.
const AUXILIARIES: [&str; 10] = ["are", "be", "been", "being", "get", "gets", "got", "is", "was", "were"];

/// What tells a word's part in a sentence.
const PREPOSITIONS: [&str; 30] = [
    "above", "after", "against", "as", "at", "before", "below", "between", "by", "during", "for", "from",
    "in", "inside", "instead", "into", "of", "off", "on", "onto", "out", "over", "since", "than", "through",
    "to", "under", "until", "via", "with",
];

/// Two of these are never the same part.
const DIRECTIONS: [&str; 9] = ["above", "against", "below", "by", "from", "into", "since", "to", "until"];

/// What comes after one of these in a clause says when, or of which things, the clause holds.
const CONDITIONS: [&str; 9] =
    ["because", "if", "that", "when", "whenever", "where", "which", "while", "whose"];

/// Small words that say the opposite of each other wherever they stand.
const SMALL_OPPOSITES: [(&str, &str); 6] =
    [("after", "before"), ("down", "up"), ("in", "out"), ("may", "must"), ("off", "on"), ("over", "under")];

/// Words that say the opposite of each other where they are what is said of a thing.
const OPPOSITES: [(&str, &str); 9] = [
    ("above", "below"),
    ("automatic", "manual"),
    ("automatically", "manually"),
    ("enabled", "disabled"),
    ("least", "most"),
    ("maximum", "minimum"),
    ("required", "optional"),
    ("shared", "separate"),
    ("true", "false"),
];

/// Other words for the same.
const SYNONYMS: [(&str, &str); 26] = [
    ("authentication", "auth"),
    ("configuration", "config"),
    ("continuous-integration", "ci"),
    ("database", "db"),
    ("dependency", "dep"),
    ("development", "dev"),
    ("directory", "folder"),
    ("documentation", "docs"),
    ("environment", "env"),
    ("execute", "run"),
    ("golang", "go"),
    ("javascript", "js"),
    ("k8s", "kubernetes"),
    ("launch", "run"),
    ("mandatory", "required"),
    ("obligatory", "required"),
    ("packages", "package"),
    ("person", "people"),
    ("postgresql", "postgres"),
    ("production", "prod"),
    ("repository", "repo"),
    ("reviewer", "reviewers"),
    ("specification", "spec"),
    ("tabulator", "tabs"),
    ("typescript", "ts"),
    ("variable", "var"),
];

/// Of each row a thing has one: where another is said of it, it is said otherwise.
const RIVALS: [&[&str]; 27] = [
    &["npm", "pnpm", "yarn", "bun"],
    &["pip", "pipenv", "poetry", "uv", "conda", "pdm"],
    &["mysql", "mariadb", "postgres", "sqlite", "oracle", "mssql", "cockroachdb", "mongodb"],
    &["redis", "memcached", "valkey"],
    &["kafka", "rabbitmq", "nats", "sqs"],
    &["tabs", "spaces"],
    &["single", "double"],
    &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
    &[
        "january",
        "february",
        "march",
        "april",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ],
    &["hourly", "daily", "nightly", "weekly", "fortnightly", "monthly", "quarterly", "yearly"],
    &["jest", "vitest", "mocha", "jasmine", "ava"],
    &["pytest", "unittest", "nose"],
    &["playwright", "cypress", "selenium", "puppeteer"],
    &["webpack", "vite", "rollup", "esbuild", "parcel", "turbopack"],
    &["maven", "gradle", "bazel"],
    &["eslint", "biome", "oxlint", "tslint"],
    &["ruff", "black", "yapf"],
    &["main", "master", "develop", "trunk"],
    &["jenkins", "circleci", "buildkite", "travis"],
    &["docker", "podman"],
    &["kubernetes", "nomad", "swarm"],
    &["aws", "gcp", "azure"],
    &["nginx", "apache", "caddy", "traefik", "haproxy"],
    &["react", "vue", "svelte", "angular"],
    &["redux", "zustand", "mobx"],
    &["django", "flask", "fastapi"],
    &["camelcase", "snake_case", "kebab-case", "pascalcase"],
];

/// Of each row there may be several at once: what is said of one says nothing about another.
const NEIGHBOURS: [&[&str]; 16] = [
    &["frontend", "backend", "front", "back", "web", "mobile", "desktop", "api", "worker", "cli"],
    &["staging", "stage", "prod", "dev", "test", "preview", "sandbox", "qa", "local", "ci", "canary"],
    &["unit", "integration", "e2e", "smoke", "acceptance", "component", "performance"],
    &["client", "server", "proxy"],
    &["read", "write"],
    &["input", "output"],
    &["request", "response"],
    &["linux", "macos", "windows", "android", "ios"],
    &["public", "private", "internal", "external", "admin"],
    &["import", "export", "importer", "exporter"],
    &["upload", "download"],
    &["arm64", "amd64", "arm", "x86", "x86_64", "aarch64"],
    &["primary", "replica", "secondary"],
    &["source", "target"],
    &["cpu", "memory", "disk", "network"],
    &["europe", "eu", "us", "asia"],
];

/// Programs of which commands are made.
const PROGRAMS: [&str; 20] = [
    "bazel", "bundle", "cargo", "cmake", "composer", "deno", "dotnet", "go", "gradle", "gulp", "just",
    "make", "mix", "mvn", "nextest", "node", "npx", "rake", "sbt", "tox",
];

/// A number after one of these is a name: ticket 12 and ticket 13 are two things.
const NAMED_BY_NUMBER: [&str; 29] = [
    "adr", "bug", "chapter", "code", "epic", "error", "exit", "http", "incident", "issue", "level", "line",
    "pep", "phase", "pr", "replica", "request", "rfc", "section", "shard", "sprint", "sqlstate", "stage",
    "status", "step", "story", "task", "ticket", "tier",
];

/// Several versions of these are there at once.
const VERSIONED: [&str; 5] = ["api", "endpoint", "protocol", "route", "schema"];

/// What takes no other than its own way to write each unit.
const UNITS: [(&str, &[&str]); 11] = [
    ("ms", &["msec", "millisecond", "milliseconds"]),
    ("s", &["sec", "secs", "second", "seconds"]),
    ("min", &["mins", "minute", "minutes"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("d", &["day", "days"]),
    ("w", &["week", "weeks"]),
    ("kb", &["kib", "kilobyte", "kilobytes"]),
    ("mb", &["mib", "megabyte", "megabytes"]),
    ("gb", &["gib", "gigabyte", "gigabytes"]),
    ("tb", &["tib", "terabyte", "terabytes"]),
    ("percent", &[]),
];

const NUMBERS: [(&str, &str); 13] = [
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
    ("twice", "2"),
];

/// What a thing has one of: the test command is one, whatever else is.
const ATTRIBUTES: [&str; 41] = [
    "address",
    "base",
    "branch",
    "broker",
    "bundler",
    "cache",
    "channel",
    "command",
    "compiler",
    "database",
    "encoding",
    "formatter",
    "format",
    "framework",
    "host",
    "language",
    "lead",
    "library",
    "licence",
    "license",
    "limit",
    "linter",
    "locale",
    "maintainer",
    "manager",
    "name",
    "owner",
    "path",
    "port",
    "prefix",
    "protocol",
    "provider",
    "region",
    "registry",
    "runner",
    "style",
    "timeout",
    "timezone",
    "tool",
    "url",
    "version",
];

/// The lists by the roots of their words.
struct Lexicon {
    synonyms: HashMap<String, String>,
    opposites: HashMap<String, (usize, &'static str)>,
    rivals: HashMap<String, usize>,
    neighbours: HashMap<String, usize>,
    programs: HashSet<String>,
    named_by_number: HashSet<String>,
    versioned: HashSet<String>,
    attributes: HashSet<String>,
}

fn lexicon() -> &'static Lexicon {
    static LEXICON: OnceLock<Lexicon> = OnceLock::new();
    LEXICON.get_or_init(|| {
        let synonyms: HashMap<String, String> =
            SYNONYMS.iter().map(|(word, same)| (stem(word), stem(same))).collect();
        let canonical = |word: &str| {
            let stem = stem(word);
            synonyms.get(&stem).cloned().unwrap_or(stem)
        };
        let rows = |rows: &[&[&str]]| {
            let words =
                rows.iter().enumerate().flat_map(|(row, words)| words.iter().map(move |word| (word, row)));
            words.map(|(word, row)| (canonical(word), row)).collect()
        };
        let pair = |(row, (one, other)): (usize, &(&'static str, &'static str))| {
            [(canonical(one), (row, *one)), (canonical(other), (row, *other))]
        };
        let all = |words: &[&str]| words.iter().map(|word| canonical(word)).collect();
        let opposites = OPPOSITES.iter().enumerate().flat_map(pair).collect();
        Lexicon {
            opposites,
            rivals: rows(&RIVALS),
            neighbours: rows(&NEIGHBOURS),
            programs: all(&PROGRAMS),
            named_by_number: all(&NAMED_BY_NUMBER),
            versioned: all(&VERSIONED),
            attributes: all(&ATTRIBUTES),
            synonyms,
        }
    })
}

/// What a word of a text is to the comparison, in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Negation,
    Permission,
    Filler,
    Determiner,
    Auxiliary,
    Preposition,
    Condition,
    /// Joins two clauses.
    Joint,
    Glue,
    Content,
}

pub(crate) fn part(word: &str) -> Part {
    if NEGATIONS.contains(&word) || word.ends_with("n't") || word.ends_with("n’t") {
        Part::Negation
    } else if PERMISSIONS.contains(&word) {
        Part::Permission
    } else if FILLERS.contains(&word) {
        Part::Filler
    } else if DETERMINERS.contains(&word) {
        Part::Determiner
    } else if AUXILIARIES.contains(&word) {
        Part::Auxiliary
    } else if PREPOSITIONS.contains(&word) {
        Part::Preposition
    } else if CONDITIONS.contains(&word) {
        Part::Condition
    } else if ["and", "but", "or", "whereas"].contains(&word) {
        Part::Joint
    } else if is_glue(word) && !TELLING.contains(&word) {
        Part::Glue
    } else {
        Part::Content
    }
}

/// Whether two parts in a sentence, by their prepositions, cannot be the same.
pub(crate) fn are_apart(one: &str, other: &str) -> bool {
    one != other && DIRECTIONS.contains(&one) && DIRECTIONS.contains(&other)
}

/// The side that a small word takes.
pub(crate) fn small_side(word: &str) -> Option<&'static str> {
    SMALL_OPPOSITES.iter().flat_map(|(one, other)| [*one, *other]).find(|side| *side == word)
}

/// The pair of opposites to which a root belongs, and its side of it.
pub(crate) fn side(root: &str) -> Option<(usize, &'static str)> {
    lexicon().opposites.get(root).copied()
}

/// Whether one text, by its sides, says the opposite of another.
pub(crate) fn oppose(has: impl Fn(&str) -> bool, other_has: impl Fn(&str) -> bool) -> bool {
    let against = |(one, two): &&(&str, &str)| {
        has(one) && !has(two) && other_has(two) && !other_has(one)
            || has(two) && !has(one) && other_has(one) && !other_has(two)
    };
    SMALL_OPPOSITES.iter().chain(&OPPOSITES).filter(against).count() % 2 == 1
}

/// The row of rivals that a word is in, by its root or, in code, as it is.
pub(crate) fn rivals(key: &str) -> Option<usize> {
    let rivals = &lexicon().rivals;
    rivals.get(key).or_else(|| rivals.get(&root(key))).copied()
}

/// Whether two words name things that stand beside each other.
pub(crate) fn are_neighbours(one: &str, other: &str) -> bool {
    let rows = &lexicon().neighbours;
    let row = |key: &str| rows.get(key).or_else(|| rows.get(&root(key)));
    root(one) != root(other) && row(one).is_some() && row(one) == row(other)
}

/// Whether a word names something that can be the value of something: a program, a product, a branch, a day.
pub(crate) fn names_a_value(key: &str) -> bool {
    let programs = &lexicon().programs;
    rivals(key).is_some() || programs.contains(key) || programs.contains(&root(key))
}

/// Whether a number after this word is a name.
pub(crate) fn is_named_by_number(root: &str) -> bool {
    lexicon().named_by_number.contains(root)
}

/// Whether several versions of what this word names are there at once.
pub(crate) fn is_versioned(root: &str) -> bool {
    lexicon().versioned.contains(root)
}

/// Whether a thing has one of what this word names.
pub(crate) fn is_attribute(root: &str) -> bool {
    lexicon().attributes.contains(root)
}

/// The preposition that a word is.
pub(crate) fn preposition(word: &str) -> Option<&'static str> {
    PREPOSITIONS.into_iter().find(|preposition| *preposition == word)
}

/// The one way to write a unit.
pub(crate) fn unit(word: &str) -> Option<&'static str> {
    UNITS.iter().find(|(unit, others)| *unit == word || others.contains(&word)).map(|(unit, _)| *unit)
}

/// A number that is written as a word.
pub(crate) fn number(word: &str) -> Option<&'static str> {
    NUMBERS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number)
}

/// A word without the ending that it has in this sentence, and the same for all words that say the same.
pub(crate) fn root(word: &str) -> String {
    let stem = stem(word);
    lexicon().synonyms.get(&stem).cloned().unwrap_or(stem)
}

/// Rough, and the same for both texts.
fn stem(word: &str) -> String {
    let cut = ["ing", "ed", "es", "s"]
        .into_iter()
        .filter(|ending| word.len() >= ending.len() + 3 && !word.ends_with("ss"))
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    let mut cut = cut.strip_suffix('e').filter(|cut| cut.len() >= 3).unwrap_or(cut).to_owned();
    // "copies" and "copy", "committed" and "commit".
    if cut.len() >= 3 && cut.ends_with('y') {
        cut.pop();
        cut.push('i');
    }
    let mut letters = cut.chars().rev();
    let doubled =
        letters.next().is_some_and(|last| last.is_ascii_lowercase() && letters.next() == Some(last));
    if doubled && cut.len() >= 4 {
        cut.pop();
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_root() {
        for (one, other) in [
            ("runs", "running"),
            ("copies", "copy"),
            ("commit", "committed"),
            ("calls", "calling"),
            ("passes", "pass"),
            ("caches", "cached"),
            ("executed", "run"),
            ("repositories", "repo"),
            ("PostgreSQL".to_lowercase().as_str(), "postgres"),
        ] {
            assert_eq!(root(one), root(other), "{one} {other}");
        }
        assert_ne!(root("test"), root("text"));
    }

    #[test]
    fn no_word_is_in_two_rows() {
        let words: Vec<String> = RIVALS.iter().flat_map(|row| row.iter().map(|word| root(word))).collect();
        let distinct: std::collections::BTreeSet<&String> = words.iter().collect();
        assert_eq!(words.len(), distinct.len());
        assert!(rivals(&root("yarn")) == rivals(&root("npm")) && rivals(&root("shop")).is_none());
        assert!(are_neighbours(&root("production"), &root("staging")) && !are_neighbours("prod", "unit"));
    }
}
