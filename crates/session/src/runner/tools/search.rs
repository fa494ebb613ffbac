//! `search`: a regular expression over the workspace's files, without what git ignores, or over an output that was cut.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use guest::FileKind;
use sandbox::WORKSPACE;

use super::{Done, Scope, read, refused};
use crate::failure::Failure;
use crate::process::{Captured, Command};
use crate::workspace::prefix;

/// How long one search may take.
pub(in crate::runner) const TIME: Duration = Duration::from_secs(60);
/// Bytes of matches that are looked at.
const LIMIT: usize = 256 * 1024;
/// Most lines of one file where several are looked at: no file may push out the others.
const PER_FILE: usize = 50;
/// Bytes of a line that are shown.
const LINE: usize = 400;
/// Bytes shown before a match in a line that is longer.
const BEFORE: usize = 120;

/// `$1` is the pattern, `$2` the path, `$3` what is printed: one line more of a file than is shown, or how many there are, `$4`
/// whether `$2` may have no link in it, and is a directory, `$5` the kind of expression, and then globs. Who names one file is shown
/// all of it. Above several repositories it is looked in each; outside of them plain grep does it.
const SCRIPT: &str = r#"
p=$1 path=$2 how=$3 exact=$4 kind=$5; shift 5
if [ -z "$exact" ] && [ -f "$path" ]; then exec grep -HnI$kind -e "$p" -- "$path"; fi
cd "$path" || exit 2
if [ -n "$exact" ] && [ "$(pwd -P)" != "$path" ]; then echo "a directory in its path became a link" >&2; exit 2; fi
n=$#
found=/tmp/slipway-found.$$
trap 'rm -f "$found"' EXIT
# Looks in one repository; files are named from the workspace on.
in_repository() {
  at=$1
  shift
  top=$(git -C "$at" -c safe.directory='*' rev-parse --show-toplevel) || return 2
  from=${top#/workspace}
  from=${from#/}
  set -- git -C "$at" -c safe.directory='*' -c core.fsmonitor=false --no-pager grep -I$kind --full-name --untracked --no-color \
    $how -e "$p" -- "$@"
  if [ -z "$from" ] || [ "$from" = "${top#/}" ]; then "$@"; return; fi
  "$@" > "$found" && code=0 || code=$?
  sed "s|^|$from/|" "$found"
  return $code
}
if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  for g; do
    case $g in
    !*) set -- "$@" ":(exclude,glob)**/${g#!}" ":(exclude,glob)${g#!}" ;;
    *) set -- "$@" ":(glob)**/$g" ":(glob)$g" ;;
    esac
  done
  shift $n
  [ $# -gt 0 ] || set -- .
  in_repository . "$@"
  exit $?
fi
repos=
case $path in
/workspace | /workspace/*)
  repos=$(find . -mindepth 1 -maxdepth 7 -type d -exec test -e '{}/.git' ';' -print -prune 2>/dev/null | sort)
  ;;
esac
if [ -n "$repos" ]; then
  # The names of their directories have no letters that would mean something here.
  end=1
  for at in $repos; do
    at=${at#./}
    (
      # What names a file from here on names it in one repository.
      for g; do
        plain=${g#!}
        inside=
        case $plain in "$at"/*) inside=${plain#"$at"/} ;; esac
        case $g in
        !*)
          set -- "$@" ":(exclude,glob)**/$plain" ":(exclude,glob)$plain"
          [ -z "$inside" ] || set -- "$@" ":(exclude,glob)$inside"
          ;;
        *)
          set -- "$@" ":(glob)**/$plain" ":(glob)$plain"
          [ -z "$inside" ] || set -- "$@" ":(glob)$inside"
          ;;
        esac
      done
      shift $n
      [ $# -gt 0 ] || set -- .
      in_repository "$at" "$@"
    ) && code=0 || code=$?
    case $code in
    0) end=0 ;;
    1) ;;
    *) exit $code ;;
    esac
  done
  exit $end
