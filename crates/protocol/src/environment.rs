//! An environment: the named recipe from which sandboxes are started. The same keys stand in `slipway.toml`, in a
//! repository's `.slipway.toml` and in the API.

use serde::{Deserialize, Serialize};

pub use crate::egress::Egress;

/// A named recipe: repositories, base, set-up steps, services, checks and what of the network is open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Environment {
    /// The repositories, first the main one.
    #[serde(default)]
    pub repos: Vec<Repo>,
    /// `host`, `tar:PATH`, `oci:NAME`, `dockerfile:PATH` or `devcontainer[:PATH]`; the last two are in the repository.
    #[serde(default = "Environment::default_base")]
    pub base: String,
    /// Commands that prepare the workspace, in order.
    #[serde(default)]
    pub setup: Vec<SetupStep>,
    /// Commands that fill caches once everything is set up: build, run the app and the tests once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm: Vec<SetupStep>,
    /// Programs that run beside the work, up before the first prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /// Commands that must pass before a turn may finish `done`.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What of the network can be reached: `"none"`, `"open"`, or a list of domains. An empty list, the default, refuses
    /// everything and tells what was refused.
    #[serde(default, skip_serializing_if = "Egress::is_default")]
    pub egress: Egress,
    /// Secrets that are put into requests on their way out, and never into the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Secret>,
    /// Limits of each sandbox, where they differ from the configured ones.
    #[serde(default, skip_serializing_if = "SandboxLimits::is_empty")]
    pub limits: SandboxLimits,
    /// Sandboxes that are kept ready; the configured number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
    /// The image is built again after this many seconds; the configured time when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_s: Option<u64>,
    /// What a person must approve before it happens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve: Vec<Gate>,
    /// Which calls of the model run, wait for a person, or are refused.
    #[serde(default, skip_serializing_if = "crate::Policy::is_empty")]
    pub policy: crate::Policy,
    /// Whether the agent may ask a person something and wait for the answer. Without, it decides by itself.
    #[serde(default = "Environment::asks", skip_serializing_if = "Environment::is_attended")]
    pub questions: bool,
    /// Whether sessions know and keep what is remembered across them.
    #[serde(default = "Environment::remembers", skip_serializing_if = "Environment::is_remembering")]
    pub memory: bool,
    /// Name of the model used when none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the agent is told about this environment, beside the repository's own instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Where skills come from, beside those of the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<crate::SkillSource>,
    /// Programs in the sandbox that are asked before calls of the model, or shown them afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<crate::Hook>,
    /// MCP servers whose tools the agent has: names of the configuration file, or programs in the sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp: Vec<crate::McpUse>,
    /// How its pull requests are opened and looked after.
    #[serde(default, skip_serializing_if = "crate::PullRequestRules::is_default")]
    pub pull_request: crate::PullRequestRules,
}

impl Environment {
    fn default_base() -> String {
        "host".to_owned()
    }

    /// Where each repository lies in the workspace, in their order: in a directory, or, as `""`, in the workspace itself.
    pub fn places(&self) -> Vec<String> {
        match self.repos.as_slice() {
            [Repo { path: None, .. }] => vec![String::new()],
            repos => {
                repos.iter().map(|repo| repo.path.as_deref().unwrap_or(repo.name()).to_owned()).collect()
            }
        }
    }

