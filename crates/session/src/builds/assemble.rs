//! What an image is built from: the environment's recipe completed by the repository, at the branch's tip.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forge::{Mirror, Tip};
use protocol::{Environment, Service, SetupStep};
use sandbox::base::Source;
use sandbox::image::{self, Image};

use crate::Options;
use crate::exits::Exits;
use crate::failure::Failure;
use crate::workspace::{recipe, repository_url};
use crate::{limits, problem};

/// How often a step is tried when it does not say.
pub(crate) const ATTEMPTS: u32 = 3;
/// Wall-clock limit of one attempt when the step does not say.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// A recipe with its files on the host, which go when this is dropped.
pub(super) struct Assembled {
    pub(super) recipe: image::Recipe,
    pub(super) services: Vec<Service>,
    _files: tempfile::TempDir,
}

/// Fetches the repository and says what to build.
pub(super) async fn recipe(
    options: &Options,
    exits: &Arc<Exits>,
    name: &str,
    environment: &Environment,
) -> Result<Assembled, Failure> {
    let url = repository_url(environment)?;
    let mirror = options.mirrors.fetch(url).await?;
    let wanted = environment.repos.first().and_then(|repo| repo.branch.as_deref());
    let tip = mirror.tip(wanted).await?;
    // Whoever begins a session from this image has it then.
    crate::maps::make(options.maps.as_ref(), &mirror, &tip.commit);
    let resolved = recipe::resolve(environment, &mirror, &tip).await?;
    let files = tempfile::tempdir().map_err(|error| problem::file(&std::env::temp_dir(), &error))?;
    let base: Source = resolved.base.parse()?;
    let checkout = match &base {
        Source::Dockerfile(_) | Source::Devcontainer(_) => {
            Some(check_out(&mirror, &tip, files.path()).await?)
        }
        Source::Host | Source::Tar(_) | Source::Oci(_) => None,
    };
    let bundle = files.path().join("in.bundle");
    mirror.bundle(&tip.branch, &tip.commit, &bundle).await?;
    let recipe = image::Recipe {
        environment: name.to_owned(),
        base,
        checkout,
        setup: steps(&mirror, &tip, &resolved.setup).await?,
        warm: steps(&mirror, &tip, &resolved.warm).await?,
        repo: image::Repo { url: forge::public_url(url), branch: tip.branch, commit: tip.commit, bundle },
        services: resolved.services.clone(),
        limits: limits::merge(&options.limits, &environment.limits),
        egress: exits.of_a_build(name, environment)?,
        notes: resolved.notices.clone(),
    };
    Ok(Assembled { recipe, services: resolved.services, _files: files })
}

async fn check_out(mirror: &Mirror, tip: &Tip, files: &Path) -> Result<PathBuf, Failure> {
    let to = files.join("checkout");
    tokio::fs::create_dir(&to).await.map_err(|error| problem::file(&to, &error))?;
    mirror.checkout(&tip.commit, &to).await?;
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
    let url = repository_url(environment)?;
    let Some(mirror) = options.mirrors.existing(url) else { return Ok(None) };
    let resolved = recipe::resolve(environment, &mirror, tip).await?;
    let recipe = image::Recipe {
        environment: name.to_owned(),
        base: resolved.base.parse()?,
        checkout: None,
        setup: steps(&mirror, tip, &resolved.setup).await?,
        warm: steps(&mirror, tip, &resolved.warm).await?,
        repo: image::Repo {
            url: forge::public_url(url),
            branch: tip.branch.clone(),
            commit: tip.commit.clone(),
            bundle: PathBuf::new(),
        },
        services: resolved.services,
        limits: limits::merge(&options.limits, &environment.limits),
        egress: exits.of_a_build(name, environment)?,
        notes: Vec::new(),
    };
    Ok(Some(recipe.digest()))
}

/// The steps with what their inputs are at the commit. A step whose inputs are not all there, as after a slip of the pen,
/// depends on everything: it runs too often rather than not at all.
async fn steps(mirror: &Mirror, tip: &Tip, steps: &[SetupStep]) -> Result<Vec<image::Step>, Failure> {
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
    let url = repository_url(environment)?;
    let mirror = match mirrors.existing(url) {
        Some(mirror) => mirror,
        None => mirrors.fetch(url).await?,
    };
    let tip = match image {
        Some(image) => Tip { branch: image.branch.clone(), commit: image.commit.clone() },
        None => mirror.tip(environment.repos.first().and_then(|repo| repo.branch.as_deref())).await?,
    };
    Ok(recipe::resolve(environment, &mirror, &tip).await?.services)
}
