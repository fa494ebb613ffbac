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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The tool's code, such as `E0308`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the tool says.
    pub message: String,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Severity {
    /// It must be fixed.
    Error,
    /// It should be looked at.
    Warning,
    /// For information.
    Note,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TestStatus {
    /// It passed.
    Passed,
    /// It failed, or did not run to its end.
    Failed,
    /// It was not run.
    Skipped,
}
