//! What an image is built from: the environment's recipe completed by the repository, at the branch's tip.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forge::{Tip, placed};
use protocol::{Environment, Service, SetupStep};
use sandbox::base::Source;
use sandbox::image::{self, Image};

use crate::Options;
use crate::exits::Exits;
use crate::failure::Failure;
use crate::joint::{self, Joint, of};
use crate::workspace::extras::{Extras, Whence};
use crate::workspace::recipe;
use crate::{limits, problem};

/// How often a step is tried when it does not say.
pub(crate) const ATTEMPTS: u32 = 3;
/// Wall-clock limit of one attempt when the step does not say.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// A recipe with its files on the host, which go when this is dropped.
pub(super) struct Assembled {
    pub(super) recipe: image::Recipe,
    pub(super) services: Vec<Service>,
    pub(super) checks: Vec<protocol::Check>,
    _files: tempfile::TempDir,
}

/// Fetches the repository and says what to build.
pub(super) async fn recipe(
    options: &Options,
    exits: &Arc<Exits>,
    name: &str,
    environment: &Environment,
) -> Result<Assembled, Failure> {
    let mirror = Joint::fetch(&options.mirrors, environment).await?;
    let tip = mirror.tip().await?;
    // Whoever begins a session from this image has them then.
    for (number, (_, mirror)) in mirror.parts().enumerate() {
        crate::maps::make(options.maps.as_ref(), mirror, of(&tip.commit, number));
    }
    let resolved = recipe::resolve(environment, &mirror, &tip).await?;
    let files = tempfile::tempdir().map_err(|error| problem::file(&std::env::temp_dir(), &error))?;
    let base: Source = resolved.base.parse()?;
    let checkout = match &base {
        Source::Dockerfile(_) | Source::Devcontainer(_) => {
            Some(check_out(&mirror, &tip, files.path()).await?)
        }
        Source::Host | Source::Tar(_) | Source::Oci(_) => None,
    };
    let source = Whence { mirrors: &options.mirrors, egress: &environment.egress, steps: &resolved.setup };
    let Cloned { repo, clones, notes } = cloned(&mirror, environment, &tip, files.path(), &source).await?;
    let recipe = image::Recipe {
        environment: name.to_owned(),
        base,
        checkout,
        setup: steps(&mirror, &tip, &resolved.setup).await?,
        warm: steps(&mirror, &tip, &resolved.warm).await?,
        repo,
        clones,
        services: resolved.services.clone(),
        limits: limits::merge(&options.limits, &environment.limits),
        egress: exits.of_a_build(name, environment)?,
        notes: resolved.notices.into_iter().chain(notes).collect(),
    };
    Ok(Assembled { recipe, services: resolved.services, checks: resolved.checks, _files: files })
}

/// The repositories as an image is made from them: what they are called together, and each where it lies if that is not the
/// workspace itself.
struct Cloned {
    repo: image::Repo,
    clones: Vec<image::Clone>,
    /// What of them could not be had.
    notes: Vec<String>,
}

async fn cloned(
    mirrors: &Joint,
    environment: &Environment,
    tip: &Tip,
    files: &Path,
    source: &Whence<'_>,
) -> Result<Cloned, Failure> {
    let (mut clones, mut notes, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (place, mirror)) in mirrors.parts().enumerate() {
        let (branch, commit) = (of(&tip.branch, number).to_owned(), of(&tip.commit, number).to_owned());
        let bundle = files.join(format!("in-{number}.bundle"));
        mirror.bundle(&branch, &commit, &bundle).await?;
        let own = files.join(format!("extras-{number}"));
        std::fs::create_dir(&own).map_err(|error| problem::file(&own, &error))?;
        let extras = Extras::fetch(source, mirror, &commit, None, &own).await?;
        notes.extend(extras.notices_of(place));
        let extras = extras.for_a_build();
        words.extend(extras.words.iter().map(|word| placed(place, word)));
        let repo = image::Repo { url: mirror.url().to_owned(), branch, commit, bundle, extras };
        clones.push(image::Clone { place: place.to_owned(), repo });
    }
    let url = joint::address(environment);
    let whole = |bundle, extras| {
        let (branch, commit) = (tip.branch.clone(), tip.commit.clone());
        image::Repo { url, branch, commit, bundle, extras }
    };
    Ok(match clones.pop_if(|clone| clone.place.is_empty()) {
        Some(only) => Cloned { repo: whole(only.repo.bundle, only.repo.extras), clones, notes },
        None => {
            let together = image::Extras { words, ..image::Extras::default() };
            Cloned { repo: whole(PathBuf::new(), together), clones, notes }
        }
    })
}

