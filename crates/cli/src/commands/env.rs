//! `slipway env`: the recipes that sandboxes start from.

use protocol::{
    Check, Egress, EgressStatus, Environment, EnvironmentSource, Gate, ImageState, ImageStatus,
    NamedEnvironment, Repo, SetupStep, StepState, StepStatus,
};

use sandbox::egress::with_port;

use super::Context;
use super::run::repository;
use crate::config::check_environment;
use crate::exit::{Exit, Usage};
use crate::render::{print, style, table, text};

/// Environments: the recipes that sandboxes start from.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Env {
    /// Add an environment, or replace one that was added
    ///
    /// The repository and the branch are looked at first. What is not said here is at its default, also when an environment
    /// is replaced. Services, secrets and limits are written in slipway.toml, services also in the repository's own
    /// .slipway.toml; docs/environments.md has all keys.
    Add(Box<Add>),
    /// List environments: repository, checks, and how far each image is
    ///
    /// The steps of each image's last build follow on standard error, with why it failed if it did.
    Ls,
    /// Build the image of an environment now, from what is cached as far as possible, and show each step
    ///
    /// Exits with 1 when a step fails; the image before it, if there is one, stays in use. A server builds by itself: this
    /// is for when nobody wants to wait for it, or to see why a build fails.
    Build {
        /// Its name
        name: String,
    },
    /// Let sandboxes of an environment reach more of the network, or list what they were refused
    ///
    /// It holds from the next connection on, also in sandboxes that run. An environment that is written in slipway.toml is
    /// changed there.
    Allow {
        /// Its name
        name: String,
        /// Hosts, such as registry.npmjs.org, *.example.com or db.example.com:5432; without any, what was refused is listed
        hosts: Vec<String>,
    },
    /// Remove an environment that was added
    ///
    /// Sessions that were made from it go on with the recipe that they began with. Its image goes with the next slipway gc.
    Rm {
        /// Its name
        name: String,
    },
}

/// Add an environment, or replace one that was added.
#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// Its name: letters, digits, '-', '_' and '.'
    name: String,
    /// Repository, a path or a URL; may be given several times, then each lies in a directory of its own: DIR, or its name
    #[arg(long, value_name = "[DIR=]PATH|URL", required = true)]
    repo: Vec<String>,
    /// Branch that sessions start from; with several repositories given once for each, in their order [default: each
    /// repository's default branch]
    #[arg(long, value_name = "NAME")]
    branch: Vec<String>,
    /// What is below the workspace: host (this machine's system), tar:PATH (an archive), oci:NAME (an image of a registry),
    /// dockerfile[:PATH] or devcontainer[:PATH] (built from the repository)
    #[arg(long, value_name = "BASE", default_value = "host")]
    base: String,
    /// Command that prepares the workspace; may be given several times
    #[arg(long, value_name = "COMMAND")]
    setup: Vec<String>,
    /// Files whose content decides whether the first --setup step has to run again, such as package-lock.json; may be
    /// given several times
    #[arg(long, value_name = "FILE", requires = "setup")]
    input: Vec<String>,
    /// Command that fills caches in the image, such as a build; may be given several times
    #[arg(long, value_name = "COMMAND")]
    warm: Vec<String>,
    /// Host that sandboxes may reach, or "none" or "open"; may be given several times [default: everything is refused]
    #[arg(long, value_name = "HOST")]
    egress: Vec<String>,
    /// Sandboxes that are kept ready
    #[arg(long, value_name = "N")]
    pool: Option<u32>,
    /// Command that must pass, as COMMAND or name=COMMAND (the name in small letters, so that VARIABLE=… is part of the
    /// command); may be given several times [default: found in the repository]
    #[arg(long, value_name = "[NAME=]COMMAND")]
    check: Vec<String>,
    /// What a person must approve before it happens: "delivery", the push of work that passed its checks
    #[arg(long, value_name = "GATE", value_parser = gate)]
    approve: Vec<Gate>,
    /// Model to use
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What the agent is told about this environment
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
}

