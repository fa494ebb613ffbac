//! What a commit needs that is not in its repository: the content of large files that git keeps elsewhere, and submodules. The
//! host fetches both, with logins that the sandbox never sees; git in the sandbox is given objects and bundles.

use std::path::{Path, PathBuf};

use forge::{Mirror, Mirrors, Submodule};
use protocol::{Egress, SetupStep};
use sandbox::egress::Rules;

use super::clones::Clones;
use super::git::Git;
use super::prepare::copy_in;
use crate::failure::Failure;
use crate::joint::{Joint, of};
use crate::stop::Stop;

/// What the names of all files begin with that are on their way, inside the sandbox.
const INSIDE: &str = "/tmp/slipway-extra-";
/// Most submodules, and how deep they may be in each other.
const MODULES: usize = 64;
const DEPTH: usize = 4;
/// The branch of a submodule's bundle.
const BRANCH: &str = "slipway";

/// Lays what came into the workspace, and prints the submodules that are in nobody's way to be moved. A sandbox without
/// git-lfs has a filter of two commands instead, which keeps objects where git-lfs does. Content is written over pointers
/// only, whatever commit they are of; a submodule that cannot be had as it should be is emptied rather than left as it was,
/// so that its old commit is not committed again.
const LAY: &str = r#"set -e
plain() { GIT_LFS_SKIP_SMUDGE=1 git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c submodule.recurse=false -c fetch.recurseSubmodules=no -c gc.auto=0 -c safe.directory='*' -c advice.detachedHead=false "$@"; }
g() { plain --git-dir=.git --work-tree=. -c core.bare=false "$@"; }
x=/tmp/slipway-extra
trap 'rm -f "$x"-*' EXIT
if [ -e "$x-paths" ]; then
  cat > .git/slipway-lfs <<'FILTER'
