//! `slipway demo`: the main job from the prompt to a checked branch, on a bundled repository and embedded defaults.

use std::path::Path;

use ::sandbox::Driver;
use ::sandbox::native::Native;
use anyhow::{Context as _, bail};
use protocol::{Check, CreateSession, Environment, Repo, SessionId};
use session::{Duty, ShutDown};
use tokio::net::TcpListener;

use super::Context;
use crate::api::Api;
use crate::config::{Config, Model};
use crate::demo::model::{self, DemoModel};
use crate::demo::repository;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::node::{Node, Role};
use crate::render::{live, print, style, summary};

/// See the whole of it work: a server, a sandbox, a small bundled repository with a failing test, and an agent that fixes
/// it. Uses your model when a key is set or a model is configured, else a built-in script.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Keep the server running afterwards, until it is interrupted
    #[arg(long)]
    keep: bool,
}

/// Says that a directory is ours to remove.
const MARK: &str = ".slipway-demo";

/// Name of the environment.
const ENVIRONMENT: &str = "demo";

impl Demo {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut interrupts = Interrupts::catch()?;
        let dir = context.config.server.data_dir.join("demo");
        clear(&dir).await?;
        let repository = dir.join("cart.git");
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        std::fs::write(dir.join(MARK), "").with_context(|| format!("cannot write in {}", dir.display()))?;
        repository::create(&repository)?;
        let mut config = context.config.clone();
        config.server.data_dir = dir.join("data");
        let demo_model = choose_model(&mut config).await?;
        let node = start(&config).await?;
        style::note(&format!("server   {}", node.url));
        style::note(&format!("data     {}", config.server.data_dir.display()));
        let api = Api::new(&node.url, std::env::var(&config.server.token_env).ok())?;
        let result = work(&api, &repository, &mut interrupts, context.json).await;
        if self.keep && result.is_ok() {
            style::note(&format!("the server keeps running at {} until you interrupt it", node.url));
            interrupts.next().await;
        }
        let url = node.url.clone();
        let ended = node.stop(ShutDown::RemoveSandboxes).await;
        let (session, exit) = result?;
        ended?;
        if !context.json {
            go_on(&url, &config.server.data_dir, &repository, session, exit, demo_model.is_some());
        }
        Ok(exit)
    }
}

/// Removes what an earlier demo left, sandboxes first.
async fn clear(dir: &Path) -> anyhow::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    let empty = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if !empty && !dir.join(MARK).exists() {
        let at = dir.display();
        return Err(Usage(anyhow::anyhow!(
            "{at} is not from a demo\n  move it away, or use another directory with --data-dir"
        ))
        .into());
    }
    let data = dir.join("data");
    if data.join("native").exists() {
        if matches!(store::Store::open(&data), Err(store::Error::Locked(_))) {
            bail!(
                "another demo is running on {}\n  wait for it, or use another directory with --data-dir",
                dir.display()
            );
        }
        let driver = Native::open(&data.join("native"))?;
        for sandbox in driver.list().await? {
            driver.remove(sandbox.id).await?;
        }
    }
    std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Takes the user's model, or starts the built-in one and says so.
async fn choose_model(config: &mut Config) -> anyhow::Result<Option<DemoModel>> {
    if let Some(first) = crate::node::models(config).first() {
        let name = if config.agent.model.is_empty() { &first.name } else { &config.agent.model };
        style::note(&format!("model    {name}"));
        return Ok(None);
    }
    let demo = DemoModel::start().await?;
    style::say(&format!(
        "{} no model key is set (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY) and no model is configured, so this uses \
         the built-in demo model: a script that knows this one repository. Everything else is real.",
        style::stderr().warn("model   ")
    ));
    let free = llm::Price { input: 0.0, output: 0.0, cache_read: None, cache_write: None };
    config.models.insert(
        model::NAME.to_owned(),
        Model {
            base_url: Some(demo.url().to_owned()),
            price: Some(free),
            ..Model::new(llm::Provider::OpenAiCompatible, model::NAME)
        },
    );
    Ok(Some(demo))
}

/// On the usual port when it is free, and else on any other: two demos at once are no reason to fail.
async fn start(config: &Config) -> anyhow::Result<Node> {
    let usual = config.server.listen;
    let held = if usual.ip().is_loopback() { TcpListener::bind(usual).await.ok() } else { None };
    let listener = match held {
        Some(listener) => listener,
        None => {
            TcpListener::bind(("127.0.0.1", 0)).await.context("no port of 127.0.0.1 is free for the demo")?
        }
    };
    Node::start_on(config, listener, Duty::Work, Role::Command).await
}

async fn work(
    api: &Api,
    repository: &Path,
    interrupts: &mut Interrupts,
    json: bool,
) -> anyhow::Result<(SessionId, Exit)> {
    let recipe = Environment {
        repos: vec![Repo {
            url: repository.display().to_string(),
            branch: Some("main".to_owned()),
            path: None,
        }],
        checks: vec![Check {
            name: "test".to_owned(),
            run: repository::CHECK.to_owned(),
            parser: "auto".to_owned(),
        }],
        ..Environment::default()
    };
    api.put_environment(ENVIRONMENT, &recipe).await?;
    let request = CreateSession {
        environment: ENVIRONMENT.to_owned(),
        prompt: repository::TASK.to_owned(),
        images: Vec::new(),
        model: None,
        budgets: None,
        policy: None,
    };
    let session = api.create_session(&request).await?.id;
    let on_interrupt = live::OnInterrupt::Stop;
    let watch = live::Watch { api, session, after: 0, lineage: None, on_interrupt, json };
    let exit = watch.run(interrupts).await?;
    if !json {
        let diff = api.diff(session).await?;
        style::say("");
        print::text(&summary::patch(&diff.patch, style::stdout()))?;
    }
    Ok((session, exit))
}

fn go_on(url: &str, data_dir: &Path, repository: &Path, session: SessionId, exit: Exit, scripted: bool) {
    let paint = style::stderr();
    let at = data_dir.display();
    // As the user called it, which works again from here.
    let slipway = std::env::args().next().unwrap_or_else(|| "slipway".to_owned());
    style::say("");
    if exit == Exit::Failed {
        style::say(&format!(
            "{} the task was not finished, so there is no branch. What was changed is above, and in the session. Small models often do \
             not find this mistake: a larger one may, or another try.",
            paint.warn("not done")
        ));
        style::say("");
    }
    style::say(&paint.bold("How to go on"));
    if exit == Exit::Done {
        style::say(&format!("  the branch       git --git-dir {} log --all --oneline", repository.display()));
    }
    style::say(&format!("  the session      {slipway} --data-dir {at} show {session}"));
    style::say(&format!("  the server       {slipway} --data-dir {at} serve     (it was at {url})"));
    style::say(&format!("  your repository  {slipway} run --repo PATH \"what is to be done\""));
    if scripted || exit == Exit::Failed {
        let (kind, how) =
            if scripted { ("a real model  ", "again") } else { ("a larger model", "without this model") };
        style::say(&format!(
            "  {kind}   export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY, GEMINI_API_KEY), then run the demo {how}"
        ));
    }
}