async fn check_out(mirrors: &Joint, tip: &Tip, files: &Path) -> Result<PathBuf, Failure> {
    let to = files.join("checkout");
    let made = |to: PathBuf| async move {
        tokio::fs::create_dir_all(&to).await.map(|()| to.clone()).map_err(|error| problem::file(&to, &error))
    };
    made(to.clone()).await?;
    for (number, (place, mirror)) in mirrors.parts().enumerate() {
        mirror.checkout(of(&tip.commit, number), &made(to.join(place)).await?).await?;
    }
    Ok(to)
}

/// Whether an image was built from something else than what the environment says now.
pub(super) async fn outdated(
    options: &Options,
    exits: &Arc<Exits>,
    name: &str,
    environment: &Environment,
    image: &Image,
) -> Result<bool, Failure> {
    let tip = Tip { branch: image.branch.clone(), commit: image.commit.clone() };
    let Some(recipe) = digest(options, exits, name, environment, &tip).await? else { return Ok(false) };
    let wanted = image::Wanted { commit: &tip.commit, recipe: &recipe, max_age: Duration::MAX };
    Ok(options.images.needs_build(name, &wanted) == Some(image::Reason::RecipeChanged))
}

/// [`image::Recipe::digest`] of what an image at this commit is built from; None where there is no copy of the repository.
pub(super) async fn digest(
    options: &Options,
    exits: &Arc<Exits>,
    name: &str,
    environment: &Environment,
    tip: &Tip,
) -> Result<Option<String>, Failure> {
    let Some(mirror) = Joint::existing(&options.mirrors, environment) else { return Ok(None) };
    let resolved = recipe::resolve(environment, &mirror, tip).await?;
    let recipe = image::Recipe {
        environment: name.to_owned(),
        base: resolved.base.parse()?,
        checkout: None,
        setup: steps(&mirror, tip, &resolved.setup).await?,
        warm: steps(&mirror, tip, &resolved.warm).await?,
        repo: image::Repo {
            url: joint::address(environment),
            branch: tip.branch.clone(),
            commit: tip.commit.clone(),
            bundle: PathBuf::new(),
            extras: image::Extras::default(),
        },
        clones: Vec::new(),
        services: resolved.services,
        limits: limits::merge(&options.limits, &environment.limits),
        egress: exits.of_a_build(name, environment)?,
        notes: Vec::new(),
    };
    Ok(Some(recipe.digest()))
}

/// The steps with what their inputs are at the commit. A step whose inputs are not all there, as after a slip of the pen,
/// depends on everything: it runs too often rather than not at all.
async fn steps(mirror: &Joint, tip: &Tip, steps: &[SetupStep]) -> Result<Vec<image::Step>, Failure> {
    let mut all = Vec::new();
    for step in steps {
        let mut inputs = Vec::new();
        for path in &step.inputs {
            inputs.push((path.clone(), mirror.object(&tip.commit, path).await?));
        }
        let absent = inputs.iter().filter(|(_, content)| content.is_none());
        let notes: Vec<String> = absent.map(|(path, _)| absent_input(path)).collect();
        if !notes.is_empty() {
            inputs.clear();
        }
        all.push(image::Step {
            run: step.run.clone(),
            inputs,
            notes,
            attempts: step.attempts.unwrap_or(ATTEMPTS).max(1),
            timeout: step.timeout_s.map_or(TIMEOUT, Duration::from_secs),
        });
    }
    Ok(all)
}

/// What is said of an input that is not there.
fn absent_input(path: &str) -> String {
    let pattern =
        if path.contains(['*', '?', '[']) { "; patterns do not work, name files or directories" } else { "" };
    format!(
        "the input \"{path}\" is not in the repository, or leads out of it{pattern}: the step runs again for each commit"
    )
}

/// The services of an environment, its own or those that the repository declares: at the commit of an image that is
/// there, otherwise at the tip of the branch as it was last fetched.
pub(super) async fn services(
    mirrors: &forge::Mirrors,
    environment: &Environment,
    image: Option<&Image>,
) -> Result<Vec<Service>, Failure> {
    if !environment.services.is_empty() {
        return Ok(environment.services.clone());
    }
    let mirror = Joint::have(mirrors, environment).await?;
    let tip = match image {
        Some(image) => Tip { branch: image.branch.clone(), commit: image.commit.clone() },
        None => mirror.tip().await?,
    };
    Ok(recipe::resolve(environment, &mirror, &tip).await?.services)
}
