//! What git does with the files of a workspace by the will of people, as it was before the agent's first turn: filters that the
//! set-up configured, attributes beside those of the repository, a sparse checkout. What is configured later does not decide
//! what is delivered, because it could make that other than what passed the checks.

use serde::{Deserialize, Serialize};

use super::git::Git;
use crate::failure::Failure;

/// Longest description; larger ones are cut, and what was cut does not count.
const LIMIT: usize = 64 * 1024;

/// Prints the attributes of the clone and of the user, the sums of the list of files that need not be on the disk and of the
/// index, and the settings by which files are converted. With `$1` the index is of nobody but us: it is what later ones are
/// compared with, and files that it says are unchanged without a look are looked at.
const GROUND: &str = r#"
text() { if [ -n "$1" ] && [ -f "$1" ]; then head -c 8000 "$1" 2>/dev/null | tr -d '\0'; fi; printf '\0'; }
text .git/info/attributes
global=$(g config --path core.attributesFile) || global=
text "${global:-${XDG_CONFIG_HOME:-$HOME/.config}/git/attributes}"
if [ -e .git/slipway-index ] || [ -e .git/slipway-hidden ]; then rm -f .git/slipway-index .git/slipway-hidden; fi
flags=$(g ls-files -v 2>/dev/null | grep -c '^[a-zS] ') || :
if [ "${flags:-0}" -gt 0 ]; then
  g ls-files -v -z | tr '\n\0' '\1\n' | sed -n 's/^[Ss] //p' | sort -u > .git/slipway-hidden
  if [ -s .git/slipway-hidden ]; then
    sum=$(sha256sum < .git/slipway-hidden)
    printf '%s' "${sum%% *}"
  fi
fi
printf '\0'
if [ -n "$1" ] && [ -f .git/index ]; then
  cp -p .git/index .git/slipway-index
  if [ "${flags:-0}" -gt 0 ]; then
    g ls-files -v -z | tr '\n\0' '\1\n' | sed -n 's/^[a-z] //p' | tr '\1\n' '\n\0' |
      GIT_INDEX_FILE=.git/slipway-index g update-index -q --no-assume-unchanged -z --stdin
  fi
  sum=$(sha256sum < .git/slipway-index)
  printf '%s' "${sum%% *}"
fi
printf '\0'
g config -z --get-regexp '^(filter\..*|core\.(autocrlf|eol))$' || :
"#;

/// Before a filter of people's own runs: it is to find what it found in their set-up, and not the git that runs it.
const OUTSIDE: &str = "HOME=$SLIPWAY_HOME; export HOME; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
     GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL GIT_ATTR_NOSYSTEM XDG_CONFIG_HOME; ";

/// Whose work the index is when the ground is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// Nobody was at work yet.
    Ours,
    /// The agent may have written it.
    Unknown,
}

/// What holds for the files of one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ground {
    /// Git's settings, as name and value.
    settings: Vec<(String, String)>,
    /// What `.git/info/attributes` said, and the user's own file.
    attributes: String,
    user_attributes: String,
    /// The SHA-256 of the list of the files that people do not want on the disk, which lies in the clone. None where all are
    /// wanted there.
    #[serde(default)]
    pub(super) hidden: Option<String>,
    /// The SHA-256 of the index that we left in the clone. Another one is not taken at its word.
    pub(super) index: Option<String>,
}

