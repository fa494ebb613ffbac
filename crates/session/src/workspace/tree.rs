//! The working tree as git sees it, without what is too large for git to take. The sizes are looked at before anything is
//! read: a sparse file costs nothing to make, and reading it all would take for ever.

use super::git::{Git, object_id};
use super::ground::Ground;
use crate::failure::Failure;

/// Larger files are left out: the host would not take a bundle with one that does not shrink.
pub(super) const FILE_LIMIT: u64 = forge::BUNDLE_LIMIT;
/// What all changed files may have together. They shrink, so it is more than a bundle may have.
const SUM_LIMIT: u64 = 4 * forge::BUNDLE_LIMIT;
/// Most files that can be left out.
const MOST: usize = 500;
/// Longest list of them.
const LIST_LIMIT: usize = 64 * 1024;

/// Prints the id of the whole working tree, through an index of its own, so that what the agent staged stays; the sum of that
/// index, where it was kept; and names of files, each after a letter that says what is to be known of it.
///
/// The tree is what is on the disk. So git has a directory of its own here: neither the clone's configuration, attributes,
/// exclusions, replaced objects and sparse checkout, nor the user's, say what is in it, but for what people had configured
/// before the agent came (`Ground`). Nor is the agent's index believed about what files have: it only says which there are,
/// for those that are ignored and yet tracked, and the other way round. What was looked at before is known from our own index, if its sum is
/// still `$5`. The copies keep its time: git looks into a file whose size and second are unchanged only if the index is no newer than
/// it, and would otherwise miss an edit made in the second of the clone.
///
/// What is not to be delivered is what the repository ignores and what tools leave behind as a cache; a list that the
/// agent made for itself, or a file that it told git not to look at, does not hide work from the checks.
///
/// `$1` is a directory of its own, `$2` the size from which a file is left out, `$3` what all may have together, `$4` how
/// many can be left out, `$6` the sum of the list of files that people did not want on the disk, `$8` the names of their filters, `$9` and the two after it what
/// `Ground::files` gives, `$12` the filter for large files; patterns of what the set-up left follow. A file that is left out is as it is in the last commit. Where few files
/// changed, git is told which, so that it does not look at all of them again.
///
/// A person waits for it, so no program is started for what is not there: most often nothing changed, or a few files did.
///
/// With `$7` the checks are about to run, or ran: a file that git converts, such as one with `eol=crlf`, is written as whoever
/// checks out the tree gets it, for the checks to see what is delivered; and the index is kept.
const TREE: &str = r#"
work=$1 LARGE=$2 sum=$3 most=$4 known=$5 sparse=$6 settle=$7 filters=$8
own=$work/own
mkdir -p .git/info "$own/info" "$own/refs"
trap 'rm -rf "$work"' EXIT
shift 8
# Whether git converts files whatever their attributes say.
case $1 in *autocrlf* | *eol*) converts=1 ;; *) converts= ;; esac
printf '%s' "$1" > "$own/config"
printf '%s' "$2" > "$own/info/attributes"
printf '%s' "$3" > "$own/attributes"
printf '%s' "$4" > "$own/lfs"
shift 4
said=$(g rev-parse --git-path objects --git-common-dir --revs-only -q 'HEAD^{commit}')
{ IFS= read -r objects && IFS= read -r common && { IFS= read -r head || :; }; } <<PATHS
$said
PATHS
case $objects in /*) ;; *) objects=$PWD/$objects ;; esac
SLIPWAY_LFS=$common/lfs
SLIPWAY_HOME=$HOME
export LARGE SLIPWAY_LFS SLIPWAY_HOME
excludes=$(
  printf '%s\n' '__pycache__/' '*.pyc' 'node_modules/' '.pytest_cache/' '.mypy_cache/' '.ruff_cache/'
  find . -maxdepth 4 \( -name .git -o -name node_modules \) -prune -o -name CACHEDIR.TAG -print 2>/dev/null |
    while IFS= read -r tag; do tag=${tag#.}; printf '%s\n' "${tag%/*}/"; done
  for product; do printf '%s\n' "$product"; done
)
printf '%s\n' "$excludes" > "$own/info/exclude"
printf '%s\n' "$excludes" > .git/info/exclude
echo "${head:-ref: refs/heads/none}" > "$own/HEAD"
o() {
  GIT_DIR=$own GIT_WORK_TREE=. GIT_OBJECT_DIRECTORY=$objects GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null \
    GIT_ATTR_NOSYSTEM=1 XDG_CONFIG_HOME=$own HOME=$own GIT_LFS_SKIP_SMUDGE=1 git -c safe.directory='*' "$@"
}
if [ "${#head}" = 64 ]; then
  o config core.repositoryformatversion 1
  o config extensions.objectformat sha256
fi
g ls-files -v > "$work/theirs-shown" 2>/dev/null || : > "$work/theirs-shown"
GIT_INDEX_FILE=$work/index
export GIT_INDEX_FILE
dirty() { if [ -n "$settle" ]; then o diff-files -z --name-only > "$work/dirty" 2>/dev/null || :; fi; }
from_head() {
  rm -f "$GIT_INDEX_FILE"
  if [ -n "$head" ]; then o read-tree HEAD || return; fi
  dirty
  hide
  if [ -s "$work/gone" ]; then o update-index -q --force-remove -z --stdin < "$work/gone"; fi
  o update-index -q --refresh >/dev/null 2>&1 || :
}
lines() { tr '\n\0' '\1\n' | sort -u; }
names() { tr '\1\n' '\n\0'; }
hide() {
  if [ ! -s "$work/hidden" ]; then return; fi
  o ls-files -z | lines | comm -12 - "$work/hidden" | names > "$work/unseen"
  if [ -s "$work/unseen" ]; then o update-index -q --skip-worktree -z --stdin < "$work/unseen"; fi
}
look() { o ls-files -z -m -o --exclude-standard > "$work/changed"; }
number() { tr -cd '\0' < "$1" | wc -c; }
large() {
  xargs -0 -n 200 sh -c '
    for path; do set -- "$@" "./$path"; shift; done
    find "$@" -maxdepth 0 -type f -size "+${LARGE}c" -print0
  ' sh < "$1" >> "$work/large" 2>/dev/null || :
}
add() {
  if [ -s "$work/large" ]; then
    o add -A --pathspec-from-file="$work/paths" --pathspec-file-nul
  else
    o add -A .
  fi
}
take() {
  if [ ! -s "$work/large" ] && [ ! -s "$work/changed" ]; then
    :
  elif [ -s "$work/large" ] || [ "$(number "$work/changed")" -gt 100 ]; then
    add >/dev/null 2>&1 || anew
  else
    o --literal-pathspecs add -A --pathspec-from-file="$work/changed" --pathspec-file-nul >/dev/null 2>&1 || anew
  fi
  force
}
force() {
  if [ -s "$work/forced" ]; then o update-index -q --add --replace -z --stdin < "$work/forced" 2>/dev/null || :; fi
}
# Files can go while they are looked at.
anew() { { from_head && add >/dev/null 2>&1; } || { from_head && add >/dev/null 2>&1; } || { from_head && add >/dev/null; }; }
for list in large more forced hidden gone skipped refused written foreign-files dirty; do : > "$work/$list"; done
if [ -n "$known" ] && cp -p .git/slipway-index "$GIT_INDEX_FILE" 2>/dev/null &&
  sum_of=$(sha256sum < "$GIT_INDEX_FILE") && [ "${sum_of%% *}" = "$known" ]; then dirty; else known='' && from_head; fi
differs=
if [ -s "$work/theirs-shown" ]; then
  o ls-files -v > "$work/ours-shown"
  both=$(sha256sum "$work/theirs-shown" "$work/ours-shown")
  ours_sum=${both##*
}
  if [ "${both%% *}" != "${ours_sum%% *}" ] || grep -q '^[Ss] ' "$work/theirs-shown"; then differs=1; fi
fi
if [ -n "$differs" ]; then
  (unset GIT_INDEX_FILE; g ls-files -v -z 2>/dev/null) | lines > "$work/theirs-said"
  sed 's/^. //' "$work/theirs-said" | sort -u > "$work/theirs"
  o ls-files -v -z | lines > "$work/ours-said"
  sed 's/^. //' "$work/ours-said" | sort -u > "$work/ours"
  sed -n 's/^[Ss] //p' "$work/ours-said" | sort -u > "$work/skipped"
  comm -23 "$work/ours" "$work/theirs" | names > "$work/gone"
  if [ -s "$work/gone" ]; then o update-index -q --force-remove -z --stdin < "$work/gone"; fi
  sed -n 's/^[Ss] //p' "$work/theirs-said" | names | xargs -0 -n 200 sh -c '
    for path; do [ -e "./$path" ] || [ -L "./$path" ] || printf "%s\0" "$path"; done
  ' sh | lines > "$work/hidden"
  if [ -s "$work/skipped" ]; then
    o ls-files -z | lines | comm -12 - "$work/skipped" | comm -23 - "$work/hidden" | names > "$work/seen"
    if [ -s "$work/seen" ]; then o update-index -q --no-skip-worktree -z --stdin < "$work/seen"; fi
  fi
  if [ -s "$work/hidden" ]; then
    names < "$work/hidden" > "$work/unseen"
    o --literal-pathspecs reset -q --pathspec-from-file="$work/unseen" --pathspec-file-nul HEAD
    hide
    # Those that people hid are as they are in the repository; a list that is another one now is not theirs.
    if [ -n "$sparse" ] && cp .git/slipway-hidden "$work/theirs-hidden" 2>/dev/null &&
      sum_of=$(sha256sum < "$work/theirs-hidden") && [ "${sum_of%% *}" = "$sparse" ]; then
      comm -23 "$work/hidden" "$work/theirs-hidden" > "$work/refused"
    else
      cat "$work/hidden" > "$work/refused"
    fi
  fi
fi
look 2>/dev/null || { from_head; look; }
if [ -n "$differs" ]; then
  lines < "$work/changed" > "$work/changed-lines"
  comm -13 "$work/ours" "$work/theirs" | comm -23 - "$work/hidden" | comm -23 - "$work/changed-lines" |
    names > "$work/more"
fi
if [ -s "$work/changed" ] || [ -s "$work/more" ]; then
  cat "$work/changed" "$work/more" | xargs -0 stat -c %s -- > "$work/sizes" 2>/dev/null || :
  all=0 some=
  while read -r size; do
    if [ "$size" -gt "$LARGE" ]; then some=1; else all=$((all + size)); fi
  done < "$work/sizes"
  if [ -n "$some" ]; then
    large "$work/changed"
    large "$work/more"
  fi
  if [ -s "$work/more" ]; then
    xargs -0 -n 200 sh -c '
      for path; do set -- "$@" "./$path"; shift; done
      find "$@" -maxdepth 0 \( -type l -o -type f ! -size "+${LARGE}c" \) -print0
    ' sh < "$work/more" > "$work/forced" 2>/dev/null || :
  fi
  if [ "$all" -gt "$sum" ]; then
    echo "the files that changed have $all bytes together, and no more than $sum can be kept" >&2
    exit 77
  fi
fi
if [ -s "$work/large" ]; then
  if [ "$(number "$work/large")" -gt "$most" ]; then
    echo "$(number "$work/large") files are larger than $LARGE bytes" >&2
    exit 77
  fi
  o --literal-pathspecs reset -q --pathspec-from-file="$work/large" --pathspec-file-nul HEAD
  {
    printf '.\0'
    xargs -0 sh -c 'for path; do printf ":(exclude,literal)%s\0" "$path"; done' sh < "$work/large"
  } > "$work/paths"
fi
take
tree=$(o write-tree 2>/dev/null) || { anew; force; tree=$(o write-tree); }
kept=
if [ -n "$settle" ]; then
  # Also what git takes for unchanged, because what it makes of the file is.
  cat "$work/dirty" "$work/changed" "$work/more" > "$work/looked-at"
  # Other attributes make others of files that did not change; and who knows what they were before what was not known.
  if [ -z "$known" ] || tr '\0' '\n' < "$work/looked-at" | grep -q '^\(.*/\)\{0,1\}\.gitattributes$'; then
    o ls-files -z > "$work/looked-at"
  fi
  : > "$work/specified"
  if [ -s "$work/looked-at" ]; then
    o check-attr -z --stdin text crlf eol ident working-tree-encoding filter < "$work/looked-at" | tr '\n\0' '\1\n' |
      sed -n 'N;N;/\nunspecified$/d;/\nunset$/d;p' > "$work/specified"
  fi
  if [ -s "$work/specified" ] || [ -n "$converts" ]; then
    sed -n 'N;N;/\nfilter\n/!d;s/\n.*//;p' "$work/specified" | sort -u > "$work/filtered"
    if [ -n "$converts" ]; then
      lines < "$work/looked-at"
    else
      sed -n 'N;N;/\nfilter\n/d;s/\n.*//;p' "$work/specified" | sort -u
    fi | comm -23 - "$work/filtered" > "$work/converted"
    if [ -s "$work/converted" ]; then
      names < "$work/converted" | o checkout-index -q --prefix="$work/out/" -z --stdin 2>/dev/null || :
      cr=$(printf '\r')
      while IFS= read -r path; do
        # Git takes no such name from a list.
        case $path in *"$cr") continue ;; esac
        if ! [ -L "./$path" ] && [ -f "./$path" ] && [ -f "$work/out/$path" ]; then printf '%s\n' "$path"; fi
      done < "$work/converted" > "$work/both"
      sed "s|^|$work/out/|" "$work/both" | o hash-object --no-filters --stdin-paths > "$work/out-ids"
      sed 's|^|./|' "$work/both" | o hash-object --no-filters --stdin-paths > "$work/disk-ids"
      told=0
      paste -d ' ' "$work/out-ids" "$work/disk-ids" "$work/both" | while IFS= read -r line; do
        rest=${line#* }
        path=${rest#* }
        if [ "${line%% *}" = "${rest%% *}" ]; then continue; fi
        cat "$work/out/$path" 2>/dev/null > "./$path" || { chmod u+w "./$path" && cat "$work/out/$path" > "./$path"; }
        told=$((told + 1))
        if [ "$told" -le 100 ]; then printf 'w%s\0' "$path" >> "$work/written"; fi
      done
      tr '\n' '\0' < "$work/both" | o update-index -q -z --stdin
    fi
    if [ -s "$work/filtered" ]; then
      g config --name-only --get-regexp '^filter\..*\.(clean|process)$' | sed 's/^filter\.//; s/\.[a-z]*$//' | sort -u > "$work/filters" || :
      printf '%s\n' "$filters" | sort -u | comm -23 "$work/filters" - > "$work/foreign"
      sed -n 'N;N;/\nfilter\n/!d;s/\nfilter\n/\n/;p' "$work/specified" | while IFS= read -r path && IFS= read -r value; do
        if grep -qxF -e "$value" "$work/foreign"; then printf '%s\n' "$path"; fi
      done > "$work/foreign-files"
    fi
  fi
  # What was refused stays refused.
  if [ -s "$work/refused" ]; then names < "$work/refused" | o update-index -q --no-skip-worktree -z --stdin; fi
  sum_of=$(sha256sum < "$GIT_INDEX_FILE")
  sum_of=${sum_of%% *}
  if [ "$sum_of" = "$known" ] ||
    { cp -p "$GIT_INDEX_FILE" .git/slipway-index.new && mv -f .git/slipway-index.new .git/slipway-index; }; then
    kept=$sum_of
  fi
fi
printf '%s\n%s\n' "$tree" "$kept"
tell() {
  if [ -s "$work/$2" ]; then
    head -n 100 "$work/$2" | names | xargs -0 sh -c 'for path; do printf "%s%s\0" "$0" "$path"; done' "$1"
  fi
}
tell h refused
tell f foreign-files
if [ -s "$work/written" ]; then cat "$work/written"; fi
if [ -s "$work/large" ]; then xargs -0 sh -c 'for path; do printf "l%s\0" "$path"; done' sh < "$work/large"; fi
o ls-files -s > "$work/entries"
if grep -q '^160000 ' "$work/entries"; then
  o ls-files -s -z | tr '\n\0' '\1\n' | sed -n 's/^160000 [0-9a-f]* 0	//p' | while IFS= read -r path; do
    if [ -e "$path/.git" ] && [ -n "$(unset GIT_INDEX_FILE; plain -C "$path" status --porcelain 2>/dev/null | head -n 1)" ]; then
      printf 'l//%s\0' "$path"
    fi
  done
fi
"#;

/// The filter for files that `.gitattributes` gives to Git LFS: keeps the content where git-lfs would, and gives a pointer.
const LFS: &str = r#"place() { rest=${1#??}; more=${rest#??}; printf '%s/objects/%s/%s' "$SLIPWAY_LFS" "${1%"$rest"}" "${rest%"$more"}"; }
mkdir -p "$SLIPWAY_LFS/tmp"
file=$(mktemp "$SLIPWAY_LFS/tmp/XXXXXX")
trap 'rm -f "$file"' EXIT
cat > "$file"
size=$(($(wc -c < "$file")))
if [ "$size" = 0 ] || { [ "$size" -le 1024 ] && [ "$(head -n 1 "$file" | tr -d '\0')" = 'version https://git-lfs.github.com/spec/v1' ]; }; then
  cat "$file"
  exit
fi
oid=$(sha256sum < "$file") && oid=${oid%% *}
mkdir -p "$(place "$oid")"
mv -f "$file" "$(place "$oid")/$oid"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$oid" "$size"
"#;

/// Prints the id of the tree of the last commit if the workspace has that and nothing else; else nothing. For a workspace in
/// which nobody but us was at work: it takes the index's word for what it does not look at.
const UNTOUCHED: &str = r#"
if [ -z "$(g ls-files -m -o --exclude-standard)" ]; then g rev-parse 'HEAD^{tree}'; fi
"#;

/// Why the tree is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// To know what is there. Nothing in the workspace changes.
    Look,
    /// To check and to deliver it: what is on the disk and what is delivered are to be the same.
    Settle,
}

/// A tree of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) id: String,
    /// Files that are in the workspace and too large to be in the tree. Submodules with changes that are in no commit of
    /// theirs are here too, after two slashes.
    pub(crate) left_out: Vec<String>,
    /// What of it is not what is on the disk, or was not.
    pub(crate) unlike: Unlike,
    /// The sum of the index that was kept.
    pub(super) index: Option<String>,
}

