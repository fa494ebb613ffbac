//! What a one-off sandbox is made of: the bare host system, or an environment, from its image where one was built.

use std::path::Path;
use std::sync::Arc;

use ::sandbox::egress::{
    CA_BUNDLE, Decision, Log, Placeholders, Proxy, Refusal, Refusals, Refused, Rules, Secret,
};
use ::sandbox::image::{Image, Images};
use ::sandbox::native::Native;
use ::sandbox::{Driver, Network, Sandbox, Stack, service};
use protocol::{Egress, EgressDecision, Environment, EventBody, NamedEnvironment, RefusedHost, SandboxId};
use session::{Arrival, SetUp};

use super::Context;
use crate::exit::Usage;
use crate::render::{style, text};

/// Most refusals that are shown at the end.
const SHOWN: usize = 20;

/// What to start, and where.
pub(super) struct Plan {
    pub(super) driver: Arc<Native>,
    pub(super) stack: Stack,
    pub(super) network: Network,
    environment: Option<(String, Environment)>,
    /// The environment's image, if the stack is that; otherwise the workspace is still to be filled.
    image: Option<Image>,
    /// Whether another process is the server.
    served: bool,
}

/// What became of a sandbox that was to be given what its environment has.
pub(super) enum Furnished {
    /// It has it; this is the way out, if there is one.
    Ready(Option<Exit>),
    /// The set-up failed at the tip of the branch: another sandbox can do without.
    NotSetUp,
}

/// The way out of the sandbox. Dropping it ends every connection.
pub(super) struct Exit {
    /// Tells of its connections when it goes, so it goes first.
    proxy: Proxy,
    log: Log,
    refused: Arc<Refusals>,
    book: Arc<Refused>,
    sandbox: SandboxId,
    name: String,
}

impl Plan {
    /// Sandboxes without an environment are apart from those of the server. One with an environment stands on layers of
    /// the server's, so it is among them, and belongs to this command.
    pub(super) async fn make(context: &Context, name: Option<&str>) -> anyhow::Result<Self> {
        let data_dir = &context.config.server.data_dir;
        let Some(name) = name else { return Self::bare(&data_dir.join("one-off")) };
        let link = context.look().await?;
        let environment = link.api.environment(name).await;
        let served = !link.is_own();
        link.close_now().await?;
        let NamedEnvironment { mut recipe, image: status, .. } = environment?;
        if let Some(own) = context.config.environments.get(name) {
            recipe.repos.clone_from(&own.repos);
        }
        if recipe.repos.iter().any(|repo| forge::is_covered(&repo.url)) {
            return Err(Usage(anyhow::anyhow!(
                "the credentials in the repository's address of {name} stay in the server\n  write the environment into \
                 slipway.toml, or leave it to git to know the credentials (a credential helper, or ssh)"
            ))
            .into());
        }
        let outdated = status.is_some_and(|status| status.outdated);
        if outdated {
            style::note(&format!("{name} was changed since its image was built: slipway env build {name}"));
        }
        let native = data_dir.join("native");
        let driver = Arc::new(Native::open(&native)?);
        let shared: Arc<dyn Driver> = driver.clone();
        let image = Images::open(&native.join("images"), shared)?.current(name).filter(|_| !outdated);
        if image.is_none() && recipe.base != "host" {
            return Err(Usage(anyhow::anyhow!(
                "{name} has no image that is up to date, which its base \"{}\" needs\n  build it with: slipway env build {name}",
                recipe.base
            ))
            .into());
        }
        let network = if recipe.egress == Egress::None { Network::None } else { Network::Egress };
        let stack = image.as_ref().map_or_else(Stack::host, |image| image.stack.clone());
        let environment = Some((name.to_owned(), recipe));
        Ok(Self { driver, stack, network, environment, image, served })
    }

    fn bare(dir: &Path) -> anyhow::Result<Self> {
        let driver = Arc::new(Native::open(dir)?);
        let (stack, network) = (Stack::host(), Network::None);
        Ok(Self { driver, stack, network, environment: None, image: None, served: false })
    }

    /// The limits of the environment, or the configured ones.
    pub(super) fn limits(&self, context: &Context) -> ::sandbox::Limits {
        let configured = context.config.sandbox.limits();
        match &self.environment {
            Some((_, recipe)) => session::merge_limits(&configured, &recipe.limits),
            None => configured,
        }
    }

