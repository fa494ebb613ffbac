//! How an environment's checks went on its images, before any session changed anything. Of the last few commits, because a
//! session that began on one of them may ask long after the next image is there.

use protocol::{ImageCheck, ImageCheckState, Report, Timestamp};
use serde::{Deserialize, Serialize};

use super::images::Entry;
use super::{Image, Images};
use crate::Error;

/// Commits of which it is remembered.
const COMMITS: usize = 4;

/// `checks.json` is a list of these, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// [`Image::key`] of the image that they ran on.
    pub image: String,
    /// Its commit.
    pub commit: String,
    /// [`super::Recipe::digest`] of what it was built from.
    pub recipe: String,
    /// When they ran.
    pub at: Timestamp,
    /// The checks, in order.
    pub checks: Vec<CheckedOne>,
}

/// How one of them went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedOne {
    /// In short.
    #[serde(flatten)]
    pub check: ImageCheck,
    /// How its output was read.
    pub parser: String,
    /// What failed. Whoever stores it keeps it small.
    pub report: Report,
}

/// Checks that are under way on an image.
#[derive(Debug)]
pub(super) struct Checking {
    image: String,
    checks: Vec<ImageCheck>,
}

impl Images {
    /// How the checks went at a commit, when they last ran on an image of it.
    pub fn checked(&self, environment: &str, commit: &str) -> Option<Checked> {
        let environments = self.environments();
        environments.get(environment)?.checked.iter().find(|one| one.commit == commit).cloned()
    }

    /// How the checks of the current image went, if they ran on it.
    pub fn checked_now(&self, environment: &str) -> Option<Checked> {
        let environments = self.environments();
        let entry = environments.get(environment)?;
        let image = &entry.current.as_ref()?.image;
        entry.checked.iter().find(|one| one.image == image.key).cloned()
    }

    /// Shows how far the checks on an image are; with none, that they are over.
    pub fn show_checks(&self, image: &Image, checks: Vec<ImageCheck>) {
        let mut environments = self.environments();
        // What is still found out of an image that was replaced is shown nowhere.
        let is_current =
            |entry: &&mut Entry| entry.current.as_ref().is_some_and(|record| record.image.key == image.key);
        if let Some(entry) = environments.get_mut(&image.environment).filter(is_current) {
            let checking = Checking { image: image.key.clone(), checks };
            entry.checking = Some(checking).filter(|one| !one.checks.is_empty());
        }
    }

    /// Keeps how the checks went.
    pub fn keep_checks(&self, environment: &str, checked: Checked) -> Result<(), Error> {
        let mut environments = self.environments();
        // An environment that was removed meanwhile has nothing to keep.
        let Some(entry) = environments.get_mut(environment).filter(|entry| entry.current.is_some()) else {
            return Ok(());
        };
        let mut all = vec![checked];
        let others = |one: &&Checked| one.commit != all[0].commit;
        let others: Vec<Checked> = entry.checked.iter().filter(others).take(COMMITS - 1).cloned().collect();
        all.extend(others);
        self.files.put_checked(environment, &all)?;
        entry.checked = all;
        Ok(())
    }
}

/// What is shown of the checks on an image.
pub(super) fn shown(image: &Image, checking: Option<&Checking>, checked: &[Checked]) -> Vec<ImageCheck> {
    if let Some(under_way) = checking.filter(|one| one.image == image.key) {
        return under_way.checks.clone();
    }
    let done = checked.iter().find(|one| one.image == image.key);
    done.map(|done| done.checks.iter().map(|one| one.check.clone()).collect()).unwrap_or_default()
}

/// A check that has not begun.
pub fn pending(name: &str, run: &str) -> ImageCheck {
    ImageCheck {
        name: name.to_owned(),
        run: run.to_owned(),
        state: ImageCheckState::Pending,
        failures: 0,
        duration_ms: 0,
        why: None,
    }
}