/// The files of a tree that need not be as they are on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unlike {
    /// They were on the disk otherwise than whoever checks out the tree gets them, and are now as those get them.
    pub(crate) written: Vec<String>,
    /// Git was told that they need not be on the disk, and they are not.
    pub(crate) hidden: Vec<String>,
    /// They are for a filter that was configured since the session began, and that nobody but the agent can have wanted.
    pub(crate) filtered: Vec<String>,
}

impl Unlike {
    /// The same of a repository that lies somewhere in the workspace.
    pub(super) fn placed(self, place: &str) -> Self {
        let placed = |names: Vec<String>| names.iter().map(|name| forge::placed(place, name)).collect();
        let Self { written, hidden, filtered } = self;
        Self { written: placed(written), hidden: placed(hidden), filtered: placed(filtered) }
    }

    /// Those of several repositories.
    pub(super) fn extend(&mut self, other: Self) {
        self.written.extend(other.written);
        self.hidden.extend(other.hidden);
        self.filtered.extend(other.filtered);
    }
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
    pub(crate) async fn tree(
        &self,
        products: Option<&[String]>,
        ground: &Ground,
        reading: Reading,
    ) -> Result<Tree, Failure> {
        let work = format!("/tmp/slipway-{}", protocol::ItemId::new());
        let numbers = [FILE_LIMIT.to_string(), SUM_LIMIT.to_string(), MOST.to_string()];
        let (files, filters) = (ground.files(&format!("{work}/own")), ground.filters());
        let mut args = vec![work.as_str()];
        args.extend(numbers.iter().map(String::as_str));
        args.push(ground.index.as_deref().unwrap_or_default());
        args.push(ground.hidden.as_deref().unwrap_or_default());
        args.push(match reading {
            Reading::Look => "",
            Reading::Settle => "settle",
        });
        args.push(&filters);
        args.extend(files.iter().map(String::as_str));
        args.push(LFS);
        args.extend(products.unwrap_or_default().iter().map(String::as_str));
        let printed = self.run(TREE, &args, LIST_LIMIT).await;
        let printed = self.tidied(&work, printed).await?;
        parse(&String::from_utf8_lossy(&printed.stdout))
    }
}

