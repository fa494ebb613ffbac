//! Whether a layer can stand on another commit than the one it was made on. It can if the step that made it left the
//! repository alone: no tracked file changed, and nothing of git's own but the index, which is left out of it.

use std::time::Duration;

use super::inside;
use crate::{Error, Sandbox};

/// Looking at a large repository takes its time; it never takes this long.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Git with nothing of the workspace's own that could run or wait for a person.
const PRELUDE: &str = r#"set -e
g() { git --git-dir=.git --work-tree=. -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.bare=false -c safe.directory='*' "$@"; }
"#;

/// Does what the function `look` says in each of the directories that the arguments name, which are the repositories.
const EACH: &str = r#"
n=0
for at; do
  n=$((n + 1))
  (
    cd "$at"
    seen=/tmp/slipway-seen/$n
    look
  )
done
"#;

/// Remembers how git's own files are. Returns once the clock of the file system has moved on, so that whatever is written
/// next is newer.
const BEFORE: &str = r#"
rm -rf "$seen"
mkdir -p "$seen"
cp -p .git/index "$seen/index"
ls -A .git > "$seen/names"
touch "$seen/mark" "$seen/now"
until [ -n "$(find "$seen/now" -newer "$seen/mark")" ]; do touch "$seen/now"; done
"#;

/// Prints what is not as it was, a line each. The index is the one of before, so that a step cannot hide a change in it.
const AFTER: &str = r#"
ls -A .git > "$seen/names-now"
cmp -s "$seen/names" "$seen/names-now" || echo "the list of files in .git"
find .git ! -path .git ! -path .git/index -newer "$seen/mark" | head -n 5
GIT_OPTIONAL_LOCKS=0 GIT_INDEX_FILE="$seen/index" g status --porcelain --untracked-files=no > "$seen/status" 2> "$seen/errors"
head -n 5 "$seen/status"
"#;

/// Prints what is not as the commit has it, a line each.
const STATUS: &str = r#"
rm -rf "$seen"
mkdir -p "$seen"
GIT_OPTIONAL_LOCKS=0 g status --porcelain --untracked-files=no > "$seen/status" 2> "$seen/errors"
head -n 5 "$seen/status"
"#;

/// Called before a step runs. False where the base has no git: nobody can tell then.
pub(super) async fn before(sandbox: &dyn Sandbox, places: &[&str]) -> Result<bool, Error> {
    let script = format!("{PRELUDE}look() {{\ng rev-parse -q --verify HEAD >/dev/null\n{BEFORE}}}\n{EACH}");
    let script = crate::shell::script(&script, places, Some(TIMEOUT));
    let (exit, said) = inside::capture(sandbox, &script).await?;
    if exit.code != 0 {
        tracing::info!(sandbox = %sandbox.id(), said, "git does not work in this base; a step's layer is for one commit");
    }
    Ok(exit.code == 0)
}

/// Called after the step: None if it left the repository alone, otherwise what it changed.
pub(super) async fn changed(sandbox: &dyn Sandbox, places: &[&str]) -> Result<Option<String>, Error> {
    look(sandbox, AFTER, places).await
}

/// None if what the layers show together is what the commit has, otherwise what differs.
pub(super) async fn conflict(sandbox: &dyn Sandbox, places: &[&str]) -> Result<Option<String>, Error> {
    look(sandbox, STATUS, places).await
}

async fn look(sandbox: &dyn Sandbox, script: &str, places: &[&str]) -> Result<Option<String>, Error> {
    let script = format!("{PRELUDE}look() {{{script}}}\n{EACH}");
    let script = crate::shell::script(&script, places, Some(TIMEOUT));
    let (exit, said) = inside::capture(sandbox, &script).await?;
    match (exit.code, said.is_empty()) {
        (0, true) => Ok(None),
        (0, false) => Ok(Some(said)),
        // What cannot be looked at cannot be vouched for.
        _ => Ok(Some(format!("git could not look at it: {said}"))),
    }
}