    /// Gives a started sandbox what the environment has: the way out, the repository, the services.
    pub(super) async fn furnish(
        &self,
        context: &Context,
        sandbox: &dyn Sandbox,
        set_up: SetUp,
    ) -> anyhow::Result<Furnished> {
        let Some((name, recipe)) = &self.environment else { return Ok(Furnished::Ready(None)) };
        let exit = match sandbox.sockets().await? {
            Some(sockets) => Some(self.way_out(context, name, recipe, sockets, sandbox).await?),
            None => None,
        };
        let filled = self.fill(context, name, recipe, sandbox, set_up).await;
        if let Ok(true) = filled {
            return Ok(Furnished::Ready(exit));
        }
        // What was refused is the likeliest reason.
        if let Some(exit) = exit {
            exit.finish(context).await;
        }
        filled.map(|_| Furnished::NotSetUp)
    }

    /// Fills the workspace and starts the services; false if the set-up failed at the tip of the branch.
    async fn fill(
        &self,
        context: &Context,
        name: &str,
        recipe: &Environment,
        sandbox: &dyn Sandbox,
        set_up: SetUp,
    ) -> anyhow::Result<bool> {
        let mirrors = forge::Mirrors::new(&context.config.server.data_dir.join("mirrors"))
            .with_logins(context.config.outbox()?.forges);
        match &self.image {
            None => {
                style::note(&format!("preparing the workspace of {name}"));
                session::prepare(sandbox, &mirrors, recipe).await?;
            }
            Some(image) => match session::bring_to_tip(sandbox, &mirrors, recipe, image, set_up).await? {
                Arrival::There(note) => note.iter().for_each(|note| style::note(&text::harmless(note))),
                Arrival::NotSetUp(problem) => {
                    style::note(&text::harmless(&problem.title));
                    return Ok(false);
                }
            },
        }
        let services = session::services(&mirrors, recipe, self.image.as_ref()).await?;
        service::start(sandbox, &services).await?;
        Ok(true)
    }

    /// Opens the way out. Values of secrets do not leave a server, so this command reads them itself.
    async fn way_out(
        &self,
        context: &Context,
        name: &str,
        recipe: &Environment,
        sockets: ::sandbox::egress::Sockets,
        sandbox: &dyn Sandbox,
    ) -> anyhow::Result<Exit> {
        let variables: Vec<&str> = recipe.secrets.iter().filter_map(|secret| secret.env.as_deref()).collect();
        let here = |variable: &&&str| std::env::var_os(variable).is_some();
        if self.served && !variables.is_empty() {
            let missing: Vec<&str> = variables.iter().filter(|name| !here(name)).copied().collect();
            if !missing.is_empty() {
                return Err(Usage(anyhow::anyhow!(
                    "the values of {name}'s secrets stay in the server, and this command has no variable {}\n  set it here \
                     too, or have the secret read from a file (file = \"PATH\") or from the store (secret = \"NAME\")",
                    missing.join(", ")
                ))
                .into());
            }
            style::note(&format!(
                "the values of {} are this command's own, not the server's",
                variables.join(", ")
            ));
        }
        Exit::open(context, name, recipe, sockets, sandbox).await
    }
}

