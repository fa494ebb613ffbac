//! A suite of tasks as it is on disk: one directory for each, with what the model gets and what decides.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};

use crate::exit::Usage;

/// Files by their path in a repository.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Most bytes of all files of one part of a task.
const MOST_BYTES: usize = 4 << 20;

/// Tasks, by name.
pub(super) struct Suite {
    pub(super) tasks: Vec<Task>,
}

/// One task.
pub(super) struct Task {
    pub(super) name: String,
    pub(super) about: About,
    /// What the model gets.
    pub(super) repo: Files,
    /// What is laid over the result before the hidden check.
    pub(super) hidden: Files,
    /// Files that, laid over the repository, solve it.
    pub(super) solution: Files,
    /// Files that, laid over the repository, seem to.
    pub(super) wrong: Files,
    /// Changes when anything does that a result depends on.
    pub(super) fingerprint: String,
}

/// `task.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) kind: Kind,
    pub(super) language: String,
    pub(super) size: Size,
    pub(super) prompt: String,
    /// Directories, seen from the task's own, whose files are in the repository too, and are put back before the hidden
    /// check.
    #[serde(default)]
    pub(super) shared: Vec<String>,
    pub(super) visible: VisibleCheck,
    pub(super) hidden: HiddenCheck,
    #[serde(default)]
    pub(super) limits: Limits,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Feature,
    Fix,
    Refactor,
}

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Size {
    /// Within reach of a model of one or two billion parameters.
    Small,
    Medium,
}

/// The check that the model has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VisibleCheck {
    pub(super) run: String,
}

/// The check that decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HiddenCheck {
    pub(super) run: String,
    /// As many tests must have passed: a program that ends well before they ran is not a solution.
    pub(super) tests: u32,
}

/// What a trial may use.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) steps: u32,
    pub(super) seconds: u64,
    /// Of each check that decides.
    pub(super) check_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 40, seconds: 1200, check_seconds: 180 }
    }
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Feature => "feature",
            Self::Fix => "fix",
            Self::Refactor => "refactor",
        }
    }
}

impl Size {
    fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
        }
    }
}

impl Suite {
    /// Reads the tasks that a pattern names; all of them without one.
    pub(super) fn read(dir: &Path, only: &[String]) -> anyhow::Result<Self> {
        let entries = std::fs::read_dir(dir).map_err(|error| {
            Usage(anyhow!(
                "there are no tasks in {}: {error}\n  name their directory with --tasks; slipway's own are in evals/ of its \
                 repository",
                dir.display()
            ))
        })?;
        let mut dirs = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.join("task.toml").is_file() {
                dirs.push(path);
            }
        }
        dirs.sort();
        let read = |path: &Path| Task::read(path).with_context(|| format!("the task in {}", path.display()));
        let all = dirs.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>().map_err(Usage)?;
        let known: Vec<String> = all.iter().map(|task| task.name.clone()).collect();
        let tasks: Vec<Task> = all.into_iter().filter(|task| task.is_named_by(only)).collect();
        if tasks.is_empty() {
            let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Usage(anyhow!("no task is chosen in {}; there are: {there}", dir.display())).into());
        }
        Ok(Self { tasks })
    }
}

impl Task {
    fn read(dir: &Path) -> anyhow::Result<Self> {
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 60 || !name.chars().all(plain) {
            anyhow::bail!("its name is to be of small letters, digits and '-', and at most 60 long");
        }
        let text = std::fs::read_to_string(dir.join("task.toml")).context("cannot read task.toml")?;
        let about: About = toml::from_str(&text).context("task.toml cannot be used")?;
        if about.hidden.tests == 0 {
            anyhow::bail!("tests in [hidden] says how many must pass, so it is above 0");
        }
        let mut shared = Files::new();
        for other in &about.shared {
            shared.extend(files(&dir.join(other))?);
        }
        let mut repo = files(&dir.join("repo"))?;
        repo.extend(shared.clone());
        let mut hidden = files(&dir.join("hidden"))?;
        hidden.extend(shared);
        let (solution, wrong) = (files(&dir.join("solution"))?, files(&dir.join("wrong"))?);
        let fingerprint = fingerprint(&text, [&repo, &hidden]);
        Ok(Self { name, about, repo, hidden, solution, wrong, fingerprint })
    }

