//! How tests look in the languages that are known: where they are, how one begins, and what keeps it from being run.

/// The languages in which tests are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    Script,
    Go,
    Java,
    Cpp,
    Ruby,
}

impl Language {
    pub(super) fn of(path: &str) -> Option<Self> {
        let (_, ending) = path.rsplit_once('.')?;
        Some(match ending {
            "rs" => Self::Rust,
            "py" => Self::Python,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" | "vue" | "svelte" => Self::Script,
            "go" => Self::Go,
            "java" | "kt" | "kts" | "scala" | "groovy" => Self::Java,
            "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" => Self::Cpp,
            "rb" => Self::Ruby,
            _ => return None,
        })
    }

    /// The name of the test that begins on this line. In Rust and Java an attribute above makes it a test; see
    /// [`Self::marks_test`].
    pub(super) fn test_name(self, line: &str) -> Option<&str> {
        let text = line.trim_start();
        match self {
            Self::Rust => {
                let text = text.strip_prefix("pub ").unwrap_or(text);
                let text = text.strip_prefix("async ").unwrap_or(text);
                identifier(text.strip_prefix("fn ")?)
            }
            Self::Python => {
                let text = text.strip_prefix("async ").unwrap_or(text);
                let name = identifier(text.strip_prefix("def ").or_else(|| text.strip_prefix("class "))?)?;
                (name.starts_with("test") || name.starts_with("Test")).then_some(name)
            }
            Self::Go => identifier(text.strip_prefix("func ")?)
                .filter(|name| ["Test", "Fuzz", "Example"].iter().any(|word| name.starts_with(word))),
            Self::Script => {
                let call = ["it", "test", "describe", "xit", "xtest", "xdescribe", "fit", "fdescribe"]
                    .into_iter()
                    .find_map(|word| text.strip_prefix(word).filter(|rest| rest.starts_with(['(', '.'])))?;
                let (modifiers, rest) = call.split_once('(')?;
                let plain = modifiers.chars().all(|c| c == '.' || c.is_ascii_alphanumeric());
                plain.then(|| quoted(rest)).flatten()
            }
            Self::Java => {
                let (before, _) = text.split_once('(')?;
                let declares = before.contains("void ") || before.contains("fun ");
                let name = before.rsplit(' ').next().unwrap_or_default().trim_matches('`');
                (declares && !name.is_empty()).then_some(name)
            }
            Self::Cpp => {
                let rest = ["TEST(", "TEST_F(", "TEST_P(", "TEST_CASE("]
                    .iter()
                    .find_map(|word| text.strip_prefix(word))?;
                let name = rest.split(')').next().unwrap_or(rest);
                let name = name.rsplit(", ").next().unwrap_or(name);
                Some(name.strip_prefix("DISABLED_").unwrap_or(name))
            }
            Self::Ruby => {
                quoted(["it ", "xit ", "describe "].iter().find_map(|word| text.strip_prefix(word))?)
            }
        }
    }

    /// Whether this line above a function makes it a test, in languages where the name does not.
    pub(super) fn marks_test(self, line: &str) -> bool {
        let text = line.trim();
        match self {
            Self::Rust => text.strip_prefix("#[").is_some_and(|inside| {
                let path = inside.split([']', '(']).next().unwrap_or_default();
                path.rsplit("::").next() == Some("test")
                    || matches!(path, "rstest" | "test_case" | "proptest")
            }),
            Self::Java => ["@Test", "@ParameterizedTest", "@RepeatedTest"].iter().any(|word| {
                text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            }),
            _ => false,
        }
    }

    /// Whether a test begins only with an attribute above it.
    pub(super) fn by_attribute(self) -> bool {
        matches!(self, Self::Rust | Self::Java)
    }

