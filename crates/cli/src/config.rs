//! `slipway.toml`: what can be set, what it is when it is not set, and where it is looked for. Unknown keys are an
//! error, because a misspelled key that is ignored is a setting that silently does not hold.

pub(crate) mod budget;
mod keys;
mod mcp;
mod memory;
mod models;
mod outside;
mod people;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use protocol::Environment;
use serde::{Deserialize, Serialize};

pub(crate) use models::{Model, in_order};

/// The MCP servers of a configuration.
pub(crate) fn mcp_servers(config: &Config) -> anyhow::Result<Vec<::mcp::Server>> {
    mcp::servers(&config.mcp)
}

/// Name of the configuration file in the data directory.
const FILE: &str = "slipway.toml";

/// The variable that names the file with the key of the secrets, before the configuration does.
const SECRET_KEY_FILE: &str = "SLIPWAY_SECRET_KEY_FILE";

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) agent: Agent,
    pub(crate) budget: budget::Budget,
    pub(crate) routes: session::Routes,
    pub(crate) sandbox: Sandbox,
    pub(crate) notify: outside::Notify,
    #[serde(skip_serializing)]
    pub(crate) people: BTreeMap<String, people::Person>,
    pub(crate) memory: memory::Memory,
    #[serde(skip_serializing)]
    pub(crate) forges: BTreeMap<String, outside::Forge>,
    #[serde(skip_serializing)]
    pub(crate) models: BTreeMap<String, Model>,
    #[serde(skip_serializing)]
    pub(crate) mcp: BTreeMap<String, mcp::Mcp>,
    #[serde(skip_serializing)]
    pub(crate) environments: BTreeMap<String, Environment>,
}

/// Where the server listens and keeps its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    /// What the addresses of its pages begin with for people; empty where they have none.
    pub(crate) public_url: String,
    /// File with the key that secrets are sealed with; empty for the one in the data directory.
    pub(crate) secret_key_file: PathBuf,
    pub(crate) token_env: String,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) sockets_per_user: usize,
    /// People by name, each with the variable that holds their token.
    pub(crate) tokens: BTreeMap<String, String>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7717)),
            data_dir: PathBuf::from("~/.local/share/slipway"),
            public_url: String::new(),
            secret_key_file: PathBuf::new(),
            token_env: "SLIPWAY_TOKEN".to_owned(),
            allowed_hosts: Vec::new(),
            sockets_per_user: 4096,
            tokens: BTreeMap::new(),
        }
    }
}

/// How a turn goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agent {
    /// Name of the model used when neither the prompt nor the environment names one; empty: the first of the file.
    pub(crate) model: String,
    /// What it was called before there were other budgets.
    #[serde(skip_serializing)]
    max_steps: Option<u32>,
    pub(crate) check_rounds: u32,
    pub(crate) max_output_tokens: u32,
    pub(crate) command_timeout_s: u64,
    /// Files of source from which on a repository has a map; 0 for never.
    pub(crate) map_from: usize,
}

impl Agent {
    /// How maps of repositories are made: this program reads their files.
    pub(crate) fn maps(&self) -> Option<session::Maps> {
        let program = std::env::current_exe().ok().filter(|_| self.map_from > 0)?;
        Some(session::Maps { reader: (program, vec![crate::READ_SYMBOLS.to_owned()]), least: self.map_from })
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            model: String::new(),
            max_steps: None,
            check_rounds: 3,
            max_output_tokens: 8192,
            command_timeout_s: 600,
            map_from: 100,
        }
    }
}

/// What a sandbox may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sandbox {
    /// Processors; 0 for all of them.
    pub(crate) cpus: f64,
    pub(crate) memory_mb: u64,
    pub(crate) processes: u64,
    pub(crate) open_files: u64,
    pub(crate) disk_mb: u64,
    pub(crate) inodes: u64,
    pub(crate) wall_clock_s: u64,
    pub(crate) idle_s: u64,
    pub(crate) pool: u32,
    pub(crate) rebuild_s: u64,
    pub(crate) disk_budget_gb: u64,
    pub(crate) snapshots: usize,
    pub(crate) snapshot_days: u64,
    /// A file with certificate authorities that are trusted beside this machine's; empty for none.
    pub(crate) ca_file: PathBuf,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            cpus: 0.0,
            memory_mb: 8192,
            processes: 4096,
            open_files: 65536,
            disk_mb: 20_480,
            inodes: 2_000_000,
            wall_clock_s: 86_400,
            idle_s: 1800,
            pool: 1,
            rebuild_s: 1800,
            disk_budget_gb: 50,
            snapshots: 20,
            snapshot_days: 14,
            ca_file: PathBuf::new(),
        }
    }
}