    fn is_named_by(&self, patterns: &[String]) -> bool {
        let About { kind, language, size, .. } = &self.about;
        let words = [self.name.as_str(), language, kind.as_str(), size.as_str()];
        patterns.is_empty() || patterns.iter().any(|pattern| words.iter().any(|word| matches(pattern, word)))
    }
}

/// Whether a word is the pattern, in which `*` stands for anything.
fn matches(pattern: &str, word: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = word.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Every file below a directory.
fn files(dir: &Path) -> anyhow::Result<Files> {
    let mut found = Files::new();
    let mut size = 0;
    let mut waiting = vec![String::new()];
    while let Some(below) = waiting.pop() {
        let here = dir.join(&below);
        for entry in std::fs::read_dir(&here).with_context(|| format!("cannot read {}", here.display()))? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| anyhow!("a name in {} is not text", here.display()))?;
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() {
                let content = std::fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                size += content.len();
                if size > MOST_BYTES {
                    anyhow::bail!(
                        "the files in {} are larger than {MOST_BYTES} bytes together",
                        dir.display()
                    );
                }
                found.insert(path, content);
            } else {
                anyhow::bail!("{} is neither a file nor a directory", entry.path().display());
            }
        }
    }
    Ok(found)
}

/// The same for the same content, in every version of this program (FNV-1a).
fn fingerprint(about: &str, parts: [&Files; 2]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        // The length keeps one piece apart from the next.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(about.as_bytes());
    for files in parts {
        add(&(files.len() as u64).to_le_bytes());
        for (path, content) in files {
            add(path.as_bytes());
            add(content);
        }
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, word, expected) in [
            ("rust", "rust", true),
            ("rust", "rust-fix", false),
            ("rust*", "rust-fix", true),
            ("*fix", "rust-fix", true),
            ("*fix", "rust-fix-it", false),
            ("r*-*x", "rust-fix", true),
            ("*", "anything", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, word), expected, "{pattern} {word}");
        }
    }

    #[test]
    fn a_fingerprint_changes_with_content_and_with_names() {
        let one = Files::from([("a".to_owned(), b"bc".to_vec())]);
        let other = Files::from([("ab".to_owned(), b"c".to_vec())]);
        let none = Files::new();
        let all = [
            fingerprint("t", [&one, &none]),
            fingerprint("t", [&other, &none]),
            fingerprint("t", [&none, &one]),
            fingerprint("u", [&one, &none]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0], fingerprint("t", [&one.clone(), &none]));
    }

    #[test]
    fn what_a_task_lacks_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let said = |error: anyhow::Result<Suite>| format!("{:#}", error.err().unwrap());
        assert!(said(Suite::read(&dir.path().join("none"), &[])).contains("--tasks"));
        assert!(said(Suite::read(dir.path(), &[])).contains("no task is chosen"));
        let task = dir.path().join("one");
        std::fs::create_dir(&task).unwrap();
        let about = "kind = \"fix\"\nlanguage = \"python\"\nsize = \"small\"\nprompt = \"Mend it.\"\n\
                     visible = { run = \"true\" }\nhidden = { run = \"true\", tests = 0 }\n";
        std::fs::write(task.join("task.toml"), about).unwrap();
        assert!(said(Suite::read(dir.path(), &[])).contains("above 0"));
        std::fs::write(task.join("task.toml"), about.replace("tests = 0", "tests = 2")).unwrap();
        assert!(said(Suite::read(dir.path(), &[])).contains("cannot read"));
        for part in ["repo", "hidden", "solution", "wrong"] {
            std::fs::create_dir(task.join(part)).unwrap();
        }
        assert_eq!(Suite::read(dir.path(), &["python".to_owned()]).unwrap().tasks.len(), 1);
        assert!(said(Suite::read(dir.path(), &["rust".to_owned()])).contains("there are: one"));
    }
}
