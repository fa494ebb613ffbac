//! One model call: streamed to the feed, made again when that may help, given up when the turn is stopped.

use std::time::Duration;

use llm::{Answer, Class, Delta, Meter, Model};
use protocol::chat::Request;
use protocol::event::Channel;
use protocol::{EventBody, Item, ItemId, ItemKind, ItemStatus, TurnId, Usage};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Runner;
use super::deltas::{Deltas, Pace};
use crate::failure::Failure;
use crate::kept_call;
use crate::pictures;
use crate::state::Retry;

/// The items that streamed text, which the answer completes. One of each kind for a call, however often it is made.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    pub(super) message: Option<ItemId>,
    pub(super) reasoning: Option<ItemId>,
}

impl Streamed {
    /// Items that streamed and are not in the answer.
    pub(super) fn leftovers(self) -> Vec<Item> {
        let message = self.message.map(|id| (id, ItemKind::Message { text: String::new() }));
        let reasoning =
            self.reasoning.map(|id| (id, ItemKind::Reasoning { text: String::new(), signature: None }));
        let closed = |(id, kind)| Item { id, status: ItemStatus::Interrupted, kind };
        message.into_iter().chain(reasoning).map(closed).collect()
    }
}

/// One streamed text.
struct Text {
    deltas: Deltas,
    text: String,
}

/// How a call ended, however often it was made.
pub(super) enum Called {
    Answered(Answer),
    Failed(llm::Error),
    /// Before it was made again somebody chose another model, or it turned out that nothing more may be used.
    GivenUp,
}

/// What becomes of an answer, and what of a call that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is work: people follow it, and it is made again.
    Work,
    /// It is for the platform: nobody sees it, and it is made again, as long as the same model is to work.
    Aside,
    /// The same, and nobody waits for it: it failed for good before.
    AsideOnce,
    /// It is for the platform, of work that is done: which model is chosen meanwhile does not matter.
    Verdict,
}

/// A call while it streams.
struct Call<'a> {
    runner: &'a Runner,
    kind: Kind,
    message: Option<(ItemId, Text)>,
    reasoning: Option<(ItemId, Text)>,
    /// What the attempt that is under way has used, and when that is kept beside the log.
    meter: Meter,
    keep_at: Option<Instant>,
    /// What is being written of it.
    keeping: Option<tokio::task::JoinHandle<()>>,
}

impl<'a> Call<'a> {
    fn new(runner: &'a Runner, kind: Kind) -> Self {
        let (message, reasoning, keep_at, keeping) = (None, None, None, None);
        Self { runner, kind, message, reasoning, meter: Meter::default(), keep_at, keeping }
    }
}

