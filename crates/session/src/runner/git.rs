//! Git in the workspace, as a turn needs it: what the turn found, what it changed, and keeping that. It runs inside, so it
//! can come to a limit of the sandbox; then that is told, and the agent gets to make room.

use std::time::Duration;

use protocol::{Code, Outcome, Problem};

use super::{Context, Runner};
use crate::failure::Failure;
use crate::limits::Said;
use crate::workspace::{Changed, Keep, Kept, Patience, Reading};

/// How long git may take to keep the work of a turn that was stopped, and how long an archive instead. A person waits.
const KEEP_STOPPED: Duration = Duration::from_secs(20);
const RESCUE_STOPPED: Duration = Duration::from_secs(10);

impl Runner {
    /// Remembers the workspace as the turn finds it. Where git cannot read it, whoever works in it is told.
    pub(super) async fn begin(&self) -> Result<Option<String>, Failure> {
        let sandbox = self.sandbox()?;
        let first = self.context.turn().and_then(|turn| turn.authors.first().cloned());
        let author = first.map(|name| self.context.options.people.author(&name));
        let patience = Patience::unless(&self.stop);
        let begun = self.context.workspace.begin(&*sandbox, self.turn, author.as_ref(), patience).await;
        match self.with_reason(begun).await {
            Ok(()) => Ok(None),
            Err(Failure::Problem(problem)) if problem.code == Code::DeliveryFailed => Ok(Some(format!(
                "The work in this workspace cannot be kept or delivered as it is. {}. Put that right first.",
                sentence(&problem.title)
            ))),
            Err(failure) => Err(failure),
        }
    }

    /// The working tree, and whether the turn changed it. What is left out of it is told.
    pub(super) async fn changed(&self, reading: Reading, patience: Patience<'_>) -> Result<Changed, Failure> {
        let sandbox = self.sandbox()?;
        let changed = self.context.workspace.changed(&*sandbox, self.turn, reading, patience).await;
        let mut changed = self.with_reason(changed).await?;
        if let Some(text) = changed.left_out.take() {
            self.notice(text).await?;
        }
        Ok(changed)
    }

    /// Keeps a tree of the workspace on the host.
    pub(super) async fn keep_tree(
        &self,
        tree: &str,
        keep: Keep,
        patience: Patience<'_>,
    ) -> Result<Option<Kept>, Failure> {
        let (Some(sandbox), Some(turn)) = (&self.sandbox, self.context.turn()) else { return Ok(None) };
        let words = self.words(&turn).await?;
        let kept = self.context.workspace.keep(&**sandbox, tree, keep, &words, patience).await;
        self.with_reason(kept).await
    }

    /// Keeps the work of the turn, if it did any. A stop that comes meanwhile leaves it a little time.
    pub(super) async fn keep(&mut self, outcome: Outcome) -> Result<Option<Kept>, Failure> {
        match outcome {
            // It was kept when it had passed; a turn that is done and kept nothing changed nothing.
            Outcome::Done => return Ok(self.passed.take()),
            Outcome::Escalated | Outcome::Cancelled | Outcome::Failed | Outcome::OutOfBudget => {}
        }
        if self.sandbox.is_none() {
            return Ok(None);
        }
        if !self.stop.is_given() {
            match self.keep_progress(Patience::unless(&self.stop)).await {
                Err(Failure::Stopped) => {}
                other => return other,
            }
        }
        self.keep_progress(Patience::at_most(KEEP_STOPPED)).await
    }

    /// Keeps the work of the turn as work in progress, if it did any.
    pub(super) async fn keep_progress(&self, patience: Patience<'_>) -> Result<Option<Kept>, Failure> {
        match self.changed(Reading::Look, patience).await? {
            Changed { by_turn: true, tree, .. } => self.keep_tree(&tree, Keep::Progress, patience).await,
            Changed { by_turn: false, .. } => Ok(None),
        }
    }

    /// Saves the workspace as an archive when git cannot keep it, and says where.
    pub(super) async fn rescue(&self, failure: Failure) -> Failure {
        let mut problem = match failure {
            Failure::Problem(problem) => problem,
            other => return other,
        };
        let Some(sandbox) = &self.sandbox else { return Failure::Problem(problem) };
        let most = self.stop.is_given().then_some(RESCUE_STOPPED);
        let rescued = self.context.workspace.rescue(&**sandbox, most).await;
        problem.hint = Some(match self.with_reason(rescued).await {
            Ok(path) => {
                format!("the workspace is saved in {}, but for files that are too large", path.display())
            }
            Err(failure) => {
                format!("the workspace could not be saved either: {}", failure.into_problem().title)
            }
        });
        Failure::Problem(problem)
    }

    /// What earlier turns changed, for a turn that changed nothing. It is for show, so a failure costs only that.
    pub(super) async fn earlier_counts(&self) -> (u32, u32, u32) {
        let workspace = &self.context.workspace;
        let Some(kept) = workspace.saved().and_then(|saved| saved.kept) else { return (0, 0, 0) };
        let Some(sandbox) = &self.sandbox else { return self.kept_counts(Some(&kept)).await };
        let patience = match self.stop.is_given() {
            true => Patience::at_most(KEEP_STOPPED),
            false => Patience::unless(&self.stop),
        };
        match workspace.counts(&**sandbox, patience).await {
            Ok(counts) => counts,
            Err(failure) => {
                tracing::debug!(error = %failure.into_problem(), "the changes could not be counted");
                (0, 0, 0)
            }
        }
    }

    /// Tells of limits that were reached outside a command, so that the next one is not blamed for them.
    pub(super) async fn look(&self) -> Result<(), store::Error> {
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        let Context { workspace, recorder, .. } = &*self.context;
        workspace.tell_limits(recorder, &**sandbox, "").await.map(drop)
    }

    /// Gives what git in the workspace gave. Where it failed because the sandbox came to a limit, that is recorded and said.
    async fn with_reason<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        let problem = match result {
            Err(Failure::Problem(problem)) if problem.code == Code::DeliveryFailed => problem,
            other => return other,
        };
        let Some(sandbox) = &self.sandbox else { return Err(problem.into()) };
        let Context { workspace, recorder, .. } = &*self.context;
        let said = Said::new(true, &problem.title);
        let hits = workspace.tell_limits_after(recorder, &**sandbox, &said).await?;
        Err(Failure::Problem(match hits.first() {
            Some(hit) => {
                let title = format!("{}. {}", problem.title.trim_end_matches('.'), hit.message);
                Problem { title, ..problem }
            }
            None => problem,
        }))
    }
}

/// With a capital letter and no full stop.
fn sentence(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
