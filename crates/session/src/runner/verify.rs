//! The gate before `done`: work that did not pass its checks is not called done, whichever turn did it, and what passed is
//! kept as it was while the checks ran.

use agent::Verification;
use failpoint::Point;
use protocol::{Actor, Code, EventBody};

use super::{Runner, checks, outgoing};
use crate::failure::Failure;
use crate::state::Passed;
use crate::workspace::{Changed, Expected, Keep, Patience, Reading, Unlike};

/// How often the checks are run on work that is another one each time they have passed.
const RUNS: usize = 3;
/// What such work is called where failing checks are named.
const RESTLESS: &str = "files that change while the checks run";
/// What people are told once of work that nothing has checked.
const UNCHECKED: &str = "Nothing was checked: no checks are configured, and none were found. To have the work checked, write \
     `checks` in .slipway.toml or in the environment.";
/// Most of these files that are named.
const NAMED: usize = 10;

impl Runner {
    /// Runs every check, unless there is nothing that did not pass them before.
    pub(super) async fn verify(&mut self) -> Result<Verification, Failure> {
        let mut results = Vec::new();
        let mut running = "sandbox".to_owned();
        match self.try_verify(&mut results, &mut running).await {
            Ok(changed) => {
                self.give_patterns(&results).await?;
                Ok(Verification { changed, checks: results })
            }
            // The work went with the sandbox. The model is told as a check is: with what is to be done again.
            Err(Failure::Lost(detail)) => {
                let text = self.lost(&detail).await?;
                self.replace_sandbox().await?;
                results.push(checks::failed(running, text));
                Ok(Verification { changed: true, checks: results })
            }
            Err(failure) => Err(failure),
        }
    }