impl Env {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        if let Self::Build { name } = &self {
            return super::build::build(&context, name).await;
        }
        let link = match &self {
            // The repository is read first.
            Self::Add(_) => context.look_for_long().await?,
            _ => context.look().await?,
        };
        let result = self.work(&link.api, context.json).await;
        link.close_now().await?;
        result.map(|()| Exit::Done)
    }

    async fn work(self, api: &crate::api::Api, json: bool) -> anyhow::Result<()> {
        match self {
            Self::Build { .. } => {}
            Self::Allow { name, hosts } => {
                let status =
                    if hosts.is_empty() { api.egress(&name).await? } else { api.allow(&name, hosts).await? };
                if json { print::json(&status)? } else { tell_egress(&name, &status)? }
            }
            Self::Add(add) => {
                let recipe = add.recipe()?;
                check_environment(&add.name, &recipe).map_err(Usage)?;
                let before = api.environments().await?.environments;
                let added = api.put_environment(&add.name, &recipe).await?;
                if json {
                    print::json(&added)?;
                } else {
                    print::line(&added.name)?;
                    tell_added(&added, before.iter().any(|environment| environment.name == added.name));
                }
            }
            Self::Ls => {
                let list = api.environments().await?;
                if json {
                    print::json(&list)?;
                } else if list.environments.is_empty() {
                    style::note("no environments yet; add one with: slipway env add NAME --repo PATH");
                } else {
                    let rows = list.environments.iter().map(|environment| {
                        let repos: Vec<String> = environment.recipe.repos.iter().map(describe).collect();
                        let checks: Vec<&str> =
                            environment.recipe.checks.iter().map(|check| check.run.as_str()).collect();
                        let checks = if checks.is_empty() {
                            "found in the repository".to_owned()
                        } else {
                            checks.join("; ")
                        };
                        let source = match environment.source {
                            EnvironmentSource::Config => "slipway.toml",
                            EnvironmentSource::Catalogue => "added",
                        };
                        let [state, age, size, took] = image_cells(environment.image.as_ref());
                        vec![
                            environment.name.clone(),
                            state,
                            age,
                            size,
                            took,
                            repos.join(", "),
                            checks,
                            source.to_owned(),
                        ]
                    });
                    let head = ["name", "image", "age", "size", "built in", "repository", "checks", "source"];
                    print::line(&table::format(&head, rows))?;
                    for environment in &list.environments {
                        tell_steps(&environment.name, environment.image.as_ref());
                    }
                }
            }
            Self::Rm { name } => {
                api.remove_environment(&name).await?;
                if json {
                    print::json(&serde_json::json!({ "removed": name }))?;
                } else {
                    style::note(&format!("removed {name}"));
                }
            }
        }
        Ok(())
    }
}

fn tell_added(added: &NamedEnvironment, replaced: bool) {
    let name = &added.name;
    if replaced {
        style::note(&format!("{name} was there and is replaced: what was not said now is at its default"));
    }
    if added.recipe.base != "host" {
        style::note(&format!(
            "its first session waits until its image is built; build it now with: slipway env build {name}"
        ));
    }
    style::note(&format!("try it with: slipway run --env {name} \"what is to be done\""));
}

/// State, age, size and duration of an image.
fn image_cells(image: Option<&ImageStatus>) -> [String; 4] {
    let Some(image) = image else { return Default::default() };
    let state = match image.state {
        ImageState::None => "none",
        ImageState::Building => "building",
        ImageState::Ready if image.outdated => "outdated",
        ImageState::Ready => "ready",
        ImageState::Failed => "failed",
    };
    let current = image.current.as_ref();
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        state.to_owned(),
        cell(current.map(|image| text::age(image.built_at))),
        cell(current.map(|image| text::bytes(image.bytes))),
        cell(current.map(|image| text::duration(image.duration_ms))),
    ]
}

/// The steps of the last build, and why it failed.
fn tell_steps(name: &str, image: Option<&ImageStatus>) {
    let Some(image) = image else { return };
    if image.steps.is_empty() {
        // It failed before its first step, such as for a repository that cannot be read.
        if image.error.is_some() {
            let gone = image.state == ImageState::None;
            let what = if gone { "has no image any more" } else { "could not be built" };
            style::note(&format!("{name} {what}:"));
            tell_error(name, image);
        }
        return;
    }
    style::note(&format!("steps of {name}:"));
    // A build that is over never came to the steps that still wait.
    let reached =
        |step: &&StepStatus| image.state == ImageState::Building || step.state != StepState::Pending;
    for step in image.steps.iter().filter(reached) {
        style::note(&format!("  {}", super::build::line(step)));
        super::build::tell_notes(step, "    ");
    }
    for check in image.current.iter().flat_map(|image| &image.checks) {
        style::note(&format!("  {}", super::build::check_line(check)));
    }
    tell_error(name, image);
}

/// Why the last build failed, without most of what its programs said.
fn tell_error(name: &str, image: &ImageStatus) {
    let Some(error) = &image.error else { return };
    let error = text::harmless(error);
    let lines: Vec<&str> = error.lines().collect();
    let (head, tail) = match lines.len() {
        0..=8 => (&lines[..], &[][..]),
        many => (&lines[..1], &lines[many - 6..]),
    };
    for line in head {
        style::note(&format!("  {line}"));
    }
    if !tail.is_empty() {
        style::note(&format!("  … (all of it with: slipway env build {name})"));
    }
    for line in tail {
        style::note(&format!("  {line}"));
    }
    if image.current.is_some() {
        style::note("  the image before it stays in use");
    }
}

