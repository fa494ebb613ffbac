//! What the session's work does to its own checks: tests that are gone or skipped, rules that ask for less. People are told,
//! because the checks that passed cannot tell it.

use std::sync::PoisonError;
use std::time::Duration;

use protocol::{TestStatus, Weakening, WeakeningKind};

use super::Runner;
use crate::state::One;

/// How long the diff may be looked through. It takes seconds at most; the end of a turn must not hang on it.
const LOOKING: Duration = Duration::from_secs(60);
/// Most of them that are told in words; the receipt has more.
const TOLD: usize = 10;
/// How the notice for people begins. Whoever describes the work finds it by this.
pub(crate) const HEAD: &str =
    "The checks passed, and the changes make them say less. A person should look at this:";

impl Runner {
    /// Looks at what the work changed since the session began. It is for people to judge, so a failure costs only that.
    pub(super) async fn look_for_weakened(&mut self, commit: Option<&str>) {
        self.weakened = Vec::new();
        let (Some(saved), Some(commit)) = (self.context.workspace.saved(), commit) else { return };
        let Ok(mirrors) = self.context.workspace.mirrors().await else { return };
        // With whole files each test is compared with what it was; where those are too much, what changed must do.
        let patch = match mirrors.whole_files(&saved.base, commit).await {
            Ok(Some(patch)) => Ok(patch),
            Ok(None) => mirrors.diff(&saved.base, commit).await.map(|diff| diff.patch),
            Err(error) => Err(error),
        };
        match patch {
            Ok(patch) => {
                let failed = self.failed_before();
                // A diff can have megabytes. To read it takes a thread of its own, so that other sessions do not wait.
                let looked = tokio::task::spawn_blocking(move || look(&patch, &failed));
                self.weakened = match tokio::time::timeout(LOOKING, looked).await {
                    Ok(Ok(found)) => found,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the diff could not be looked through for weakened tests");
                        vec![nothing_looked_at("it could not be read to its end")]
                    }
                    Err(_) => vec![nothing_looked_at("it took too long")],
                };
                self.weakened.extend(self.says_less());
            }
            Err(error) => {
                tracing::warn!(%error, "it could not be looked for tests and checks that were weakened");
            }
        }
    }

    /// What the checks themselves say less than when the session began: no text of a change need show it.
    fn says_less(&self) -> Vec<Weakening> {
        let uncounted = self.uncounted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.context.recorder.stream().with_state(|state| {
            let of = |one: &One| match &one.last {
                Some(last) if !uncounted.contains(&one.check) => {
                    let began = one.began.as_ref().map(|(_, report)| report);
                    ::checks::says_less(&one.check, began, last)
                }
                Some(_) | None => Vec::new(),
            };
            state.counted().iter().flat_map(of).collect()
        })
    }

    /// The tests that are known to have failed before this turn, or when the session began.
    fn failed_before(&self) -> Vec<String> {
        self.context.recorder.stream().with_state(|state| {
            let began = state.counted().iter().filter_map(|one| one.began.as_ref()).map(|(_, report)| report);
            let turn = state.turn().into_iter().flat_map(|turn| &turn.before).map(|(_, report)| report);
            let failed = began.chain(turn).flat_map(|report| &report.tests);
            failed.filter(|test| test.status == TestStatus::Failed).map(|test| test.name.clone()).collect()
        })
    }

    /// Says what was found, before anybody is asked to approve it.
    pub(super) async fn tell_weakened(&self) -> Result<(), store::Error> {
        if self.weakened.is_empty() {
            return Ok(());
        }
        self.record_notice(words(&self.weakened)).await
    }
}

/// What a diff makes say less, each line told once.
fn look(patch: &str, failed: &[String]) -> Vec<Weakening> {
    let mut found: Vec<Weakening> = not_looked_at(patch).into_iter().collect();
    found.extend(::checks::weakened(patch));
    for one in ::checks::adapted(patch, failed) {
        if !found.iter().any(|other| (&other.file, other.line) == (&one.file, one.line)) {
            found.push(one);
        }
    }
    found
}

/// What is said where the diff was not looked through.
fn nothing_looked_at(why: &str) -> Weakening {
    let what = format!("whether tests and checks say less now was not looked at: {why}");
    Weakening { kind: WeakeningKind::NotLookedAt, file: "the diff".to_owned(), line: None, what }
}

/// What is said of a diff that was cut: its last line says so.
fn not_looked_at(patch: &str) -> Option<Weakening> {
    let last = patch.lines().next_back().filter(|line| line.starts_with("[the rest is left out"))?;
    tracing::warn!(last, "the diff is too long to be looked through for weakened tests");
    let what = format!(
        "the diff is longer than {} MiB; tests and checks in the rest of it were not looked at",
        forge::PATCH_LIMIT >> 20
    );
    Some(Weakening { kind: WeakeningKind::NotLookedAt, file: "the diff".to_owned(), line: None, what })
}

/// The findings as people read them.
fn words(found: &[Weakening]) -> String {
    let mut text = HEAD.to_owned();
    for Weakening { file, line, what, .. } in found.iter().take(TOLD) {
        let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
        text.push_str(&format!("\n- {place}: {what}"));
    }
    if found.len() > TOLD {
        text.push_str(&format!("\n… and {} more in the receipt", found.len() - TOLD));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_that_was_cut_is_told() {
        let cut = "diff --git a/x b/x\n[the rest is left out: the diff is longer than 8388608 bytes]\n";
        let told = not_looked_at(cut).unwrap();
        assert_eq!(told.kind, WeakeningKind::NotLookedAt);
        assert!(told.what.starts_with("the diff is longer than 8 MiB"), "{}", told.what);
        assert_eq!(not_looked_at("diff --git a/x b/x\n+x\n"), None);
    }

    #[test]
    fn places_are_named_and_a_flood_is_cut() {
        let one = |line| Weakening {
            kind: WeakeningKind::TestSkipped,
            file: "test_a.py".into(),
            line,
            what: "test_total is not run".into(),
        };
        let text = words(&[one(Some(3)), one(None)]);
        assert!(
            text.ends_with("\n- test_a.py:3: test_total is not run\n- test_a.py: test_total is not run"),
            "{text}"
        );
        assert!(words(&vec![one(None); 13]).ends_with("\n… and 3 more in the receipt"));
    }
}
