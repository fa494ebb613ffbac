//! `slipway bench`: how many of a suite's tasks a model solves, at what cost, and whether that is better or worse than
//! before.

mod comparison;
mod grader;
mod place;
mod suite;
mod trial;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use self::comparison::Comparison;
use self::grader::{Grader, Wanted};
use self::place::Place;
use self::suite::{Suite, Task};
use self::trial::{Results, TaskResult, Trial};
use super::Context;
use crate::api::Api;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::node::{Node, Role};
use crate::render::{print, style, text};

/// Measure how well tasks are solved.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// Give a model each task of a suite, and count those that are solved
    ///
    /// Each trial is a session of its own, with its own repository, sandbox and checks, on a server of this command. Whether a
    /// task is solved is decided by checks that the model never sees: they run in another sandbox, on the branch that was
    /// pushed. With a baseline it ends with exit code 1 when fewer are solved than there.
    Tasks(Tasks),
    /// Check the tasks themselves, without a model
    ///
    /// The hidden check must fail on a task's repository as it is, and on its plausible wrong answer, which passes the
    /// visible check. Its solution must pass both.
    Verify(Verify),
    /// Decide with a task's hidden check whether a branch solves it, whoever made it
    ///
    /// The check runs in a sandbox. The exit code is 0 when it is solved, and 1 when it is not.
    Grade(Grade),
}

/// Which tasks.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// Directory of the tasks
    #[arg(long, value_name = "DIR", default_value = "evals")]
    tasks: PathBuf,
    /// Only tasks with this in their name, language, kind or size; * stands for anything
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
}

/// Give a model each task, and count those that are solved.
#[derive(Debug, clap::Args)]
pub(crate) struct Tasks {
    #[command(flatten)]
    chosen: Chosen,
    /// Model to use [default: the configured one]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Trials of each task
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Compare with what an earlier run saved in this file
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Save the results in this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Keep the sessions and repositories, to look at them
    #[arg(long)]
    keep: bool,
}

/// Check the tasks themselves.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    chosen: Chosen,
}

/// Decide whether a branch solves a task.
#[derive(Debug, clap::Args)]
pub(crate) struct Grade {
    /// Directory of the tasks
    #[arg(long, value_name = "DIR", default_value = "evals")]
    tasks: PathBuf,
    /// Branch of the repository
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,
    /// The task
    task: String,
    /// The repository, a path
    repository: PathBuf,
}

impl Bench {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        match self {
            Self::Tasks(tasks) => tasks.run(&context).await,
            Self::Verify(verify) => verify.run(&context).await,
            Self::Grade(grade) => grade.run(&context).await,
        }
    }
}

impl Tasks {
    async fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let suite = Suite::read(&self.chosen.tasks, &self.chosen.only)?;
        let baseline = self.baseline.as_deref().map(|file| read_baseline(file, &suite)).transpose()?;
        if let Some(file) = &self.save {
            // Not after an hour of work.
            writable(file)?;
        }
        let place = Place::make(&context.config).await?;
        let worked = self.serve(&place, &suite, context).await;
        if self.keep {
            let at = place.data();
            style::note(&format!("the sessions are kept: slipway --data-dir {} ls", at.display()));
        } else {
            place.remove().await?;
        }
        let (results, whole) = worked?;
        let comparison = baseline.as_ref().map(|baseline| Comparison::of(&results, baseline));
        if context.json {
            print::json(&comparison::as_json(&results, comparison.as_ref()))?;
        } else {
            print::line(&comparison::table(&results, comparison.as_ref()))?;
        }
        if !whole {
            style::note("it was interrupted: the results are not whole, and not saved");
            return Ok(Exit::Interrupted);
        }
        if let Some(file) = &self.save {
            let text = serde_json::to_string_pretty(&results)? + "\n";
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        let worse = comparison.is_some_and(|comparison| comparison.is_worse());
        Ok(if worse { Exit::Failed } else { Exit::Done })
    }

    /// Every trial, on a server that is there for nothing else.
    async fn serve(
        &self,
        place: &Place,
        suite: &Suite,
        context: &Context,
    ) -> anyhow::Result<(Results, bool)> {
        let mut interrupts = Interrupts::catch()?;
        let config = place.configuration(&context.config, self.model.as_deref())?;
        let node =
            Node::start(&config, ([127, 0, 0, 1], 0).into(), session::Duty::Work, Role::Command).await?;
        let token = std::env::var(&config.server.token_env).ok().filter(|token| !token.is_empty());
        let worked = match Api::new(&node.url, token) {
            Ok(api) => self.work(&api, place, suite, &mut interrupts, context).await,
            Err(error) => Err(error),
        };
        let ended = node.stop(session::ShutDown::RemoveSandboxes).await;
        let results = worked?;
        ended?;
        Ok(results)
    }

    /// Every trial; false beside the results when it was interrupted before the last one.
    async fn work(
        &self,
        api: &Api,
        place: &Place,
        suite: &Suite,
        interrupts: &mut Interrupts,
        context: &Context,
    ) -> anyhow::Result<(Results, bool)> {
        let grader = Grader::open(place, context.config.sandbox.limits())?;
        let mut results = Results::new(suite, self.repeat);
        let all = suite.tasks.len() * self.repeat as usize;
        let mut number = 0;
        for task in &suite.tasks {
            let mut result = TaskResult::new(task);
            for repetition in 1..=self.repeat {
                number += 1;
                let trial = Trial::run(api, place, &grader, task, repetition, self.model.clone(), interrupts);
                let Some(trial) = trial.await.with_context(|| task.name.clone())? else {
                    results.add(result);
                    return Ok((results, false));
                };
                tell(number, all, &task.name, &trial);
                results.model.clone_from(&trial.model);
                result.trials.push(trial);
            }
            results.add(result);
        }
        Ok((results, true))
    }
}