fi
for g; do
  case $g in
  !*) set -- "$@" "--exclude=${g#!}" ;;
  *) set -- "$@" "--include=$g" ;;
  esac
done
shift $n
exec grep -rI$kind $how "$@" -e "$p" .
"#;
const LINES: &str = "-n --max-count=51";
const COUNTS: &str = "-c";

/// `$1` is the pattern, `$2` a copy of an output, which is gone before it is looked at, `$3` the kind of expression. Prints where
/// each match is.
const IN_OUTPUT: &str = r#"
exec 3<"$2" || exit 2
rm -f -- "$2"
exec grep -noba$3 -e "$1" <&3
"#;

/// The kinds of expressions, the better first: the usual one of today's programs, and what every grep has. A pattern that the
/// second kind reads otherwise finds something else there, so it is told.
const PERL: &str = "P";
const EXTENDED: &str = "E";
/// What programs say that were built without the first kind.
const NO_PERL: [&str; 5] =
    ["not compiled", "Perl-compatible", "PCRE support", "invalid option", "unrecognized option"];
/// What is said where only the second kind is there.
const ONLY_EXTENDED: &str =
    "\n(the grep of this sandbox knows POSIX extended expressions only: write [0-9] for \\d and the like)";

pub(super) async fn run(
    scope: &Scope,
    pattern: &str,
    path: Option<&str>,
    glob: Option<&str>,
) -> Result<Done, Failure> {
    if let Some(name) = path.and_then(|path| path.trim().strip_prefix(read::OUTPUT)) {
        return match read::earlier(scope, name).await {
            Ok(text) => in_text(scope, pattern, text).await,
            Err(done) => Ok(done),
        };
    }
    let named = path.unwrap_or(".");
    let (guest, inside) = scope.place(named);
    let exact = if scope.is_decided(named) { "exact" } else { "" };
    // What is decided on is read by that path and no other; grep would follow what became a link since. What cannot be looked at
    // may be such a link.
    if !exact.is_empty() {
        match guest.stat(&inside).await {
            Ok(stat) if stat.kind == FileKind::Directory => {}
            Ok(_) => {
                return match read::text(scope, named).await? {
                    Ok(text) => in_text(scope, pattern, text).await,
                    Err(done) => Ok(done),
                };
            }
            Err(error) => return refused(error, named),
        }
    }
    let globs = glob.map(globs).unwrap_or_default();
    let look = async |how, kind| {
        let fixed = [pattern, &inside, how, exact, kind];
        let args: Vec<&str> = fixed.into_iter().chain(globs.iter().map(String::as_str)).collect();
        grep(scope, SCRIPT, &args).await
    };
    let mut kind = PERL;
    let mut looked = look(LINES, kind).await?;
    if lacks_perl(&looked) {
        kind = EXTENDED;
        looked = look(LINES, kind).await?;
    }
    let captured = match looked {
        Ok(captured) => captured,
        Err(done) => return Ok(done),
    };
    let matches = whole_lines(&captured);
    if let Some(done) = nothing(&captured, &matches) {
        return Ok(and(done, limits_of(kind)));
    }
    let mut shown = Shown::new(&matches, &inside);
    if shown.left_out() {
        // How many there are is asked only where it is told.
        let counts = look(COUNTS, kind).await?;
        shown.count(&counts.map(|captured| whole_lines(&captured)).unwrap_or_default());
    }
    Ok(Done::ok(shown.text() + &unfinished(&captured) + limits_of(kind)))
}

