//! The working tree as git sees it, without what is too large for git to take. The sizes are looked at before anything is
//! read: a sparse file costs nothing to make, and reading it all would take for ever.

use super::git::{Git, object_id};
use crate::failure::Failure;

/// Larger files are left out: the host would not take a bundle with one that does not shrink.
pub(super) const FILE_LIMIT: u64 = forge::BUNDLE_LIMIT;
/// What all changed files may have together. They shrink, so it is more than a bundle may have.
const SUM_LIMIT: u64 = 4 * forge::BUNDLE_LIMIT;
/// Most files that can be left out.
const MOST: usize = 500;
/// Longest list of them.
const LIST_LIMIT: usize = 64 * 1024;

/// Prints the id of the whole working tree, through an index of its own, so that what the agent staged stays, and the names
/// of the files that are left out of it. The copy keeps the index's time: git looks into a file whose size and second are
/// unchanged only if the index is no newer than it, and would otherwise miss an edit made in the second of the clone.
///
/// What is not to be delivered is what the repository ignores and what tools leave behind as a cache; a list that the
/// agent made for itself, or a file that it told git not to look at, does not hide work from the checks.
///
/// `$1` is a directory of its own, `$2` the size from which a file is left out, `$3` what all may have together, `$4` how
/// many can be left out; patterns of what the set-up left follow. A file that is left out is as it is in the last commit.
/// Where few files changed, git is told which, so that it does not look at all of them again.
const TREE: &str = r#"
work=$1 LARGE=$2 sum=$3 most=$4
shift 4
export LARGE
mkdir -p .git/info "$work"
trap 'rm -rf "$work"' EXIT
{
  printf '%s\n' '__pycache__/' '*.pyc' 'node_modules/' '.pytest_cache/' '.mypy_cache/' '.ruff_cache/'
  find . -maxdepth 4 \( -name .git -o -name node_modules \) -prune -o -name CACHEDIR.TAG -print 2>/dev/null |
    while IFS= read -r tag; do tag=${tag#.}; printf '%s\n' "${tag%/*}/"; done
  for product; do printf '%s\n' "$product"; done
} > .git/info/exclude
hidden=$(g ls-files -v 2>/dev/null | grep -c '^[a-zS]' || :)
GIT_INDEX_FILE=$work/index
export GIT_INDEX_FILE
from_head() { rm -f "$GIT_INDEX_FILE" && g read-tree HEAD; }
look() { g ls-files -z -m -o --exclude-standard > "$work/changed"; }
number() { tr -cd '\0' < "$1" | wc -c; }
large() {
  xargs -0 -n 200 sh -c '
    for path; do set -- "$@" "./$path"; shift; done
    find "$@" -maxdepth 0 -type f -size "+${LARGE}c" -print0
  ' sh < "$1" >> "$work/large" 2>/dev/null || :
}
sizes() {
  xargs -0 -n 200 sh -c '
    for path; do set -- "$@" "./$path"; shift; done
    find "$@" -maxdepth 0 -type f ! -size "+${LARGE}c" -exec stat -c %s {} +
  ' sh < "$work/changed" 2>/dev/null || :
}
add() {
  if [ -s "$work/large" ]; then
    g add -A --pathspec-from-file="$work/paths" --pathspec-file-nul
  else
    g add -A .
  fi
}
if [ "$hidden" != 0 ]; then from_head; else cp -p .git/index "$GIT_INDEX_FILE" 2>/dev/null || from_head; fi
look 2>/dev/null || { from_head; look; }
: > "$work/large"
if [ -s "$work/changed" ]; then
  large "$work/changed"
  all=$(sizes | { all=0; while read -r size; do all=$((all + size)); done; echo "$all"; })
  if [ "$all" -gt "$sum" ]; then
    echo "the files that changed have $all bytes together, and no more than $sum can be kept" >&2
    exit 77
  fi
fi
g diff-index -z --cached --name-only HEAD > "$work/staged" 2>/dev/null || :
if [ -s "$work/staged" ]; then large "$work/staged"; fi
if [ -s "$work/large" ]; then
  if [ "$(number "$work/large")" -gt "$most" ]; then
    echo "$(number "$work/large") files are larger than $LARGE bytes" >&2
    exit 77
  fi
  g --literal-pathspecs reset -q --pathspec-from-file="$work/large" --pathspec-file-nul HEAD
  {
    printf '.\0'
    xargs -0 sh -c 'for path; do printf ":(exclude,literal)%s\0" "$path"; done' sh < "$work/large"
  } > "$work/paths"
fi
if [ ! -s "$work/large" ] && [ ! -s "$work/changed" ]; then
  :
elif [ -s "$work/large" ] || [ "$(number "$work/changed")" -gt 100 ]; then
  add >/dev/null 2>&1 || { from_head; add >/dev/null; }
else
  g --literal-pathspecs add -A --pathspec-from-file="$work/changed" --pathspec-file-nul >/dev/null 2>&1 ||
    { from_head; add >/dev/null; }
fi
g write-tree 2>/dev/null || { from_head; add >/dev/null; g write-tree; }
if [ -s "$work/large" ]; then cat "$work/large"; fi
g ls-files -s -z | tr '\n\0' '\1\n' | sed -n 's/^160000 [0-9a-f]* 0	//p' | while IFS= read -r path; do
  if [ -e "$path/.git" ] && [ -n "$(unset GIT_INDEX_FILE; plain -C "$path" status --porcelain 2>/dev/null | head -n 1)" ]; then
    printf '//%s\0' "$path"
  fi
done
"#;

/// Prints the id of the tree of the last commit if the workspace has that and nothing else; else nothing. For a workspace in
/// which nobody but us was at work: it takes the index's word for what it does not look at.
const UNTOUCHED: &str = r#"
if [ -z "$(g ls-files -m -o --exclude-standard)" ]; then g rev-parse 'HEAD^{tree}'; fi
"#;

/// A tree of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) id: String,
    /// Files that are in the workspace and too large to be in the tree. Submodules with changes that are in no commit of
    /// theirs are here too, after two slashes.
    pub(crate) left_out: Vec<String>,
}