/// One line for each trial, while others are still to come.
fn tell(number: usize, all: usize, task: &str, trial: &Trial) {
    let paint = style::stderr();
    let mark = if trial.solved { paint.good("✓") } else { paint.bad("✗") };
    let why = trial.why.as_deref().map(|why| format!(": {}", text::first_line(&text::harmless(why))));
    style::say(&format!(
        "{mark} [{number}/{all}] {task} {}{} {}",
        if trial.solved { "solved" } else { "not solved" },
        why.unwrap_or_default(),
        paint.dim(&format!("{} steps, {}", trial.steps, text::duration(trial.wall_ms))),
    ));
}

impl Verify {
    async fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let suite = Suite::read(&self.chosen.tasks, &self.chosen.only)?;
        let mut interrupts = Interrupts::catch()?;
        let place = Place::make(&context.config).await?;
        let grader = Grader::open(&place, context.config.sandbox.limits())?;
        let verified = tokio::select! {
            verified = verify(&suite, &place, &grader) => Some(verified),
            _signal = interrupts.next() => None,
        };
        place.remove().await?;
        let Some(verified) = verified else { return Ok(Exit::Interrupted) };
        let wrong = verified?;
        if context.json {
            let names: Vec<&str> = suite.tasks.iter().map(|task| task.name.as_str()).collect();
            print::json(&serde_json::json!({ "tasks": names, "wrong": wrong }))?;
        } else {
            wrong.iter().for_each(|complaint| style::error(&text::harmless(complaint)));
            print::line(&format!("{} tasks, {} mistakes in them", suite.tasks.len(), wrong.len()))?;
        }
        Ok(if wrong.is_empty() { Exit::Done } else { Exit::Failed })
    }
}

impl Grade {
    async fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let suite = Suite::read(&self.tasks, std::slice::from_ref(&self.task))?;
        let [task] = &suite.tasks[..] else {
            return Err(Usage(anyhow!("{} is not the name of one task", self.task)).into());
        };
        let repository = std::fs::canonicalize(&self.repository)
            .map_err(|error| Usage(anyhow!("cannot read {}: {error}", self.repository.display())))?;
        let mut interrupts = Interrupts::catch()?;
        let place = Place::make(&context.config).await?;
        let grader = Grader::open(&place, context.config.sandbox.limits())?;
        let graded = tokio::select! {
            graded = grader.grade(task, &repository, &self.branch, Wanted::Hidden) => Some(graded),
            _signal = interrupts.next() => None,
        };
        place.remove().await?;
        let Some(graded) = graded else { return Ok(Exit::Interrupted) };
        let found = graded?.hidden;
        if context.json {
            print::json(&serde_json::json!({ "task": task.name, "solved": found.passed, "why": found.why }))?;
        } else {
            let word = if found.passed { "solved" } else { "not solved" };
            print::line(&format!("{word}: {}", text::harmless(&found.why)))?;
        }
        Ok(if found.passed { Exit::Done } else { Exit::Failed })
    }
}

/// What is wrong with the tasks.
async fn verify(suite: &Suite, place: &Place, grader: &Grader) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for task in &suite.tasks {
        let complaints = verify_task(task, place, grader).await.with_context(|| task.name.clone())?;
        let paint = style::stderr();
        let mark = if complaints.is_empty() { paint.good("✓") } else { paint.bad("✗") };
        style::say(&format!("{mark} {}", task.name));
        wrong.extend(complaints.into_iter().map(|complaint| format!("{}: {complaint}", task.name)));
    }
    Ok(wrong)
}

/// The three states of a task's repository, and which checks must pass there.
async fn verify_task(task: &Task, place: &Place, grader: &Grader) -> anyhow::Result<Vec<String>> {
    let repository = place.repository(task, "verify")?;
    repository.branch("solution", &task.solution)?;
    repository.branch("wrong", &task.wrong)?;
    let mut complaints = Vec::new();
    for (branch, visible, hidden) in
        [("main", None, false), ("solution", Some(true), true), ("wrong", Some(true), false)]
    {
        let wanted = if visible.is_some() { Wanted::Both } else { Wanted::Hidden };
        let grade = grader.grade(task, &repository.bare, branch, wanted).await?;
        let checks = [("visible", visible, grade.visible), ("hidden", Some(hidden), Some(grade.hidden))];
        for (which, expected, found) in checks {
            if let (Some(expected), Some(found)) = (expected, found)
                && expected != found.passed
            {
                let should = if expected { "pass" } else { "fail" };
                complaints.push(format!("the {which} check should {should} on {branch}: {}", found.why));
            }
        }
    }
    repository.remove()?;
    Ok(complaints)
}

/// A baseline that has something in common with the suite.
fn read_baseline(file: &Path, suite: &Suite) -> anyhow::Result<Results> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Usage(anyhow!("cannot read the baseline {}: {error}\n  make one with --save", file.display()))
    })?;
    let baseline: Results = serde_json::from_str(&text).map_err(|error| {
        Usage(anyhow!("{} is not a saved result: {error}\n  make one with --save", file.display()))
    })?;
    if !suite.tasks.iter().any(|task| baseline.of(&task.name, &task.fingerprint).is_some()) {
        return Err(Usage(anyhow!(
            "{} has none of these tasks as they are now, so nothing can be compared\n  make a new baseline with --save",
            file.display()
        ))
        .into());
    }
    Ok(baseline)
}

/// Whether a file can be written, before there is something to write.
fn writable(file: &Path) -> anyhow::Result<()> {
    let there = file.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .map_err(|error| Usage(anyhow!("cannot write {}: {error}", file.display())))?;
    if !there {
        std::fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(())
}
