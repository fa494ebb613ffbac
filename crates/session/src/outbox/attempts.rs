//! Attempts at one thing outside, with waits in between that everybody can see.

use std::time::Duration;

use forge::Refusal;
use protocol::{Actor, EventBody};

use crate::runner::Context;
use crate::stop::Stop;

/// How long an attempt may still take after a stop. What it has begun should come to its end, but nobody waits for ever.
const GRACE: Duration = Duration::from_secs(5);

/// Counts attempts.
pub(crate) struct Attempts<'a> {
    context: &'a Context,
    stop: &'a Stop,
    made: u32,
}

impl<'a> Attempts<'a> {
    /// Before the first one.
    pub(crate) fn new(context: &'a Context, stop: &'a Stop) -> Self {
        Self { context, stop, made: 0 }
    }

    /// Makes an attempt; it is given up if it does not come to its end soon after a stop.
    pub(crate) async fn make<T>(&self, attempt: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            made = attempt => Some(made),
            () = self.given_up() => None,
        }
    }

    /// Does what changes nothing outside, so that it is given up at once when it is to stop.
    pub(crate) async fn unless_stopped<T>(&self, look: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.given() => None,
            looked = look => Some(looked),
        }
    }

    /// Waits until an attempt is to be given up.
    pub(crate) async fn given_up(&self) {
        self.stop.given().await;
        tokio::time::sleep(GRACE).await;
    }

    /// Waits after an attempt that was refused. False when there is to be no other: it would not help, there were enough, or
    /// it is to stop.
    pub(crate) async fn again(&mut self, refusal: &Refusal) -> Result<bool, store::Error> {
        self.made += 1;
        let Refusal::Later { message, wait, .. } = refusal else { return Ok(false) };
        let patience = &self.context.options.outbox.delivery;
        let Some(delay) = patience.wait(self.made, *wait) else { return Ok(false) };
        if self.stop.is_given() {
            return Ok(false);
        }
        let turn = self
            .context
            .recorder
            .stream()
            .with_state(|state| state.turn().map(|turn| turn.id).or_else(|| state.last_turn()));
        let told = turn.map(|turn| EventBody::RetryScheduled {
            turn,
            attempt: self.made + 1,
            attempts: patience.attempts,
            reason: message.clone(),
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            wake_at: crate::stopwatch::after(delay),
        });
        self.context.recorder.append(&Actor::system(), told.into_iter().collect()).await?;
        tokio::select! {
            () = self.stop.given() => Ok(false),
            () = self.context.outside.rest(tokio::time::sleep(delay)) => Ok(true),
        }
    }
}
