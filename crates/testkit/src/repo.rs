//! Repository fixtures: real bare repositories in temporary directories, as a remote to clone from and push to, and a
//! few small programs with a bug. The fixtures panic when git fails, since a test can do nothing about that.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A bare repository that goes away when dropped. Its default branch is `main`.
#[derive(Debug)]
pub struct Repo {
    directory: TempDir,
}

/// The one edit that makes a fixture's check pass: this text in this file, once, by that text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fix {
    /// The file with the bug.
    pub path: &'static str,
    /// The wrong text.
    pub old: &'static str,
    /// The right text.
    pub new: &'static str,
}

/// Mends [`Repo::failing_rust`].
pub const FIX_RUST: Fix =
    Fix { path: "src/lib.rs", old: "subtotal * (percent / 100)", new: "subtotal * percent / 100" };
/// Mends [`Repo::failing_python`].
pub const FIX_PYTHON: Fix = Fix { path: "cart.py", old: "range(1, len(prices))", new: "range(len(prices))" };
/// Mends [`Repo::plain`].
pub const FIX_PLAIN: Fix = Fix { path: "answer.txt", old: "41", new: "42" };

impl Repo {
    /// A repository with one commit on `main`. Files that begin with `#!` are executable.
    pub fn bare_with(files: &[(&str, &str)]) -> Self {
        let repo = Self::empty();
        repo.commit("main", files);
        repo
    }

    /// A repository without any commit.
    pub fn empty() -> Self {
        let directory = TempDir::new().unwrap_or_else(|error| panic!("cannot make a directory: {error}"));
        let repo = Self { directory };
        repo.git(&["init", "--quiet", "--bare", "--template=", "--initial-branch=main"]);
        repo
    }

    /// A Rust crate without dependencies. `cargo test --offline` fails in one of its three tests, until [`FIX_RUST`].
    pub fn failing_rust() -> Self {
        Self::bare_with(&[
            (".gitignore", "/target\n"),
            ("Cargo.toml", "[package]\nname = \"cart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"cart\"\nversion = \"0.1.0\"\n"),
            ("README.md", "# Cart\n\nAdds up a shopping cart. All amounts are in cents.\n"),
            ("src/lib.rs", RUST),
        ])
    }

    /// A Python module with tests for `python3 -m unittest` and pytest. One of three fails, until [`FIX_PYTHON`].
    pub fn failing_python() -> Self {
        Self::bare_with(&[
            (".gitignore", "__pycache__/\n.pytest_cache/\n"),
            ("README.md", "# Cart\n\nRun the tests with `python3 -m unittest`.\n"),
            ("cart.py", PYTHON),
            ("test_cart.py", PYTHON_TEST),
        ])
    }

    /// A few text files and a `check.sh` that fails until `answer.txt` says 42 ([`FIX_PLAIN`]). Needs only `sh`.
    pub fn plain() -> Self {
        Self::bare_with(&[
            ("README.md", "# Answers\n\n`check.sh` tells whether `answer.txt` is right.\n"),
            ("answer.txt", "41\n"),
            ("check.sh", CHECK),
            ("notes/question.txt", "What do you get if you multiply six by seven?\n"),
        ])
    }

    /// The repository's address: its path.
    pub fn url(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    /// The repository's directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The names of the branches, sorted.
    pub fn branches(&self) -> Vec<String> {
        let text = self.git(&["for-each-ref", "--format=%(refname:strip=2)", "refs/heads"]);
        text.lines().map(Into::into).collect()
    }

    /// A file's text at the tip of a branch; None when it is not there.
    pub fn file(&self, branch: &str, path: &str) -> Option<String> {
        let object = format!("refs/heads/{branch}:{path}");
        let found = command(self.path()).args(["cat-file", "-e", &object]).stderr(Stdio::null()).status();
        let found = found.unwrap_or_else(|error| panic!("cannot run git: {error}")).success();
        found.then(|| self.git(&["cat-file", "blob", &object]))
    }

    /// The subjects of a branch's commits, newest first.
    pub fn log(&self, branch: &str) -> Vec<String> {
        let text = self.git(&["log", "--format=%s", &format!("refs/heads/{branch}"), "--"]);
        text.lines().map(Into::into).collect()
    }

    /// The commit at the tip of a branch.
    pub fn tip(&self, branch: &str) -> String {
        self.git(&["rev-parse", "--verify", &format!("refs/heads/{branch}")]).trim().to_owned()
    }

    /// Adds a commit with these files and gives its id. A new branch starts from `main`.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let mode = |text: &str| if text.starts_with("#!") { "100755" } else { "100644" };
        let files: Vec<(&str, &str, &str)> =
            files.iter().map(|(path, text)| (mode(text), *path, *text)).collect();
        self.commit_as(branch, &files)
    }

    /// Adds a commit with a symbolic link and gives its id.
    pub fn link(&self, branch: &str, path: &str, target: &str) -> String {
        self.commit_as(branch, &[("120000", path, target)])
    }

    /// Adds a commit with files of these modes.
    fn commit_as(&self, branch: &str, files: &[(&str, &str, &str)]) -> String {
        let branches = self.branches();
        let from = [branch, "main"].into_iter().find(|name| branches.iter().any(|known| known == name));
        let subject = match files {
            [] => "Change nothing".to_owned(),
            [(_, path, _)] => format!("Change {path}"),
            _ => format!("Change {} files", files.len()),
        };
        let mut script = format!(
            "commit refs/heads/{branch}\ncommitter Fixture <fixture@example.com> now\ndata {}\n{subject}\n",
            subject.len()
        );
        if let Some(from) = from {
            script.push_str(&format!("from refs/heads/{from}^0\n"));
        }
        for (mode, path, text) in files {
            script.push_str(&format!("M {mode} inline {path}\ndata {}\n{text}\n", text.len()));
        }
        run(command(self.path()).args(["fast-import", "--quiet", "--date-format=now"]), script.as_bytes());
        self.tip(branch)
    }

