//! Git inside the sandbox. The workspace's content is untrusted, so it is only ever run in there: hooks are off, and
//! what comes out is an object id that is checked to be one, a text that is bounded, or a bundle that the host
//! verifies.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::{Code, Diff, Problem};
use sandbox::{Sandbox, WORKSPACE};

use crate::Author;
use crate::failure::Failure;
use crate::process::{Captured, Command};
use crate::stop::Stop;

/// Longest patch that is handed out.
const PATCH_LIMIT: usize = 8 * 1024 * 1024;
/// Git commands on a large workspace take their time; none takes this long.
const TIMEOUT: Duration = Duration::from_secs(600);

/// `plain` is git with nothing of the workspace's own that could run or wait for a person; `g` is that on the workspace,
/// whatever its configuration says about where the work tree is.
const PRELUDE: &str = r#"set -e
plain() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c commit.gpgsign=false -c gc.auto=0 -c safe.directory='*' "$@"; }
g() { plain --git-dir=.git --work-tree=. -c core.bare=false "$@"; }
"#;

/// Clones the bundle `$1` of branch `$2` and puts the session's branch `$3` on it. With `$6` the tip is work in
/// progress: it becomes uncommitted changes again.
const CLONE: &str = r#"
plain clone -q --branch "$2" "$1" .
rm -f "$1"
g checkout -q -B "$3"
g remote set-url origin "$4"
g config user.name "$7"
g config user.email "$8"
if [ "$2" = "$3" ]; then g update-ref -d "refs/remotes/origin/$3"; fi
g update-ref "refs/remotes/origin/$9" "$5"
if [ -n "$6" ]; then g reset -q "HEAD^"; fi
"#;

/// Brings a workspace that has the repository to commit `$2`, out of the bundle `$1` if there is one, on the session's
/// branch `$3`. Changes that set-up steps made to tracked files stay where they can. The rest is as in `CLONE`.
const MOVE: &str = r#"
if [ -n "$1" ]; then
  g fetch -q --no-tags --no-write-fetch-head "$1" '+refs/heads/*:refs/slipway/in/*'
  rm -f "$1"
fi
g checkout -q -B "$3" "$2" 2>/dev/null || g checkout -q -f -B "$3" "$2"
g for-each-ref --format='delete %(refname)' refs/slipway/in | g update-ref --stdin
g remote set-url origin "$4" 2>/dev/null || g remote add origin "$4"
g config user.name "$7"
g config user.email "$8"
g update-ref "refs/heads/$9" "$5"
g update-ref "refs/remotes/origin/$9" "$5"
if [ -n "$6" ]; then g reset -q "HEAD^"; fi
"#;

/// Puts another session's workspace on this session's branch `$1`, with everything that is not committed as it is.
const BRANCH: &str = r#"
head=$(g rev-parse -q --verify 'HEAD^{commit}')
g update-ref "refs/heads/$1" "$head"
g symbolic-ref HEAD "refs/heads/$1"
"#;

/// Prints the id of the whole working tree, through an index of its own, so that what the agent staged stays. The copy
/// keeps the index's time: git looks into a file whose size and second are unchanged only if the index is no newer than
/// it, and would otherwise miss an edit made in the second of the clone.
///
/// What is not to be delivered is what the repository ignores and what tools leave behind as a cache; a list that the
/// agent made for itself, or a file that it told git not to look at, does not hide work from the checks.
const TREE: &str = r#"
index=.git/index
mkdir -p .git/info
{
  printf '%s\n' '__pycache__/' '*.pyc' 'node_modules/' '.pytest_cache/' '.mypy_cache/' '.ruff_cache/'
  find . -maxdepth 4 \( -name .git -o -name node_modules \) -prune -o -name CACHEDIR.TAG -print 2>/dev/null |
    while IFS= read -r tag; do tag=${tag#.}; printf '%s\n' "${tag%/*}/"; done
  for product; do printf '%s\n' "$product"; done
} > .git/info/exclude
hidden=$(g ls-files -v 2>/dev/null | grep -c '^[a-zS]' || :)
GIT_INDEX_FILE=$(mktemp /tmp/slipway-index.XXXXXX)
export GIT_INDEX_FILE
trap 'rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"' EXIT
if [ "$hidden" != 0 ]; then
  rm -f "$GIT_INDEX_FILE"; g read-tree HEAD
else
  cp -p "$index" "$GIT_INDEX_FILE" 2>/dev/null || { rm -f "$GIT_INDEX_FILE"; g read-tree HEAD; }
fi
g add -A . >/dev/null 2>&1 || { rm -f "$GIT_INDEX_FILE"; g read-tree HEAD; g add -A . >/dev/null; }
g write-tree
"#;

/// Commits tree `$1` on top of `$2` (or of what the agent committed on top of that) and writes a bundle `$5` of it
/// as branch `$4`, without what the host has (`$6`). `$3` is the session's branch when the commit is to be its tip.
/// Prints the commit and its parent. That the index follows is a courtesy: a lock that a killed git left must not cost
/// the commit.
const COMMIT: &str = r#"
parent=$2
if head=$(g rev-parse -q --verify 'HEAD^{commit}') && g merge-base --is-ancestor "$2" "$head"; then parent=$head; fi
if [ "$(g rev-parse "$parent^{tree}")" = "$1" ]; then
  commit=$parent
else
  commit=$(printf '%s\n' "$7" | g commit-tree "$1" -p "$parent")
fi
if [ -n "$3" ]; then
  g update-ref "refs/heads/$3" "$commit"
  g symbolic-ref HEAD "refs/heads/$3"
  g reset -q || :
fi
if [ "$commit" != "$6" ]; then
  g update-ref "refs/heads/$4" "$commit"
  g bundle create -q "$5" "refs/heads/$4" "^$6"
  g update-ref -d "refs/heads/$4"
fi
echo "$commit $parent"
"#;

/// Lists untracked files and directories, those that are untracked as a whole as one.
const PRODUCTS: &str =
    r#"g ls-files -z --others --exclude-standard --directory --no-empty-directory 2>/dev/null || :"#;
/// Longest list of them.
const PRODUCTS_LIMIT: usize = 96 * 1024;

const NUMSTAT: &str = r#"g diff --no-ext-diff --no-textconv --numstat "$1" "$2""#;
const PATCH: &str = r#"g diff --no-ext-diff --no-textconv --no-color "$1" "$2""#;

/// A fresh clone for a session.
pub(crate) struct Clone<'a> {
    /// Path of the bundle inside the sandbox; it is removed.
    pub(crate) bundle: &'a str,
    /// The branch that is in the bundle.
    pub(crate) bundled: &'a str,
    /// The session's branch.
    pub(crate) branch: &'a str,
    /// The branch the session started from.
    pub(crate) source: &'a str,
    /// The commit the session started from.
    pub(crate) base: &'a str,
    /// The remote's address, without credentials.
    pub(crate) remote: &'a str,
    /// Whether the tip is work in progress.
    pub(crate) unfinished: bool,
}

