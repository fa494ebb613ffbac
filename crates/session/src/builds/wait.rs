//! Waiting for an image that a session cannot do without: whoever watches the session sees which step is under way, and
//! for how long.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{Actor, EventBody, ImageStatus, SandboxId, StepKind, StepState};
use tokio::time::Instant;

use super::Builds;
use crate::failure::Failure;
use crate::recorder::Recorder;

/// How often the build is looked at.
const PACE: Duration = Duration::from_millis(200);
/// A stage that goes on is told again after each of these, and then after the last one for ever.
const AGAIN: [Duration; 3] = [Duration::from_secs(10), Duration::from_secs(20), Duration::from_secs(60)];

impl Builds {
    /// Builds an environment's image and waits for it, and not for its checks; the session's log says how far it is.
    pub(crate) async fn run_and_tell(
        self: &Arc<Self>,
        name: &str,
        recorder: &Arc<Recorder>,
    ) -> Result<(), Failure> {
        let build = self.run_unchecked(name);
        tokio::pin!(build);
        let mut telling = Telling::begin(recorder);
        loop {
            tokio::select! {
                built = &mut build => return built.map_err(Failure::Problem),
                () = tokio::time::sleep(PACE) => {
                    if let Some((stage, limit)) = stage(&self.status(name)) {
                        telling.stage(name, stage, limit).await?;
                    }
                }
            }
        }
    }
}

/// What was told of a build, and when.
struct Telling<'a> {
    recorder: &'a Arc<Recorder>,
    /// Stands for the sandbox that will be made from the image.
    sandbox: SandboxId,
    began: Instant,
    stage: String,
    stage_began: Instant,
    told_at: Instant,
    again: std::slice::Iter<'static, Duration>,
    pause: Duration,
}

impl<'a> Telling<'a> {
    fn begin(recorder: &'a Arc<Recorder>) -> Self {
        let now = Instant::now();
        Self {
            recorder,
            sandbox: SandboxId::new(),
            began: now,
            stage: String::new(),
            stage_began: now,
            told_at: now,
            again: AGAIN.iter(),
            pause: AGAIN[0],
        }
    }

    async fn stage(
        &mut self,
        environment: &str,
        stage: String,
        limit: Option<Duration>,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        if stage != self.stage {
            self.stage = stage;
            self.stage_began = now;
            self.again = AGAIN.iter();
        } else if now - self.told_at < self.pause {
            return Ok(());
        }
        self.told_at = now;
        self.pause = self.again.next().copied().unwrap_or(self.pause);
        let left = limit.map(|limit| limit.saturating_sub(now - self.stage_began));
        let so_far = (now - self.stage_began).as_secs();
        let so_far = if so_far == 0 { String::new() } else { format!(" (for {so_far} s)") };
        let event = EventBody::SandboxChanged {
            sandbox: self.sandbox,
            state: SandboxState::Building,
            detail: Some(format!("the image of {environment}, {}{so_far}", self.stage)),
            duration_ms: u64::try_from((now - self.began).as_millis()).ok(),
            limit_ms: left.and_then(|left| u64::try_from(left.as_millis()).ok()),
        };
        self.recorder.append(&Actor::system(), vec![event]).await?;
        Ok(())
    }
}

/// What a build is doing, and how long that may take, where it has a limit; None in the moment between two steps.
fn stage(status: &ImageStatus) -> Option<(String, Option<Duration>)> {
    let steps = &status.steps;
    if steps.is_empty() {
        return Some(("reading the repository".to_owned(), None));
    }
    if steps.iter().all(|step| step.state == StepState::Pending) {
        return Some(("waiting for other builds".to_owned(), None));
    }
    let place = steps.iter().position(|step| step.state == StepState::Running)?;
    let step = &steps[place];
    let what = match step.kind {
        StepKind::Base => "fetching its base",
        StepKind::Clone => "cloning the repository",
        StepKind::Setup | StepKind::Warm => step.title.lines().next().unwrap_or_default().trim(),
    };
    let attempt = if step.attempts > 1 { format!(", attempt {}", step.attempts) } else { String::new() };
    let words = format!("step {} of {}: {what}{attempt}", place + 1, steps.len());
    Some((words, step.limit_ms.map(Duration::from_millis)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::StepStatus;

    fn step(kind: StepKind, state: StepState, attempts: u32) -> StepStatus {
        StepStatus {
            title: "npm ci\nnpm run build".to_owned(),
            kind,
            state,
            duration_ms: 0,
            limit_ms: Some(1000),
            bytes: 0,
            attempts,
            notes: Vec::new(),
            output: String::new(),
        }
    }

    #[test]
    fn a_stage_is_named_by_what_is_done() {
        use StepKind::{Base, Clone, Setup};
        use StepState::{Built, Cached, Pending, Running};
        let of = |steps: &[StepStatus]| {
            stage(&ImageStatus { steps: steps.to_vec(), ..Default::default() }).map(|(words, _)| words)
        };
        assert_eq!(of(&[]).unwrap(), "reading the repository");
        let [base, clone, setup] = [Base, Clone, Setup].map(|kind| step(kind, Pending, 0));
        assert_eq!(of(&[base, clone.clone(), setup.clone()]).unwrap(), "waiting for other builds");
        let running = step(Base, Running, 1);
        assert_eq!(of(&[running, clone, setup.clone()]).unwrap(), "step 1 of 3: fetching its base");
        let [cached, built] = [step(Base, Cached, 0), step(Clone, Built, 1)];
        assert_eq!(of(&[cached.clone(), built.clone(), setup]), None, "between two steps");
        let again = step(Setup, Running, 2);
        assert_eq!(of(&[cached, built, again]).unwrap(), "step 3 of 3: npm ci, attempt 2");
    }
}