/// What `TREE` prints.
fn parse(text: &str) -> Result<Tree, Failure> {
    let (id, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (index, names) = rest.split_once('\n').unwrap_or((rest, ""));
    let index = (index.len() == 64).then(|| index.to_owned());
    let mut tree = Tree { id: object_id(id)?, index, ..Tree::default() };
    // What was cut off in the middle is no name.
    let whole = names.rfind('\0').map_or("", |end| &names[..end]);
    for name in whole.split('\0') {
        let list = match name.get(..1) {
            Some("w") => &mut tree.unlike.written,
            Some("f") => &mut tree.unlike.filtered,
            Some("h") => &mut tree.unlike.hidden,
            Some("l") => &mut tree.left_out,
            _ => continue,
        };
        let name = &name[1..];
        list.push(name.strip_prefix("./").unwrap_or(name).to_owned());
    }
    tree.left_out.sort();
    tree.left_out.dedup();
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_id() {
        let id = "a1".repeat(20);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let tree = |left_out: &[&str]| Tree { id: id.clone(), left_out: names(left_out), ..Tree::default() };
        assert_eq!(parse(&format!("{id}\n\n")).unwrap(), tree(&[]));
        assert_eq!(parse(&format!("{id}\n\nl./b\n2\0l./a\0l./a\0l./cut")).unwrap(), tree(&["a", "b\n2"]));
        let sum = "b2".repeat(32);
        let unlike = Unlike { written: names(&["x"]), hidden: names(&["y"]), filtered: names(&["z"]) };
        let other = Tree { unlike, index: Some(sum.clone()), ..tree(&["//m"]) };
        assert_eq!(parse(&format!("{id}\n{sum}\nwx\0fz\0hy\0l//m\0")).unwrap(), other);
        assert!(parse("l./a\0").is_err());
    }
}