impl Ground {
    /// What `GROUND` printed.
    fn parse(text: &str) -> Self {
        let mut parts = text.splitn(5, '\0').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let (attributes, user_attributes, hidden, index) = (part(), part(), part(), part());
        let rest = part();
        // What was cut off in the middle is no setting.
        let whole = rest.rfind('\0').map_or("", |end| &rest[..end]);
        // Large files have a filter of ours; with a process beside it, even an empty one, git would not ask that.
        let setting = |entry: &str| {
            // A name alone means that it is so.
            let (name, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            if name.is_empty() {
                return None;
            }
            (!name.starts_with("filter.lfs.")).then(|| (name.to_owned(), value.to_owned()))
        };
        Self {
            settings: whole.split('\0').filter_map(setting).collect(),
            attributes,
            user_attributes,
            hidden: (hidden.len() == 64).then_some(hidden),
            index: (index.len() == 64).then_some(index),
        }
    }

    /// The configuration of a git of our own with its directory at `own`, the attributes of the clone, and those of the user.
    pub(super) fn files(&self, own: &str) -> [String; 3] {
        let mut config = format!(
            "[core]\n\tbare = false\n\thooksPath = /dev/null\n\tfsmonitor = false\n\tuntrackedCache = false\n\
             \texcludesFile = /dev/null\n\tattributesFile = {own}/attributes\n\
             [submodule]\n\trecurse = false\n[gc]\n\tauto = 0\n"
        );
        for (name, value) in &self.settings {
            let (Some((section, rest)), Some((_, key))) = (name.split_once('.'), name.rsplit_once('.'))
            else {
                continue;
            };
            let value = match key {
                "clean" | "smudge" | "process" if !value.is_empty() => format!("{OUTSIDE}{value}"),
                _ => value.clone(),
            };
            let header = match rest.rsplit_once('.') {
                Some((name, _)) => format!("[{section} {}]", quoted(name)),
                None => format!("[{section}]"),
            };
            config.push_str(&format!("{header}\n\t{key} = {}\n", quoted(&value)));
        }
        // Large files have Slipway's own filter, which is the same as that of git-lfs and of which the agent has no copy.
        config.push_str(&format!(
            "[filter \"lfs\"]\n\tclean = {}\n\trequired = true\n",
            quoted(&format!("sh '{own}/lfs'"))
        ));
        [config, self.attributes.clone(), self.user_attributes.clone()]
    }

    /// The names of the filters that people configured, a line for each.
    pub(super) fn filters(&self) -> String {
        let name = |(name, _): &(String, String)| {
            name.strip_prefix("filter.")
                .and_then(|rest| rest.rsplit_once('.'))
                .map(|(name, _)| name.to_owned())
        };
        let names: Vec<String> = self.settings.iter().filter_map(name).chain(["lfs".to_owned()]).collect();
        names.join("\n")
    }
}

impl Git<'_> {
    /// What holds now.
    pub(super) async fn ground(&self, index: Index) -> Result<Ground, Failure> {
        let index = match index {
            Index::Ours => "ours",
            Index::Unknown => "",
        };
        let said = self.run(GROUND, &[index], LIMIT).await?;
        Ok(Ground::parse(&String::from_utf8_lossy(&said.stdout)))
    }
}

/// A text as git's configuration has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_configured_is_written_down_as_they_did() {
        let sum = "a1".repeat(32);
        let ground = Ground::parse(&format!(
            "*.ipynb filter=strip\n\0\0\0{sum}\0filter.lfs.process\n\0filter.strip.out.required\0filter.strip.out.clean\nstrip \"$1\" \\\\ x\0core.autocrlf\ninput\0filter.cut"
        ));
        assert_eq!((ground.index.as_deref(), ground.hidden.as_deref()), (Some(sum.as_str()), None));
        assert_eq!(ground.filters(), "strip.out\nstrip.out\nlfs");
        let [config, attributes, user] = ground.files("/tmp/o");
        assert!(config.contains("[filter \"strip.out\"]\n\trequired = \"true\"\n"), "{config}");
        assert!(config.contains("[filter \"strip.out\"]\n\tclean = \"HOME="), "{config}");
        assert!(config.contains("strip \\\"$1\\\" \\\\\\\\ x\"\n"), "{config}");
        assert!(config.contains("[core]\n\tautocrlf = \"input\"\n"), "{config}");
        assert!(!config.contains("cut") && !config.contains("process"), "{config}");
        assert_eq!((attributes.as_str(), user.as_str()), ("*.ipynb filter=strip\n", ""));
        assert_eq!(Ground::parse(""), Ground::default());
    }
}