impl Exit {
    async fn open(
        context: &Context,
        name: &str,
        recipe: &Environment,
        sockets: ::sandbox::egress::Sockets,
        sandbox: &dyn Sandbox,
    ) -> anyhow::Result<Self> {
        let (refused, book) = (Arc::new(Refusals::new(SHOWN)), Arc::<Refused>::default());
        let log = {
            let (book, json) = (Arc::clone(&book), context.json);
            Log::new(sandbox.id(), move |decisions| {
                decisions.iter().for_each(|decision| book.note(decision));
                if json {
                    decisions.into_iter().for_each(tell_event);
                }
            })
        };
        let sink = {
            let (refused, log) = (Arc::clone(&refused), log.sink());
            Arc::new(move |decision: Decision| {
                refused.note(&decision);
                log(decision);
            })
        };
        let rules = Rules::parse(&recipe.egress)?.of(name);
        let proxy = Proxy::start(sockets, rules, context.config.sandbox.outside()?, sink)?;
        if !recipe.secrets.is_empty() {
            let placeholders = Placeholders::open(&context.config.server.data_dir.join("placeholders"))?;
            let secrets = context.config.secrets();
            let stored = |name: &str| {
                let value = secrets.get(name).map_err(|error| (error.to_string(), error.hint()))?;
                Ok(value.as_bytes().to_vec())
            };
            let read = |recipe: &protocol::Secret| {
                let secret = Secret::read(recipe, &stored)?;
                Ok::<_, ::sandbox::Error>(secret.known_as(placeholders.of(name, &recipe.name)))
            };
            proxy.set_secrets(recipe.secrets.iter().map(read).collect::<Result<Vec<_>, _>>()?)?;
        }
        if let Some(bundle) = proxy.ca_bundle() {
            sandbox.guest().write_file(CA_BUNDLE, bundle.into()).await?;
        }
        sandbox.guest().set_env(&proxy.variables()).await?;
        Ok(Self { proxy, log, refused, book, sandbox: sandbox.id(), name: name.to_owned() })
    }

    /// Ends every connection, says what was refused and how to allow it, and has it remembered.
    pub(super) async fn finish(self, context: &Context) {
        let Self { proxy, log, refused, book, sandbox, name } = self;
        drop(proxy);
        drop(log);
        if let Some(summary) = summary(&refused.list(), &name) {
            style::note(&text::harmless(&summary));
        }
        let decisions: Vec<EgressDecision> =
            book.list().into_iter().rev().map(|refused| decision(sandbox, refused)).collect();
        if decisions.is_empty() {
            return;
        }
        if let Err(error) = remember(context, &name, decisions).await {
            style::note(&format!("slipway env allow {name} will not list it: {error:#}"));
        }
    }
}

async fn remember(context: &Context, name: &str, decisions: Vec<EgressDecision>) -> anyhow::Result<()> {
    let link = context.look().await?;
    let noted = link.api.note_egress(name, decisions).await;
    link.close_now().await?;
    noted.map(drop)
}

fn decision(sandbox: SandboxId, refused: RefusedHost) -> EgressDecision {
    let RefusedHost { host, port, reason, count, .. } = refused;
    EgressDecision {
        sandbox,
        host,
        port,
        allowed: false,
        rule: reason,
        connections: u32::try_from(count).unwrap_or(u32::MAX),
        sent: 0,
        received: 0,
    }
}

/// Standard output is the command's own, so events go to standard error.
fn tell_event(decision: EgressDecision) {
    match serde_json::to_string(&EventBody::EgressDecided(decision)) {
        Ok(event) => style::say(&event),
        Err(error) => style::error(&format!("a decision cannot be written as JSON: {error}")),
    }
}

/// What was refused and why, and how to allow what can be; None if nothing was.
fn summary(refused: &[Refusal], name: &str) -> Option<String> {
    if refused.is_empty() {
        return None;
    }
    let mut lines: Vec<String> = refused.iter().map(|refusal| format!("refused: {refusal}")).collect();
    let mut rules: Vec<String> = refused.iter().filter_map(Refusal::rule).collect();
    rules.dedup();
    if !rules.is_empty() {
        lines.push(format!("  allow it with: slipway env allow {name} {}", rules.join(" ")));
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_why_and_advises_only_what_helps() {
        let refusal = |never, host: &str, port, why: &str| Refusal {
            never,
            host: host.to_owned(),
            port,
            why: why.to_owned(),
        };
        assert_eq!(summary(&[], "shop"), None);
        let never = refusal(true, "127.0.0.1", 9999, "it is a loopback address");
        let said = summary(std::slice::from_ref(&never), "shop").unwrap();
        assert_eq!(said, "refused: 127.0.0.1:9999 (it is a loopback address)");
        let can = refusal(false, "2001:db8::10", 8080, "no rule");
        let said = summary(&[can, refusal(false, "a.test", 443, "no rule"), never], "shop").unwrap();
        assert!(said.contains("refused: [2001:db8::10]:8080 (no rule)\n"), "{said}");
        assert!(
            said.ends_with("\n  allow it with: slipway env allow shop [2001:db8::10]:8080 a.test"),
            "{said}"
        );
    }
}
