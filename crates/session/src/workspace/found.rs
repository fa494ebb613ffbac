//! Checks that nobody wrote down, looked for in a repository at a commit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use checks::Found;
use forge::{Error, Mirror};

use super::recipe::FILE;

/// Where CI services look for what to run, and most files of one that are read.
const CI_FOLDERS: [&str; 2] = [".github/workflows", ".circleci"];
const CI_FILES: usize = 20;
/// Most folders that are looked into, and most paths of one.
const FOLDERS: usize = 60;
const PATHS: usize = 300;
/// Folders that hold projects rather than being one: what is in their folders is looked at, too.
const HOLDERS: [&str; 8] = ["apps", "crates", "libs", "modules", "packages", "projects", "services", "src"];
/// Most files that are read.
const FILES: usize = 100;

/// The checks that the repository gives a reason for.
pub(super) async fn checks(mirror: &Mirror, commit: &str) -> Result<Vec<Found>, Error> {
    let paths = paths(mirror, commit).await?;
    // What finds them is pure and asks for files by name; what it asks for is read, until it asks for nothing more.
    let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
    loop {
        let wanted: RefCell<BTreeSet<String>> = RefCell::default();
        let found = checks::find_checks(&paths, &|name| match files.get(name) {
            Some(text) => text.clone(),
            None => {
                wanted.borrow_mut().insert(name.to_owned());
                None
            }
        });
        let wanted = wanted.into_inner();
        if wanted.is_empty() {
            return Ok(found);
        }
        for name in wanted {
            let there = files.len() < FILES && paths.contains(&name);
            let bytes = if there { mirror.read_small(commit, &name).await? } else { None };
            files.insert(name, bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

/// The names in the root, what is in the folders there, and files of CI.
async fn paths(mirror: &Mirror, commit: &str) -> Result<Vec<String>, Error> {
    let mut paths = mirror.root(commit).await?;
    let ours = |name: &&str| !name.starts_with(['.', ':']);
    let folders = mirror.root_folders(commit).await?;
    let folders: Vec<&str> = folders.iter().map(String::as_str).filter(ours).take(FOLDERS).collect();
    let inside = few_of_each(mirror.in_folders(commit, &folders).await?);
    let held = |path: &&str| path.split_once('/').is_some_and(|(folder, _)| HOLDERS.contains(&folder));
    // A path that is a file has nothing in it.
    let held: Vec<&str> = inside.iter().map(String::as_str).filter(held).take(FOLDERS).collect();
    let mut below = few_of_each(mirror.in_folders(commit, &held).await?);
    below.extend(inside);
    let tests = |path: &&str| path.ends_with("/tests") || path.ends_with("/test");
    let tests: Vec<&str> = below.iter().map(String::as_str).filter(tests).take(FOLDERS).collect();
    paths.extend(few_of_each(mirror.in_folders(commit, &tests).await?));
    paths.extend(below);
    for folder in CI_FOLDERS {
        let above = folder.split('/').next().unwrap_or(folder);
        if paths.iter().any(|name| name == above) {
            paths.extend(mirror.in_folders(commit, &[folder]).await?.into_iter().take(CI_FILES));
        }
    }
    Ok(paths)
}

/// What git lists of many folders, without the rest of those in which very much is.
fn few_of_each(listed: Vec<String>) -> Vec<String> {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    let few = |path: &String| {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let count = counted.entry(folder).or_default();
        *count += 1;
        *count <= PATHS
    };
    listed.into_iter().filter(few).collect()
}

/// What a person is told of checks that nobody wrote down, before one of them is run: those that are used, and those that
/// are not, with what to write to use them.
pub(super) fn told(found: &[Found]) -> Option<String> {
    let line = |found: &Found| {
        let protocol::Check { name, run, .. } = &found.check;
        format!("{name}: `{run}` (because of {})", found.from)
    };
    let list =
        |used: bool| -> Vec<String> { found.iter().filter(|found| found.used == used).map(line).collect() };
    let (used, not_used) = (list(true), list(false));
    let mut parts = Vec::new();
    if !used.is_empty() {
        parts.push(format!("No checks are configured. These were found and must pass: {}.", used.join("; ")));
    }
    if !not_used.is_empty() {
        let not_used = not_used.join("; ");
        parts
            .push(format!("Found and not used, because they may fail on what was there before: {not_used}."));
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(format!("To choose, write `checks` in {FILE} or in the environment."));
    Some(parts.join(" "))
}