    /// Why the repositories cannot lie where they are to, if they cannot: what is wrong, and what to do.
    pub fn misplaced(&self) -> Option<(String, &'static str)> {
        let places = self.places();
        for (repo, place) in self.repos.iter().zip(&places) {
            if place.is_empty() && repo.path.is_none() && places.len() == 1 {
                continue;
            }
            let hint = match repo.path {
                Some(_) => {
                    "path is a directory below the workspace, such as \"api\" or \"libs/api\": letters, digits, dots, \
                            dashes and underscores"
                }
                None => "say where it is to lie: repos = [{ url = \"…\", path = \"api\" }, …]",
            };
            if let Some(why) = not_a_place(place) {
                return Some((
                    format!("a repository cannot lie in \"{}\": {why}", place.escape_debug()),
                    hint,
                ));
            }
        }
        for (at, one) in places.iter().enumerate() {
            for other in &places[at + 1..] {
                if one == other {
                    let title =
                        format!("two repositories would lie in the directory \"{one}\" of the workspace");
                    return Some((title, "give one of them another path: { url = \"…\", path = \"…\" }"));
                }
                let nested = |inner: &str, outer: &str| {
                    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
                };
                if nested(one, other) || nested(other, one) {
                    let title = format!("one repository would lie in another: \"{one}\" and \"{other}\"");
                    return Some((title, "give each a directory that none of the others is in"));
                }
            }
        }
        None
    }

    fn asks() -> bool {
        true
    }

    fn remembers() -> bool {
        true
    }

    /// Whether the memory is in use; serde gives a reference.
    fn is_remembering(memory: &bool) -> bool {
        *memory
    }

    /// Whether a person answers; serde gives a reference.
    fn is_attended(questions: &bool) -> bool {
        *questions
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            repos: Vec::new(),
            base: Self::default_base(),
            setup: Vec::new(),
            warm: Vec::new(),
            services: Vec::new(),
            checks: Vec::new(),
            egress: Egress::default(),
            secrets: Vec::new(),
            limits: SandboxLimits::default(),
            pool: None,
            rebuild_s: None,
            approve: Vec::new(),
            policy: crate::Policy::default(),
            questions: true,
            memory: true,
            model: None,
            instructions: None,
            skills: Vec::new(),
            hooks: Vec::new(),
            mcp: Vec::new(),
            pull_request: crate::PullRequestRules::default(),
        }
    }
}

/// Why something is no directory for a repository, if it is none.
fn not_a_place(place: &str) -> Option<&'static str> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '+');
    if place.starts_with('/') {
        return Some("it is not below the workspace");
    }
    for part in place.split('/') {
        match part {
            ".." => return Some("it leads out of the workspace"),
            "" | "." => return Some("it is no path of directories"),
            _ if part.eq_ignore_ascii_case(".git") => return Some("that is git's own directory"),
            _ if part.starts_with('-') || !part.chars().all(plain) => {
                return Some("it has letters that do not go into such a path");
            }
            _ => {}
        }
    }
    (place.len() > 200).then_some("it is too long")
}

/// What can wait for a person's approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Gate {
    /// The push of work that passed its checks.
    #[default]
    Delivery,
    /// A call of the model. Policies say which.
    Call,
    /// Connections to hosts. Policies say which.
    Host,
    /// A question of the model, which is answered with the comment.
    Question,
}

/// A repository of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Repo {
    /// A URL or a path on the host.
    pub url: String,
    /// The branch that sessions start from; the remote's default branch when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The directory of the workspace that it lies in: its name when absent. The only repository of an environment lies in the
    /// workspace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Repo {
    /// The repository at an address, with everything else as it is by itself.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), branch: None, path: None }
    }

    /// What the repository is called: the end of its address.
    pub fn name(&self) -> &str {
        let address = self.url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let name = address.rsplit(['/', ':']).next().unwrap_or_default();
        name.strip_suffix(".git").unwrap_or(name)
    }
}

/// One command that prepares the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetupStep {
    /// The shell command.
    pub run: String,
    /// Files whose content decides whether the step's result can be re-used, such as a lock file. Without any, the step
    /// runs again for each new commit.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// How often it is tried; 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Wall-clock limit of one attempt in seconds; 1800 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
}

/// A program that runs beside the work, such as a database or a development server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Service {
    /// A short name, such as `postgres`.
    pub name: String,
    /// The shell command; it stays in the foreground.
    pub run: String,
    /// How to tell that it is up. Without one it is up once it has run for a second.
    #[serde(default)]
    pub ready: Probe,
    /// It must be up within this many seconds; 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// What is done when it ends by itself while a session uses the sandbox.
    #[serde(default, skip_serializing_if = "Restart::is_default")]
    pub restart: Restart,
}

