//! The environment's checks, run once on an image that was just built: what fails there failed before any session changed
//! anything, and no turn is blamed for it. They run beside everything else; nobody waits for an image because of them, and
//! an image whose checks fail is as good as another.

use std::time::{Duration, Instant};

use forge::Tip;
use guest::Exit;
use protocol::{Check, Environment, ImageCheck, ImageCheckState, KnownCheck, Report, Timestamp};
use sandbox::Sandbox;
use sandbox::image::{self, Checked, CheckedOne, Image, Trial};

use super::{Builds, assemble};
use crate::failure::Failure;
use crate::process::{self, Ending};
use crate::runner::{self, output::Collector};

/// Most bytes that are kept of what a check said. Of one that said more nobody could tell what it left out.
const MOST: usize = 256 * 1024;

/// Checks that are to be run on an image.
pub(super) struct Due {
    image: Image,
    recipe: image::Recipe,
    checks: Vec<Check>,
}

impl Builds {
    /// The checks that are to be run on an image that is ready; None where there are none, or it is known how they go.
    pub(super) fn due(&self, image: &Image, recipe: image::Recipe, checks: Vec<Check>) -> Option<Due> {
        let known = self.options.images.checked_now(&image.environment);
        let same = |one: &CheckedOne, check: &Check| is_of(one, check);
        let is_known = known.is_some_and(|known| {
            known.checks.len() == checks.len()
                && known.checks.iter().zip(&checks).all(|(one, check)| same(one, check))
        });
        if checks.is_empty() || is_known {
            return None;
        }
        let due = Due { image: image.clone(), recipe, checks };
        self.options.images.show_checks(&due.image, due.pending());
        Some(due)
    }

    /// Runs them, unless the server ends meanwhile. That they could not be run costs only what sessions would know.
    pub(super) async fn find_out(&self, due: Due) {
        let shown = Shown { builds: self, image: &due.image };
        // One at a time over all environments: each uses as much of the machine as a session does.
        let run = async {
            let _one = self.trying.lock().await;
            let name = &due.image.environment;
            // An image that was replaced while others had their turn is not what sessions begin from.
            if self.current(name).is_none_or(|current| current.key != due.image.key) {
                return;
            }
            match self.try_checks(&due).await {
                Ok(checked) => {
                    if let Err(error) = self.options.images.keep_checks(name, checked) {
                        tracing::warn!(environment = %name, %error, "how checks went on an image is not kept");
                    }
                }
                Err(error) => {
                    tracing::warn!(environment = %name, %error, "the checks could not be run on an image");
                }
            }
        };
        tokio::select! {
            () = run => {}
            () = self.end.cancelled() => {}
        }
        drop(shown);
    }

    async fn try_checks(&self, due: &Due) -> Result<Checked, sandbox::Error> {
        let each = self.options.command_timeout;
        let all = each.saturating_mul(u32::try_from(due.checks.len()).unwrap_or(u32::MAX));
        let images = &self.options.images;
        let trial: Trial = images.try_out(&due.recipe, &due.image, all).await?;
        let mut shown = due.pending();
        let mut checks = Vec::new();
        for (place, check) in due.checks.iter().enumerate() {
            shown[place].state = ImageCheckState::Running;
            images.show_checks(&due.image, shown.clone());
            let one = try_check(trial.sandbox(), check, each).await;
            shown[place] = one.check.clone();
            images.show_checks(&due.image, shown.clone());
            checks.push(one);
        }
        trial.end().await;
        Ok(Checked {
            image: due.image.key.clone(),
            commit: due.image.commit.clone(),
            recipe: due.recipe.digest(),
            at: Timestamp::now(),
            checks,
        })
    }

    /// What is known of these checks at a commit, where they ran on an image of it that was built from this recipe.
    pub(crate) async fn known_checks(
        &self,
        name: &str,
        environment: &Environment,
        tip: &Tip,
        checks: &[Check],
    ) -> Vec<KnownCheck> {
        let Some(checked) = self.options.images.checked(name, &tip.commit) else { return Vec::new() };
        match assemble::digest(&self.options, &self.exits, name, environment, tip).await {
            Ok(Some(recipe)) if recipe == checked.recipe => {}
            Ok(_) => return Vec::new(),
            Err(failure) => {
                let error = failure.into_problem();
                tracing::warn!(environment = %name, error = %error.title, "an image could not be compared");
                return Vec::new();
            }
        }
        let of_these = |one: &CheckedOne| checks.iter().any(|check| is_of(one, check));
        checked.checks.into_iter().filter(of_these).filter_map(known).collect()
    }
}

