//! Git inside the sandbox, in the clone of one repository. The workspace's content is untrusted, so it is only ever run in there: hooks are off, and
//! what comes out is an object id that is checked to be one, a text that is bounded, or a bundle that the host
//! verifies.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use protocol::{Code, Diff, DiffSummary, FileChange, Problem};
use sandbox::{Sandbox, WORKSPACE};

use super::Patience;
use crate::failure::Failure;
use crate::people::Author;
use crate::process::{Captured, Command};
use crate::stop::Stop;

/// Longest patch that is handed out.
const PATCH_LIMIT: usize = 8 * 1024 * 1024;
/// The exit code of a script that has said all there is to say.
const TOLD: i32 = 77;
/// Waits before git is tried again that could start no process: those of a command that has ended may end too.
const CROWDED: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// `plain` is git with nothing of the workspace's own that could run or wait for a person; `g` is that on the workspace,
/// whatever its configuration says about where the work tree is. `undone` turns a commit of work in progress into uncommitted changes
/// again; what was being merged then is so again.
const PRELUDE: &str = r#"set -e
plain() { GIT_LFS_SKIP_SMUDGE=1 GIT_NO_REPLACE_OBJECTS=1 git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c submodule.recurse=false -c fetch.recurseSubmodules=no -c commit.gpgsign=false -c gc.auto=0 -c safe.directory='*' "$@"; }
g() { plain --git-dir=.git --work-tree=. -c core.bare=false "$@"; }
undone() {
  merged=$(g rev-parse -q --verify 'HEAD^2^{commit}') || merged=
  g reset -q 'HEAD^'
  if [ -n "$merged" ]; then echo "$merged" > .git/MERGE_HEAD; fi
}
"#;

/// Clones the bundle `$1` of branch `$2` and puts the session's branch `$3` on it. With `$6` the tip is work in
/// progress: it becomes uncommitted changes again. The source branch `$9` of the remote is put on `$5`, unless that is empty.
const CLONE: &str = r#"
plain clone -q --no-checkout -c user.name="$7" -c user.email="$8" --branch "$2" "$1" .
rm -f "$1"
g checkout -q -f -B "$3"
g remote set-url origin "$4"
if [ "$2" = "$3" ]; then g update-ref -d "refs/remotes/origin/$3"; fi
if [ -n "$5" ]; then g update-ref "refs/remotes/origin/$9" "$5"; fi
if [ -n "$6" ]; then undone; fi
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
if [ -n "$6" ]; then undone; fi
"#;

/// Puts another session's workspace on this session's branch `$1`, with everything that is not committed as it is.
const BRANCH: &str = r#"
head=$(g rev-parse -q --verify 'HEAD^{commit}')
g update-ref "refs/heads/$1" "$head"
g symbolic-ref HEAD "refs/heads/$1"
"#;

/// Lets what is committed in the workspace be by `$1`, with the address `$2`. A lock that stays for two seconds is of a git that was
/// killed, as a stop in that very moment does, and would keep every later turn from this.
const SIGN: &str = r#"
put() {
  if [ "$(g config --local --get "$1" 2>/dev/null)" = "$2" ]; then return; fi
  for try in 1 2 3 4 5 6 7 8 9 10; do
    if g config "$1" "$2" 2>/dev/null; then return; fi
    if ! [ -e .git/config.lock ]; then break; fi
    sleep 0.2 2>/dev/null || sleep 1
  done
  rm -f .git/config.lock
  g config "$1" "$2"
}
put user.name "$1"
put user.email "$2"
"#;

/// Commits tree `$1` on top of `$2` (or of what the agent committed on top of that), with what is being merged as a second parent. `$3` is the session's branch when the
/// commit is to be its tip. Prints the commit and its parent. That the index follows is a courtesy: a lock that a killed git
/// left must not cost the commit.
const COMMIT: &str = r#"
parent=$2
if head=$(g rev-parse -q --verify 'HEAD^{commit}') && g merge-base --is-ancestor "$2" "$head"; then parent=$head; fi
if merged=$(g rev-parse -q --verify 'MERGE_HEAD^{commit}') && [ "$parent" = "$head" ]; then
  commit=$(printf '%s\n' "$4" | g commit-tree "$1" -p "$parent" -p "$merged")