# Git LFS for a sandbox without git-lfs: keeps content by its SHA-256, and finds it again.
home=$(git rev-parse --git-common-dir)/lfs
place() { rest=${1#??}; more=${rest#??}; printf '%s/objects/%s/%s' "$home" "${1%"$rest"}" "${rest%"$more"}"; }
mkdir -p "$home/tmp"
file=$(mktemp "$home/tmp/XXXXXX")
trap 'rm -f "$file"' EXIT
cat > "$file"
oid=
size=$(($(wc -c < "$file")))
if [ "$size" -le 1024 ] && [ "$(head -n 1 "$file" | tr -d '\0')" = 'version https://git-lfs.github.com/spec/v1' ]; then
  oid=$(sed -n 's/^oid sha256:\([0-9a-f]*\)$/\1/p' "$file" | head -n 1)
fi
case $1 in
smudge) if [ -n "$oid" ] && [ -f "$(place "$oid")/$oid" ]; then cat "$(place "$oid")/$oid"; else cat "$file"; fi ;;
clean)
  if [ -n "$oid" ] || [ "$size" = 0 ]; then cat "$file"; exit; fi
  oid=$(sha256sum < "$file") && oid=${oid%% *}
  mkdir -p "$(place "$oid")"
  mv -f "$file" "$(place "$oid")/$oid"
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$oid" "$size" ;;
esac
FILTER
  for how in clean smudge; do
    g config "filter.lfs.$how" "sh \"\$(git rev-parse --git-common-dir)/slipway-lfs\" $how"
  done
  g config filter.lfs.required true
  g config lfs.skipdownloaderrors true
  for object in "$x"-lfs-*; do
    [ -f "$object" ] || continue
    oid=${object##*-lfs-} rest=${oid#??} more=${rest#??}
    place=.git/lfs/objects/${oid%"$rest"}/${rest%"$more"}
    mkdir -p "$place"
    mv -f "$object" "$place/$oid"
  done
  xargs -0 sh -c '
    for path; do
      if [ -L "./$path" ] || ! [ -f "./$path" ] || [ "$(wc -c < "./$path")" -gt 1024 ]; then continue; fi
      oid=$(sed -n "s/^oid sha256:\([0-9a-f]*\)$/\1/p" "./$path" | head -n 1)
      rest=${oid#??} more=${rest#??}
      object=.git/lfs/objects/${oid%"$rest"}/${rest%"$more"}/$oid
      if [ -n "$oid" ] && [ -f "$object" ]; then cat "$object" > "./$path"; fi
    done
  ' sh < "$x-paths"
  g update-index -q --refresh >/dev/null 2>&1 || :
fi
if [ -e "$x-modules" ]; then
  while IFS='	' read -r number path within name url commit; do
    bundle=$x-module-$number
    there=$(plain -C "$path" rev-parse -q --verify HEAD 2>/dev/null) || there=
    if [ -e "$path/.git" ] && [ "$there" = "$commit" ]; then continue; fi
    if [ -e "$path/.git" ] && [ -n "$(plain -C "$path" status --porcelain 2>&1 | head -n 1)" ]; then
      printf '%s\n' "$path"
      continue
    fi
    rm -rf "$path"
    mkdir -p "$path"
    if [ "$bundle" = "$x-module--" ]; then continue; fi
    plain clone -q --no-checkout --branch slipway "$bundle" "$path"
    plain -C "$path" remote set-url origin "$url"
    plain -C "$path" checkout -q --detach "$commit"
    plain -C "$path" update-ref -d refs/heads/slipway
    plain -C "$path" update-ref -d refs/remotes/origin/slipway
    plain -C "$within" config "submodule.$name.url" "$url"
    plain -C "$within" config "submodule.$name.active" true
  done < "$x-modules"
fi
"#;

/// From where it may come.
pub(crate) struct Whence<'a> {
    pub(crate) mirrors: &'a Mirrors,
    pub(crate) egress: &'a Egress,
    /// A step that sees to the submodules itself is left to it.
    pub(crate) steps: &'a [SetupStep],
}

/// What is to be laid into a workspace.
#[derive(Default)]
pub(crate) struct Extras {
    /// Files of the host, each with its place in the sandbox.
    files: Vec<(PathBuf, String)>,
    /// What a person should know of what could not be had.
    pub(crate) notices: Vec<String>,
    /// What it is, in words that differ where it does.
    words: Vec<String>,
}

/// A submodule with where it is from the repository's root.
struct Nested {
    path: String,
    /// Where its parent is.
    within: String,
    module: Submodule,
}

impl Extras {
    /// What a commit needs, without what another needs too. Files are made in `scratch`.
    pub(crate) async fn fetch(
        source: &Whence<'_>,
        mirror: &Mirror,
        commit: &str,
        since: Option<&str>,
        scratch: &Path,
    ) -> Result<Self, Failure> {
        let mut extras = Self::default();
        if since == Some(commit) {
            return Ok(extras);
        }
        if mirror.uses_lfs(commit).await? {
            extras.large_files(mirror, commit, since, scratch).await?;
        }
        if !source.steps.iter().any(|step| step.run.contains("submodule")) {
            extras.submodules(source, mirror, commit, since, scratch).await?;
        }
        Ok(extras)
    }

    async fn large_files(
        &mut self,
        mirror: &Mirror,
        commit: &str,
        since: Option<&str>,
        scratch: &Path,
    ) -> Result<(), Failure> {
        let large = match mirror.fetch_large(commit, since).await {
            Ok(large) => large,
            // The workspace is of use without them.
            Err(error) => forge::Large { missing: Some(error.to_string()), ..forge::Large::default() },
        };
        let mut paths = Vec::new();
        for pointer in &large.there {
            paths.extend_from_slice(pointer.path.as_bytes());
            paths.push(0);
            let inside = format!("{INSIDE}lfs-{}", pointer.oid);
            if !self.files.iter().any(|(_, known)| *known == inside) {
                self.words.push(format!("{} {}", pointer.oid, pointer.path));
                self.files.push((mirror.large_object(&pointer.oid), inside));
            }
        }
        self.write(scratch, "paths", &paths)?;
        self.notices.extend(large.missing.map(|missing| {
            format!("Large files that Git LFS keeps elsewhere could not be fetched, and are pointers in the workspace: {missing}.")
        }));
        Ok(())
    }

    async fn submodules(
        &mut self,
        source: &Whence<'_>,
        mirror: &Mirror,
        commit: &str,
        since: Option<&str>,
        scratch: &Path,
    ) -> Result<(), Failure> {
        let rules = Rules::parse(source.egress)?;
        let reach = |host: &str, port: u16| rules.allows(host, port);
        let before = match since {
            // A list that cannot be read has nothing that need not be fetched again.
            Some(since) => mirror.submodules(since).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let top = match mirror.submodules(commit).await {
            Ok(top) => top,
            Err(error) => {
                self.notices.push(format!("The list of submodules is of no use: {error}"));
                return Ok(());
            }
        };
        let nest = |parent: &Mirror, prefix: &str, depth: usize, modules: Vec<Submodule>| {
            let within = if prefix.is_empty() { ".".to_owned() } else { prefix.to_owned() };
            let path = |module: &Submodule| match prefix {
                "" => module.path.clone(),
                prefix => format!("{prefix}/{}", module.path),
            };
            let nested = |module: Submodule| {
                (parent.clone(), depth, Nested { path: path(&module), within: within.clone(), module })
            };
            modules.into_iter().map(nested).collect::<Vec<_>>()
        };
        let mut left = nest(mirror, "", 1, top);
        left.retain(|(_, _, nested)| !before.contains(&nested.module));
        left.reverse();
        let (mut lines, mut absent) = (String::new(), Vec::new());
        let mut number = 0;
        while let Some((parent, depth, Nested { path, within, module })) = left.pop() {
            number += 1;
            let found = match number > MODULES || depth > DEPTH {
                true => Err("there are too many, or they are too deep in each other".to_owned()),
                false => source.mirrors.submodule(&parent, &module, &reach).await,
            };
            let url = forge::public_url(&module.url);
            let bundle = scratch.join(format!("module-{number}"));
            let found = match found {
                Ok(there) => {
                    let bundled = there.bundle(BRANCH, &module.commit, &bundle).await;
                    bundled.map(|()| there).map_err(|error| error.to_string())
                }
                Err(why) => Err(why),
            };
            let at = match found {
                Ok(there) => {
                    self.files.push((bundle, format!("{INSIDE}module-{number}")));
                    self.words.push(format!("{path} {}", module.commit));
                    let deeper = there.submodules(&module.commit).await.unwrap_or_default();
                    let mut deeper = nest(&there, &path, depth + 1, deeper);
                    deeper.reverse();
                    left.extend(deeper);
                    number.to_string()
                }
                Err(why) => {
                    absent.push(format!("{path}: {why}"));
                    "-".to_owned()
                }
            };
            let fields = [&at, &path, &within, &module.name, &url, &module.commit];
            lines.push_str(&format!("{}\n", fields.map(String::as_str).join("\t")));
        }
        if !lines.is_empty() {
            self.write(scratch, "modules", lines.as_bytes())?;
        }
        if !absent.is_empty() {
            self.notices.push(format!(
                "Submodules that could not be fetched have empty directories:\n- {}",
                absent.join("\n- ")
            ));
        }
        Ok(())
    }

    fn write(&mut self, scratch: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = scratch.join(name);
        std::fs::write(&path, bytes).map_err(|error| crate::problem::file(&path, &error))?;
        self.files.push((path, format!("{INSIDE}{name}")));
        Ok(())
    }

    /// The same for the clone of an image.
    pub(crate) fn for_a_build(self) -> sandbox::image::Extras {
        let script = format!("cd \"$1\"\n{LAY}");
        sandbox::image::Extras { files: self.files, script, words: self.words }
    }

    /// What a person should know, with which repository it is about where there are several.
    pub(crate) fn notices_of(&self, place: &str) -> Vec<String> {
        let of =
            |notice: &String| if place.is_empty() { notice.clone() } else { format!("{place}: {notice}") };
        self.notices.iter().map(of).collect()
    }

    /// Puts it into a workspace. Gives what a person should know.
    pub(super) async fn lay(self, git: &Git<'_>, stop: &Stop) -> Result<Vec<String>, Failure> {
        let Self { files, mut notices, .. } = self;
        if files.is_empty() {
            return Ok(notices);
        }
        for (host, inside) in &files {
            copy_in(git.sandbox, host, inside, stop).await?;
        }
        let said = git.unless(stop).run(LAY, &[], 64 * 1024).await?;
        let kept =
            String::from_utf8_lossy(&said.stdout).lines().map(super::git::harmless).collect::<Vec<_>>();
        if !kept.is_empty() {
            notices.push(format!(
                "Submodules with changes of their own were left at their commits: {}",
                kept.join(", ")
            ));
        }
        Ok(notices)
    }
}

/// Fetches what a commit needs, beside what another needed, and lays it into one clone. Gives what a person should know.
pub(super) async fn lay(
    source: &Whence<'_>,
    git: &Git<'_>,
    (mirror, commit, since): (&Mirror, &str, Option<&str>),
    scratch: &Path,
    stop: &Stop,
) -> Result<Vec<String>, Failure> {
    let extras = tokio::select! {
        extras = Extras::fetch(source, mirror, commit, since, scratch) => extras?,
        () = stop.given() => return Err(Failure::Stopped),
    };
    let notices = extras.lay(git, stop).await?;
    Ok(Extras { notices, ..Extras::default() }.notices_of(git.place))
}

/// The same for all clones of a workspace.
pub(super) async fn lay_all(
    source: &Whence<'_>,
    clones: &Clones<'_>,
    (mirrors, commit, since): (&Joint, &str, Option<&str>),
    scratch: &Path,
    stop: &Stop,
) -> Result<Vec<String>, Failure> {
    let mut notices = Vec::new();
    for ((number, git), (_, mirror)) in clones.each().enumerate().zip(mirrors.parts()) {
        let own = scratch.join(format!("extras-{number}"));
        std::fs::create_dir_all(&own).map_err(|error| crate::problem::file(&own, &error))?;
        let changes = (mirror, of(commit, number), since.map(|since| of(since, number)));
        notices.extend(lay(source, &git, changes, &own, stop).await?);
    }
    Ok(notices)
}