impl Sandbox {
    pub(crate) fn limits(&self) -> sandbox::Limits {
        let default = sandbox::Limits::default();
        sandbox::Limits {
            cpus: if self.cpus > 0.0 { self.cpus } else { default.cpus },
            memory_bytes: self.memory_mb << 20,
            processes: self.processes,
            open_files: self.open_files,
            disk_bytes: self.disk_mb << 20,
            inodes: self.inodes,
            wall_clock: (self.wall_clock_s > 0).then(|| Duration::from_secs(self.wall_clock_s)),
            user_namespaces: default.user_namespaces,
        }
    }
}

impl Sandbox {
    /// How sandboxes' connections reach the network, once they are allowed.
    pub(crate) fn outside(&self) -> anyhow::Result<Arc<dyn sandbox::egress::Outside>> {
        if self.ca_file.as_os_str().is_empty() {
            return Ok(Arc::new(sandbox::egress::Internet));
        }
        let trusting = sandbox::egress::Trusting::read(&self.ca_file).context("ca_file in [sandbox]")?;
        Ok(Arc::new(trusting))
    }

    /// When what is on disk goes.
    pub(crate) fn garbage(&self) -> sandbox::gc::Policy {
        sandbox::gc::Policy {
            budget_bytes: self.disk_budget_gb << 30,
            snapshot_age: Duration::from_secs(self.snapshot_days * 24 * 3600),
            snapshots: self.snapshots,
            ..sandbox::gc::Policy::default()
        }
    }
}

/// Where configuration comes from, as the command line says it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) file: Option<PathBuf>,
    pub(crate) data_dir: Option<PathBuf>,
}