/// Another place for a workspace that has the repository.
pub(crate) struct Move<'a> {
    /// Path of the bundle inside the sandbox; it is removed. None when the commit is there already.
    pub(crate) bundle: Option<&'a str>,
    /// Where to go.
    pub(crate) commit: &'a str,
    /// The session's branch.
    pub(crate) branch: &'a str,
    /// The branch the session started from.
    pub(crate) source: &'a str,
    /// The commit the session started from.
    pub(crate) base: &'a str,
    /// The remote's address, without credentials.
    pub(crate) remote: &'a str,
    /// Whether the commit is work in progress.
    pub(crate) unfinished: bool,
}

/// A commit of the working tree.
pub(crate) struct Commit<'a> {
    pub(crate) tree: &'a str,
    /// The last commit that the host knows of on the session's branch.
    pub(crate) tip: &'a str,
    /// The commit the session started from.
    pub(crate) base: &'a str,
    /// The session's branch when the commit becomes its tip; None for work in progress.
    pub(crate) branch: Option<&'a str>,
    /// Name of the branch in the bundle.
    pub(crate) bundled: &'a str,
    /// Where the bundle is written, inside the sandbox.
    pub(crate) bundle: &'a str,
    pub(crate) message: &'a str,
}

/// What was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) commit: String,
    /// Equal to `commit` when there was nothing to commit.
    pub(crate) parent: String,
}

/// Git in one sandbox's workspace.
pub(crate) struct Git<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) author: &'a Author,
}

