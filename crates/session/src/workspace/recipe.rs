//! What a session's sandbox is prepared with: the environment's recipe, completed by the repository's own
//! `.slipway.toml` and `AGENTS.md`. The environment wins; the repository cannot choose another repository, base or model,
//! nor what a sandbox may reach and use.

use forge::{Mirror, Tip};
use protocol::{
    Check, Code, Environment, Gate, Hook, McpProgram, McpUse, Policy, Problem, Service, SetupStep,
};
use serde::Deserialize;

use super::{found, several};
use crate::failure::Failure;
use crate::joint::Joint;

/// Name of the file in a repository's root.
pub(super) const FILE: &str = ".slipway.toml";
/// Longest `AGENTS.md` that is taken.
const INSTRUCTIONS_LIMIT: usize = 32 * 1024;

/// The recipe with everything the repository adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) base: String,
    pub(crate) setup: Vec<SetupStep>,
    pub(crate) warm: Vec<SetupStep>,
    pub(crate) services: Vec<Service>,
    pub(crate) checks: Vec<Check>,
    pub(crate) approve: Vec<Gate>,
    pub(crate) policy: Policy,
    /// Those of each repository where there are several.
    pub(crate) policies: Vec<Policy>,
    pub(crate) instructions: String,
    /// The repository's own, which run after the environment's.
    pub(crate) hooks: Vec<Hook>,
    /// Whether the repository has folders for skills.
    pub(crate) has_skills: bool,
    /// MCP servers that the repository adds; they run in the sandbox.
    pub(crate) mcp: Vec<McpProgram>,
    /// What a person should know of, such as keys that were ignored.
    pub(crate) notices: Vec<String>,
}

/// The keys of `.slipway.toml`. Those that only the environment can set are understood, so that one file can be used in
/// both places, and not taken.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepositoryRecipe {
    base: Option<String>,
    #[serde(default)]
    setup: Vec<SetupStep>,
    #[serde(default)]
    warm: Vec<SetupStep>,
    #[serde(default)]
    services: Vec<Service>,
    #[serde(default)]
    checks: Vec<Check>,
    #[serde(default)]
    approve: Vec<Gate>,
    #[serde(default)]
    policy: Policy,
    instructions: Option<String>,
    #[serde(default)]
    mcp: Vec<McpUse>,
    repos: Option<toml::Value>,
    model: Option<toml::Value>,
    egress: Option<toml::Value>,
    secrets: Option<toml::Value>,
    limits: Option<toml::Value>,
    pool: Option<toml::Value>,
    rebuild_s: Option<toml::Value>,
    questions: Option<toml::Value>,
    memory: Option<toml::Value>,
    pull_request: Option<toml::Value>,
    #[serde(default)]
    hooks: Vec<Hook>,
    skills: Option<toml::Value>,
}

/// Completes the environment's recipe from its repositories at a commit.
pub(crate) async fn resolve(
    environment: &Environment,
    mirrors: &Joint,
    tip: &Tip,
) -> Result<Resolved, Failure> {
    match mirrors.mirror(0) {
        Some(only) if mirrors.is_alone() => resolve_one(environment, only, tip).await,
        Some(_) | None => several::resolve(environment, mirrors, tip).await,
    }
}

/// Completes the environment's recipe from one repository at a commit.
pub(super) async fn resolve_one(
    environment: &Environment,
    mirror: &Mirror,
    tip: &Tip,
) -> Result<Resolved, Failure> {
    let file = mirror.read(&tip.commit, FILE).await?;
    let mut agents = None;
    for name in agent::nearby::FILES {
        if agents.is_none() {
            // One byte more, by which it shows that there is more.
            let read = mirror.read_beginning(&tip.commit, name, INSTRUCTIONS_LIMIT + 1).await?;
            agents = read.map(|text| (name, text));
        }
    }
    let agents = agents.as_ref().map(|(name, text)| (*name, text.as_slice()));
    let mut resolved = merge(environment, file.as_deref(), agents)?;
    resolved.has_skills = crate::skills::are_in(mirror, &tip.commit).await?;
    if resolved.checks.is_empty() {
        let found = found::checks(mirror, &tip.commit).await?;
        resolved.notices.extend(found::told(&found));
        resolved.checks = found.into_iter().filter(|found| found.used).map(|found| found.check).collect();
    }
    Ok(resolved)
}