    async fn try_verify(
        &mut self,
        results: &mut Vec<agent::CheckResult>,
        running: &mut String,
    ) -> Result<bool, Failure> {
        if let Some(note) = self.settled().await? {
            self.notice(note).await?;
        }
        // The checks may need them.
        for text in self.tend(Expected::Any).await? {
            self.notice(text).await?;
        }
        self.passed = None;
        // Git may not be able to read the workspace as it is: a repository in the repository, a file without permissions.
        let Some(changed) = self.looked(results).await? else { return Ok(true) };
        if !changed.by_turn && self.is_settled(&changed.tree) {
            if self.in_rounds {
                // A model that works in rounds is told what fails, whether or not something changed.
                for check in self.checks.clone() {
                    running.clone_from(&check.name);
                    results.push(self.run_check(&check).await?);
                }
            }
            return Ok(false);
        }
        if let Some(text) = Box::pin(self.take_late()).await? {
            results.push(checks::failed("delivery".to_owned(), text));
            return Ok(true);
        }
        if let Some(text) = not_as_it_is(&changed.unlike) {
            results.push(checks::failed("delivery".to_owned(), text));
            return Ok(true);
        }
        if let Some(text) = self.unresolved(&changed.tree).await? {
            results.push(checks::failed("merge".to_owned(), text));
            return Ok(true);
        }
        let passed = Box::pin(self.pass(changed.tree, results, running)).await?;
        self.settle_removals(results.iter().all(|result| result.passed)).await?;
        if let Some(Passed { tree, .. }) = &passed
            && let Some(text) = self.new_leaks(tree).await?
        {
            results.push(checks::failed("secrets".to_owned(), text));
            return Ok(true);
        }
        if let Some(Passed { tree, .. }) = &passed
            && let Some(doubt) = Box::pin(self.look_again(tree)).await?
        {
            results.push(doubt);
            return Ok(true);
        }
        if let Some(Passed { tree, left }) = passed {
            failpoint::hit(Point::ChecksPassed);
            match self.keep_tree(&tree, Keep::Commit, Patience::unless(&self.stop)).await {
                Ok(kept) => {
                    self.passed = kept;
                    if self.checks.is_empty() && !self.passed_before() {
                        self.record_notice(UNCHECKED.to_owned()).await?;
                    }
                    let checks = self.checks.iter().map(|check| check.name.clone()).collect();
                    let body = EventBody::ChecksPassed { turn: self.turn, tree, left, checks };
                    self.append(&Actor::system(), vec![body]).await?;
                }
                // Work that the host does not take, such as a link that leads out of the repository, is the model's to
                // put right while it still can.
                Err(Failure::Problem(problem)) if problem.code == Code::DeliveryFailed => {
                    results.push(checks::failed("delivery".to_owned(), problem.title));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(true)
    }

    /// What a model is told of conflicts that are still in its files.
    async fn unresolved(&self, tree: &str) -> Result<Option<String>, Failure> {
        let sandbox = self.sandbox()?;
        let patience = Patience::unless(&self.stop);
        let marked = match self.context.workspace.marked(&*sandbox, tree, patience).await {
            Ok(marked) => marked,
            Err(Failure::Problem(problem)) => return Ok(Some(problem.title)),
            Err(failure) => return Err(failure),
        };
        if marked.is_empty() {
            return Ok(None);
        }
        let more = marked.len().saturating_sub(NAMED);
        let mut names: String = marked.iter().take(NAMED).map(|name| format!("\n- {name}")).collect();
        if more > 0 {
            names.push_str(&format!("\n- and {more} more"));
        }
        Ok(Some(format!(
            "These files still have the marks of a merge, lines that begin with <<<<<<< and >>>>>>>:{names}\nResolve each \
             conflict so that both sides are right, and remove the marks. The merge is committed for you."
        )))
    }

    /// What looks like secrets in a tree before it is committed, once in a turn: a model can take it out, and it then is in
    /// no commit. Whoever is told and leaves it there has a person asked.
    async fn new_leaks(&mut self, tree: &str) -> Result<Option<String>, Failure> {
        if self.leaks_told {
            return Ok(None);
        }
        let sandbox = self.sandbox()?;
        let patience = Patience::unless(&self.stop);
        let found = match self.context.workspace.patch(&*sandbox, tree, patience).await {
            Ok(patch) => outgoing::leaks_in(&self.context, patch).await,
            // The host looks through it before anything is pushed.
            Err(Failure::Problem(_)) => None,
            Err(failure) => return Err(failure),
        };
        self.leaks_told = found.is_some();
        Ok(found)
    }

    /// Whether a tree is what passed its checks and was handed over; or, before anything did, what the session began with.
    fn is_settled(&self, tree: &str) -> bool {
        let stream = self.context.recorder.stream();
        let passed = stream.with_state(|state| state.passed().map(|passed| passed.is(tree)));
        passed.unwrap_or_else(|| {
            let began = self.context.workspace.saved().and_then(|saved| saved.began);
            began.as_deref() == Some(tree)
        })
    }

    /// Whether something of this session has passed, so that what is to be said of that was said.
    fn passed_before(&self) -> bool {
        let stream = self.context.recorder.stream();
        stream.with_state(|state| {
            state.passed().is_some() || state.turn().is_some_and(|turn| turn.passed.is_some())
        })
    }

    /// The working tree. None when git cannot read it, which is then among the results.
    async fn looked(&self, results: &mut Vec<agent::CheckResult>) -> Result<Option<Changed>, Failure> {
        match self.changed(Reading::Settle, Patience::unless(&self.stop)).await {
            Ok(changed) => Ok(Some(changed)),
            Err(Failure::Problem(problem)) if problem.code == Code::DeliveryFailed => {
                results.push(checks::failed("delivery".to_owned(), problem.title));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Runs the checks on a tree; gives the one that passed. What something wrote over while they ran may be why they
    /// passed: then they run again, on what is there now. Files that only came into being are what checks leave behind, and
    /// no part of the work.
    async fn pass(
        &self,
        mut tree: String,
        results: &mut Vec<agent::CheckResult>,
        running: &mut String,
    ) -> Result<Option<Passed>, Failure> {
        let mut run = 1;
        loop {
            // On the heap: what a check needs is much, and the way to here is long.
            Box::pin(self.run_checks(&tree, results, running)).await?;
            if results.iter().any(|result| !result.passed) {
                return Ok(None);
            }
            if self.checks.is_empty() {
                return Ok(Some(Passed { tree, left: None }));
            }
            let Some(after) = self.looked(results).await? else { return Ok(None) };
            if let Some(text) = not_as_it_is(&after.unlike) {
                results.push(checks::failed("delivery".to_owned(), text));
                return Ok(None);
            }
            // What git converts can change on the disk, and the tree is the same.
            let files = if !after.unlike.written.is_empty() {
                after.unlike.written
            } else if after.tree == tree {
                return Ok(Some(Passed { tree, left: None }));
            } else if let Some(files) = self.overwritten(&tree, &after.tree).await? {
                files
            } else {
                return Ok(Some(Passed { tree, left: Some(after.tree) }));
            };
            if run == RUNS {
                results.push(checks::failed(RESTLESS.to_owned(), restless(&files)));
                return Ok(None);
            }
            tracing::debug!(?files, "files changed while the checks ran, which are run again");
            (run, tree) = (run + 1, after.tree);
            results.clear();
        }
    }
}

impl Runner {
    /// The files of a tree that are not the same in a later one; None where that only has more of them.
    async fn overwritten(&self, tree: &str, later: &str) -> Result<Option<Vec<String>>, Failure> {
        let all = self.differing(tree, later).await?;
        let files = self.written_over(tree, later).await?;
        // Trees that differ and of which no difference can be told count as different.
        Ok((all.is_empty() || !files.is_empty()).then_some(files))
    }
}

/// What is said of files that would be delivered otherwise than they are on the disk, where it takes a decision which is right.
fn not_as_it_is(unlike: &Unlike) -> Option<String> {
    let mut text = String::new();
    if !unlike.hidden.is_empty() {
        text.push_str(&format!(
            "These files are in the repository and not on the disk, because git was told to leave them out (a sparse checkout, \
             or `--skip-worktree`), so checks that pass here say nothing of what would be delivered: {}. Bring them back with \
             `git sparse-checkout disable`, or with `git update-index --no-skip-worktree` and `git checkout`. If they are to go, \
             remove them with `git rm --sparse`.\n",
            named(&unlike.hidden)
        ));
    }
    if !unlike.filtered.is_empty() {
        text.push_str(&format!(
            "These files are for a filter of git that was configured in this session: {}. It would deliver them otherwise than \
             they are while the checks run, so it is not used. Remove it with `git config --unset`. A filter that the \
             repository needs is configured in `setup` of the environment, by a person.\n",
            named(&unlike.filtered)
        ));
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

/// Files by their names, as far as there are not too many.
fn named(files: &[String]) -> String {
    let more = files.len().saturating_sub(NAMED);
    let mut names = files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    names
}

/// What is said of files that are different each time the checks have passed.
fn restless(files: &[String]) -> String {
    let names = named(files);
    format!(
        "The checks passed {RUNS} times, but each time the files were others after them than before, so nobody knows what \
         passed: {names}. End what writes them in the background; if the checks write them, list them in .gitignore or \
         take them out of the repository."
    )
}
