//! Merges that left conflicts: work with the marks of one in its files is not done, whoever began the merge and whether or not it
//! was committed since.

use std::collections::HashMap;

use sandbox::Sandbox;
use serde::{Deserialize, Serialize};

use super::git::harmless;
use super::{Patience, Saved, Workspace};
use crate::failure::Failure;
use crate::joint::of;

/// Longest list of files with such lines.
const LISTED: usize = 256 * 1024;

/// Prints how many lines of each file look like the marks of a merge, in the tree `$1`, in the commit `$2` that is merged into, and
/// in the commit `$3` that is merged, which is the one of a merge under way where it is empty. Prints nothing without a merge.
const MARKS: &str = r#"
theirs=$3
if [ -z "$theirs" ]; then theirs=$(g rev-parse -q --verify 'MERGE_HEAD^{commit}') || exit 0; fi
for at in "$1" "$2" "$theirs"; do
  g grep -I -c -z --all-match -e '^<<<<<<< ' -e '^>>>>>>> ' "$at" || :
done
"#;

/// A merge that left conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Merge {
    /// The repository, by its number.
    pub(crate) number: usize,
    /// The commit that is merged.
    pub(crate) theirs: String,
}

impl Workspace {
    /// Remembers a merge that left conflicts, until work is kept in which they are resolved.
    pub(super) fn begin_merge(&self, number: usize, theirs: &str) -> Result<(), Failure> {
        let mut saved = self.require()?;
        let merge = Merge { number, theirs: theirs.to_owned() };
        if !saved.merges.contains(&merge) {
            saved.merges.push(merge);
            self.record.put(saved)?;
        }
        Ok(())
    }

    /// The files of a tree in which a merge left its marks. Lines that look so and were there before it are no marks.
    pub(crate) async fn marked(
        &self,
        sandbox: &dyn Sandbox,
        tree: &str,
        patience: Patience<'_>,
    ) -> Result<Vec<String>, Failure> {
        let saved: Saved = self.require()?;
        let ours = saved.tip.as_deref().unwrap_or(&saved.base);
        let mut marked = Vec::new();
        for (number, git) in self.patient_git(sandbox, patience).each().enumerate() {
            let begun: Vec<&Merge> = saved.merges.iter().filter(|merge| merge.number == number).collect();
            // Without one of ours there may be one of the agent.
            let theirs = begun.last().map_or("", |merge| merge.theirs.as_str());
            let (tree, ours) = (of(tree, number), of(ours, number));
            let said = git.run(MARKS, &[tree, ours, theirs], LISTED).await?;
            let at = self.places.get(number).map_or("", String::as_str);
            let names = with_marks(&String::from_utf8_lossy(&said.stdout), tree);
            marked.extend(names.into_iter().map(|name| harmless(&forge::placed(at, &name))));
        }
        Ok(marked)
    }
}

/// The files with more such lines in a tree than wherever else they are.
fn with_marks(said: &str, tree: &str) -> Vec<String> {
    let (mut here, mut before) = (Vec::new(), HashMap::<&str, u32>::new());
    let mut rest = said;
    while let Some((named, after)) = rest.split_once('\0') {
        let (count, after) = after.split_once('\n').unwrap_or((after, ""));
        rest = after;
        let (Some((at, name)), Ok(count)) = (named.split_once(':'), count.parse::<u32>()) else { continue };
        if at == tree {
            here.push((name, count));
        } else {
            let known = before.entry(name).or_default();
            *known = count.max(*known);
        }
    }
    let is_new = |(name, count): &(&str, u32)| before.get(name).is_none_or(|known| count > known);
    here.into_iter().filter(is_new).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_a_merge_brought_are_marks() {
        let said = "aa:src/a b.rs\x002\naa:docs/merging.md\x002\naa:tests/fix.txt\x006\nbb:docs/merging.md\x002\n\
                    cc:docs/merging.md\x001\ncc:tests/fix.txt\x004\n";
        assert_eq!(with_marks(said, "aa"), ["src/a b.rs", "tests/fix.txt"]);
        assert_eq!(with_marks("", "aa"), Vec::<String>::new());
    }
}