/// Looks in a text that is here. The sandbox's own grep does it, on a copy, so that a pattern means the same.
async fn in_text(scope: &Scope, pattern: &str, text: String) -> Result<Done, Failure> {
    let copy = format!("/tmp/slipway-search-{}", scope.item);
    let look = async |kind| {
        if let Err(error) = scope.sandbox.guest().write_file(&copy, Bytes::from(text.clone())).await {
            return refused(error, &copy).map(Err);
        }
        grep(scope, IN_OUTPUT, &[pattern, &copy, kind]).await
    };
    let mut kind = PERL;
    let mut looked = look(kind).await?;
    if lacks_perl(&looked) {
        kind = EXTENDED;
        looked = look(kind).await?;
    }
    let captured = match looked {
        Ok(captured) => captured,
        Err(done) => return Ok(done),
    };
    let places = whole_lines(&captured);
    Ok(match nothing(&captured, &places) {
        Some(done) => and(done, limits_of(kind)),
        None => Done::ok(excerpts(&text, &places) + &unfinished(&captured) + limits_of(kind)),
    })
}

/// Whether a search failed because the sandbox's program does not know the first kind of expressions.
fn lacks_perl(looked: &Result<Captured, Done>) -> bool {
    let said = looked.as_ref().ok().filter(|captured| captured.code > 1).map(|captured| &captured.stderr);
    said.is_some_and(|said| NO_PERL.iter().any(|words| said.contains(words)))
}

/// What is said of a kind of expressions.
fn limits_of(kind: &str) -> &'static str {
    if kind == EXTENDED { ONLY_EXTENDED } else { "" }
}

/// An answer with a note at its end.
fn and(done: Done, note: &str) -> Done {
    Done { output: super::whole(&(done.output.text + note)), ..done }
}

/// The globs that one with braces stands for. One that begins with `!` leaves files out.
fn globs(glob: &str) -> Vec<String> {
    let mut globs = protocol::policy::alternatives(glob.trim());
    globs.retain(|glob| !glob.is_empty());
    globs
}

/// Runs a script; what it cannot be given is the model's to put right.
async fn grep(scope: &Scope, script: &str, args: &[&str]) -> Result<Result<Captured, Done>, Failure> {
    let command = Command {
        script,
        args,
        env: BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]),
        cwd: WORKSPACE,
        timeout: TIME,
        limit: LIMIT,
    };
    match command.run(&*scope.sandbox, Some(&scope.stop)).await {
        Err(Failure::Problem(problem)) => {
            Ok(Err(Done::error(format!("The search failed: {}", problem.title))))
        }
        other => other.map(Ok),
    }
}

/// What was printed, without a last line that is broken off.
fn whole_lines(captured: &Captured) -> String {
    let text = String::from_utf8_lossy(&captured.stdout).into_owned();
    match text.rfind('\n') {
        Some(end) if captured.cut => text[..=end].to_owned(),
        _ => text,
    }
}

/// The answer where there are no matches.
fn nothing(captured: &Captured, matches: &str) -> Option<Done> {
    match captured.code {
        1 => Some(Done::ok("No matches.")),
        0 => matches.is_empty().then(|| Done::ok("No matches.")),
        _ if !matches.is_empty() => None,
        code => {
            let said = captured.stderr.trim();
            let said = if said.is_empty() { format!("exit code {code}") } else { said.to_owned() };
            Some(Done::error(format!("The search failed: {said}")))
        }
    }
}

/// What is said where the search saw more than it kept, or did not see everything.
fn unfinished(captured: &Captured) -> String {
    let mut text = String::new();
    if captured.cut {
        text.push_str(&format!(
            "\n(there are more matches than the {} KiB that are looked at: search in less, or for less)",
            LIMIT / 1024
        ));
    }
    if captured.timed_out {
        text.push_str("\n(the search took too long and did not come to its end: search in less)");
    } else if captured.code > 1 {
        text.push_str(&format!(
            "\n(not everything could be looked at: {})",
            prefix(captured.stderr.trim(), LINE)
        ));
    }
    text
}

/// The matches of several files, with the most of each that is shown.
struct Shown<'a> {
    /// Each with its lines, in the order in which they came.
    files: Vec<(&'a str, Vec<&'a str>)>,
    counts: HashMap<String, usize>,
    /// Whether one file was asked for, which is shown whole.
    one: bool,
}