impl Call<'_> {
    async fn push(&mut self, delta: Delta) -> Result<(), Failure> {
        self.meter.push(&delta);
        if matches!(delta, Delta::Usage(_) | Delta::Accepted { .. }) && self.keep_at.is_none() {
            self.keep_at = Some(Instant::now() + kept_call::AFTER);
        }
        let (slot, channel, text) = match delta {
            Delta::Text(text) => (&mut self.message, Channel::Text, text),
            Delta::Reasoning(text) => (&mut self.reasoning, Channel::Reasoning, text),
            Delta::Call { .. } | Delta::Usage(_) | Delta::Accepted { .. } => return Ok(()),
        };
        if text.is_empty() || self.kind != Kind::Work {
            return Ok(());
        }
        if slot.is_none() {
            let id = ItemId::new();
            let kind = match channel {
                Channel::Reasoning => ItemKind::Reasoning { text: String::new(), signature: None },
                Channel::Text | Channel::Stdout | Channel::Stderr => {
                    ItemKind::Message { text: String::new() }
                }
            };
            self.runner.start(Item { id, status: ItemStatus::InProgress, kind }).await?;
            let deltas = Deltas::new(self.runner.context.recorder.stream(), id, channel, Pace::Whole);
            *slot = Some((id, Text { deltas, text: String::new() }));
        }
        if let Some((_, known)) = slot {
            known.text.push_str(&text);
            known.deltas.push(&text);
        }
        Ok(())
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut Text> {
        self.message.iter_mut().chain(self.reasoning.iter_mut()).map(|(_, text)| text)
    }

    fn due(&self) -> Option<Instant> {
        let texts = self.message.iter().chain(self.reasoning.iter());
        texts.filter_map(|(_, text)| text.deltas.due()).min()
    }

    fn flush(&mut self) {
        self.texts().for_each(|text| text.deltas.flush());
    }

    /// Keeps what the attempt has used, for the case that this server dies before its end.
    fn keep_used(&mut self, model: &Model) {
        self.keep_at = Some(Instant::now() + kept_call::EVERY);
        let context = &self.runner.context;
        let Some(calls) = context.turn().map(|turn| turn.calls_in_line()) else { return };
        let (turn, usage, elapsed_ms) = (self.runner.turn, self.meter.used(), context.elapsed_ms());
        let cost_usd = llm::cost_usd(model, &usage);
        let kept = kept_call::Kept { turn, calls, model: model.name.clone(), usage, cost_usd, elapsed_ms };
        let dir = context.recorder.dir();
        // A failure is told in there.
        self.keeping = Some(tokio::task::spawn_blocking(move || kept_call::keep(&dir, &kept)));
    }

    /// What the attempt has used is known now, and may be nothing: nobody is to count it later.
    async fn forget_kept(&mut self) {
        let Some(keeping) = self.keeping.take() else { return };
        let dir = self.runner.context.recorder.dir();
        let forgotten = async {
            keeping.await?;
            tokio::task::spawn_blocking(move || kept_call::forget(&dir)).await
        };
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "what a call had used could not be forgotten");
        }
    }

    /// What was streamed counts for nothing: the call is made again.
    fn restart(&mut self) {
        for text in self.texts() {
            text.deltas.restart();
            text.text.clear();
        }
    }

    fn streamed(&self) -> Streamed {
        let id = |slot: &Option<(ItemId, Text)>| slot.as_ref().map(|(id, _)| *id);
        Streamed { message: id(&self.message), reasoning: id(&self.reasoning) }
    }

    /// The texts so far, as items that are not whole.
    fn broken_off(self, status: ItemStatus) -> Vec<Item> {
        let message = self.message.map(|(id, text)| (id, ItemKind::Message { text: text.text }));
        let reasoning =
            self.reasoning.map(|(id, text)| (id, ItemKind::Reasoning { text: text.text, signature: None }));
        let closed = |(id, kind)| Item { id, status, kind };
        message.into_iter().chain(reasoning).map(closed).collect()
    }

    /// One attempt.
    async fn attempt(
        &mut self,
        model: &Model,
        request: &Request,
    ) -> Result<Result<Answer, llm::Error>, Failure> {
        (self.meter, self.keep_at) = (Meter::default(), None);
        let (sender, mut deltas) = mpsc::unbounded_channel();
        // The receiver lives as long as the call.
        let mut sink = move |delta| drop(sender.send(delta));
        let client = self.runner.context.client.clone();
        let runner = self.runner;
        let mut call = std::pin::pin!(client.complete(model, request, &mut sink));
        loop {
            let (flush, keep) = (until(self.due()), until(self.keep_at));
            tokio::select! {
                biased;
                () = runner.given_up() => {
                    // It counts as used, though nobody waits for it to be shown.
                    while let Ok(delta) = deltas.try_recv() {
                        self.meter.push(&delta);
                    }
                    return Err(Failure::Stopped);
                }
                () = flush => self.flush(),
                () = keep => self.keep_used(model),
                Some(delta) = deltas.recv() => self.push(delta).await?,
                result = &mut call => {
                    while let Ok(delta) = deltas.try_recv() {
                        self.push(delta).await?;
                    }
                    self.flush();
                    // From here on the answer or the error has it.
                    self.meter = Meter::default();
                    if result.is_err() {
                        self.forget_kept().await;
                    }
                    return Ok(result);
                }
            }
        }
    }
}

