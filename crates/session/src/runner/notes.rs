//! Notes of the memory in a turn: those that fit its prompt when it begins, and errors that came before when a check fails.
//! They are looked for beside everything else, recorded before the model reads them, and only ever appended. A memory that
//! cannot be used is told of, and the turn goes on.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent::CheckResult;
use agent::history::History;
use agent::notes::{Reason, given, is_given, is_known, seen};
use memory::{Occasion, Query, Recalled};
use protocol::{
    Actor, Code, EventBody, FoundNote, Item, ItemId, ItemKind, ItemStatus, NoteId, NoteKind, NoteScope,
    Problem, Report, Severity, TestStatus, Timestamp,
};
use tokio_util::task::AbortOnDropHandle;

use super::Runner;
use super::tools::Done;
use crate::failure::Failure;
use crate::state::TurnState;

/// Most notes that are given unasked: for a prompt, and for what fails.
const FOR_TASK: usize = 5;
const FOR_FAILURE: usize = 3;
/// Most bytes of them, and how much of what a model reads they may be at most: one part in so many.
const MOST: u64 = 6 * 1024;
const SHARE: u64 = 8;
/// Bytes of a token, roughly.
const TOKEN: u64 = 4;
/// How long a turn waits for notes. What comes later is given later.
const MOMENT: Duration = Duration::from_secs(2);
/// Most findings of a check that are looked for, and most bytes of each.
const FINDINGS: usize = 8;
const FINDING: usize = 400;

/// Notes that fit a prompt, on their way to the model.
pub(super) struct Recollection(AbortOnDropHandle<Result<Recalled, Problem>>);

impl Runner {
    /// Whose notes this turn knows; None where it has no memory.
    pub(super) fn scopes(&self) -> Option<Vec<NoteScope>> {
        let workspace = &self.context.workspace;
        let author = || self.context.turn().and_then(|turn| turn.authors.first().cloned());
        workspace.remembers().then(|| workspace.scopes(author().as_deref()))
    }

    /// Looks for notes.
    pub(super) async fn look_up(
        &self,
        text: String,
        scopes: Vec<NoteScope>,
        kind: Option<NoteKind>,
        occasion: Occasion,
        limit: usize,
    ) -> Result<Recalled, Problem> {
        look_up(Arc::clone(&self.context.shelf), text, scopes, kind, occasion, limit).await
    }

    /// Begins to look for notes that fit the turn's prompt.
    pub(super) fn recollect(&mut self, turn: &TurnState) {
        if turn.steps() > 0 || self.context.shelf.is_empty() {
            return;
        }
        let Some(scopes) = self.scopes() else { return };
        let look = look_up(
            Arc::clone(&self.context.shelf),
            turn.text.clone(),
            scopes,
            None,
            Occasion::Offer,
            FOR_TASK,
        );
        self.recollection = Some(Recollection(AbortOnDropHandle::new(tokio::spawn(look))));
    }

    /// Gives the model what fits its prompt, unless a server that came before has; whether something was given.
    pub(super) async fn give_notes(&mut self, history: &History) -> Result<bool, Failure> {
        if history.since_prompt().iter().any(is_given) {
            self.recollection = None;
        }
        self.give_recollected(MOMENT).await
    }

    /// The same where it took longer, as soon as it is there.
    pub(super) async fn give_late_notes(&mut self) -> Result<(), Failure> {
        self.give_recollected(Duration::ZERO).await.map(drop)
    }

    async fn give_recollected(&mut self, patience: Duration) -> Result<bool, Failure> {
        let Some(Recollection(task)) = &mut self.recollection else { return Ok(false) };
        let Ok(done) = tokio::time::timeout(patience, task).await else { return Ok(false) };
        self.recollection = None;
        // A task that broke off has said so in the server's log.
        let Ok(recalled) = done else { return Ok(false) };
        match recalled {
            Ok(Recalled { found, words_only }) => {
                if let Some(why) = words_only {
                    self.tell_once(&Problem::new(Code::ModelAdapted, format!("memory: {why}"))
                        .hint("notes are found by their words meanwhile, and by their meaning again when it answers"))
                        .await?;
                }
                self.give(found, Reason::Task).await
            }
            Err(problem) => self.tell_trouble(problem).await.map(|()| false),
        }
    }

    /// Gives the model errors that came before and look like what fails now.
    pub(super) async fn give_patterns(&self, results: &[CheckResult]) -> Result<(), Failure> {
        let reports = results.iter().filter(|result| !result.passed).map(|result| &result.report);
        let findings: Vec<String> = reports.flat_map(findings).take(FINDINGS).collect();
        if findings.is_empty() || self.context.shelf.is_empty() {
            return Ok(());
        }
        let Some(scopes) = self.scopes() else { return Ok(()) };
        let kind = Some(NoteKind::ErrorPattern);
        let look = self.look_up(findings.join("\n"), scopes, kind, Occasion::Offer, FOR_FAILURE);
        match tokio::time::timeout(MOMENT, look).await {
            Ok(Ok(recalled)) => self.give(recalled.found, Reason::Failure).await.map(drop),
            Ok(Err(problem)) => self.tell_trouble(problem).await,
            // The checks say enough without.
            Err(_) => Ok(()),
        }
    }