impl<'a> Shown<'a> {
    /// Of what was found in `asked`. Files that were not asked for by name are named from the directory on.
    fn new(matches: &'a str, asked: &str) -> Self {
        let mut files: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in matches.lines() {
            let name = file(line);
            match files.last_mut() {
                Some((last, lines)) if *last == name => lines.push(line),
                _ => files.push((name, vec![line])),
            }
        }
        let one = files.iter().all(|(name, _)| *name == asked);
        Self { files, counts: HashMap::new(), one }
    }

    fn left_out(&self) -> bool {
        !self.one && self.files.iter().any(|(_, lines)| lines.len() > PER_FILE)
    }

    /// Learns how many lines match in each file.
    fn count(&mut self, counts: &str) {
        let pairs = counts.lines().filter_map(|line| line.rsplit_once(':'));
        self.counts =
            pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect();
    }

    fn text(&self) -> String {
        let mut shown = Vec::new();
        for (name, lines) in &self.files {
            let most = if self.one { lines.len() } else { PER_FILE };
            shown.extend(lines.iter().take(most).map(|line| short(line)));
            if lines.len() > most {
                let more = match self.counts.get(*name) {
                    Some(count) => format!("{} more lines match", count.saturating_sub(most)),
                    None => "more lines match".to_owned(),
                };
                shown.push(format!("({name}: {more}; search in that file alone to see them)"));
            }
        }
        shown.join("\n")
    }
}

/// The file of a line such as `path:12:text`.
fn file(line: &str) -> &str {
    let is_number = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    line.match_indices(':')
        .find(|(at, _)| {
            let rest = line[at + 1..].trim_start_matches(|letter: char| letter.is_ascii_digit());
            is_number(&line[at + 1..]) && rest.starts_with(':')
        })
        .map_or("", |(at, _)| &line[..at])
}

/// A line as it is shown.
fn short(line: &str) -> String {
    let start = prefix(line, LINE);
    match line.len() - start.len() {
        0 => line.to_owned(),
        more => format!("{start}[… {more} bytes of the line cut; read shows it with column]"),
    }
}