impl Config {
    /// Reads the configuration: the named file, else the one in the data directory, else the defaults.
    pub(crate) fn load(source: &Source) -> anyhow::Result<Self> {
        let default_dir = expand(source.data_dir.as_deref().unwrap_or(&Server::default().data_dir))?;
        let file = source.file.clone().unwrap_or_else(|| default_dir.join(FILE));
        let mut config = match std::fs::read_to_string(&file) {
            Ok(text) => Self::parse(&text).with_context(|| format!("{} cannot be used", file.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && source.file.is_none() => {
                Self::default()
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        if let Some(dir) = &source.data_dir {
            config.server.data_dir = dir.clone();
        }
        config.server.data_dir = expand(&config.server.data_dir)?;
        config.resolve_paths(file.parent())?;
        if let Some(file) = std::env::var_os(SECRET_KEY_FILE).filter(|file| !file.is_empty()) {
            config.server.secret_key_file = expand(Path::new(&file))?;
        }
        Ok(config)
    }

    /// The secrets of the data directory.
    pub(crate) fn secrets(&self) -> store::Secrets {
        store::Secrets::new(&self.server.data_dir, self.secret_key())
    }

    /// The file with the key of the secrets, if it is not the usual one.
    pub(crate) fn secret_key(&self) -> Option<&Path> {
        Some(self.server.secret_key_file.as_path()).filter(|file| !file.as_os_str().is_empty())
    }

    /// Reads the text of a configuration file.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut config: Self = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
        models::place(&mut config.models, text).map_err(|error| unreadable(text, &error))?;
        models::check(&config.models)?;
        config.check_variables()?;
        if let Some(steps) = config.agent.max_steps {
            bail!("max_steps in [agent] is now steps in [budget.turn]: write steps = {steps} there");
        }
        config.memory.check()?;
        people::check(&config)?;
        config.budget.budgets()?;
        models::check_routes(&config)?;
        mcp::servers(&config.mcp)?;
        for (name, environment) in &config.environments {
            check_environment(name, environment)?;
            config.check_servers(name, environment)?;
        }
        if !config.agent.model.is_empty()
            && !config.models.is_empty()
            && !config.models.contains_key(&config.agent.model)
        {
            let known: Vec<&str> = config.models.keys().map(String::as_str).collect();
            bail!(
                "[agent] model = \"{}\" is not one of the models: {}",
                config.agent.model,
                known.join(", ")
            );
        }
        Ok(config)
    }

    /// Refuses an environment that names an MCP server which is not there.
    fn check_servers(&self, name: &str, environment: &Environment) -> anyhow::Result<()> {
        for one in &environment.mcp {
            if let protocol::McpUse::Named(server) = one
                && !self.mcp.contains_key(server)
            {
                bail!("[environments.{name}] mcp names \"{server}\", and there is no [mcp.{server}]");
            }
        }
        Ok(())
    }

    /// Refuses tokens that were written where the name of their variable belongs.
    fn check_variables(&self) -> anyhow::Result<()> {
        let server = [("[server] token_env".to_owned(), &self.server.token_env)].into_iter();
        let people = self.server.tokens.iter().map(|(who, name)| (format!("[server] tokens: {who}"), name));
        let notify = [("[notify] secret_env".to_owned(), &self.notify.secret_env)];
        let forges = self.forges.iter();
        let forges = forges.map(|(name, forge)| (format!("[forges.{name}] token_env"), &forge.token_env));
        for (setting, name) in server.chain(people).chain(notify).chain(forges) {
            if !name.is_empty() {
                keys::check_variable(&setting, name)?;
            }
        }
        Ok(())
    }

    /// Paths of repositories, bases, keys, secrets and certificates are relative to the file they stand in.
    fn resolve_paths(&mut self, dir: Option<&Path>) -> anyhow::Result<()> {
        if let Some(file) = self.sandbox.ca_file.to_str().filter(|file| !file.is_empty()) {
            self.sandbox.ca_file = resolve(file, dir)?.into();
        }
        if let Some(file) = self.server.secret_key_file.to_str().filter(|file| !file.is_empty()) {
            self.server.secret_key_file = resolve(file, dir)?.into();
        }
        let embedding = self.memory.embedding.as_mut().and_then(|embedding| embedding.api_key_file.as_mut());
        let of_models = self.models.values_mut().filter_map(|model| model.api_key_file.as_mut());
        for file in of_models.chain(embedding) {
            if let Some(path) = file.to_str() {
                *file = resolve(path, dir)?.into();
            }
        }
        for forge in self.forges.values_mut() {
            if let Some(file) = forge.app_key_file.to_str().filter(|file| !file.is_empty()) {
                forge.app_key_file = resolve(file, dir)?.into();
            }
        }
        for server in self.mcp.values_mut() {
            server.resolve_paths(dir)?;
        }
        for environment in self.environments.values_mut() {
            for repo in &mut environment.repos {
                if repo.url.starts_with(['.', '~']) {
                    repo.url = resolve(&repo.url, dir)?;
                }
            }
            if let Some(path) = environment.base.strip_prefix("tar:") {
                environment.base = format!("tar:{}", resolve(path, dir)?);
            } else if let Some(path) =
                environment.base.strip_prefix("oci:").filter(|name| name.starts_with(['.', '~']))
            {
                environment.base = format!("oci:{}", resolve(path, dir)?);
            }
            for file in environment.secrets.iter_mut().filter_map(|secret| secret.file.as_mut()) {
                *file = resolve(file, dir)?;
            }
        }
        Ok(())
    }
}

/// A path as it stands in a file of this directory.
fn resolve(path: &str, dir: Option<&Path>) -> anyhow::Result<String> {
    if path.starts_with("~/") {
        return Ok(expand(Path::new(path))?.display().to_string());
    }
    let joined = dir.map_or_else(|| PathBuf::from(path), |dir| dir.join(path));
    Ok(std::path::absolute(joined)?.display().to_string())
}

/// What is wrong with an environment that the types allow.
pub(crate) fn check_environment(name: &str, environment: &Environment) -> anyhow::Result<()> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        bail!("\"{name}\" cannot be the name of an environment: use letters, digits, '-', '_' and '.'");
    }
    if environment.repos.is_empty() {
        bail!("[environments.{name}] needs a repository: repos = [{{ url = \"…\" }}]");
    }
    if let Some((title, hint)) = environment.misplaced() {
        bail!("[environments.{name}]: {title}\n  {hint}");
    }
    environment.base.parse::<sandbox::base::Source>().with_context(|| format!("[environments.{name}]"))?;
    Ok(())
}

fn expand(path: &Path) -> anyhow::Result<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => {
            let home = std::env::var_os("HOME")
                .context("HOME is not set: give the data directory with --data-dir")?;
            Ok(PathBuf::from(home).join(rest))
        }
        Err(_) => Ok(std::path::absolute(path)?),
    }
}

/// The message without the text that somebody wrote as a value: that may be a key too.
fn without_text(message: &str) -> String {
    match message.split_once("string \"").and_then(|(before, rest)| Some((before, rest.rsplit_once('"')?.1)))
    {
        Some((before, after)) => format!("{before}text{after}"),
        None => message.to_owned(),
    }
}

