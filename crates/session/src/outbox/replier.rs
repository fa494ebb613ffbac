//! What is said below pull requests: that a prompt from there was taken, and what came of it. The intent is in the log with the
//! prompt, or with the end of its turn; a task of its own says it. The forge is asked for a comment of the same key before one is
//! written, so that a server that died between the two says nothing twice.

use std::sync::Arc;
use std::time::Duration;

use forge::{Comment, Refusal};
use protocol::event::{Reply, ReplyState};
use protocol::{Actor, EventBody, Outcome};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::Patience;
use super::harmless::{as_part, harmless};
use crate::Options;
use crate::recorder::Recorder;
use crate::state::State;

/// How long a server that ends waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(3);
/// Most bytes of what the model said.
const SAID: usize = 6 * 1024;

/// The replies of one server. Dropping it ends what is under way.
pub(crate) struct Replier {
    voice: Arc<Voice>,
    _ends: DropGuard,
}

/// Says replies, each in a task of its own.
pub(crate) struct Voice {
    options: Arc<Options>,
    /// No more waiting.
    closing: CancellationToken,
    /// No more anything.
    ended: CancellationToken,
    tasks: TaskTracker,
}

impl Replier {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        let ended = CancellationToken::new();
        let voice = Voice {
            options,
            closing: CancellationToken::new(),
            ended: ended.clone(),
            tasks: TaskTracker::new(),
        };
        Self { voice: Arc::new(voice), _ends: ended.drop_guard() }
    }

    pub(crate) fn voice(&self) -> &Arc<Voice> {
        &self.voice
    }

    /// Lets requests that are under way come to their end, within reason. What is not said then is the next server's.
    pub(crate) async fn close(&self) {
        let Voice { closing, ended, tasks, .. } = &*self.voice;
        closing.cancel();
        tasks.close();
        if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
            ended.cancel();
            tasks.wait().await;
        }
    }
}

impl Voice {
    /// Says what could not be said before: somebody may have put right what was wrong. Each is taken up once, whoever asks.
    pub(crate) fn say_again(self: &Arc<Self>, recorder: &Arc<Recorder>) {
        let has_failed =
            |state: &State| state.replies().iter().any(|reply| reply.state == ReplyState::Failed);
        if !recorder.stream().with_state(has_failed) {
            return;
        }
        let (this, recorder) = (Arc::clone(self), Arc::clone(recorder));
        drop(self.tasks.spawn(async move {
            let system = Actor::system();
            let taken = recorder.append_if(&system, |state| {
                let failed = state.replies().iter().filter(|reply| reply.state == ReplyState::Failed);
                let again: Vec<Reply> =
                    failed.map(|reply| Reply { state: ReplyState::Intended, ..reply.clone() }).collect();
                (again.iter().cloned().map(EventBody::ReplyUpdated).collect(), again)
            });
            match taken.await {
                Ok((_, again)) => again.into_iter().for_each(|reply| this.say(&recorder, reply)),
                Err(error) => {
                    tracing::warn!(session = %recorder.session(), %error, "replies could not be taken up again");
                }
            }
        }));
    }

    /// Says what the log intends.
    pub(crate) fn say(self: &Arc<Self>, recorder: &Arc<Recorder>, reply: Reply) {
        let (this, recorder) = (Arc::clone(self), Arc::clone(recorder));
        drop(self.tasks.spawn(async move {
            tokio::select! {
                () = this.ended.cancelled() => {}
                () = this.bring(&recorder, reply) => {}
            }
        }));
    }