fn merge(
    environment: &Environment,
    file: Option<&[u8]>,
    agents: Option<(&str, &[u8])>,
) -> Result<Resolved, Problem> {
    let own = file.map(parse).transpose()?.unwrap_or_default();
    let mut notices = Vec::new();
    let others = [
        ("repos", &own.repos),
        ("model", &own.model),
        ("egress", &own.egress),
        ("secrets", &own.secrets),
        ("limits", &own.limits),
        ("pool", &own.pool),
        ("rebuild_s", &own.rebuild_s),
        ("questions", &own.questions),
        ("memory", &own.memory),
        ("pull_request", &own.pull_request),
        ("skills", &own.skills),
    ];
    for (key, value) in others {
        if value.is_some() {
            notices.push(format!("{FILE}: the key \"{key}\" was ignored; only the environment can set it"));
        }
    }
    if let Some(base) = own.base.as_deref().filter(|base| *base != environment.base) {
        notices.push(format!(
            "{FILE}: the base \"{base}\" was ignored; this environment uses \"{}\"",
            environment.base
        ));
    }
    let mut parts = Vec::new();
    parts.extend(environment.instructions.clone().or(own.instructions));
    if let Some((name, agents)) = agents {
        let text = String::from_utf8_lossy(agents);
        if text.len() > INSTRUCTIONS_LIMIT {
            notices.push(format!(
                "{name} is longer than {INSTRUCTIONS_LIMIT} bytes: only its beginning was read"
            ));
        }
        parts.push(format!("From the repository's {name}:\n{}", prefix(&text, INSTRUCTIONS_LIMIT)));
    }
    parts.retain(|part| !part.trim().is_empty());
    let services = if environment.services.is_empty() {
        check_services(&own.services, &format!("the repository's {FILE}"))?;
        own.services
    } else {
        check_services(
            &environment.services,
            "the environment's own recipe (slipway.toml or `slipway env add`)",
        )?;
        environment.services.clone()
    };
    let mcp = programs(environment, own.mcp, &mut notices)?;
    // Those of the environment take their place, and were looked at when it was stored.
    let checks = if environment.checks.is_empty() { own.checks.as_slice() } else { &[] };
    crate::environments::check_checks(checks)
        .and_then(|()| crate::environments::check_policy(&own.policy))
        .and_then(|()| crate::team::check_hooks(&own.hooks))
        .map_err(|problem| {
            let title = format!("the repository's {FILE} cannot be used: {}", problem.title);
            Problem::new(Code::SetupFailed, title).hint(problem.hint.unwrap_or_default())
        })?;
    Ok(Resolved {
        base: environment.base.clone(),
        setup: if environment.setup.is_empty() { own.setup } else { environment.setup.clone() },
        warm: if environment.warm.is_empty() { own.warm } else { environment.warm.clone() },
        services,
        checks: if environment.checks.is_empty() { own.checks } else { environment.checks.clone() },
        // A repository can ask for more than its environment, and never for less.
        approve: own.approve,
        policy: own.policy,
        policies: Vec::new(),
        instructions: parts.join("\n\n"),
        hooks: own.hooks,
        has_skills: false,
        mcp,
        notices,
    })
}

/// The MCP servers that a repository adds. Those of the configuration hold secrets of this machine, so only the environment
/// can name them, and none of them can be replaced.
fn programs(
    environment: &Environment,
    own: Vec<McpUse>,
    notices: &mut Vec<String>,
) -> Result<Vec<McpProgram>, Problem> {
    let mut programs: Vec<McpProgram> = Vec::new();
    for one in own {
        let name = one.name().to_owned();
        let known = environment.mcp.iter().any(|known| known.name() == name);
        match one {
            McpUse::Named(_) if known => {}
            McpUse::Named(_) => notices.push(format!(
                "{FILE}: the MCP server \"{}\" was ignored; only the environment can use those of slipway.toml",
                name.escape_debug()
            )),
            McpUse::Program(_) if known || programs.iter().any(|program| program.name == name) => {
                notices.push(format!(
                    "{FILE}: the MCP server \"{}\" was ignored; there is another of that name",
                    name.escape_debug()
                ));
            }
            McpUse::Program(program) => {
                crate::mcp::check_program(&program).map_err(|problem| {
                    let title = format!("the repository's {FILE} cannot be used: {}", problem.title);
                    Problem::new(Code::SetupFailed, title).hint(problem.hint.unwrap_or_default())
                })?;
                programs.push(program);
            }
        }
    }
    Ok(programs)
}

/// Services are looked at as those of an environment are when it is stored, wherever they are declared.
pub(super) fn check_services(services: &[Service], place: &str) -> Result<(), Problem> {
    crate::environments::check_services(services).map_err(|problem| {
        Problem::new(Code::SetupFailed, format!("{place} cannot be used: {}", problem.title))
            .hint(problem.hint.unwrap_or_default())
    })
}

fn parse(bytes: &[u8]) -> Result<RepositoryRecipe, Problem> {
    let broken = |detail: String| {
        Problem::new(Code::SetupFailed, format!("the repository's {FILE} cannot be used: {detail}"))
            .hint("correct it on the branch that sessions start from, then send the prompt again")
    };
    let text = std::str::from_utf8(bytes).map_err(|error| broken(error.to_string()))?;
    toml::from_str(text).map_err(|error| broken(error.to_string().trim_end().to_owned()))
}

