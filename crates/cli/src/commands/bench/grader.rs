//! Decides whether a task is solved: its checks, on a branch, in a fresh sandbox that nothing of the trial reaches.

use std::path::Path;
use std::time::Duration;

use ::sandbox::native::Native;
use ::sandbox::{Driver, Life, Owner, Sandbox, Spec, Stack, WORKSPACE, shell};
use anyhow::Context as _;
use guest::{Output, ProcessSpec};
use protocol::{Environment, Repo};

use super::place::Place;
use super::suite::Task;

/// Most of a check's output that is read.
const OUTPUT_BYTES: usize = 1 << 20;
/// How much longer than its own limit a check may take to be seen to end.
const GRACE: Duration = Duration::from_secs(30);

/// Runs checks in sandboxes.
pub(super) struct Grader {
    driver: Native,
    mirrors: forge::Mirrors,
    limits: ::sandbox::Limits,
}

/// Which checks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Hidden,
    Both,
}

/// What the checks say about a branch.
pub(super) struct Grade {
    pub(super) visible: Option<Found>,
    pub(super) hidden: Found,
}

/// What one check says.
pub(super) struct Found {
    pub(super) passed: bool,
    /// In a few words.
    pub(super) why: String,
}

impl Grader {
    pub(super) fn open(place: &Place, limits: ::sandbox::Limits) -> anyhow::Result<Self> {
        let dir = place.grading();
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mirrors = forge::Mirrors::new(&dir.join("mirrors"));
        Ok(Self { driver: Native::open(&dir.join("native"))?, mirrors, limits })
    }

    /// Runs the checks on the tip of a branch. What the branch's content can bring about is a check that does not pass,
    /// never an error.
    pub(super) async fn grade(
        &self,
        task: &Task,
        repository: &Path,
        branch: &str,
        wanted: Wanted,
    ) -> anyhow::Result<Grade> {
        let spec =
            Spec { limits: self.limits.clone(), ..Spec::new(Stack::host(), Life::Tied, Owner::OneOff) };
        let sandbox = self.driver.create(&spec).await?;
        let recipe = Environment {
            repos: vec![Repo {
                url: repository.display().to_string(),
                branch: Some(branch.to_owned()),
                path: None,
            }],
            ..Environment::default()
        };
        let grade = match session::prepare(&*sandbox, &self.mirrors, &recipe).await {
            Ok(()) => check(task, &*sandbox, wanted).await,
            Err(problem) => {
                let why = format!("the branch cannot be checked: {}", problem.title);
                let visible = (wanted == Wanted::Both).then(|| Found { passed: false, why: why.clone() });
                Grade { visible, hidden: Found { passed: false, why } }
            }
        };
        drop(sandbox);
        self.driver.remove(spec.id).await?;
        Ok(grade)
    }
}

async fn check(task: &Task, sandbox: &dyn Sandbox, wanted: Wanted) -> Grade {
    let limit = Duration::from_secs(task.about.limits.check_seconds);
    let visible = match wanted {
        Wanted::Both => Some(run(sandbox, "visible", &task.about.visible.run, limit, None).await),
        Wanted::Hidden => None,
    };
    for (path, content) in &task.hidden {
        let path = format!("{WORKSPACE}/{path}");
        if let Err(error) = sandbox.guest().write_file(&path, content.clone().into()).await {
            let why = format!("{path} cannot be put over the branch: {error}");
            return Grade { visible, hidden: Found { passed: false, why } };
        }
    }
    let about = &task.about.hidden;
    let hidden = run(sandbox, "hidden", &about.run, limit, Some(about.tests)).await;
    Grade { visible, hidden }
}

/// Runs a check; where a number of tests is named, so many must have passed.
async fn run(sandbox: &dyn Sandbox, id: &str, command: &str, limit: Duration, tests: Option<u32>) -> Found {
    let spec = shell::command(command, Some(limit));
    let followed = tokio::time::timeout(limit + GRACE, follow(sandbox, id, &spec)).await;
    let (exit, output) = match followed {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => return Found { passed: false, why: format!("the sandbox ended: {error}") },
        Err(_) => {
            return Found { passed: false, why: "the sandbox did not say how the check ended".to_owned() };
        }
    };
    if exit.timed_out {
        return Found { passed: false, why: format!("it took longer than {} s", limit.as_secs()) };
    }
    let report = checks::parse("auto", &output).unwrap_or_default();
    let (ran, failed) = (report.tests_passed, report.tests_failed);
    let why = match tests {
        _ if exit.code != 0 => checks::digest_failed(&report),
        Some(wanted) if ran < wanted || failed > 0 => {
            format!("{ran} tests passed, {failed} failed, and {wanted} are to pass\n{}", report.tail)
        }
        _ => return Found { passed: true, why: format!("{ran} tests passed") },
    };
    Found { passed: false, why }
}

async fn follow(
    sandbox: &dyn Sandbox,
    id: &str,
    spec: &ProcessSpec,
) -> Result<(guest::Exit, String), guest::Error> {
    let mut process = sandbox.guest().start(id, spec).await?;
    let mut output = Vec::new();
    loop {
        match process.next().await? {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => {
                output.extend_from_slice(&data);
                if output.len() > 2 * OUTPUT_BYTES {
                    // What counts is at the end.
                    output.drain(..output.len() - OUTPUT_BYTES);
                }
            }
            Some(Output::Exit(exit)) => return Ok((exit, String::from_utf8_lossy(&output).into_owned())),
            None => return Err(guest::Error::Unavailable("its output ended".to_owned())),
        }
    }
}