    /// Runs git in the repository and gives its output; for what the other methods do not do.
    pub fn git(&self, args: &[&str]) -> String {
        run(command(self.path()).args(args), &[])
    }
}

/// Runs git in any directory with the fixtures' identity, and gives its output.
pub fn git_in(directory: &Path, args: &[&str]) -> String {
    run(command(directory).args(args), &[])
}

/// A git that knows who it is and does not care what the machine's configuration says.
fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C");
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "Fixture")
            .env(format!("GIT_{who}_EMAIL"), "fixture@example.com");
    }
    command
}

fn run(command: &mut Command, input: &[u8]) -> String {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run git: {error}"));
    if let Some(mut stdin) = child.stdin.take()
        && !input.is_empty()
    {
        stdin.write_all(input).unwrap_or_else(|error| panic!("cannot write to git: {error}"));
    }
    let output = child.wait_with_output().unwrap_or_else(|error| panic!("cannot wait for git: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const RUST: &str = r#"//! A shopping cart. All amounts are in cents.

/// One line of the cart.
pub struct Line {
    pub price: u64,
    pub quantity: u64,
}

/// The sum of all lines.
pub fn subtotal(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.price * line.quantity).sum()
}

/// The sum of all lines less a discount in per cent.
pub fn total(lines: &[Line], percent: u64) -> u64 {
    let subtotal = subtotal(lines);
    let discount = subtotal * (percent / 100);
    subtotal - discount
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        vec![Line { price: 250, quantity: 2 }, Line { price: 1000, quantity: 1 }]
    }

    #[test]
    fn lines_are_added_up() {
        assert_eq!(subtotal(&lines()), 1500);
    }

    #[test]
    fn an_empty_cart_costs_nothing() {
        assert_eq!(total(&[], 10), 0);
    }

    #[test]
    fn a_discount_is_taken_off() {
        assert_eq!(total(&lines(), 10), 1350);
    }
}
"#;

const PYTHON: &str = r#""""A shopping cart. All amounts are in cents."""


def total(prices):
    """The sum of all prices."""
    amount = 0
    for i in range(1, len(prices)):
        amount += prices[i]
    return amount


def with_discount(amount, percent):
    """The amount less a discount in per cent."""
    return amount - amount * percent // 100
"#;

const PYTHON_TEST: &str = r#"import unittest

from cart import total, with_discount


class CartTest(unittest.TestCase):
    def test_empty_cart(self):
        self.assertEqual(total([]), 0)

    def test_prices_are_added_up(self):
        self.assertEqual(total([250, 1000]), 1250)

    def test_discount(self):
        self.assertEqual(with_discount(1500, 10), 1350)


if __name__ == "__main__":
    unittest.main()
"#;

const CHECK: &str = r#"#!/bin/sh
# Passes when answer.txt says 42.
answer=$(cat answer.txt) || exit 1
if [ "$answer" = 42 ]; then
    echo "ok: the answer is 42"
else
    echo "answer.txt:1: error: expected 42, found $answer" >&2
    exit 1
fi
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// Clones the fixture, runs the check before and after the fix, and says whether each passed.
    fn before_and_after(repo: &Repo, fix: Fix, check: &[&str]) -> (bool, bool) {
        let directory = TempDir::new().unwrap();
        let work = directory.path().join("work");
        git_in(directory.path(), &["clone", "--quiet", &repo.url(), "work"]);
        let passes = || {
            let mut command = Command::new(check[0]);
            // The target directory of the tests that are running is not the fixture's.
            command
                .args(&check[1..])
                .current_dir(&work)
                .env("CARGO_TARGET_DIR", directory.path().join("target"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        let before = passes();
        let text = std::fs::read_to_string(work.join(fix.path)).unwrap();
        assert_eq!(text.matches(fix.old).count(), 1, "the wrong text must be there once");
        std::fs::write(work.join(fix.path), text.replace(fix.old, fix.new)).unwrap();
        (before, passes())
    }

    #[test]
    fn plain_fails_until_it_is_mended() {
        assert_eq!(before_and_after(&Repo::plain(), FIX_PLAIN, &["./check.sh"]), (false, true));
    }

    #[test]
    fn rust_fails_until_it_is_mended() {
        let check = ["cargo", "test", "--offline", "--locked"];
        assert_eq!(before_and_after(&Repo::failing_rust(), FIX_RUST, &check), (false, true));
    }

    #[test]
    fn python_fails_until_it_is_mended() {
        // With caching on, a source mended within the same second and of the same length would not be seen.
        let check = ["python3", "-B", "-m", "unittest"];
        assert_eq!(before_and_after(&Repo::failing_python(), FIX_PYTHON, &check), (false, true));
    }

    #[test]
    fn commits_and_branches_can_be_read_back() {
        let repo = Repo::bare_with(&[("a.txt", "one\n")]);
        let first = repo.tip("main");
        let second = repo.commit("topic/x", &[("a.txt", "two"), ("d/b.txt", "b\n")]);
        assert_eq!(repo.branches(), ["main", "topic/x"]);
        assert_eq!(repo.file("main", "a.txt").as_deref(), Some("one\n"));
        assert_eq!(repo.file("topic/x", "a.txt").as_deref(), Some("two"));
        assert_eq!(repo.file("main", "d/b.txt"), None);
        assert_eq!(repo.log("topic/x"), ["Change 2 files", "Change a.txt"]);
        assert_eq!(repo.git(&["rev-parse", "topic/x^"]).trim(), first);
        assert_eq!(repo.tip("topic/x"), second);
    }
}