elif [ "$(g rev-parse "$parent^{tree}")" = "$1" ]; then
  commit=$parent
else
  commit=$(printf '%s\n' "$4" | g commit-tree "$1" -p "$parent")
fi
if [ -n "$3" ]; then
  g update-ref "refs/heads/$3" "$commit"
  g symbolic-ref HEAD "refs/heads/$3"
  g reset -q || :
fi
echo "$commit $parent"
"#;

/// Prints a bundle of commit `$1` as branch `$2`, without what the host has (`$3`).
const BUNDLE: &str = r#"
g update-ref "refs/heads/$2" "$1"
trap 'g update-ref -d "refs/heads/$2"' EXIT
g bundle create -q - "refs/heads/$2" "^$3"
"#;

/// Takes commits out of the pack `$1`, and puts every branch, and what is being merged, that is at a commit which was written anew
/// at what that is now: `$2` has both, line by line. The trees are the same, so files and index stay as they are.
const RENEW: &str = r#"
if [ -e "$1" ]; then g unpack-objects -q < "$1"; rm -f "$1"; fi
now() { printf '%s\n' "$2" | sed -n "s/^$1 //p"; }
# What is at another one by name only goes with that; and a branch that somebody locked stays where it is.
g for-each-ref --format='%(objectname) %(refname) %(symref)' refs/heads | while read -r was ref to; do
  if [ -n "$to" ]; then continue; fi
  is=$(now "$was" "$2")
  if [ -n "$is" ]; then g update-ref "$ref" "$is" "$was" || :; fi
done
was=$(g rev-parse -q --verify 'HEAD^{commit}') || was=none
is=$(now "$was" "$2")
if [ -n "$is" ]; then g update-ref HEAD "$is" "$was"; fi
if [ -f .git/MERGE_HEAD ]; then
  while read -r was; do
    is=$(now "$was" "$2")
    echo "${is:-$was}"
  done < .git/MERGE_HEAD > .git/MERGE_HEAD.new
  mv .git/MERGE_HEAD.new .git/MERGE_HEAD
fi
"#;
/// Where a pack of commits is put on its way in.
pub(super) const RENEWED: &str = "/tmp/slipway-renewed.pack";
/// Most commits that one run of it is told of: they are an argument of a program.
const RENEWED_MOST: usize = 500;

/// Prints the largest files that are in commit `$1` and not in `$2`.
const LARGEST: &str = r#"
g rev-list --objects "$1" "^$2" | g cat-file --batch-check='%(objectsize) %(objecttype) %(rest)' |
  grep '^[0-9]* blob ' | sort -rn | head -n 3
"#;
/// Longest list of them, and how long making it may take.
const LARGEST_LIMIT: usize = 8 * 1024;
const LARGEST_TIME: Duration = Duration::from_secs(10);

/// Removes what a git that was broken off leaves, with the directory `$1` of a script: it counts against the sandbox's disk
/// limit, and a lock keeps the next git from working.
const TIDY: &str = r#"
if [ -n "$1" ]; then rm -rf "$1"; fi
cd .git || exit 0
rm -rf objects/??/tmp_obj_* objects/pack/tmp_* objects/tmp_*
rm -f refs/heads/slipway-kept-*
"#;
const TIDY_TIME: Duration = Duration::from_secs(10);

/// Lists untracked files and directories, those that are untracked as a whole as one.
const PRODUCTS: &str =
    r#"g ls-files -z --others --exclude-standard --directory --no-empty-directory 2>/dev/null || :"#;
/// Longest list of them.
const PRODUCTS_LIMIT: usize = 96 * 1024;

/// Most files that a summary of a diff names.
pub(super) const SUMMED: usize = 100;
const NUMSTAT: &str = r#"g diff --no-ext-diff --no-textconv --numstat "$1" "$2""#;
/// With `$3` names in it begin with that directory.
const PATCH: &str = r#"
from=$1 to=$2 place=$3
set --
[ -z "$place" ] || set -- "--src-prefix=a/$place/" "--dst-prefix=b/$place/"
g diff --no-ext-diff --no-textconv --no-color "$@" "$from" "$to"
"#;

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
    /// The commit the session started from; None where it is what is in the bundle, as the source branch.
    pub(crate) base: Option<&'a str>,
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
    /// The session's branch when the commit becomes its tip; None for work in progress.
    pub(crate) branch: Option<&'a str>,
    pub(crate) message: &'a str,
}