/// Waits until then; for ever where there is no time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Runner {
    /// Calls the model and records its answer. Where another one is to work, which may have been chosen just now, it becomes
    /// that one, and the agent asks again in its way.
    pub(super) async fn call_model(
        &mut self,
        machine: &agent::Turn,
        model: &mut Model,
        request: &Request,
    ) -> Result<agent::Input, Failure> {
        if let Some(chosen) = self.chosen(model)? {
            *model = chosen;
            return Ok(self.take_on(model));
        }
        self.context.tell_unpriced(model).await?;
        let resumed = self.retry.take().filter(|retry| retry.model == model.name);
        let most = model.provider.images();
        let shown = pictures::shown(self.context.workspace.dir().to_owned(), request, most).await;
        let request = shown.as_ref().unwrap_or(request);
        let (streamed, result) = {
            let mut call = Call::new(self, Kind::Work);
            match self.attempts(&mut call, model, request, resumed).await {
                Ok(result) => (call.streamed(), result),
                Err(Failure::Stopped) => {
                    let turn = self.turn;
                    // Else there is no sandbox, and nobody stopped anything.
                    let by_person = self.stop.is_given();
                    let status = if by_person { ItemStatus::Cancelled } else { ItemStatus::Interrupted };
                    let used = used_in_vain(turn, model, call.meter.used(), self.context.elapsed_ms());
                    let items = call.broken_off(status).into_iter();
                    let bodies = items.map(|item| EventBody::ItemCompleted { turn, item });
                    self.append(&self.agent, bodies.chain(used).collect()).await?;
                    return Err(Failure::Stopped);
                }
                Err(failure) => return Err(failure),
            }
        };
        match result {
            Called::Answered(answer) => {
                let step = self.context.turn().map_or(1, |turn| turn.steps() + 1);
                let usage = usage(self.turn, model, &answer, step, self.context.elapsed_ms());
                // What is recorded is what the agent works with: calls that were written as text are calls.
                let completion = machine.read(answer.completion);
                failpoint::hit(failpoint::Point::ModelAnswered);
                self.record_answer(&completion, streamed, usage).await?;
                self.tell_adapted(model, answer.notes).await?;
                Ok(agent::Input::Answered(completion))
            }
            Called::Failed(error) => {
                self.close_streamed(streamed).await?;
                if error.class == Class::ContextOverflow {
                    return Ok(agent::Input::Overflowed { message: error.message, takes: error.takes });
                }
                self.give_way(model, error).await
            }
            Called::GivenUp => {
                self.close_streamed(streamed).await?;
                *model = self.find_model()?;
                Ok(self.take_on(model))
            }
        }
    }

    /// Calls a model for what is no work, so that nobody sees the answer stream. It is counted and made again as others are.
    pub(super) async fn ask_aside(
        &self,
        model: &Model,
        request: &Request,
        kind: Kind,
        resumed: Option<Retry>,
    ) -> Result<Called, Failure> {
        self.context.tell_unpriced(model).await?;
        let mut call = Call::new(self, kind);
        let called = self.attempts(&mut call, model, request, resumed).await;
        if matches!(called, Err(Failure::Stopped)) {
            self.record_in_vain(model, call.meter.used()).await?;
        }
        called
    }

    async fn close_streamed(&self, streamed: Streamed) -> Result<(), Failure> {
        let turn = self.turn;
        let items = streamed.leftovers().into_iter();
        let bodies = items.map(|item| EventBody::ItemCompleted { turn, item }).collect();
        Ok(self.append(&self.agent, bodies).await?)
    }

    async fn attempts(
        &self,
        call: &mut Call<'_>,
        model: &Model,
        request: &Request,
        resumed: Option<Retry>,
    ) -> Result<Called, Failure> {
        // The model that works, where another one that is chosen meanwhile makes the call useless.
        let works = match call.kind {
            Kind::Work => Some(model.name.clone()),
            Kind::Aside | Kind::AsideOnce => Some(self.find_model()?.name),
            Kind::Verdict => None,
        };
        let works = works.as_deref();
        let mut failures = llm::Failures::default();
        if let Some(retry) = resumed {
            failures = retry.failures;
            // The model's server asked for the wait, whichever of ours it asked.
            let wait = retry.wake_at.map_or(Duration::ZERO, crate::stopwatch::until).min(llm::LONGEST_WAIT);
            tokio::select! {
                biased;
                () = self.given_up() => return Err(Failure::Stopped),
                () = self.another_is_chosen(works) => return Ok(Called::GivenUp),
                () = tokio::time::sleep(wait) => {}
            }
        }
        loop {
            let error = match call.attempt(model, request).await? {
                Ok(answer) => return Ok(Called::Answered(answer)),
                Err(error) => error,
            };
            self.record_in_vain(model, error.usage).await?;
            if self.context.limits_reached().is_some() {
                return Ok(Called::GivenUp);
            }
            if call.kind == Kind::AsideOnce {
                return Ok(Called::Failed(error));
            }
            if failures.again(&error).is_some() {
                call.restart();
            }
            let again = tokio::select! {
                biased;
                again = self.wait_to_retry(model, &error, &mut failures) => again?,
                () = self.another_is_chosen(works) => return Ok(Called::GivenUp),
            };
            if !again {
                return Ok(Called::Failed(error));
            }
        }
    }

    /// Records what a call used whose answer cannot be used: it is paid for all the same.
    pub(super) async fn record_in_vain(&self, model: &Model, usage: Usage) -> Result<(), Failure> {
        let used = used_in_vain(self.turn, model, usage, self.context.elapsed_ms());
        let actor = protocol::Actor::agent(model.name.clone());
        Ok(self.append(&actor, used.into_iter().collect()).await?)
    }

    /// Waits before a call is made again, which is recorded; false when it is not to be.
    pub(super) async fn wait_to_retry(
        &self,
        model: &Model,
        error: &llm::Error,
        failures: &mut llm::Failures,
    ) -> Result<bool, Failure> {
        let Some(again) = failures.again(error) else { return Ok(false) };
        failures.count(again.attempt, again.attempts);
        let body = retry(self.turn, None, error, again);
        self.append(&protocol::Actor::agent(model.name.clone()), vec![body]).await?;
        tokio::select! {
            biased;
            () = self.given_up() => Err(Failure::Stopped),
            () = tokio::time::sleep(again.delay) => Ok(true),
        }
    }
}

