//! `slipway run`: a task from the prompt to a checked branch, watched live.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use protocol::{CreateSession, Environment, ImageData, Repo};

use super::Context;
use crate::api::Api;
use crate::background;
use crate::connect::Link;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{live, print, style};

/// Give the agent a task and watch it work. It ends with exit code 0 when the work is done and its checks passed, with 1
/// when it failed or escalated. Interrupting it once stops the turn; the work so far is kept.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["env", "repo"])))]
pub(crate) struct Run {
    /// Environment to work in
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// Repository to work in, a path or a URL; its checks are found by themselves
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,
    /// Branch to start from, with --repo [default: the repository's default branch]
    #[arg(long, value_name = "NAME", requires = "repo")]
    branch: Option<String>,
    /// Model to use [default: the environment's]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    limits: super::budget::Given,
    #[command(flatten)]
    images: super::images::Attached,
    #[command(flatten)]
    policy: super::policy::Given,
    /// Do not wait: print the session's id and leave it to a server in the background
    #[arg(long)]
    detach: bool,
    /// What is to be done; - reads it from standard input
    prompt: String,
}

/// What is to be done, and the images that belong to it.
struct Asked {
    prompt: String,
    images: Vec<ImageData>,
}

impl Run {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let asked = Asked { prompt: read_prompt(&self.prompt)?, images: self.images.read()? };
        if self.detach {
            let api = background::server(&context.config, &context.source, &context.remote).await?.api;
            let session = self.create(&api, asked).await?;
            if context.json {
                print::json(&session)?;
            } else {
                print::line(&session.id.to_string())?;
                style::note(&format!("watch it with: slipway attach {}", session.id));
            }
            super::budget::note_unpriced(&api, &session).await?;
            return Ok(Exit::Done);
        }
        let mut interrupts = Interrupts::catch()?;
        let link = context.link().await?;
        let result = self.work(&link, asked, &mut interrupts, context.json).await;
        let closed = link.close(&mut interrupts).await;
        let exit = result?;
        closed?;
        Ok(exit)
    }

    async fn work(
        &self,
        link: &Link,
        asked: Asked,
        interrupts: &mut Interrupts,
        json: bool,
    ) -> anyhow::Result<Exit> {
        let session = self.create(&link.api, asked).await?;
        let watch = live::Watch {
            api: &link.api,
            session: session.id,
            after: 0,
            lineage: None,
            on_interrupt: live::OnInterrupt::Stop,
            json,
        };
        watch.run(interrupts).await
    }

    async fn create(&self, api: &Api, Asked { prompt, images }: Asked) -> anyhow::Result<protocol::Session> {
        let environment = match (&self.env, &self.repo) {
            (Some(name), _) => name.clone(),
            (None, Some(repo)) => register(api, repo, self.branch.clone()).await?,
            (None, None) => return Err(Usage(anyhow!("give --env or --repo")).into()),
        };
        let (model, budgets, policy) = (self.model.clone(), self.limits.budgets()?, self.policy.read()?);
        api.create_session(&CreateSession { environment, prompt, images, model, budgets, policy }).await
    }
}

pub(super) fn read_prompt(argument: &str) -> anyhow::Result<String> {
    let text = if argument == "-" {
        std::io::read_to_string(std::io::stdin())
            .context("the prompt on standard input cannot be read as text")
            .map_err(Usage)?
    } else {
        argument.to_owned()
    };
    if text.trim().is_empty() {
        return Err(Usage(anyhow!("the prompt is empty: say what is to be done")).into());
    }
    Ok(text)
}

/// A repository that is a path is made absolute: the server may run elsewhere.
pub(super) fn repository(argument: &str) -> anyhow::Result<String> {
    let path = Path::new(argument);
    let remote = argument.contains("://") || (argument.contains(':') && !path.exists());
    if remote {
        return Ok(argument.to_owned());
    }
    if !path.exists() {
        return Err(Usage(anyhow!("there is no repository at {argument}: no such directory\n  give the path of a git repository, or its URL")).into());
    }
    Ok(std::fs::canonicalize(path)?.display().to_string())
}

/// Makes an environment for a repository that has none; the same repository and branch get the same one.
pub(super) async fn register(api: &Api, repo: &str, branch: Option<String>) -> anyhow::Result<String> {
    let url = repository(repo)?;
    let name = environment_name(&url, branch.as_deref());
    let recipe = Environment { repos: vec![Repo { branch, ..Repo::at(url) }], ..Environment::default() };
    // The server shows no credentials; that they are the same is in the name.
    let shown = |repo: &Repo| (forge::covered_url(&repo.url), repo.branch.clone());
    match api.environment(&name).await {
        Ok(existing) if existing.recipe.repos.iter().map(shown).eq(recipe.repos.iter().map(shown)) => {
            Ok(name)
        }
        Ok(_) => Err(anyhow!(
            "the environment {name} is for another repository\n  remove it with: slipway env rm {name}"
        )),
        Err(error) if is_absent(&error) => Ok(api.put_environment(&name, &recipe).await?.name),
        Err(error) => Err(error),
    }
}

/// The last part of a repository's address as a name (letters, digits, '-', '_' and '.', not too long), with a number that
/// keeps it apart from every other repository and branch.
fn environment_name(url: &str, branch: Option<&str>) -> String {
    let mut hasher = DefaultHasher::new();
    (url, branch).hash(&mut hasher);
    format!("{}-{:08x}", short_name(url), hasher.finish() as u32)
}

fn short_name(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or("").trim_end_matches(".git");
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .take(48)
        .collect();
    let name = name.trim_start_matches(['-', '.']);
    if name.is_empty() { "repo".to_owned() } else { name.to_owned() }
}

fn is_absent(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<protocol::Problem>().map(|problem| problem.code);
    matches!(code, Some(protocol::Code::EnvironmentNotFound | protocol::Code::NotFound))
}

#[cfg(test)]
mod tests {
    use super::{environment_name, short_name};

    #[test]
    fn a_repository_names_its_environment_whatever_it_is_called() {
        assert_eq!(short_name("/srv/git/shop.git"), "shop");
        assert_eq!(short_name("git@host:team/web app.git/"), "web-app");
        assert_eq!(short_name("/tmp/.tmpAbc"), "tmpAbc");
        assert_eq!(short_name("/"), "repo");
        assert_eq!(short_name(&format!("/{}", "x".repeat(200))).len(), 48);
    }

    #[test]
    fn two_repositories_never_share_an_environment() {
        let name = environment_name("/a/app", None);
        assert_eq!(name, environment_name("/a/app", None));
        assert_ne!(name, environment_name("/b/app", None));
        assert_ne!(name, environment_name("/a/app", Some("main")));
    }
}
