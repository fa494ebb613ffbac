//! Where trials happen: a directory of their own, with a server's data and a repository for each trial.

use std::path::{Path, PathBuf};
use std::process::Command;

use ::sandbox::Driver;
use ::sandbox::native::Native;
use anyhow::{Context as _, anyhow, bail};

use super::suite::{Files, Task};
use crate::config::Config;
use crate::exit::Usage;

/// Says that a directory is ours to remove.
const MARK: &str = ".slipway-bench";

/// The directory.
pub(super) struct Place {
    dir: PathBuf,
    /// Held as long as the directory is in use.
    _lock: std::fs::File,
}

/// A bare repository with a task's files on `main`.
pub(super) struct Repository {
    pub(super) bare: PathBuf,
    work: PathBuf,
}

impl Place {
    /// Makes the directory, without what an earlier command left there.
    pub(super) async fn make(config: &Config) -> anyhow::Result<Self> {
        let dir = config.server.data_dir.join("bench");
        let empty = std::fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_none());
        if !empty && !dir.join(MARK).exists() {
            return Err(Usage(anyhow!(
                "{} is not from slipway bench\n  move it away, or use another directory with --data-dir",
                dir.display()
            ))
            .into());
        }
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
            .create(&dir)
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let mark = dir.join(MARK);
        let lock =
            std::fs::File::create(&mark).with_context(|| format!("cannot write {}", mark.display()))?;
        if lock.try_lock().is_err() {
            bail!(
                "another slipway bench is running on {}\n  wait for it, or use another directory with --data-dir",
                dir.display()
            );
        }
        let place = Self { dir, _lock: lock };
        place.clear().await?;
        Ok(place)
    }

    /// The configuration of the server that works on the trials: its own data, nobody to notify, no other environments.
    pub(super) fn configuration(&self, config: &Config, model: Option<&str>) -> anyhow::Result<Config> {
        let mut own = config.clone();
        own.server.data_dir = self.data();
        own.environments.clear();
        own.notify = Default::default();
        own.forges.clear();
        // A session that is over needs its sandbox no more.
        own.sandbox.idle_s = 5;
        let data = self.data();
        std::fs::create_dir_all(&data).with_context(|| format!("cannot make {}", data.display()))?;
        // Keys that are kept in the store are in another data directory.
        let (from, to) = (config.secrets(), own.secrets());
        for secret in config.models.values().filter_map(|model| model.api_key_secret.as_deref()) {
            match from.get(secret) {
                Ok(value) => drop(to.set(secret, &value)?),
                // Whether this model is asked at all is not known here; one without its key says so itself.
                Err(error) => tracing::warn!("the secret {secret} cannot be read: {error}"),
            }
        }
        if let Some(name) = model {
            let known: Vec<String> = crate::node::models(&own).into_iter().map(|model| model.name).collect();
            if !known.iter().any(|model| model == name) {
                let there = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Usage(anyhow!("there is no model {name}; there are: {there}")).into());
            }
        }
        Ok(own)
    }

    /// Where the server keeps its data.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Where sandboxes are that decide.
    pub(super) fn grading(&self) -> PathBuf {
        self.dir.join("grading")
    }

    /// Makes the repository of one trial.
    pub(super) fn repository(&self, task: &Task, trial: &str) -> anyhow::Result<Repository> {
        let bare = self.dir.join(format!("{}.{trial}.git", task.name));
        let work = bare.with_extension("work");
        std::fs::create_dir(&work).with_context(|| format!("cannot make {}", work.display()))?;
        git(&work, &["init", "--quiet", "--initial-branch=main", "."])?;
        write(&work, &task.repo)?;
        git(&work, &["add", "--all", "--force"])?;
        git(&work, &["commit", "--quiet", "--message", "A small program"])?;
        git(&work, &["clone", "--quiet", "--bare", ".", &bare.display().to_string()])?;
        Ok(Repository { bare, work })
    }

    /// Removes everything, sandboxes first.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        self.clear().await?;
        std::fs::remove_dir_all(&self.dir).with_context(|| format!("cannot remove {}", self.dir.display()))
    }

    async fn clear(&self) -> anyhow::Result<()> {
        for native in [self.data().join("native"), self.grading().join("native")] {
            if native.exists() {
                let driver = Native::open(&native)?;
                for sandbox in driver.list().await? {
                    driver.remove(sandbox.id).await?;
                }
            }
        }
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name != MARK) {
                let removed =
                    if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
                removed.with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }
}

impl Repository {
    /// Adds a branch with these files over those of `main`.
    pub(super) fn branch(&self, name: &str, files: &Files) -> anyhow::Result<()> {
        git(&self.work, &["checkout", "--quiet", "-B", name, "main"])?;
        write(&self.work, files)?;
        git(&self.work, &["add", "--all", "--force"])?;
        git(&self.work, &["commit", "--quiet", "--allow-empty", "--message", name])?;
        git(&self.work, &["push", "--quiet", &self.bare.display().to_string(), name])
    }

    /// Removes it.
    pub(super) fn remove(self) -> anyhow::Result<()> {
        for dir in [&self.bare, &self.work] {
            std::fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(())
    }
}

fn write(dir: &Path, files: &Files) -> anyhow::Result<()> {
    for (name, content) in files {
        let file = dir.join(name);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Runs git with nothing of the user's configuration, and at a time that is always the same: so are the commits.
fn git(dir: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    const TIME: &str = "2026-01-01T00:00:00Z";
    let output = Command::new("git")
        .current_dir(dir)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([
            ("GIT_AUTHOR_NAME", "Tasks"),
            ("GIT_AUTHOR_EMAIL", "tasks@localhost"),
            ("GIT_AUTHOR_DATE", TIME),
        ])
        .envs([("GIT_COMMITTER_NAME", "Tasks"), ("GIT_COMMITTER_EMAIL", "tasks@localhost")])
        .env("GIT_COMMITTER_DATE", TIME)
        .output()
        .context("cannot run git: is it installed?")?;
    if !output.status.success() {
        bail!("git {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