/// The event of a call that is made again, and what it is for where that is not the work.
pub(crate) fn retry(
    turn: TurnId,
    what_for: Option<&str>,
    error: &llm::Error,
    again: llm::Again,
) -> EventBody {
    let llm::Again { delay, attempt, attempts } = again;
    let what_for = what_for.map(|what| format!("{what}: ")).unwrap_or_default();
    EventBody::RetryScheduled {
        turn,
        attempt,
        attempts,
        reason: format!("{what_for}{}: {}", plain(error.class), error.message),
        delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        wake_at: crate::stopwatch::after(delay),
    }
}

/// What an answer used. `elapsed_ms` is how long the turn has been under way; 0 where the call is beside it.
pub(crate) fn usage(turn: TurnId, model: &Model, answer: &Answer, step: u32, elapsed_ms: u64) -> EventBody {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    EventBody::UsageRecorded {
        turn,
        step,
        model: model.name.clone(),
        usage: answer.completion.usage,
        cost_usd: llm::cost_usd(model, &answer.completion.usage).or(answer.cost_usd),
        first_token_ms: millis(answer.first_token),
        duration_ms: millis(answer.duration),
        elapsed_ms,
    }
}

/// What a call used that gave no answer, if its server said so. It is no step of the turn.
pub(crate) fn used_in_vain(turn: TurnId, model: &Model, usage: Usage, elapsed_ms: u64) -> Option<EventBody> {
    (usage.total() > 0).then(|| EventBody::UsageRecorded {
        turn,
        step: 0,
        model: model.name.clone(),
        usage,
        cost_usd: llm::cost_usd(model, &usage),
        first_token_ms: 0,
        duration_ms: 0,
        elapsed_ms,
    })
}

/// The kind of failure in plain words.
pub(super) fn plain(class: Class) -> &'static str {
    match class {
        Class::Unreachable => "the model server cannot be reached",
        Class::TimedOut => "the model server did not answer in time",
        Class::Overloaded => "the model server has too much to do",
        Class::RateLimited => "the model server asks for a slower pace",
        Class::Auth => "the key is missing or was refused",
        Class::Unpaid => "the account that pays for the model has nothing left",
        Class::UnknownModel => "the server does not know the model",
        Class::Unsupported => "the model cannot do what was asked for",
        Class::ContextOverflow => "the conversation is too long for the model",
        Class::BadRequest => "the model server refused the request",
        Class::BadResponse => "the model server's answer could not be read",
    }
}
