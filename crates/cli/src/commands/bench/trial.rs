//! One try of a model at a task: a session from the prompt to the pushed branch, and what the grader says of it. And what
//! many of them came to, as it is saved.

use std::time::{Duration, Instant};

use protocol::event::DeliveryState;
use protocol::{
    Budget, Budgets, Check, CreateSession, Environment, Repo, Session, SessionId, Spend, Status, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::grader::{Grader, Wanted};
use super::place::{Place, Repository};
use super::suite::{Suite, Task};
use crate::api::Api;
use crate::interrupt::Interrupts;

/// How often a session is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long a turn that was told to stop is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of one try.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) session: SessionId,
    pub(super) model: String,
    pub(super) solved: bool,
    /// How the session ended.
    pub(super) status: Status,
    /// Why it is not solved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    pub(super) steps: u32,
    pub(super) spend: Spend,
    /// From the prompt to the end of the turn, with the start of the sandbox and the checks.
    pub(super) wall_ms: u64,
}

/// Everything that was tried, as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    /// Changes when this form does.
    pub(super) format: u32,
    pub(super) version: String,
    pub(super) model: String,
    pub(super) at: Timestamp,
    pub(super) repeat: u32,
    pub(super) tasks: Vec<TaskResult>,
}

/// All tries at one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskResult {
    pub(super) task: String,
    /// Of the task as it was.
    pub(super) fingerprint: String,
    pub(super) trials: Vec<Trial>,
}

impl Results {
    pub(super) fn new(suite: &Suite, repeat: u32) -> Self {
        Self {
            format: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: String::new(),
            at: Timestamp::now(),
            repeat,
            tasks: Vec::with_capacity(suite.tasks.len()),
        }
    }

    /// Adds a task that was tried at least once.
    pub(super) fn add(&mut self, result: TaskResult) {
        if !result.trials.is_empty() {
            self.tasks.push(result);
        }
    }

    /// The result of a task, if it was the same task.
    pub(super) fn of(&self, task: &str, fingerprint: &str) -> Option<&TaskResult> {
        let same = |result: &&TaskResult| result.task == task && result.fingerprint == fingerprint;
        self.tasks.iter().find(same).filter(|result| !result.trials.is_empty())
    }
}

impl TaskResult {
    pub(super) fn new(task: &Task) -> Self {
        Self { task: task.name.clone(), fingerprint: task.fingerprint.clone(), trials: Vec::new() }
    }

    pub(super) fn solved(&self) -> usize {
        self.trials.iter().filter(|trial| trial.solved).count()
    }
}

impl Trial {
    /// Runs it; None when it was interrupted.
    pub(super) async fn run(
        api: &Api,
        place: &Place,
        grader: &Grader,
        task: &Task,
        repetition: u32,
        model: Option<String>,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<Option<Self>> {
        let repository = place.repository(task, &repetition.to_string())?;
        let environment = format!("{}.{repetition}", task.name);
        api.put_environment(&environment, &recipe(task, &repository)).await?;
        let limits = &task.about.limits;
        let budget = Budget { steps: Some(limits.steps), seconds: Some(limits.seconds), ..Budget::default() };
        let request = CreateSession {
            environment,
            prompt: task.about.prompt.trim().to_owned(),
            images: Vec::new(),
            model,
            budgets: Some(Budgets { turn: budget, ..Budgets::default() }),
            policy: None,
        };
        let began = Instant::now();
        let id = api.create_session(&request).await?.id;
        let Some(session) = ended(api, id, interrupts).await? else { return Ok(None) };
        let wall_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let why = match pushed(&session) {
            Ok(branch) => {
                let grade = grader.grade(task, &repository.bare, branch, Wanted::Hidden).await?;
                (!grade.hidden.passed).then(|| format!("the hidden check failed: {}", grade.hidden.why))
            }
            Err(why) => Some(why),
        };
        Ok(Some(Self {
            session: id,
            model: session.model,
            solved: why.is_none(),
            status: session.status,
            why,
            steps: session.used.session.steps,
            spend: session.spend,
            wall_ms,
        }))
    }
}

fn recipe(task: &Task, repository: &Repository) -> Environment {
    Environment {
        // What one trial found out must not help the next.
        memory: false,
        repos: vec![Repo {
            url: repository.bare.display().to_string(),
            branch: Some("main".to_owned()),
            path: None,
        }],
        checks: vec![Check {
            name: "test".to_owned(),
            run: task.about.visible.run.clone(),
            parser: "auto".to_owned(),
        }],
        // Nobody is there to answer.
        questions: false,
        ..Environment::default()
    }
}

/// The session once nothing is worked on any more; None when it was interrupted.
async fn ended(api: &Api, id: SessionId, interrupts: &mut Interrupts) -> anyhow::Result<Option<Session>> {
    loop {
        let session = api.session(id).await?;
        if !matches!(session.status, Status::Queued | Status::Working) {
            return Ok(Some(session));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _signal = interrupts.next() => break,
        }
    }
    api.stop(id, true).await?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && api.session(id).await?.status == Status::Working {
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

/// The branch that was pushed, or why there is none.
fn pushed(session: &Session) -> Result<&str, String> {
    if session.status != Status::Done {
        let word = session.status.as_str().replace('_', " ");
        return Err(match &session.reason {
            Some(reason) => format!("{word}: {reason}"),
            None => word,
        });
    }
    match &session.delivery {
        Some(delivery) if matches!(delivery.state, DeliveryState::Pushed | DeliveryState::Opened) => {
            Ok(&delivery.branch)
        }
        Some(delivery) => {
            Err(delivery.error.clone().unwrap_or_else(|| "the branch was not pushed".to_owned()))
        }
        None => Err("nothing was changed".to_owned()),
    }
}
