//! `slipway env`: the recipes that sandboxes start from.

use protocol::{Check, Environment, EnvironmentSource, Repo, SetupStep};

use super::Context;
use super::run::repository;
use crate::config::check_environment;
use crate::exit::{Exit, Usage};
use crate::render::{print, style, table};

/// Environments: the recipes that sandboxes start from.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Env {
    /// Add an environment, or change one that was added
    Add(Add),
    /// List environments
    Ls,
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
        let result = self.work(&link.api, context.json).await;
        link.close_now().await?;
        result.map(|()| Exit::Done)
    }

    async fn work(self, api: &crate::api::Api, json: bool) -> anyhow::Result<()> {
        match self {
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
                        vec![environment.name.clone(), repos.join(", "), checks, source.to_owned()]
                    });
                    print::line(&table::format(&["name", "repository", "checks", "source"], rows))?;
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

fn describe(repo: &Repo) -> String {
    match &repo.branch {
        Some(branch) => format!("{} ({branch})", repo.url),
        None => repo.url.clone(),
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
            setup: self.setup.iter().map(|run| SetupStep { run: run.clone(), inputs: Vec::new() }).collect(),
            checks,
            model: self.model.clone(),
            instructions: self.instructions.clone(),
        })
    }
}