impl Due {
    fn pending(&self) -> Vec<ImageCheck> {
        self.checks.iter().map(|check| image::pending(&check.name, &check.run)).collect()
    }
}

/// Checks that are shown as under way; not any more when this is dropped.
struct Shown<'a> {
    builds: &'a Builds,
    image: &'a Image,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.builds.options.images.show_checks(self.image, Vec::new());
    }
}

/// Whether what is known is of this check.
fn is_of(one: &CheckedOne, check: &Check) -> bool {
    one.check.name == check.name && one.check.run == check.run && one.parser == check.parser
}

/// What a session can know; None of a check that did not come to its end.
fn known(one: CheckedOne) -> Option<KnownCheck> {
    let CheckedOne { check, report, .. } = one;
    match check.state {
        ImageCheckState::Passed => {
            let report = Some(report).filter(|report| *report != Report::default());
            Some(KnownCheck { name: check.name, passed: true, report })
        }
        ImageCheckState::Failed => Some(KnownCheck { name: check.name, passed: false, report: Some(report) }),
        ImageCheckState::Pending | ImageCheckState::Running | ImageCheckState::Unknown => None,
    }
}

/// Runs one check to its end, or to the end of its time.
async fn try_check(sandbox: &dyn Sandbox, check: &Check, timeout: Duration) -> CheckedOne {
    let began = Instant::now();
    let mut collector = Collector::bounded();
    let ended = run(sandbox, check, timeout, &mut collector).await;
    let mut one = CheckedOne {
        check: image::pending(&check.name, &check.run),
        parser: check.parser.clone(),
        report: Report::default(),
    };
    one.check.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let said = match ended {
        Ok(exit) => judge(check, &exit, &collector.text(), timeout),
        Err(failure) => Err(failure.into_problem().title),
    };
    match said {
        Ok((true, report)) => {
            one.check.state = ImageCheckState::Passed;
            one.report = report;
        }
        Ok((false, report)) => {
            one.check.state = ImageCheckState::Failed;
            one.check.failures = u32::try_from(::checks::count(&report).max(1)).unwrap_or(u32::MAX);
            one.report = report;
        }
        Err(why) => {
            one.check.state = ImageCheckState::Unknown;
            one.check.why = Some(why);
        }
    }
    one
}

async fn run(
    sandbox: &dyn Sandbox,
    check: &Check,
    timeout: Duration,
    collector: &mut Collector,
) -> Result<Exit, Failure> {
    let id = protocol::ItemId::new().to_string();
    let process = sandbox.guest().start(&id, &sandbox::shell::command(&check.run, Some(timeout))).await?;
    let ending = process::follow(sandbox, &id, process, collector, None, None).await?;
    process::forget(sandbox, &id).await;
    match ending {
        Ending::Exited(exit) => Ok(exit),
        Ending::Stopped => Err(Failure::Stopped),
    }
}

/// Whether a run passed, and what it says: of one that passed what later runs are measured by, of another what fails. Why
/// nothing can be said where that is so.
fn judge(check: &Check, exit: &Exit, output: &str, timeout: Duration) -> Result<(bool, Report), String> {
    if exit.timed_out {
        return Err(format!("it was not done after {} s", timeout.as_secs()));
    }
    if let Some(signal) = exit.signal {
        return Err(format!("it was ended by signal {signal}"));
    }
    let passed = exit.code == 0;
    let mut parsed = runner::checks::parsed(check, output);
    if !passed {
        ::checks::explain(&mut parsed, output);
    }
    let report = if passed { ::checks::tally(&parsed) } else { ::checks::outline(&parsed) };
    let bytes = serde_json::to_vec(&report).map_or(usize::MAX, |bytes| bytes.len());
    match bytes > MOST || ::checks::is_cut(&report) {
        true if passed => Ok((true, Report { tests: Vec::new(), ..report })),
        true => Err("it fails with more than is kept of it".to_owned()),
        false => Ok((passed, report)),
    }
}
