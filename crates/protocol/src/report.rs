//! The parsed output of a check: the one shape that compilers, linters and test runners are turned into.

use serde::{Deserialize, Serialize};

/// What a check's output says. `passed` is decided by the exit code; the rest is for people and models to act on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    /// Name of the parser that read the output.
    pub parser: String,
    /// Compiler and linter findings, and failures that point at a line.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// Failed tests first; passed ones may be counted only.
    #[serde(default)]
    pub tests: Vec<TestCase>,
    /// Number of tests that passed.
    #[serde(default)]
    pub tests_passed: u32,
    /// Number of tests that failed.
    #[serde(default)]
    pub tests_failed: u32,
    /// Number of tests that were skipped.
    #[serde(default)]
    pub tests_skipped: u32,
    /// The end of the raw output, for what no parser understood.
    #[serde(default)]
    pub tail: String,
}

/// One finding at one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Path as the tool printed it, relative to the workspace where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Line of the end, from 1, where the tool tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    /// Column behind the end, from 1, where the tool tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_column: Option<u32>,
    /// The tool's code, such as `E0308`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the tool says.
    pub message: String,
    /// The lines around the place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Excerpt>,
}

/// A few lines of a file as it was when the check ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Excerpt {
    /// Number of the first line, from 1.
    pub first: u32,
    /// The lines.
    pub text: String,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Severity {
    /// It must be fixed.
    #[default]
    Error,
    /// It should be looked at.
    Warning,
    /// For information.
    Note,
}

/// One test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestCase {
    /// The runner's name of the test.
    pub name: String,
    /// How it ended.
    pub status: TestStatus,
    /// Where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line of the failure, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Why it failed, as the runner tells it, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What the assertion wanted, where the output tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What the assertion got, where the output tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// The lines around the place where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Excerpt>,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TestStatus {
    /// It passed.
    Passed,
    /// It failed, or did not run to its end.
    #[default]
    Failed,
    /// It was not run.
    Skipped,
}

/// What is known of a check from before a turn changed anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KnownCheck {
    /// The check's name.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What failed, without the lines around it; of a check that passed, how many tests ran, and which failed all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

/// What a check's run changed since the one before. What moved to another line of its file is the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    /// What was not there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<Finding>,
    /// What was there before and is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<Finding>,
    /// What was there before and still is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaining: Vec<Finding>,
}

/// A failed test or a diagnostic in one line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The test's name, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// The beginning of what is said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether it is known to have been there before the turn began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_turn: bool,
}

/// A change that makes checks say less, found in the diff: for people to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Weakening {
    /// What kind it is.
    pub kind: WeakeningKind,
    /// The file, or the check of which it shows.
    pub file: String,
    /// Line in the new file, or in the old one where the line is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What was found, in a few words.
    pub what: String,
}

/// How checks came to say less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum WeakeningKind {
    /// A file with tests was deleted.
    TestFileDeleted,
    /// A test was removed.
    TestRemoved,
    /// A test is not run any more, or its failure does not count.
    TestSkipped,
    /// Only chosen tests of a file are run.
    TestsNarrowed,
    /// An assertion was removed from a test.
    AssertionRemoved,
    /// A finding is silenced in the code.
    FindingSilenced,
    /// A threshold was lowered or a rule switched off.
    RuleLoosened,
    /// What is run as a check was changed.
    CheckChanged,
    /// A command's failure is ignored.
    FailureIgnored,
    /// A part of the changes could not be looked at, so what is in it is not known; or there is more than is listed.
    NotLookedAt,
    /// What tests compare with was changed; whether that is right cannot be seen from the change.
    TestDataChanged,
}
