//! Repositories whose root says nothing of tests, because each of its folders is a project of its own.

use crate::affected::quoted;

use super::{Found, Role, java, languages, makefile, package_manager, python};

/// Most projects whose tests are used; those of more are only proposed.
pub(super) const MOST: usize = 10;
/// Folders that hold what others wrote, or what is made.
const NOT_OURS: [&str; 12] = [
    "node_modules",
    "vendor",
    "third_party",
    "target",
    "dist",
    "build",
    "docs",
    "doc",
    "examples",
    "example",
    "testdata",
    "fixtures",
];
/// Folders that hold projects rather than being one.
pub const HOLDERS: [&str; 8] =
    ["apps", "crates", "libs", "modules", "packages", "projects", "services", "src"];
/// Folders that belong to the whole.
const FOR_OTHERS: [&str; 5] = ["test", "tests", "scripts", "tools", "ci"];

/// The tests of the projects in folders of the root, and in folders of those.
pub(super) fn tests(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for folder in folders(names) {
        // What is below a project is that project's.
        let inside =
            |other: &Found| folder.strip_prefix(&other.folder).is_some_and(|rest| rest.starts_with('/'));
        if !found.iter().any(inside) {
            found.extend(of_folder(folder, names, read));
        }
    }
    for one in found.iter_mut().take(MOST) {
        one.used = true;
    }
    found
}

/// Whether what is in a folder is written here, and not by others or by a tool.
pub(super) fn is_ours(folder: &str) -> bool {
    !folder.split('/').any(|part| part.starts_with('.') || NOT_OURS.contains(&part))
}

/// Every folder of the root that something is in, and of those that hold projects; those above first. What is deeper belongs to one
/// of them.
fn folders<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let ours = |folder: &&str| {
        is_ours(folder)
            && match folder.split_once('/') {
                None => true,
                Some((first, rest)) => HOLDERS.contains(&first) && !rest.contains('/'),
            }
    };
    let above = names.iter().filter_map(|path| Some(path.rsplit_once('/')?.0));
    let mut folders: Vec<&str> = above.filter(ours).collect();
    folders.sort_by_key(|folder| (folder.matches('/').count(), *folder));
    folders.dedup();
    folders
}

fn of_folder(folder: &str, names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let below = format!("{folder}/");
    let inside: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(&below)).collect();
    let read = |name: &str| read(&format!("{below}{name}"));
    let mut tests = languages(&inside, &read);
    // Some file of tests does not make a project of a folder that is there for another one.
    tests.retain(|found| found.from != python::FILES || !FOR_OTHERS.contains(&folder));
    if tests.is_empty() {
        tests.extend(makefile(&inside, &read, Role::Test));
    }
    if tests.is_empty() {
        tests.extend(java::tests(&inside));
    }
    for found in &mut tests {
        let own = package_manager(&inside);
        let everybodys = package_manager(names);
        if found.check.run == "npm test" && own == "npm" && everybodys != "npm" {
            found.check.run = format!("{everybodys} test");
        }
        found.check.run = format!("cd {} && {}", quoted(folder), found.check.run);
        found.from = match found.from.as_str() {
            python::FILES => format!("the Python files in {folder}"),
            from => format!("{below}{from}"),
        };
        found.folder = folder.to_owned();
    }
    tests
}
