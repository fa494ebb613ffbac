//! A build under way, as it is shown while it runs.

use std::time::{Duration, Instant};

use protocol::{StepKind, StepState, StepStatus};

use super::log::Tail;
use super::{Recipe, Step};

/// The steps of a build under way.
#[derive(Debug)]
pub(super) struct Progress {
    steps: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    status: StepStatus,
    began: Option<Instant>,
    tail: Tail,
}

/// The place of a step in a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Base,
    Clone,
    Setup(usize),
    Warm(usize),
}

impl Progress {
    /// All steps of a recipe, none begun.
    pub(super) fn of(recipe: &Recipe) -> Self {
        let fixed = [("base", StepKind::Base), ("clone", StepKind::Clone)];
        let fixed = fixed.into_iter().map(|(title, kind)| (title.to_owned(), kind, None));
        let named = |kind| move |step: &Step| (step.run.clone(), kind, Some(millis(step.timeout)));
        let setup = recipe.setup.iter().map(named(StepKind::Setup));
        let warm = recipe.warm.iter().map(named(StepKind::Warm));
        let running = |(title, kind, limit_ms)| Running {
            status: StepStatus {
                title,
                kind,
                state: StepState::Pending,
                duration_ms: 0,
                limit_ms,
                bytes: 0,
                attempts: 0,
                output: String::new(),
                notes: Vec::new(),
            },
            began: None,
            tail: Tail::default(),
        };
        Self { steps: fixed.chain(setup).chain(warm).map(running).collect() }
    }

    fn step(&mut self, place: Place) -> Option<&mut Running> {
        let of = |kind| move |running: &&mut Running| running.status.kind == kind;
        let mut steps = self.steps.iter_mut();
        match place {
            Place::Base => steps.find(of(StepKind::Base)),
            Place::Clone => steps.find(of(StepKind::Clone)),
            Place::Setup(number) => steps.filter(of(StepKind::Setup)).nth(number),
            Place::Warm(number) => steps.filter(of(StepKind::Warm)).nth(number),
        }
    }

    /// A step begins; its clock is not set back when it does so again.
    pub(super) fn begin(&mut self, place: Place) {
        if let Some(step) = self.step(place) {
            step.status.state = StepState::Running;
            step.began.get_or_insert_with(Instant::now);
        }
    }

    /// Something that a person should know of a step.
    pub(super) fn note(&mut self, place: Place, notes: &[String]) {
        if let Some(step) = self.step(place) {
            step.status.notes = notes.to_vec();
        }
    }

    /// A step is tried, once more.
    pub(super) fn attempt(&mut self, place: Place) {
        if let Some(step) = self.step(place) {
            step.status.attempts += 1;
            step.tail = Tail::default();
        }
    }

    /// A step printed something.
    pub(super) fn output(&mut self, place: Place, data: &[u8]) {
        if let Some(step) = self.step(place) {
            step.tail.push(data);
        }
    }

    /// The end of what a step printed.
    pub(super) fn tail(&mut self, place: Place) -> String {
        self.step(place).map(|step| step.tail.text()).unwrap_or_default()
    }

    /// A step is over; returns how long it took.
    pub(super) fn end(&mut self, place: Place, state: StepState, bytes: u64) -> Duration {
        let Some(step) = self.step(place) else { return Duration::ZERO };
        let took = step.began.take().map_or(Duration::ZERO, |began| began.elapsed());
        step.status.state = state;
        step.status.bytes = bytes;
        step.status.duration_ms = millis(took);
        took
    }

    /// The step that runs, if any, failed.
    pub(super) fn fail(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.status.state == StepState::Running) {
            step.status.state = StepState::Failed;
            step.status.duration_ms = step.began.take().map_or(0, |began| millis(began.elapsed()));
        }
    }

    /// What to show.
    pub(super) fn steps(&self) -> Vec<StepStatus> {
        let show = |step: &Running| StepStatus {
            output: step.tail.text(),
            duration_ms: step.began.map_or(step.status.duration_ms, |began| millis(began.elapsed())),
            ..step.status.clone()
        };
        self.steps.iter().map(show).collect()
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