fn tell_egress(name: &str, status: &EgressStatus) -> anyhow::Result<()> {
    let allowed = match &status.egress {
        Egress::None => "nothing (\"none\")".to_owned(),
        Egress::Open => "every public address (\"open\")".to_owned(),
        Egress::Allow(rules) if rules.is_empty() => "nothing".to_owned(),
        Egress::Allow(rules) => rules.join(", "),
    };
    style::note(&format!("{name} can reach: {allowed}"));
    if let Some(note) = &status.note {
        style::note(note);
    }
    if status.egress == Egress::None {
        style::note("its sandboxes have no network, so what they try to reach is not seen");
    }
    if status.refused.is_empty() {
        style::note("nothing was refused so far");
        return Ok(());
    }
    let rows = status.refused.iter().map(|refused| {
        vec![
            text::harmless(&with_port(&refused.host, refused.port)),
            refused.count.to_string(),
            text::age(refused.last_at),
            text::harmless(&refused.reason),
        ]
    });
    Ok(print::line(&table::format(&["refused", "times", "last", "why"], rows))?)
}

fn describe(repo: &Repo) -> String {
    let at = repo.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
    match &repo.branch {
        Some(branch) => format!("{} ({branch}){at}", forge::public_url(&repo.url)),
        None => format!("{}{at}", forge::public_url(&repo.url)),
    }
}

/// What can wait for approval, by name.
fn gate(name: &str) -> Result<Gate, String> {
    match name {
        "delivery" => Ok(Gate::Delivery),
        other => Err(format!("\"{other}\" cannot be approved; \"delivery\" can")),
    }
}

impl Add {
    fn recipe(&self) -> anyhow::Result<Environment> {
        let mut checks: Vec<Check> = Vec::new();
        for text in &self.check {
            let named = text.split_once('=').filter(|(name, _)| {
                !name.is_empty()
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
            });
            let (name, run) = match named {
                Some((name, run)) => (name.to_owned(), run),
                None if self.check.len() == 1 => ("test".to_owned(), text.as_str()),
                None => (format!("check-{}", checks.len() + 1), text.as_str()),
            };
            if run.trim().is_empty() {
                return Err(Usage(anyhow::anyhow!("the check \"{text}\" has no command")).into());
            }
            checks.push(Check { name, run: run.to_owned(), parser: "auto".to_owned() });
        }
        Ok(Environment {
            repos: self.repos()?,
            base: self.base.clone(),
            setup: self.setup(),
            warm: self.warm.iter().map(|run| step(run)).collect(),
            egress: self.egress()?,
            pool: self.pool,
            checks,
            approve: self.approve.clone(),
            model: self.model.clone(),
            instructions: self.instructions.clone(),
            ..Environment::default()
        })
    }

    fn repos(&self) -> anyhow::Result<Vec<Repo>> {
        if !self.branch.is_empty() && self.branch.len() != self.repo.len() {
            return Err(Usage(anyhow::anyhow!(
                "there are {} repositories and {} branches: give a --branch for each --repo, or none",
                self.repo.len(),
                self.branch.len()
            ))
            .into());
        }
        let repo = |(number, text): (usize, &String)| {
            let (path, url) = match text.split_once('=').filter(|(dir, _)| is_directory(dir)) {
                Some((dir, url)) => (Some(dir.to_owned()), url),
                None => (None, text.as_str()),
            };
            Ok(Repo { url: repository(url)?, branch: self.branch.get(number).cloned(), path })
        };
        self.repo.iter().enumerate().map(repo).collect()
    }

    fn egress(&self) -> anyhow::Result<Egress> {
        match self.egress.as_slice() {
            [word] if word == "none" => Ok(Egress::None),
            [word] if word == "open" => Ok(Egress::Open),
            rules => match rules.iter().find(|rule| matches!(rule.as_str(), "none" | "open")) {
                Some(word) => Err(Usage(anyhow::anyhow!(
                    "--egress {word} stands alone: leave it out to name hosts, or leave out the hosts"
                ))
                .into()),
                None => Ok(Egress::Allow(rules.to_vec())),
            },
        }
    }

    fn setup(&self) -> Vec<SetupStep> {
        let mut steps: Vec<SetupStep> = self.setup.iter().map(|run| step(run)).collect();
        if let Some(first) = steps.first_mut() {
            first.inputs.clone_from(&self.input);
        }
        steps
    }
}

/// Whether what stands before a `=` is a directory of the workspace, and no beginning of a path or URL.
fn is_directory(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+".contains(letter);
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(plain)
}

fn step(run: &str) -> SetupStep {
    SetupStep { run: run.to_owned(), ..SetupStep::default() }
}
