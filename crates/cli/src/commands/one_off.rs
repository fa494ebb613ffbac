//! What a one-off sandbox is made of: the bare host system, or an environment, from its image where one was built.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::sandbox::egress::{CA_BUNDLE, Decision, Placeholders, Proxy, Rules, Secret};
use ::sandbox::image::{Image, Images};
use ::sandbox::native::Native;
use ::sandbox::{Driver, Network, Sandbox, Stack, service};
use protocol::{Egress, Environment, NamedEnvironment};
use session::{Arrival, SetUp};

use super::Context;
use crate::exit::Usage;
use crate::render::{style, text};

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
    _proxy: Proxy,
    refused: Arc<Mutex<BTreeSet<(String, u16)>>>,
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
        let mirrors = forge::Mirrors::new(&context.config.server.data_dir.join("mirrors"));
        match &self.image {
            None => {
                style::note(&format!("preparing the workspace of {name}"));
                session::prepare(sandbox, &mirrors, recipe).await?;
            }
            Some(image) => match session::bring_to_tip(sandbox, &mirrors, recipe, image, set_up).await? {
                Arrival::There(note) => note.iter().for_each(|note| style::note(&text::harmless(note))),
                Arrival::NotSetUp(problem) => {
                    style::note(&text::harmless(&problem.title));
                    return Ok(Furnished::NotSetUp);
                }
            },
        }
        let services = session::services(&mirrors, recipe, self.image.as_ref()).await?;
        service::start(sandbox, &services).await?;
        Ok(Furnished::Ready(exit))
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
                     too, or have the secret read from a file: file = \"PATH\"",
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
        let refused: Arc<Mutex<BTreeSet<(String, u16)>>> = Arc::default();
        let book = Arc::clone(&refused);
        let sink = Arc::new(move |decision: Decision| {
            if !decision.allowed {
                book.lock().unwrap_or_else(PoisonError::into_inner).insert((decision.host, decision.port));
            }
        });
        let rules = Rules::parse(&recipe.egress)?.of(name);
        let proxy = Proxy::start(sockets, rules, context.config.sandbox.outside()?, sink)?;
        if !recipe.secrets.is_empty() {
            let placeholders = Placeholders::open(&context.config.server.data_dir.join("placeholders"))?;
            let read = |recipe: &protocol::Secret| {
                Secret::read(recipe).map(|secret| secret.known_as(placeholders.of(name, &recipe.name)))
            };
            proxy.set_secrets(recipe.secrets.iter().map(read).collect::<Result<Vec<_>, _>>()?)?;
        }
        if let Some(bundle) = proxy.ca_bundle() {
            sandbox.guest().write_file(CA_BUNDLE, bundle.into()).await?;
        }
        sandbox.guest().set_env(&proxy.variables()).await?;
        Ok(Self { _proxy: proxy, refused, name: name.to_owned() })
    }

    /// Says what was refused, and how to allow it.
    pub(super) fn tell(&self) {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_empty() {
            return;
        }
        let hosts: Vec<String> = refused
            .iter()
            .map(|(host, port)| match port {
                // Only its name was asked for.
                53 => text::harmless(host),
                port => format!("{}:{port}", text::harmless(host)),
            })
            .collect();
        style::note(&format!(
            "refused: {}\n  allow a host with: slipway env allow {} HOST",
            hosts.join(", "),
            self.name
        ));
    }
}