/// Says what is wrong and where. The line itself is not shown: there may be a key in it.
fn unreadable(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let (line, column) = (
        before.matches('\n').count() + 1,
        before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
    );
    let named = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
    let at = named.map(|key| format!(", {key}")).unwrap_or_default();
    let table = before.lines().rev().find(|line| line.starts_with('[')).unwrap_or_default();
    let may_hold_keys =
        !["[environments", "[agent", "[budget", "[routes"].iter().any(|one| table.starts_with(one));
    let message = error.message().trim_end();
    let message = if may_hold_keys { without_text(message) } else { message.to_owned() };
    let mut said = keys::covered(&format!("line {line}, column {column}{at}: {message}"));
    let of_model = (table.starts_with("[models") || table.starts_with("[memory"))
        && ["`key`", "`token`"].iter().any(|one| message.contains(one));
    let of_server = table.starts_with("[mcp") && message.contains("unknown field `token`");
    if of_server {
        said.push_str(
            "\nkeys are not written here: use token_env, token_file, or token_secret with `slipway secret set NAME`",
        );
    } else if of_model || message.contains("`api_key`") {
        said.push_str(
            "\nkeys are not written here: use api_key_env, api_key_file, or api_key_secret with `slipway secret set NAME`",
        );
    }
    anyhow::anyhow!(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../config.example.toml");

    #[test]
    fn the_example_parses_and_each_key_equals_its_default() {
        assert_eq!(Config::parse(EXAMPLE).unwrap(), Config::default());
    }

    #[test]
    fn the_example_has_every_key_that_has_a_default() {
        let example: toml::Table = EXAMPLE.parse().unwrap();
        let defaults = toml::Table::try_from(Config::default()).unwrap();
        for (section, keys) in defaults.iter().filter_map(|(name, value)| Some((name, value.as_table()?))) {
            for key in keys.keys() {
                let there = example.get(section).and_then(|section| section.get(key)).is_some();
                assert!(there, "config.example.toml lacks {key} in [{section}]");
            }
        }
    }

    #[test]
    fn a_key_in_the_wrong_place_is_not_shown() {
        let key = "[models.a]\nprovider = \"openai\"\nmodel = \"m\"\napi_key = \"sk-secret-1\"\n";
        let broken = "[models.a]\nheaders = { \"X-Key\" = \"sk-secret-1\"\n";
        let text = "[models.a]\nheaders = \"sk-secret-1\"\n";
        for (text, said) in [
            (key, "line 4, column 1, api_key"),
            (key, "slipway secret set"),
            (broken, "line "),
            (text, "invalid type: text, expected a map"),
            ("[models.a]\nprovider = \"sk-secret-1\"\nmodel = \"m\"\n", "unknown provider"),
            ("[models.a]\nsk-secret-1 = \"x\"\n", "unknown field"),
            ("[models.a]\nkey = \"sk-secret-1\"\n", "slipway secret set"),
            ("[server]\ntoken_env = \"sk-secret-1\"\n", "[server] token_env is the name of a variable"),
            (
                "[server]\ntokens = { ann = \"sk-secret-1\" }\n",
                "[server] tokens: ann is the name of a variable",
            ),
            ("[notify]\nsecret_env = \"sk-secret-1\"\n", "[notify] secret_env is the name of a variable"),
            (
                "[forges.g]\nkind = \"github\"\nurl = \"https://g\"\ntoken_env = \"sk-secret-1\"\n",
                "[forges.g] token_env is the name of a variable",
            ),
        ] {
            let error = format!("{:?}", Config::parse(text).unwrap_err());
            assert!(error.contains(said) && !error.contains("sk-secret-1"), "{error}");
        }
    }

    #[test]
    fn the_commented_examples_parse_too() {
        let shown: String = EXAMPLE
            .lines()
            .filter_map(|line| line.strip_prefix("#: "))
            .flat_map(|line| [line, "\n"])
            .collect();
        let config = Config::parse(&shown).unwrap();
        assert!(!config.models.is_empty() && !config.environments.is_empty() && !config.forges.is_empty());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error =
            format!("{:#}", Config::parse("[server]\nlisten = \"127.0.0.1:1\"\nport = 3\n").unwrap_err());
        assert!(error.contains("port") && error.contains("line 3") && error.contains("listen"), "{error}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (text, said) in [
            ("[models.a]\nprovider = \"openai-compatible\"\nmodel = \"m\"", "base_url"),
            ("[environments.x]\nrepos = []", "repository"),
            ("[environments.x]\nrepos = [{ url = \"/r\" }]\nbase = \"vm\"", "vm"),
            ("[environments.\"a b\"]\nrepos = [{ url = \"/r\" }]", "name"),
            ("[models.a]\nprovider = \"acme\"\nmodel = \"m\"", "acme"),
            (
                "[agent]\nmodel = \"b\"\n[models.a]\nprovider = \"openai\"\nmodel = \"m\"",
                "one of the models: a",
            ),
        ] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