    /// Records notes for the model that it does not have yet; whether there are any.
    async fn give(&self, mut found: Vec<FoundNote>, reason: Reason) -> Result<bool, Failure> {
        if found.is_empty() {
            return Ok(false);
        }
        let known = |history: &History| -> Vec<NoteId> {
            // A model that works in rounds is not sent the conversation, but what came since the prompt.
            let messages = if self.in_rounds { history.since_prompt() } else { history.messages() };
            let known = found.iter().filter(|found| is_known(&found.note, messages));
            known.map(|found| found.note.id).collect()
        };
        let known = self.context.with_history(known).await?;
        found.retain(|found| !known.contains(&found.note.id));
        let room = (self.window.request().saturating_mul(TOKEN) / SHARE).min(MOST);
        let Some((text, notes)) = given(&found, reason, usize::try_from(room).unwrap_or_default()) else {
            return Ok(false);
        };
        // Before it is in the log: what is counted is counted once, and what is in the log is not looked for again.
        self.count_used(&notes).await;
        let kind = ItemKind::Notice { text: text.clone(), notes };
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
        self.append(&Actor::system(), vec![EventBody::ItemCompleted { turn: self.turn, item }]).await?;
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(true)
    }

    /// Counts that notes were given, each once in a turn. It matters little, so a failure is only told to whoever runs the server.
    pub(super) async fn count_used(&self, notes: &[NoteId]) {
        let (notes, turn) = (notes.to_vec(), self.turn.to_string());
        let counted =
            self.context.shelf.with(move |memory| memory.used(&notes, &turn, Timestamp::now())).await;
        if let Err(problem) = counted {
            tracing::warn!(%problem, "that notes were used could not be counted");
        }
    }

    /// Counts the notes that this turn, which is done, had a use for: what the model wrote afterwards has something of them
    /// that it had nowhere else from. Each once in a turn.
    pub(super) async fn count_useful(&self) {
        if !self.context.workspace.remembers() {
            return;
        }
        let seen = match self.context.with_history(|history| seen(history.since_prompt())).await {
            Ok(seen) if !seen.is_empty() => seen,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "that notes were of use could not be counted");
                return;
            }
        };
        let turn = self.turn.to_string();
        let counted = self.context.shelf.with(move |memory| {
            let useful = seen.iter().filter(|note| memory::bears_on(&note.text, &note.before, &note.wrote));
            let useful: Vec<NoteId> = useful.map(|note| note.id).collect();
            memory.useful(&useful, &turn, Timestamp::now())
        });
        if let Err(problem) = counted.await {
            tracing::warn!(%problem, "that notes were of use could not be counted");
        }
    }

    /// What the model reads of a call when there is no memory; people are told why.
    pub(super) async fn without_memory(&self, problem: Problem) -> Result<Done, Failure> {
        // What is wrong with the call is the model's to put right.
        if problem.code == Code::BadRequest {
            return Ok(Done::error(format!("Not remembered: {}.", problem.title)));
        }
        self.tell_trouble(problem).await?;
        Ok(Done::error("The memory cannot be used now; people were told why. Go on without it."))
    }

    async fn tell_trouble(&self, problem: Problem) -> Result<(), Failure> {
        let title = format!("the memory cannot be used, and the work goes on without it: {}", problem.title);
        let problem = Problem { title, ..problem };
        self.tell_once(&problem).await
    }

    /// Tells people, once while a server has the session in memory.
    async fn tell_once(&self, problem: &Problem) -> Result<(), Failure> {
        let adapted = &self.context.adapted;
        let new = adapted.lock().unwrap_or_else(PoisonError::into_inner).insert(problem.title.clone());
        if new {
            self.context.raise(problem).await?;
        }
        Ok(())
    }
}

impl super::Context {
    /// Looks at the conversation so far.
    pub(super) async fn with_history<T>(&self, look: impl Fn(&History) -> T) -> Result<T, store::Error> {
        match self.recorder.remembered().look(&self.recorder, &look) {
            Some(seen) => Ok(seen),
            None => Ok(look(&self.history().await?)),
        }
    }
}

async fn look_up(
    shelf: Arc<crate::notes::Shelf>,
    text: String,
    scopes: Vec<NoteScope>,
    kind: Option<NoteKind>,
    occasion: Occasion,
    limit: usize,
) -> Result<Recalled, Problem> {
    let look = move |memory: &memory::Memory| {
        let (scopes, now) = (&scopes[..], Timestamp::now());
        memory.recall(&Query { text: &text, scopes, kind, limit, occasion, now })
    };
    shelf.with(look).await
}

/// What a check found, in the words that an error pattern would have.
fn findings(report: &Report) -> Vec<String> {
    let failed = report.tests.iter().filter(|test| test.status == TestStatus::Failed);
    let tests = failed.map(|test| format!("{}: {}", test.name, test.message));
    let errors = report.diagnostics.iter().filter(|finding| finding.severity == Severity::Error);
    let errors = errors.map(|finding| {
        let code = finding.code.as_deref().unwrap_or_default();
        format!("{code} {}", finding.message)
    });
    let mut all: Vec<String> = errors.chain(tests).collect();
    if all.is_empty() {
        all.push(report.tail.clone());
    }
    let short = |text: String| {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line[..line.floor_char_boundary(FINDING)].to_owned()
    };
    all.into_iter().map(short).filter(|text| !text.is_empty()).collect()
}
