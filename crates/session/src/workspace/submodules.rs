//! Submodules are not fetched: their addresses are the repository's to choose, and the server's logins are not for those.
//! Whoever works there is told.

use forge::{Mirror, Tip};
use protocol::SetupStep;

use crate::failure::Failure;

/// Where git keeps the list of them.
const FILE: &str = ".gitmodules";
/// Submodules that are named.
const NAMED: usize = 10;
/// How `ls-tree` begins the entry of a submodule.
const LINK: &str = "160000 ";

/// What a person and the model should know of a repository's submodules at a commit; None if it has none, or a step sees to
/// them.
pub(super) async fn notice(
    mirror: &Mirror,
    tip: &Tip,
    steps: &[SetupStep],
) -> Result<Option<String>, Failure> {
    let Some(file) = mirror.read(&tip.commit, FILE).await? else { return Ok(None) };
    if steps.iter().any(|step| step.run.contains("submodule")) {
        return Ok(None);
    }
    let mut names = Vec::new();
    let mut more = 0;
    for path in paths(&String::from_utf8_lossy(&file)) {
        if names.len() == NAMED {
            more += 1;
            continue;
        }
        let there = mirror.object(&tip.commit, &path).await?;
        names.extend(there.filter(|object| object.starts_with(LINK)).map(|_| path));
    }
    if names.is_empty() {
        return Ok(None);
    }
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(Some(format!(
        "The repository has submodules, which are not fetched: {}{more}. Their directories are empty. A set-up step of the \
         environment can fetch them (`git submodule update --init --recursive`), with their host in its egress.",
        names.join(", ")
    )))
}

/// The paths that the file names, as text that moves no cursor.
fn paths(file: &str) -> Vec<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("path").then(|| value.trim().trim_matches('"').to_owned())
    };
    let mut paths: Vec<String> = file.lines().filter_map(value).collect();
    paths.retain(|path| !path.is_empty() && !path.chars().any(char::is_control));
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn every_path_of_the_list_is_found() {
        let file = "# list\n[submodule \"a\"]\n\tpath = vendor/a\n\turl = ../a.git\n[submodule \"b\"]\nurl=https://x/b\nPath=\"b c\"\n\
                    pathological = no\npath =\n";
        assert_eq!(paths(file), ["vendor/a", "b c"]);
    }
}