    async fn bring(self: &Arc<Self>, recorder: &Arc<Recorder>, mut reply: Reply) {
        let patience: Patience = self.options.outbox.notification;
        let recipes = recorder.stream().with_state(|state| {
            state.created().map(|created| created.recipe.secrets.clone()).unwrap_or_default()
        });
        let text = super::redact::text(&self.options, recipes, reply.text.clone()).await;
        let comment = Comment { key: reply.key.clone(), text, thread: reply.thread.clone() };
        loop {
            let said = match self.options.outbox.forges.of(&reply.remote) {
                Some((forge, repository)) => forge.comment(&repository, reply.number, &comment).await,
                None => Err(Refusal::Final { message: "no forge is configured for it any more".to_owned() }),
            };
            let refusal = match said {
                Ok(()) => {
                    record(recorder, Reply { state: ReplyState::Sent, error: None, ..reply }).await;
                    // The forge takes ours now.
                    self.say_again(recorder);
                    return;
                }
                Err(refusal) => refusal,
            };
            reply.attempts += 1;
            reply.error = Some(refusal.to_string());
            let wait = match refusal {
                Refusal::Later { wait, .. } => patience.wait(reply.attempts, wait),
                Refusal::Final { .. } => None,
            };
            let Some(wait) = wait else {
                record(recorder, Reply { state: ReplyState::Failed, ..reply }).await;
                return;
            };
            if !record(recorder, reply.clone()).await {
                return;
            }
            tokio::select! {
                () = self.closing.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Records how far a reply is; what cannot be recorded is looked up again by the next server, by its key.
async fn record(recorder: &Arc<Recorder>, reply: Reply) -> bool {
    let recorded = recorder.append(&Actor::system(), vec![EventBody::ReplyUpdated(reply)]).await;
    if let Err(error) = &recorded {
        tracing::warn!(session = %recorder.session(), %error, "a reply could not be recorded");
    }
    recorded.is_ok()
}

/// The replies that these events call for, from the state before them.
pub(crate) fn answers(state: &State, bodies: &[EventBody]) -> Vec<EventBody> {
    let awaited = |prompt| {
        state
            .replies()
            .iter()
            .filter(move |reply| reply.state == ReplyState::Awaited && reply.prompt == prompt)
    };
    let mut answers = Vec::new();
    for body in bodies {
        let (prompt, text) = match body {
            EventBody::TurnFinished { turn, outcome, reason, receipt } => {
                let Some(open) = state.turn().filter(|open| open.id == *turn) else { continue };
                let pushed = open.delivery.as_ref().filter(|delivery| !delivery.state.is_pending());
                let commit = pushed.and_then(|delivery| delivery.commit.as_deref());
                let commit = commit.filter(|_| receipt.files_changed > 0);
                (open.prompt, answer(*outcome, reason.as_deref(), &open.said, commit))
            }
            EventBody::PromptRemoved { prompt, .. } => {
                (*prompt, "The request was taken out of the queue before it was begun.".to_owned())
            }
            _ => continue,
        };
        answers.extend(awaited(prompt).map(|reply| {
            EventBody::ReplyUpdated(Reply {
                state: ReplyState::Intended,
                text: text.clone(),
                ..reply.clone()
            })
        }));
    }
    answers
}

fn answer(outcome: Outcome, reason: Option<&str>, said: &str, commit: Option<&str>) -> String {
    let word = match outcome {
        Outcome::Done => "Done.",
        Outcome::Escalated => "This needs a person.",
        Outcome::Cancelled => "It was stopped.",
        Outcome::Failed => "It failed.",
        Outcome::OutOfBudget => "The budget is used up.",
    };
    let mut text = word.to_owned();
    if let Some(reason) = reason.filter(|_| outcome != Outcome::Done) {
        text.push_str(&format!(" {}", harmless(reason)));
    }
    if !said.trim().is_empty() {
        text.push_str(&format!("\n\n{}", as_part(said, SAID)));
    }
    if let Some(commit) = commit.filter(|_| outcome == Outcome::Done) {
        text.push_str(&format!("\n\nThe branch is at {}.", commit.get(..12).unwrap_or(commit)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_how_it_ended_and_calls_nobody() {
        let text = answer(Outcome::Done, None, "Rounded it, @ann.", Some("0123456789abcdef"));
        assert_eq!(text, "Done.\n\nRounded it, @\u{200b}ann.\n\nThe branch is at 0123456789ab.");
        let text = answer(Outcome::Escalated, Some("1 test fails"), "", Some("0123456789abcdef"));
        assert_eq!(text, "This needs a person. 1 test fails");
    }
}