impl Git<'_> {
    /// The tree of the last commit, if the workspace is that and nobody was at work in it. None where it takes a closer look.
    pub(crate) async fn untouched(&self) -> Result<Option<String>, Failure> {
        match self.run(UNTOUCHED, &[], LIST_LIMIT).await {
            Ok(printed) => Ok(object_id(&String::from_utf8_lossy(&printed.stdout)).ok()),
            Err(Failure::Problem(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The whole working tree, without what git ignores, what the set-up left there, and what is too large.
    pub(crate) async fn tree(&self, products: Option<&[String]>) -> Result<Tree, Failure> {
        let work = format!("/tmp/slipway-{}", protocol::ItemId::new());
        let numbers = [FILE_LIMIT.to_string(), SUM_LIMIT.to_string(), MOST.to_string()];
        let mut args = vec![work.as_str()];
        args.extend(numbers.iter().map(String::as_str));
        args.extend(products.unwrap_or_default().iter().map(String::as_str));
        let printed = self.run(TREE, &args, LIST_LIMIT).await;
        let printed = self.tidied(&work, printed).await?;
        parse(&String::from_utf8_lossy(&printed.stdout))
    }
}

/// What `TREE` prints.
fn parse(text: &str) -> Result<Tree, Failure> {
    let (id, names) = text.split_once('\n').unwrap_or((text, ""));
    // What was cut off in the middle is no name.
    let whole = names.rfind('\0').map_or("", |end| &names[..end]);
    let names = whole.split('\0').filter(|name| !name.is_empty());
    let mut left_out: Vec<String> =
        names.map(|name| name.strip_prefix("./").unwrap_or(name).to_owned()).collect();
    left_out.sort();
    left_out.dedup();
    Ok(Tree { id: object_id(id)?, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_id() {
        let id = "a1".repeat(20);
        let tree = |left_out: &[&str]| Tree {
            id: id.clone(),
            left_out: left_out.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(parse(&format!("{id}\n")).unwrap(), tree(&[]));
        assert_eq!(parse(&format!("{id}\n./b\n2\0./a\0./a\0./cut")).unwrap(), tree(&["a", "b\n2"]));
        assert!(parse("./a\0").is_err());
    }
}