/// What was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) commit: String,
    /// Equal to `commit` when there was nothing to commit.
    pub(crate) parent: String,
}

/// Git in the clone of one repository.
pub(crate) struct Git<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) author: &'a Author,
    pub(crate) patience: Patience<'a>,
    /// The directory of the workspace that it lies in; empty for the workspace itself.
    pub(crate) place: &'a str,
}

impl Git<'_> {
    /// The clone's directory.
    fn dir(&self) -> String {
        directory(self.place)
    }

    fn env(&self) -> BTreeMap<String, String> {
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
        env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub(super) async fn run(&self, script: &str, args: &[&str], limit: usize) -> Result<Captured, Failure> {
        self.attempt(script, args, limit, None).await
    }

    /// Runs a script, with its output going to a file of the host if there is one.
    async fn attempt(
        &self,
        script: &str,
        args: &[&str],
        limit: usize,
        into: Option<&Path>,
    ) -> Result<Captured, Failure> {
        let (script, dir) = (format!("{PRELUDE}{script}"), self.dir());
        let mut waits = CROWDED.into_iter();
        loop {
            let timeout = self.patience.left();
            let command = Command { script: &script, args, env: self.env(), cwd: &dir, timeout, limit };
            let stop = self.patience.stop();
            let ended = match into {
                Some(path) => command.run_into(self.sandbox, stop, path).await,
                None => command.run(self.sandbox, stop).await,
            };
            let failure = match ended {
                Ok(captured) if captured.code == 0 || (captured.cut && into.is_some()) => {
                    return Ok(captured);
                }
                Ok(captured) => Failure::Problem(trouble(&captured, timeout)),
                Err(failure) => failure,
            };
            let crowded = matches!(&failure, Failure::Problem(problem) if is_crowded(&problem.title));
            match waits.next() {
                Some(wait) if crowded && self.patience.pause(wait).await => {}
                _ => return Err(failure),
            }
        }
    }

    /// Gives what a command gave. What one leaves that was broken off is removed.
    pub(super) async fn tidied<T>(&self, work: &str, result: Result<T, Failure>) -> Result<T, Failure> {
        let result = result.map_err(of_the_work);
        if matches!(result, Err(Failure::Problem(_) | Failure::Stopped)) {
            let (script, env, dir) = (format!("{PRELUDE}{TIDY}"), self.env(), self.dir());
            let tidy =
                Command { script: &script, args: &[work], env, cwd: &dir, timeout: TIDY_TIME, limit: 0 };
            if let Err(failure) = tidy.run(self.sandbox, None).await {
                tracing::debug!(error = %failure.into_problem(), "what git left could not be removed");
            }
        }
        result
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
            clone.base.unwrap_or(""),
            unfinished,
            name,
            email,
            clone.source,
        ];
        self.unless(stop).run(CLONE, &args, 0).await.map(drop)
    }

    /// Brings the workspace to a commit.
    pub(crate) async fn go(&self, to: &Move<'_>, stop: &Stop) -> Result<(), Failure> {
        let Author { name, email } = self.author;
        let unfinished = if to.unfinished { "yes" } else { "" };
        let bundle = to.bundle.unwrap_or("");
        let args = [bundle, to.commit, to.branch, to.remote, to.base, unfinished, name, email, to.source];
        self.unless(stop).run(MOVE, &args, 0).await.map(drop)
    }

    /// Writes an object of Git LFS to a file of the host, as far as it is no longer than it should be.
    pub(crate) async fn large_object(&self, oid: &str, size: u64, to: &Path) -> Result<(), Failure> {
        let script = r#"exec cat ".git/lfs/objects/$1/$2/$3""#;
        let part = |from, to| oid.get(from..to).unwrap_or("none");
        let limit = usize::try_from(size).unwrap_or(usize::MAX);
        let args = [part(0, 2), part(2, 4), oid];
        self.attempt(script, &args, limit, Some(to)).await.map_err(of_the_work).map(drop)
    }

    pub(super) fn unless<'b>(&'b self, stop: &'b Stop) -> Git<'b> {
        Git { patience: Patience::unless(stop), ..*self }
    }

    /// Puts the workspace on a branch, as it is.
    pub(super) async fn branch(&self, name: &str) -> Result<(), Failure> {
        self.run(BRANCH, &[name], 0).await.map(drop)
    }

    /// Lets what the agent commits be by the same person as what is committed for it.
    pub(crate) async fn sign(&self) -> Result<(), Failure> {
        let Author { name, email } = self.author;
        self.run(SIGN, &[name, email], 0).await.map_err(of_the_work).map(drop)
    }

    /// What is in the workspace that git neither tracks nor ignores, as patterns that match exactly that.
    pub(crate) async fn products(&self) -> Result<Vec<String>, Failure> {
        let listed = self.run(PRODUCTS, &[], PRODUCTS_LIMIT).await.map_err(of_the_work)?;
        let text = String::from_utf8_lossy(&listed.stdout);
        // What was cut off in the middle is no name.
        let whole = text.rfind('\0').map_or("", |end| &text[..end]);
        let names = whole.split('\0').filter(|name| !name.is_empty() && !name.contains(['\n', '\u{fffd}']));
        Ok(names.map(pattern).collect())
    }

    /// Commits the tree.
    pub(crate) async fn commit(&self, commit: &Commit<'_>) -> Result<Committed, Failure> {
        let args = [commit.tree, commit.tip, commit.branch.unwrap_or(""), commit.message];
        let printed = self.run(COMMIT, &args, 512).await;
        let printed = self.tidied("", printed).await?;
        let text = String::from_utf8_lossy(&printed.stdout).into_owned();
        let (commit, parent) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        Ok(Committed { commit: object_id(commit)?, parent: object_id(parent)? })
    }

    /// Gives the workspace what the host made of its commits, of which there is a pack at `RENEWED`.
    pub(crate) async fn renew(&self, renewed: &[forge::Renewed]) -> Result<(), Failure> {
        // What branches are at is most often among the last.
        for part in renewed.rchunks(RENEWED_MOST) {
            let lines: Vec<String> = part.iter().map(|one| format!("{} {}", one.was, one.is)).collect();
            self.run(RENEW, &[RENEWED, &lines.join("\n")], 0).await.map_err(of_the_work)?;
        }
        Ok(())
    }

    /// Whether a commit has another in its history.
    pub(crate) async fn has_in(&self, commit: &str, history: &str) -> Result<bool, Failure> {
        let script = r#"if g merge-base --is-ancestor "$1" "$2" 2>/dev/null; then echo yes; fi"#;
        let said = self.run(script, &[commit, history], 16).await.map_err(of_the_work)?;
        Ok(said.stdout.starts_with(b"yes"))
    }

    /// Writes a bundle of what is in a commit and not in `base` to a file of the host, as a branch of this name.
    pub(crate) async fn bundle(
        &self,
        commit: &str,
        base: &str,
        branch: &str,
        to: &Path,
    ) -> Result<(), Failure> {
        let limit = usize::try_from(forge::BUNDLE_LIMIT).unwrap_or(usize::MAX);
        let bundled = self.attempt(BUNDLE, &[commit, branch, base], limit, Some(to)).await;
        if !self.tidied("", bundled).await?.cut {
            return Ok(());
        }
        let largest = self.largest(commit, base).await;
        let most = forge::BUNDLE_LIMIT >> 20;
        let title = format!("the work has more than {most} MiB, which is too much to keep{largest}");
        let hint = "take large generated files out of the branch's commits, and list them in .gitignore";
        self.tidied("", Err(Problem::new(Code::DeliveryFailed, title).hint(hint).into())).await
    }

    /// Words for the largest files that a commit brings. They are for show, so a failure costs only that.
    async fn largest(&self, commit: &str, base: &str) -> String {
        let git = Git { patience: Patience::at_most(LARGEST_TIME), ..*self };
        let Ok(listed) = git.run(LARGEST, &[commit, base], LARGEST_LIMIT).await else { return String::new() };
        let text = String::from_utf8_lossy(&listed.stdout);
        let name = |line: &str| {
            let (size, name) = line.split_once(" blob ")?;
            Some(format!("{} ({} MiB)", harmless(name), size.parse::<u64>().ok()? >> 20))
        };
        let names: Vec<String> = text.lines().filter_map(name).collect();
        if names.is_empty() { String::new() } else { format!("; the largest files: {}", names.join(", ")) }
    }

    /// Files, lines added and lines removed between two commits or trees.
    pub(crate) async fn counts(&self, from: &str, to: &str) -> Result<(u32, u32, u32), Failure> {
        let captured = self.run(NUMSTAT, &[from, to], PATCH_LIMIT).await?;
        Ok(count(&String::from_utf8_lossy(&captured.stdout)))
    }

    /// What changed between two commits or trees, file by file.
    pub(crate) async fn summary(&self, from: &str, to: &str) -> Result<DiffSummary, Failure> {
        let captured = self.run(NUMSTAT, &[from, to], PATCH_LIMIT).await?;
        let said = String::from_utf8_lossy(&captured.stdout);
        let (count, insertions, deletions) = count(&said);
        let mut files = files(&said);
        for file in &mut files {
            file.path = forge::placed(self.place, &file.path);
        }
        Ok(DiffSummary { files, count, insertions, deletions })
    }

    /// The patch between two commits or trees, up to a bound.
    pub(crate) async fn patch(&self, from: &str, to: &str) -> Result<String, Failure> {
        let captured = self.run(PATCH, &[from, to, self.place], PATCH_LIMIT).await?;
        let patch = String::from_utf8_lossy(&captured.stdout).into_owned();
        Ok(forge::place_names(self.place, patch))
    }

    /// The diff between two commits or trees.
    pub(crate) async fn diff(&self, from: &str, to: &str) -> Result<Diff, Failure> {
        let (files, insertions, deletions) = self.counts(from, to).await?;
        let captured = self.run(PATCH, &[from, to, self.place], PATCH_LIMIT).await?;
        let patch = String::from_utf8_lossy(&captured.stdout).into_owned();
        let mut patch = forge::place_names(self.place, patch);
        if captured.cut {
            patch.push_str("\n[the diff is longer than 8 MiB and was cut here]\n");
        }
        Ok(Diff { base: from.to_owned(), patch, files, insertions, deletions })
    }
}

