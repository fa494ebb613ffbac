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
/// How much further it is looked for tests, which may lie deep in their folder or beside what they test.
const DEEPER: usize = 3;
/// Folders in which nothing of the repository's own is.
const NOT_OURS: [&str; 6] = ["node_modules", "vendor", "third_party", "target", "dist", "build"];
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
    let held =
        |path: &&str| path.split_once('/').is_some_and(|(folder, _)| checks::HOLDERS.contains(&folder));
    // A path that is a file has nothing in it.
    let held: Vec<&str> = inside.iter().map(String::as_str).filter(held).take(FOLDERS).collect();
    let mut below = few_of_each(mirror.in_folders(commit, &held).await?);
    below.extend(inside.iter().cloned());
    let mut looked_into: BTreeSet<String> =
        folders.iter().chain(&held).map(|name| (*name).to_owned()).collect();
    for _ in 0..DEEPER {
        let next = folders_of(&below, &looked_into);
        paths.append(&mut below);
        let names: Vec<&str> = next.iter().map(String::as_str).collect();
        below = few_of_each(mirror.in_folders(commit, &names).await?);
        looked_into.extend(next);
    }
    paths.extend(below);
    for folder in CI_FOLDERS {
        let above = folder.split('/').next().unwrap_or(folder);
        if paths.iter().any(|name| name == above) {
            paths.extend(mirror.in_folders(commit, &[folder]).await?.into_iter().take(CI_FILES));
        }
    }
    Ok(paths)
}

/// What among these paths looks like a folder that was not looked into, those of tests first.
fn folders_of(paths: &[String], looked_into: &BTreeSet<String>) -> Vec<String> {
    let folder = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        !name.contains('.') && !NOT_OURS.contains(&name) && !looked_into.contains(*path)
    };
    let mut folders: Vec<String> = paths.iter().filter(folder).cloned().collect();
    let has_tests = |path: &str| path.split('/').any(|part| matches!(part, "test" | "tests"));
    folders.sort_by_key(|path| (!has_tests(path), path.matches('/').count()));
    folders.truncate(FOLDERS);
    folders
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
