//! What a session's sandbox is prepared with: the environment's recipe, completed by the repository's own
//! `.slipway.toml` and `AGENTS.md`. The environment wins; the repository cannot choose another repository or model.

use forge::{Mirror, Tip};
use protocol::{Check, Code, Environment, Problem, SetupStep};
use serde::Deserialize;

use crate::failure::Failure;

/// Name of the file in a repository's root.
const FILE: &str = ".slipway.toml";
/// Longest `AGENTS.md` that is taken.
const INSTRUCTIONS_LIMIT: usize = 32 * 1024;

/// The recipe with everything the repository adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) setup: Vec<SetupStep>,
    pub(crate) checks: Vec<Check>,
    pub(crate) instructions: String,
    /// What a person should know of, such as keys that were ignored.
    pub(crate) notices: Vec<String>,
}

/// The keys of `.slipway.toml`. `repos` and `model` are understood, so that one file can be used in both places, and
/// not taken.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepositoryRecipe {
    base: Option<String>,
    #[serde(default)]
    setup: Vec<SetupStep>,
    #[serde(default)]
    checks: Vec<Check>,
    instructions: Option<String>,
    repos: Option<toml::Value>,
    model: Option<toml::Value>,
}

/// Completes the environment's recipe from the repository at a commit.
pub(crate) async fn resolve(
    environment: &Environment,
    mirror: &Mirror,
    tip: &Tip,
) -> Result<Resolved, Failure> {
    let file = mirror.read(&tip.commit, FILE).await?;
    let agents = mirror.read(&tip.commit, "AGENTS.md").await?;
    let mut resolved = merge(environment, file.as_deref(), agents.as_deref())?;
    if resolved.checks.is_empty() {
        let root = mirror.root(&tip.commit).await?;
        // `discover` is pure and asks by name; the few files it may ask for are read before it.
        let mut files = std::collections::BTreeMap::new();
        for name in root.iter().filter(|name| is_manifest(name)) {
            if let Some(bytes) = mirror.read(&tip.commit, name).await? {
                files.insert(name.clone(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        resolved.checks = checks::discover(&root, &|name| files.get(name).cloned());
    }
    Ok(resolved)
}

/// Small text files in a root directory that say how a project is built and tested.
fn is_manifest(name: &str) -> bool {
    let known =
        ["Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "go.mod", "Gemfile", "Rakefile"];
    let endings =
        [".toml", ".json", ".cfg", ".ini", ".xml", ".gradle", ".kts", ".mod", ".yaml", ".yml", ".py"];
    // A lock file can be large and says nothing about commands.
    let lock = name.contains("lock") || name.contains("sum");
    (known.contains(&name) || endings.iter().any(|ending| name.ends_with(ending))) && !lock
}

fn merge(environment: &Environment, file: Option<&[u8]>, agents: Option<&[u8]>) -> Result<Resolved, Problem> {
    let own = file.map(parse).transpose()?.unwrap_or_default();
    let mut notices = Vec::new();
    for (key, present) in [("repos", own.repos.is_some()), ("model", own.model.is_some())] {
        if present {
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
    if let Some(agents) = agents {
        let text = String::from_utf8_lossy(agents);
        if text.len() > INSTRUCTIONS_LIMIT {
            notices.push(format!(
                "AGENTS.md is longer than {INSTRUCTIONS_LIMIT} bytes: only its beginning was read"
            ));
        }
        parts.push(format!("From the repository's AGENTS.md:\n{}", prefix(&text, INSTRUCTIONS_LIMIT)));
    }
    parts.retain(|part| !part.trim().is_empty());
    Ok(Resolved {
        setup: if environment.setup.is_empty() { own.setup } else { environment.setup.clone() },
        checks: if environment.checks.is_empty() { own.checks } else { environment.checks.clone() },
        instructions: parts.join("\n\n"),
        notices,
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
        "#;
        let merged = merge(&environment, Some(file), Some(b"Use tabs.")).unwrap();
        assert_eq!(merged.checks, environment.checks);
        assert_eq!(merged.setup[0].run, "make deps");
        assert_eq!(merged.instructions, "Be brief.\n\nFrom the repository's AGENTS.md:\nUse tabs.");
        assert_eq!(merged.notices.len(), 2, "{:?}", merged.notices);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_name() {
        let error = merge(&Environment::default(), Some(b"chekcs = []"), None).unwrap_err();
        assert_eq!(error.code, Code::SetupFailed);
        assert!(error.title.contains("line 1") && error.title.contains("chekcs"), "{error}");
    }
}