/// The directory that a repository lies in.
pub(crate) fn directory(place: &str) -> String {
    if place.is_empty() { WORKSPACE.to_owned() } else { format!("{WORKSPACE}/{place}") }
}

/// Why a script failed.
fn trouble(captured: &Captured, timeout: Duration) -> Problem {
    let said = captured.trouble(timeout);
    if captured.code == TOLD {
        return Problem::new(Code::DeliveryFailed, said)
            .hint("remove what is not needed, or list it in .gitignore");
    }
    Problem::new(Code::DeliveryFailed, format!("git in the workspace failed: {said}"))
        .hint("the workspace's repository may have been changed or removed by a command of this session")
}

/// What the guest refuses, such as to start a process over a limit, keeps the work from being kept, and nothing else.
fn of_the_work(failure: Failure) -> Failure {
    match failure {
        Failure::Problem(Problem { code: Code::SandboxUnavailable, title, hint, .. }) => {
            let problem = Problem::new(Code::DeliveryFailed, format!("git in the workspace failed: {title}"));
            Failure::Problem(Problem { hint, ..problem })
        }
        other => other,
    }
}

/// Whether a failure is for want of processes.
fn is_crowded(said: &str) -> bool {
    ["Cannot fork", "can't fork", "unable to fork", "fork failed", "limit of processes", "fork: "]
        .iter()
        .any(|words| said.contains(words))
}

/// A name of the workspace as it can be shown.
pub(super) fn harmless(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
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

/// The first files of `git diff --numstat`.
fn files(numstat: &str) -> Vec<FileChange> {
    let file = |line: &str| {
        let mut columns = line.splitn(3, '\t');
        let [added, removed, path] = [columns.next()?, columns.next()?, columns.next()?];
        let (insertions, deletions) = (added.parse().unwrap_or(0), removed.parse().unwrap_or(0));
        Some(FileChange { path: harmless(path), insertions, deletions })
    };
    numstat.lines().filter_map(file).take(SUMMED).collect()
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
pub(super) fn object_id(text: &str) -> Result<String, Failure> {
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