/// The longest beginning of at most `limit` bytes.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_wins_and_the_repository_fills_in() {
        let environment = Environment {
            checks: vec![Check { name: "a".into(), run: "true".into(), parser: "auto".into() }],
            ..Environment::default()
        };
        let file = br#"
            model = "other"
            repos = [{ url = "https://elsewhere.example/x.git" }]
            instructions = "Be brief."
            setup = [{ run = "make deps" }]
            checks = [{ name = "b", run = "false" }]
            warm = [{ run = "make" }]
            services = [{ name = "db", run = "serve", ready = { tcp = 5432 } }]
            egress = "open"
            limits = { memory_mb = 1000000 }
            secrets = []
        "#;
        let merged = merge(&environment, Some(file), Some(("AGENTS.md", b"Use tabs."))).unwrap();
        assert_eq!(merged.checks, environment.checks);
        assert_eq!(merged.setup[0].run, "make deps");
        assert_eq!((merged.warm[0].run.as_str(), merged.services[0].name.as_str()), ("make", "db"));
        assert_eq!(merged.instructions, "Be brief.\n\nFrom the repository's AGENTS.md:\nUse tabs.");
        assert_eq!(merged.notices.len(), 5, "{:?}", merged.notices);
        let told = merged.notices.join("\n");
        assert!(told.contains("egress") && told.contains("limits") && told.contains("secrets"), "{told}");
    }

    #[test]
    fn a_service_that_cannot_be_is_told_with_the_place_it_comes_from() {
        let file = br#"services = [{ name = "web", run = "serve", ready = { http = "http://10.0.0.1/" } }]"#;
        let error = merge(&Environment::default(), Some(file), None).unwrap_err();
        assert!(error.title.starts_with("the repository's .slipway.toml cannot be used: service"), "{error}");
        let services = parse(file).unwrap().services;
        let environment = Environment { services, ..Environment::default() };
        for file in [None, Some(&b"setup = []"[..])] {
            let error = merge(&environment, file, None).unwrap_err();
            assert!(error.title.starts_with("the environment's own recipe (slipway.toml"), "{error}");
            assert!(!error.title.contains(".slipway.toml") && error.title.contains("loopback"), "{error}");
        }
    }

    #[test]
    fn a_repository_adds_programs_in_the_sandbox_and_nothing_else() {
        let named = |name: &str| McpUse::Named(name.to_owned());
        let environment = Environment { mcp: vec![named("sentry")], ..Environment::default() };
        let file = br#"
            mcp = ["sentry", "github", { name = "files", command = ["mcp-files"] },
                   { name = "sentry", command = ["sh"] }]
        "#;
        let merged = merge(&environment, Some(file), None).unwrap();
        assert_eq!(merged.mcp.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["files"]);
        let told = merged.notices.join("\n");
        assert!(told.contains("\"github\" was ignored; only the environment"), "{told}");
        assert!(told.contains("\"sentry\" was ignored; there is another"), "{told}");
        for (wrong, words) in [
            (&br#"mcp = [{ name = "files", command = ["x"], where = "host" }]"#[..], "where"),
            (br#"mcp = [{ name = "files", url = "https://x.test" }]"#, "url"),
            (br#"mcp = [{ name = "files", command = [] }]"#, "has no command"),
            (br#"mcp = [{ name = "a b", command = ["x"] }]"#, "cannot be the name of an MCP server"),
            (br#"mcp = [3]"#, "the name of an MCP server, or"),
        ] {
            let error = merge(&environment, Some(wrong), None).unwrap_err();
            assert!(error.title.contains(words) && error.code == Code::SetupFailed, "{error}");
        }
    }

    #[test]
    fn a_policy_that_could_never_fit_is_told() {
        let file = br#"policy = { rules = [{ then = "deny", path = "config/../.env" }] }"#;
        let error = merge(&Environment::default(), Some(file), None).unwrap_err();
        assert_eq!(error.code, Code::SetupFailed);
        assert!(error.title.contains(FILE) && error.title.contains("write where it leads"), "{error}");
    }

    #[test]
    fn a_parser_that_there_is_not_is_refused_with_those_that_there_are() {
        let file = br#"checks = [{ name = "test", run = "make test", parser = "nosuch" }]"#;
        let error = merge(&Environment::default(), Some(file), None).unwrap_err();
        assert_eq!(error.code, Code::SetupFailed);
        assert!(error.title.contains(FILE) && error.title.contains("\"nosuch\""), "{error}");
        let hint = error.hint.unwrap();
        assert!(hint.starts_with("the parsers are: auto, cargo, pytest"), "{hint}");
        // Those of the environment take its place.
        let own = Check { name: "a".into(), run: "true".into(), parser: "auto".into() };
        let environment = Environment { checks: vec![own], ..Environment::default() };
        assert!(merge(&environment, Some(file), None).is_ok());
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_name() {
        let error = merge(&Environment::default(), Some(b"chekcs = []"), None).unwrap_err();
        assert_eq!(error.code, Code::SetupFailed);
        assert!(error.title.contains("line 1") && error.title.contains("chekcs"), "{error}");
    }
}