/// The lines of a text in which something was found, from `line:byte:match` for each match. In a long line each match is shown
/// with what is around it, and the column to read from.
fn excerpts(text: &str, places: &str) -> String {
    let mut shown = String::new();
    // The line that was looked at last, with where it starts and ends: a long one is not looked through for each match in it.
    let mut last = (0, 0, 0);
    for place in places.lines() {
        let mut parts = place.splitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        let (Some(line), Some(at)) = (number(), number()) else { continue };
        let at = text.floor_char_boundary(at);
        let again = line == last.0;
        if !again {
            let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
            last = (line, start, text[at..].find('\n').map_or(text.len(), |end| at + end));
        }
        let (_, start, end) = last;
        if shown.len() > LIMIT {
            shown.push_str("(there are more matches: search for less)\n");
            break;
        }
        if end - start > LINE {
            let from = text.ceil_char_boundary(at.saturating_sub(BEFORE).max(start));
            let around = prefix(&text[from..end], LINE);
            shown.push_str(&format!("{line}:[column {}] {around}\n", from - start + 1));
        } else if !again {
            shown.push_str(&format!("{line}:{}\n", &text[start..end]));
        }
    }
    shown.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_of_a_file_is_counted() {
        let mut matches: String = (1..=51).map(|n| format!("a:1.txt:{n}:match {n}\n")).collect();
        matches.push_str("b.txt:7:one\n");
        let mut shown = Shown::new(&matches, "/workspace");
        assert!(shown.left_out());
        assert!(
            shown.text().contains("\n(a:1.txt: more lines match; search in that file alone to see them)\n")
        );
        shown.count("a:1.txt:300\nb.txt:1\n");
        let text = shown.text();
        assert!(text.contains("a:1.txt:50:match 50\n(a:1.txt: 250 more lines match;"), "{text}");
        assert!(text.ends_with("\nb.txt:7:one") && !text.contains("match 51"), "{text}");
        let few = Shown::new("b.txt:7:one\nb.txt:8:two\n", "/workspace");
        assert!(!few.left_out() && few.text() == "b.txt:7:one\nb.txt:8:two");
    }

    #[test]
    fn what_became_a_link_to_a_file_or_a_directory_since_it_was_decided_on_is_not_looked_in() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("secrets")).unwrap();
        std::fs::create_dir_all(root.join("plain")).unwrap();
        std::fs::write(root.join("secrets/key"), "hidden\n").unwrap();
        std::fs::write(root.join("plain/key"), "hidden\n").unwrap();
        std::os::unix::fs::symlink("secrets", root.join("door")).unwrap();
        std::os::unix::fs::symlink("secrets/key", root.join("file")).unwrap();
        let look = |path: &str, exact: &str| {
            let path = root.join(path);
            let mut sh = std::process::Command::new("sh");
            sh.args(["-c", SCRIPT, "sh", "hidden"])
                .arg(path)
                .args([LINES, exact, PERL])
                .env("GIT_DIR", "/none");
            String::from_utf8(sh.output().unwrap().stdout).unwrap()
        };
        for link in ["door", "door/key", "file"] {
            assert!(look(link, "").contains("hidden"), "{link}: as long as nobody decided on it");
            assert_eq!(look(link, "exact"), "", "{link}");
        }
        assert!(look("plain", "exact").contains("hidden"));
    }

    #[test]
    fn expressions_and_globs_mean_what_people_are_used_to() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let done = std::process::Command::new("git").args(args).current_dir(dir.path()).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for (name, text) in
            [("a.c", "int x1 = 42\n\tTab\n"), ("sub/b.py", "X1 = 7\n"), ("c.rs", "let x2 = 1;\n")]
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let look = |pattern: &str, glob: &str| {
            let mut sh = std::process::Command::new("sh");
            sh.args(["-c", SCRIPT, "sh", pattern]).arg(dir.path()).args([LINES, "", PERL]).args(globs(glob));
            let text = String::from_utf8(sh.output().unwrap().stdout).unwrap();
            let mut files: Vec<String> =
                text.lines().map(|line| file(line).trim_start_matches("./").to_owned()).collect();
            files.sort();
            files.join(" ")
        };
        // Without a repository first, then in one.
        for _ in 0..2 {
            assert_eq!(look(r"x\d =", ""), "a.c c.rs");
            assert_eq!(look(r"(?i)x\d =", ""), "a.c c.rs sub/b.py");
            assert_eq!(look(r"^\tT", ""), "a.c");
            assert_eq!(look(r"(?:x|X)\d\b", "*.{py,rs}"), "c.rs sub/b.py");
            assert_eq!(look(r"(?i)x\d", "!*.py"), "a.c c.rs");
            git(&["init", "-q"]);
        }
    }

    #[test]
    fn one_file_is_shown_whole() {
        let matches: String = (1..=51).map(|n| format!("/workspace/m.txt:{n}:match\n")).collect();
        let shown = Shown::new(&matches, "/workspace/m.txt");
        assert!(!shown.left_out() && shown.text() + "\n" == matches);
    }

    #[test]
    fn a_long_line_says_that_it_is_cut() {
        let text = Shown::new(&format!("a:1:{}\n", "x".repeat(500)), "/workspace").text();
        assert!(text.ends_with("x[… 104 bytes of the line cut; read shows it with column]"), "{text}");
    }

    #[test]
    fn a_match_in_a_long_line_is_shown_with_its_place() {
        let text = format!("short one one\n{}one{}\n", "é".repeat(5000), "y".repeat(5000));
        let places = "1:6:one\n1:10:one\n2:10014:one\n";
        let found = excerpts(&text, places);
        assert!(found.starts_with("1:short one one\n2:[column 9881] éé"), "{found}");
        assert!(found.contains("éoneyyy") && found.len() < 600, "{found}");
        assert_eq!(excerpts("a", "9:99:x\nrubbish\n"), "9:a");
    }
}
