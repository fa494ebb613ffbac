//! The workspace of a sandbox that belongs to no session: on an image, at the tip of its branch.

use forge::Tip;
use protocol::{Code, Environment, Problem};
use sandbox::Sandbox;
use sandbox::image::Image;

use super::clones::Clones;
use super::extras::{self, Whence};
use super::prepare::{begun, set_up};
use super::sync::{PATIENCE, Way, shortened};
use super::{Patience, recipe, remotes};
use crate::failure::Failure;
use crate::joint::Joint;
use crate::stop::Stop;

/// The branch that the work is on.
pub(super) const BRANCH: &str = "slipway/work";

/// What is done about set-up steps that the tip of a branch needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetUp {
    /// They run.
    Run,
    /// They failed before: what the image has must do.
    Leave,
}

/// How a workspace came to the tip of its branch.
#[derive(Debug)]
pub enum Arrival {
    /// It is there. Whoever works in it should know this.
    There(Option<String>),
    /// The set-up failed there. Nobody knows what it left, so the sandbox is of no use.
    NotSetUp(Problem),
}

/// Brings a sandbox on an environment's image to the tip of its branch, as a session does. A remote that does not answer is
/// no obstacle.
pub async fn bring_to_tip(
    sandbox: &dyn Sandbox,
    mirrors: &forge::Mirrors,
    environment: &Environment,
    image: &Image,
    steps: SetUp,
) -> Result<Arrival, Problem> {
    let arrived = arrive(sandbox, mirrors, environment, image, steps).await;
    arrived.map_err(Failure::into_problem)
}

async fn arrive(
    sandbox: &dyn Sandbox,
    mirrors: &forge::Mirrors,
    environment: &Environment,
    image: &Image,
    wanted: SetUp,
) -> Result<Arrival, Failure> {
    let (stop, author, places) = (Stop::default(), crate::Author::default(), environment.places());
    let from = Tip { branch: image.branch.clone(), commit: image.commit.clone() };
    let fetched = tokio::time::timeout(PATIENCE, async {
        let mirror = Joint::fetch(mirrors, environment).await?;
        let tip = mirror.tip().await?;
        Ok::<_, Failure>((mirror, tip))
    });
    let (mirror, to) = match fetched.await {
        Ok(Ok(fetched)) => fetched,
        Ok(Err(failure)) => return Ok(behind(&failure.into_problem().title, &from)),
        Err(_) => {
            return Ok(behind(&format!("the remote gave no answer in {} s", PATIENCE.as_secs()), &from));
        }
    };
    let way = Way { mirror: &mirror, from: &from, to: &to };
    let before = recipe::resolve(environment, &mirror, &from).await?;
    let (resolved, mut trouble) = match recipe::resolve(environment, &mirror, &to).await {
        Ok(resolved) => (resolved, None),
        Err(Failure::Problem(problem)) if problem.code == Code::SetupFailed => {
            (before.clone(), Some(problem.title))
        }
        Err(failure) => return Err(failure),
    };
    let mut steps = Vec::new();
    if to.commit != from.commit && trouble.is_none() {
        steps = way.steps_to_repeat(&before.setup, &resolved.setup).await?;
    }
    if wanted == SetUp::Leave && !steps.is_empty() {
        steps.clear();
        trouble = Some("its set-up fails".to_owned());
    }
    let scratch = tempfile::tempdir().map_err(|error| crate::problem::file(&std::env::temp_dir(), &error))?;
    let saved = begun(resolved, &to, BRANCH.to_owned(), remotes(environment));
    let git = Clones { sandbox, author: &author, patience: Patience::default(), places: &places };
    way.go(&git, &saved, scratch.path(), &stop).await?;
    let source = Whence { mirrors, egress: &environment.egress, steps: &saved.setup };
    let changes = (&mirror, to.commit.as_str(), Some(from.commit.as_str()));
    let laid = extras::lay_all(&source, &git, changes, scratch.path(), &stop).await?;
    for step in &steps {
        match set_up(sandbox, step, &stop, None).await {
            Err(Failure::Problem(problem)) if problem.code == Code::SetupFailed => {
                return Ok(Arrival::NotSetUp(problem));
            }
            other => other?,
        }
    }
    let note = trouble.map(|what| {
        let (commit, good) = (shortened(&to.commit), shortened(&from.commit));
        format!("at commit {commit}, with what the last good image has, of commit {good}: {what}")
    });
    let note = note.into_iter().chain(laid).reduce(|one, other| format!("{one}\n{other}"));
    Ok(Arrival::There(note))
}

/// The remote did not say where the branch is.
fn behind(why: &str, image: &Tip) -> Arrival {
    let commit = shortened(&image.commit);
    let Tip { branch, .. } = image;
    Arrival::There(Some(format!(
        "the branch could not be fetched: {why}; the workspace is at commit {commit} of {branch}, which may be behind"
    )))
}