impl Git<'_> {
    async fn run(
        &self,
        script: &str,
        args: &[&str],
        limit: usize,
        stop: Option<&Stop>,
    ) -> Result<Captured, Failure> {
        let Author { name, email } = self.author;
        let env = [
            ("GIT_AUTHOR_NAME", name.as_str()),
            ("GIT_AUTHOR_EMAIL", email),
            ("GIT_COMMITTER_NAME", name),
            ("GIT_COMMITTER_EMAIL", email),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_PAGER", "cat"),
            ("LC_ALL", "C"),
        ];
        let env: BTreeMap<String, String> =
            env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let script = format!("{PRELUDE}{script}");
        let command = Command { script: &script, args, env, cwd: WORKSPACE, timeout: TIMEOUT, limit };
        let captured = command.run(self.sandbox, stop).await?;
        if captured.code == 0 {
            return Ok(captured);
        }
        let said = captured.stderr.trim();
        let said = if said.is_empty() { "it gave no reason" } else { said };
        Err(Failure::Problem(
            Problem::new(Code::DeliveryFailed, format!("git in the workspace failed: {said}")).hint(
                "the workspace's repository may have been changed or removed by a command of this session",
            ),
        ))
    }

    /// Clones into the empty workspace.
    pub(crate) async fn clone(&self, clone: &Clone<'_>, stop: &Stop) -> Result<(), Failure> {
        let Author { name, email } = self.author;
        let unfinished = if clone.unfinished { "yes" } else { "" };
        let args = [
            clone.bundle,
            clone.bundled,
            clone.branch,
            clone.remote,
            clone.base,
            unfinished,
            name,
            email,
            clone.source,
        ];
        self.run(CLONE, &args, 0, Some(stop)).await.map(drop)
    }

    /// Brings the workspace to a commit.
    pub(crate) async fn go(&self, to: &Move<'_>, stop: &Stop) -> Result<(), Failure> {
        let Author { name, email } = self.author;
        let unfinished = if to.unfinished { "yes" } else { "" };
        let bundle = to.bundle.unwrap_or("");
        let args = [bundle, to.commit, to.branch, to.remote, to.base, unfinished, name, email, to.source];
        self.run(MOVE, &args, 0, Some(stop)).await.map(drop)
    }

    /// Puts the workspace on a branch, as it is.
    pub(crate) async fn branch(&self, name: &str) -> Result<(), Failure> {
        self.run(BRANCH, &[name], 0, None).await.map(drop)
    }

    /// What is in the workspace that git neither tracks nor ignores, as patterns that match exactly that.
    pub(crate) async fn products(&self) -> Result<Vec<String>, Failure> {
        let listed = self.run(PRODUCTS, &[], PRODUCTS_LIMIT, None).await?;
        let text = String::from_utf8_lossy(&listed.stdout);
        // What was cut off in the middle is no name.
        let whole = text.rfind('\0').map_or("", |end| &text[..end]);
        let names = whole.split('\0').filter(|name| !name.is_empty() && !name.contains(['\n', '\u{fffd}']));
        Ok(names.map(pattern).collect())
    }

    /// The id of the whole working tree, without what git ignores and what the set-up left there.
    pub(crate) async fn tree(&self, products: Option<&[String]>) -> Result<String, Failure> {
        let products: Vec<&str> = products.unwrap_or_default().iter().map(String::as_str).collect();
        let captured = self.run(TREE, &products, 256, None).await?;
        object_id(&String::from_utf8_lossy(&captured.stdout))
    }

    /// Commits the tree and bundles the result.
    pub(crate) async fn commit(&self, commit: &Commit<'_>) -> Result<Committed, Failure> {
        let args = [
            commit.tree,
            commit.tip,
            commit.branch.unwrap_or(""),
            commit.bundled,
            commit.bundle,
            commit.base,
            commit.message,
        ];
        let captured = self.run(COMMIT, &args, 512, None).await?;
        let text = String::from_utf8_lossy(&captured.stdout).into_owned();
        let (commit, parent) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        Ok(Committed { commit: object_id(commit)?, parent: object_id(parent)? })
    }

    /// Files, lines added and lines removed between two commits or trees.
    pub(crate) async fn counts(&self, from: &str, to: &str) -> Result<(u32, u32, u32), Failure> {
        let captured = self.run(NUMSTAT, &[from, to], PATCH_LIMIT, None).await?;
        Ok(count(&String::from_utf8_lossy(&captured.stdout)))
    }

    /// The diff between two commits or trees.
    pub(crate) async fn diff(&self, from: &str, to: &str) -> Result<Diff, Failure> {
        let (files, insertions, deletions) = self.counts(from, to).await?;
        let captured = self.run(PATCH, &[from, to], PATCH_LIMIT, None).await?;
        let mut patch = String::from_utf8_lossy(&captured.stdout).into_owned();
        if captured.cut {
            patch.push_str("\n[the diff is longer than 8 MiB and was cut here]\n");
        }
        Ok(Diff { base: from.to_owned(), patch, files, insertions, deletions })
    }
}

/// The sums of `git diff --numstat`; binary files have dashes for numbers.
fn count(numstat: &str) -> (u32, u32, u32) {
    let (mut files, mut insertions, mut deletions) = (0u32, 0u32, 0u32);
    for line in numstat.lines() {
        let mut columns = line.split('\t');
        let (Some(added), Some(removed)) = (columns.next(), columns.next()) else { continue };
        files = files.saturating_add(1);
        insertions = insertions.saturating_add(added.parse().unwrap_or(0));
        deletions = deletions.saturating_add(removed.parse().unwrap_or(0));
    }
    (files, insertions, deletions)
}

/// A line of an ignore file that matches this path of the workspace and nothing else.
fn pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for letter in path.chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ']' | ' ' | '!' | '#') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// What the sandbox printed, if it is an object id and nothing else.
fn object_id(text: &str) -> Result<String, Failure> {
    let id = text.trim();
    if matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(id.to_owned());
    }
    Err(Failure::Problem(
        Problem::new(Code::DeliveryFailed, "git in the workspace gave something that is no object id")
            .hint("a command of this session may have replaced git; start a new session"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numstat_is_summed_and_binary_files_count_as_files() {
        assert_eq!(count("3\t1\tsrc/a.rs\n-\t-\tlogo.png\n10\t0\tb\n"), (3, 13, 1));
        assert_eq!(count(""), (0, 0, 0));
    }

    #[test]
    fn only_object_ids_are_taken_from_the_sandbox() {
        assert!(object_id(&"a1".repeat(20)).is_ok());
        assert!(object_id("--upload-pack=evil").is_err());
        assert!(object_id(&format!("{} x", "a".repeat(40))).is_err());
    }
}