/// What is done about a service that ended by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Restart {
    /// It is started again, a few times within ten minutes.
    #[default]
    Always,
    /// It is told of and left as it is.
    Never,
}

impl Restart {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How to tell that a service is up; one of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Probe {
    /// A port on the sandbox's loopback that takes connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// A URL on the sandbox's loopback that answers with a status below 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// A shell command that exits with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A secret that is put into requests to its hosts, over TLS only. The sandbox sees a placeholder in the variable `name`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Secret {
    /// Name of the variable in the sandbox that holds the placeholder.
    pub name: String,
    /// Variable of the server that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// File of the server's machine that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Secret of the server's store that is the value (`slipway secret set`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Hosts it is for; `*.example.com` for every host below one.
    pub hosts: Vec<String>,
    /// Where in a request it may stand: `bearer`, `basic` or `header:NAME`.
    #[serde(default = "Secret::default_form")]
    pub form: String,
}

impl Secret {
    fn default_form() -> String {
        "bearer".to_owned()
    }
}

/// Limits of each sandbox of an environment; what is absent is as configured for all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxLimits {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory of all processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Open files of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// What the sandbox may write to disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
    /// Files and directories it may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Life of the sandbox; 0 for as long as it is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock_s: Option<u64>,
    /// Whether programs may make user namespaces and mount in them, as browsers and bubblewrap do for sandboxes of their
    /// own. It opens more of the kernel to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_namespaces: Option<bool>,
}

impl SandboxLimits {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A command with a parser that must pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// A short name, such as `test`.
    pub name: String,
    /// The shell command; it passes when it exits with 0.
    pub run: String,
    /// Name of the parser, or `auto`.
    #[serde(default = "Check::default_parser")]
    pub parser: String,
}

impl Check {
    fn default_parser() -> String {
        "auto".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(repos: &[(&str, Option<&str>)]) -> Environment {
        let repo =
            |(url, path): &(&str, Option<&str>)| Repo { path: path.map(str::to_owned), ..Repo::at(*url) };
        Environment { repos: repos.iter().map(repo).collect(), ..Environment::default() }
    }

    #[test]
    fn each_repository_has_a_place() {
        let one = with(&[("https://git.test/acme/shop.git", None)]);
        assert_eq!((one.places(), one.misplaced()), (vec![String::new()], None));
        let two = with(&[("git@git.test:api.git", None), ("/srv/git/web/", Some("apps/web"))]);
        assert_eq!((two.places(), two.misplaced()), (vec!["api".to_owned(), "apps/web".to_owned()], None));
        assert_eq!(with(&[("/srv/shop", Some("shop"))]).places(), ["shop"]);
    }

    #[test]
    fn places_that_cannot_be_are_told() {
        for (repos, words) in [
            (
                &[("/a/api", None), ("/b/api.git", None)][..],
                "two repositories would lie in the directory \"api\"",
            ),
            (&[("/a/x", Some("a")), ("/b/y", Some("a/b"))], "one repository would lie in another"),
            (&[("/a/x", Some("../x")), ("/b/y", None)], "leads out of the workspace"),
            (&[("/a/x", Some("/x")), ("/b/y", None)], "not below the workspace"),
            (&[("/a/x", Some("")), ("/b/y", None)], "no path of directories"),
            (&[("/a/x", Some("a/.git")), ("/b/y", None)], "git's own"),
            (&[("/a/my shop", None), ("/b/y", None)], "letters"),
            (&[("/a/x", Some(".."))], "leads out"),
        ] {
            let (title, hint) = with(repos).misplaced().unwrap();
            assert!(title.contains(words), "{title}");
            assert!(!hint.is_empty());
        }
        assert_eq!(
            with(&[("/a/ab", None), ("/b/a", None)]).misplaced(),
            None,
            "a name may begin with another"
        );
    }
}
