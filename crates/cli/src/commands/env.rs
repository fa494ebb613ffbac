//! `slipway env`: the recipes that sandboxes start from.

use protocol::{
    Check, Egress, EgressStatus, Environment, EnvironmentSource, ImageState, ImageStatus, Repo, SetupStep,
};

use super::Context;
use super::run::repository;
use crate::config::check_environment;
use crate::exit::{Exit, Usage};
use crate::render::{print, style, table, text};

/// Environments: the recipes that sandboxes start from.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Env {
    /// Add an environment, or change one that was added
    Add(Box<Add>),
    /// List environments: repository, checks, and how far each image is
    Ls,
    /// Build the image of an environment now, from what is cached as far as possible
    Build {
        /// Its name
        name: String,
    },
    /// Let sandboxes of an environment reach more of the network, also those that run
    Allow {
        /// Its name
        name: String,
        /// Hosts, such as registry.npmjs.org, *.example.com or db.example.com:5432; without any, what was refused is listed
        hosts: Vec<String>,
    },
    /// Remove an environment that was added
    Rm {
        /// Its name
        name: String,
    },
}

/// Add an environment, or change one that was added. The repository and the branch are looked at first.
#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// Its name
    name: String,
    /// Repository, a path or a URL
    #[arg(long, value_name = "PATH|URL")]
    repo: String,
    /// Branch that sessions start from [default: the repository's default branch]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// What is below the workspace
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
    /// Model to use
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What the agent is told about this environment
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
}

impl Env {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let link = context.look().await?;
        let result = match &self {
            Self::Build { name } => super::build::build(&link.api, name, context.json).await,
            _ => self.work(&link.api, context.json).await.map(|()| Exit::Done),
        };
        link.close_now().await?;
        result
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
                let added = api.put_environment(&add.name, &recipe).await?;
                if json {
                    print::json(&added)?;
                } else {
                    print::line(&added.name)?;
                    style::note(&format!(
                        "try it with: slipway run --env {} \"what is to be done\"",
                        added.name
                    ));
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
    let Some(image) = image.filter(|image| !image.steps.is_empty()) else { return };
    style::note(&format!("steps of {name}:"));
    for step in &image.steps {
        style::note(&format!("  {}", super::build::line(step)));
    }
    if let Some(error) = &image.error {
        style::note(&format!("  {}", text::harmless(error)));
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
    if status.refused.is_empty() {
        return Ok(());
    }
    let rows = status.refused.iter().map(|refused| {
        vec![
            format!("{}:{}", text::harmless(&refused.host), refused.port),
            refused.count.to_string(),
            text::age(refused.last_at),
            text::harmless(&refused.reason),
        ]
    });
    Ok(print::line(&table::format(&["refused", "times", "last", "why"], rows))?)
}

fn describe(repo: &Repo) -> String {
    match &repo.branch {
        Some(branch) => format!("{} ({branch})", forge::public_url(&repo.url)),
        None => forge::public_url(&repo.url),
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
            repos: vec![Repo { url: repository(&self.repo)?, branch: self.branch.clone() }],
            base: self.base.clone(),
            setup: self.setup(),
            warm: self.warm.iter().map(|run| step(run)).collect(),
            egress: self.egress()?,
            pool: self.pool,
            checks,
            model: self.model.clone(),
            instructions: self.instructions.clone(),
            ..Environment::default()
        })
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

fn step(run: &str) -> SetupStep {
    SetupStep { run: run.to_owned(), ..SetupStep::default() }
}