    /// What on this line keeps a test from being run, or its failure from counting.
    pub(super) fn skip(self, line: &str) -> Option<&'static str> {
        let text = line.trim_start();
        let words: &[&'static str] = match self {
            Self::Rust => &["#[ignore"],
            Self::Python => &[
                "pytest.mark.skip",
                "pytest.mark.xfail",
                "@unittest.skip",
                "@skip",
                "@unittest.expectedFailure",
                "@expectedFailure",
                "pytest.skip(",
                "pytest.xfail(",
                "pytest.importorskip(",
                ".skipTest(",
                "unittest.SkipTest",
                "collect_ignore",
                "__test__ = False",
            ],
            Self::Script => &[
                ".skip(",
                ".skipIf(",
                ".todo(",
                ".fixme(",
                ".failing(",
                ".fails(",
                "xit(",
                "xtest(",
                "xdescribe(",
            ],
            Self::Go => &[".Skip(", ".Skipf(", ".SkipNow(", "//go:build ignore", "// +build ignore"],
            Self::Java => &["@Disabled", "@Ignore", "Assume.assume", "Assumptions.assume"],
            Self::Cpp => &["GTEST_SKIP(", "DISABLED_"],
            Self::Ruby => &["xit ", "xdescribe ", "skip ", "pending "],
        };
        let comment = text.starts_with("# ") || (text.starts_with("// ") && !text.starts_with("// +build"));
        if comment || (self == Self::Ruby && text.contains('=')) {
            return None;
        }
        words.iter().copied().find(|word| {
            let begins = matches!(*word, "xit(" | "xtest(" | "xdescribe(" | "#[ignore" | "@skip")
                || self == Self::Ruby;
            // A word in quotes is what a test is about, not what is done to it.
            let at = text.find(word);
            if begins { at == Some(0) } else { at.is_some_and(|at| !text[..at].contains(['"', '\'', '`'])) }
        })
    }

    /// What on this line makes the runner leave the other tests out.
    pub(super) fn only(self, line: &str) -> Option<&'static str> {
        let text = line.trim_start();
        if self != Self::Script || text.starts_with("//") {
            return None;
        }
        let focus = ["it.only(", "test.only(", "describe.only(", "suite.only(", "fit(", "fdescribe("];
        focus.into_iter().find(|word| text.starts_with(word))
    }

    /// Whether the line checks something.
    pub(super) fn asserts(self, line: &str) -> bool {
        let text = line.trim_start();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match self {
            Self::Rust => has(&["assert!(", "assert_eq!(", "assert_ne!(", "assert_matches!(", "prop_assert"]),
            Self::Python => text.starts_with("assert ") || has(&["self.assert", "pytest.raises("]),
            Self::Script => has(&["expect(", "assert(", "assert."]),
            Self::Go => has(&["t.Error", "t.Fatal", "assert.", "require.", "t.Fail("]),
            Self::Java => has(&[
                "assertEquals(",
                "assertTrue(",
                "assertThat(",
                "assertThrows(",
                "assertFalse(",
                "assert ",
            ]),
            Self::Cpp => has(&["EXPECT_", "ASSERT_", "REQUIRE(", "CHECK("]),
            Self::Ruby => has(&["expect(", "assert_", "should "]),
        }
    }

    /// Whether the line checks nothing although it looks like it.
    pub(super) fn asserts_nothing(self, line: &str) -> bool {
        let text: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        [
            "assert!(true",
            "assertTrue(true)",
            "expect(true).toBe(true)",
            "expect(1).toBe(1)",
            "assert.ok(true)",
        ]
        .iter()
        .any(|nothing| text.starts_with(nothing) || text.starts_with(&format!("self.{nothing}")))
            || (self == Self::Python
                && matches!(text.as_str(), "assertTrue" | "self.assertTrue(True)" | "assert1"))
            || (self == Self::Python && line.trim() == "assert True")
    }
}

/// Whether the path is where tests are kept.
pub(super) fn is_test_path(path: &str) -> bool {
    let folders = ["tests", "test", "__tests__", "spec", "specs", "testing"];
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let code = Language::of(path).is_some();
    let by_folder = code && folder.split('/').any(|part| folders.contains(&part));
    let by_name = stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.ends_with("_spec")
        || stem == "tests"
        || ending.starts_with("test.")
        || ending.starts_with("spec.")
        || (ending == "java" || ending == "kt")
            && ["Test", "Tests", "IT", "Spec"].iter().any(|end| stem.ends_with(end));
    by_folder || (code && by_name)
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    text[1..].split(quote).next()
}
