//! `search`: a regular expression over the workspace's files, without what git ignores.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox::WORKSPACE;

use super::{Done, Scope, absolute};
use crate::failure::Failure;
use crate::process::Command;

/// Bytes of matches that are looked at; the model is shown less.
const LIMIT: usize = 256 * 1024;
/// Bytes of matches that the model reads.
const SHOWN: usize = 24 * 1024;

/// `$1` is the pattern, `$2` the path, `$3` a glob or nothing. Outside a repository plain grep does it.
const SCRIPT: &str = r#"
if [ -f "$2" ]; then exec grep -HnIE --max-count=50 -e "$1" -- "$2"; fi
cd "$2" || exit 2
if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  p=$1
  if [ -n "$3" ]; then set -- ":(glob)**/$3" ":(glob)$3"; else set -- .; fi
  exec git -c safe.directory='*' -c core.fsmonitor=false --no-pager grep -nIE --full-name --untracked --no-color \
    --max-count=50 -e "$p" -- "$@"
fi
if [ -n "$3" ]; then exec grep -rnIE --max-count=50 --include="$3" -e "$1" .; fi
exec grep -rnIE --max-count=50 -e "$1" .
"#;

pub(super) async fn run(
    scope: &Scope,
    pattern: &str,
    path: Option<&str>,
    glob: Option<&str>,
) -> Result<Done, Failure> {
    let inside = absolute(path.unwrap_or("."));
    let command = Command {
        script: SCRIPT,
        args: &[pattern, &inside, glob.unwrap_or("")],
        env: BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]),
        cwd: WORKSPACE,
        timeout: Duration::from_secs(60),
        limit: LIMIT,
    };
    let captured = match command.run(&*scope.sandbox, Some(&scope.stop)).await {
        // A pattern that no program can be given is the model's to put right.
        Err(Failure::Problem(problem)) => {
            return Ok(Done::error(format!("The search failed: {}", problem.title)));
        }
        other => other?,
    };
    let matches = String::from_utf8_lossy(&captured.stdout);
    Ok(match captured.code {
        0 => Done::ok(shown(&matches)),
        1 => Done::ok("No matches."),
        _ if !matches.is_empty() => Done::ok(shown(&matches)),
        code => {
            let said = captured.stderr.trim();
            let said = if said.is_empty() { format!("exit code {code}") } else { said.to_owned() };
            Done::error(format!("The search failed: {said}"))
        }
    })
}

/// The matches, with long lines and long lists cut.
fn shown(matches: &str) -> String {
    const LINE: usize = 400;
    let short =
        matches.lines().map(|line| crate::workspace::prefix(line, LINE)).collect::<Vec<_>>().join("\n");
    agent::tools::cut(&short, SHOWN)
}
