//! Other programs that do what a turn does, as people run them from a script: each with the same scripted model, the same
//! commands, and a home and a repository of its own.

mod codex;
pub(crate) mod model;
mod opencode;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use crate::peers::Missing;

/// What npm has, in the versions that were measured.
pub(crate) const PACKAGES: [&str; 2] = [codex::PACKAGE, opencode::PACKAGE];

/// What each is asked.
pub(crate) const PROMPT: &str = "Do nothing, twenty times.";

/// One that can be run here.
pub(crate) struct Harness {
    pub(crate) name: &'static str,
    program: PathBuf,
    arguments: Vec<&'static str>,
    variables: Vec<(&'static str, String)>,
    home: PathBuf,
    repository: PathBuf,
}

/// Where npm puts them: beside what else can be fetched again.
pub(crate) fn directory() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    Ok(cache.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set")?.join("slipway/peers"))
}

/// Where a program of theirs is, once it is installed.
pub(crate) fn installed(name: &str) -> anyhow::Result<Option<PathBuf>> {
    let program = directory()?.join("node_modules/.bin").join(name);
    Ok(program.is_file().then_some(program))
}

/// All of them, with what they need under `dir`.
pub(crate) fn all(dir: &Path, model: &str) -> anyhow::Result<Vec<Result<Harness, Missing>>> {
    Ok(vec![codex::harness(&dir.join("codex"), model)?, opencode::harness(&dir.join("opencode"), model)?])
}

impl Harness {
    /// One whose home and repository are made below `dir`.
    fn new(name: &'static str, program: PathBuf, dir: &Path) -> anyhow::Result<Self> {
        let (home, repository) = (dir.join("home"), dir.join("repository"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&repository)?;
        let git = |arguments: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]).args(arguments);
            let status = git.current_dir(&repository).stdin(Stdio::null()).status().context("running git")?;
            ensure!(status.success(), "git could not make a repository");
            Ok(())
        };
        git(&["init", "--quiet", "."])?;
        git(&["commit", "--quiet", "--allow-empty", "--message", "Nothing yet"])?;
        Ok(Self { name, program, arguments: Vec::new(), variables: Vec::new(), home, repository })
    }

    fn missing(name: &'static str) -> Missing {
        Missing { name, why: "not installed; --install gets it with npm".to_owned() }
    }

    /// Its command line. Nothing of the user's own settings reaches it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(PROMPT).current_dir(&self.repository).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.home);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Says what went wrong when a program failed.
pub(crate) fn check(name: &str, output: &std::process::Output) -> anyhow::Result<()> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{name} failed ({}): {}",
            output.status,
            said.trim().lines().last().unwrap_or("it said nothing")
        );
    }
    Ok(())
}
