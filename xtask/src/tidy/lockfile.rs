//! A budget for what we build from. Raising it is a decision, not an accident.

use super::Finding;
use crate::project::Project;

/// The most packages in Cargo.lock, our own and other platforms' included.
pub(super) const MOST: usize = 400;

const FILE: &str = "Cargo.lock";

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let count = count(project);
    if project.text(FILE).is_none() {
        return vec![Finding::error(FILE, 1, "it is missing: run cargo check, and commit it")];
    }
    if count > MOST {
        let message =
            format!("{count} packages, and {MOST} is the most: do without one, or argue for a larger budget");
        return vec![Finding::error(FILE, 1, message)];
    }
    Vec::new()
}

/// Packages in Cargo.lock.
pub(super) fn count(project: &Project) -> usize {
    project.text(FILE).unwrap_or_default().lines().filter(|line| *line == "[[package]]").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_kept() {
        let lock =
            |packages: usize| Project::of_files(&[(FILE, &"[[package]]\nname = \"a\"\n\n".repeat(packages))]);
        assert_eq!(count(&lock(3)), 3);
        assert!(check(&lock(MOST)).is_empty());
        assert_eq!(check(&lock(MOST + 1)).len(), 1);
        assert_eq!(check(&Project::default()).len(), 1);
    }
}
