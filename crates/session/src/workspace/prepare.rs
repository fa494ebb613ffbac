//! Filling an empty workspace: the repository is put into it (or the work as it was kept), and the set-up steps run.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use protocol::{Code, Environment, Problem, SetupStep};
use sandbox::{Sandbox, WORKSPACE};

use super::{PIECE, Workspace, branch_name, git, recipe, saved::Saved};
use crate::failure::Failure;
use crate::process::{self, Command, Ending};
use crate::runner::output::Collector;
use crate::stop::Stop;

/// Wall-clock limit of one set-up step that does not say.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Where the repository's bundle is while it is cloned, inside the sandbox.
pub(super) const BUNDLE: &str = "/tmp/slipway-in.bundle";
/// How much of a failed step's output its error shows.
const TAIL: usize = 2 * 1024;

/// What goes into a new sandbox.
pub(super) struct Content {
    pub(super) mirror: forge::Mirror,
    pub(super) saved: Saved,
    pub(super) commit: String,
    /// The branch's name in the bundle.
    pub(super) bundled: String,
    pub(super) notices: Vec<String>,
}

impl Workspace {
    /// The work as it was kept, or the repository as it is now.
    pub(super) async fn content(&self) -> Result<Content, Failure> {
        if let Some(saved) = self.saved() {
            let mirror = self.mirror().await?;
            // The mirror's own word on what is kept counts: the file may be older than a crash.
            let kept = match &saved.kept {
                Some(_) => mirror.kept(&self.session.to_string()).await?.or_else(|| saved.kept.clone()),
                None => None,
            };
            let (commit, bundled) = match kept {
                Some(kept) => (kept, saved.branch.clone()),
                None => (saved.base.clone(), saved.source.clone()),
            };
            return Ok(Content { mirror, saved, commit, bundled, notices: Vec::new() });
        }
        Content::of_the_repository(
            &self.options.mirrors,
            &self.recipe,
            branch_name(&self.title, self.session),
        )
        .await
    }
}

impl Content {
    /// The repository as it is now, with `branch` to be put on it.
    async fn of_the_repository(
        mirrors: &forge::Mirrors,
        environment: &Environment,
        branch: String,
    ) -> Result<Self, Failure> {
        let url = super::repository_url(environment)?;
        let mirror = mirrors.fetch(url).await?;
        let wanted = environment.repos.first().and_then(|repo| repo.branch.as_deref());
        let tip = mirror.tip(wanted).await?;
        let resolved = recipe::resolve(environment, &mirror, &tip).await?;
        let notices = resolved.notices.clone();
        let saved = begun(resolved, &tip, branch, forge::public_url(url));
        Ok(Self { mirror, saved, commit: tip.commit, bundled: tip.branch, notices })
    }

    /// Puts the repository into the sandbox's empty workspace, by way of a bundle in `scratch`, and runs the set-up
    /// steps.
    pub(super) async fn put_in(&self, git: git::Git<'_>, scratch: &Path, stop: &Stop) -> Result<(), Failure> {
        let host = scratch.join("in.bundle");
        self.mirror.bundle(&self.bundled, &self.commit, &host).await?;
        copy_in(git.sandbox, &host, BUNDLE, stop).await?;
        let saved = &self.saved;
        let clone = git::Clone {
            bundle: BUNDLE,
            bundled: &self.bundled,
            branch: &saved.branch,
            source: &saved.source,
            base: &saved.base,
            remote: &saved.remote,
            unfinished: self.unfinished(),
        };
        git.clone(&clone, stop).await?;
        for step in &saved.setup {
            set_up(git.sandbox, step, stop).await?;
        }
        Ok(())
    }

    /// Whether the commit is work in progress.
    pub(super) fn unfinished(&self) -> bool {
        self.saved.unfinished && self.saved.kept.as_deref() == Some(self.commit.as_str())
    }
}

/// A workspace that begins at this tip.
pub(super) fn begun(resolved: recipe::Resolved, tip: &forge::Tip, branch: String, remote: String) -> Saved {
    Saved {
        source: tip.branch.clone(),
        base: tip.commit.clone(),
        branch,
        remote,
        tip: None,
        kept: None,
        unfinished: false,
        setup: resolved.setup,
        checks: resolved.checks,
        instructions: resolved.instructions,
        found: None,
        services: resolved.services,
        frozen: None,
        running: Vec::new(),
        products: None,
    }
}

/// Puts an environment's repository into the empty workspace of a sandbox that belongs to no session, and runs its
/// set-up steps.
pub async fn prepare(
    sandbox: &dyn Sandbox,
    mirrors: &forge::Mirrors,
    environment: &Environment,
) -> Result<(), Problem> {
    let scratch = tempfile::tempdir().map_err(|error| crate::problem::file(&std::env::temp_dir(), &error))?;
    let author = crate::Author::default();
    let work = async {
        let content = Content::of_the_repository(mirrors, environment, "slipway/work".to_owned()).await?;
        content.put_in(git::Git { sandbox, author: &author }, scratch.path(), &Stop::default()).await
    };
    work.await.map_err(Failure::into_problem)
}

/// Copies a file into the sandbox: in one piece, or, when it is large, in several that are joined there.
pub(super) async fn copy_in(
    sandbox: &dyn Sandbox,
    host: &Path,
    inside: &str,
    stop: &Stop,
) -> Result<(), Failure> {
    use tokio::io::AsyncReadExt as _;
    let failed = |error: std::io::Error| Failure::Problem(crate::problem::file(host, &error));
    let mut file = tokio::fs::File::open(host).await.map_err(failed)?;
    let mut parts = 0u32;
    loop {
        let mut piece = Vec::new();
        (&mut file).take(PIECE).read_to_end(&mut piece).await.map_err(failed)?;
        if piece.is_empty() && parts > 0 {
            break;
        }
        let last = (piece.len() as u64) < PIECE;
        let name = if last && parts == 0 { inside.to_owned() } else { format!("{inside}.{parts:06}") };
        sandbox.guest().write_file(&name, Bytes::from(piece)).await?;
        if last && parts == 0 {
            return Ok(());
        }
        parts += 1;
        if last {
            break;
        }
        if stop.is_given() {
            return Err(Failure::Stopped);
        }
    }
    let join = Command {
        script: r#"cat "$1".?????? > "$1" && rm -f "$1".??????"#,
        args: &[inside],
        env: std::collections::BTreeMap::new(),
        cwd: "/",
        timeout: Duration::from_secs(300),
        limit: 0,
    };
    let joined = join.run(sandbox, Some(stop)).await?;
    if joined.code == 0 {
        return Ok(());
    }
    Err(Failure::Problem(
        Problem::new(
            Code::SandboxUnavailable,
            format!("the repository could not be put into the sandbox: {}", joined.stderr.trim()),
        )
        .hint("the sandbox's disk may be full"),
    ))
}

/// Runs one set-up step.
pub(super) async fn set_up(sandbox: &dyn Sandbox, step: &SetupStep, stop: &Stop) -> Result<(), Failure> {
    let command = &step.run;
    let timeout = step.timeout_s.map_or(SETUP_TIMEOUT, Duration::from_secs);
    let id = protocol::ItemId::new().to_string();
    let mut collector = Collector::bounded();
    let process = sandbox.guest().start(&id, &sandbox::shell::command(command, Some(timeout))).await?;
    let ending = process::follow(sandbox, &id, process, &mut collector, None, Some(stop)).await?;
    process::forget(sandbox, &id).await;
    let exit = match ending {
        Ending::Stopped => return Err(Failure::Stopped),
        Ending::Exited(exit) => exit,
    };
    if exit.code == 0 && !exit.timed_out {
        return Ok(());
    }
    let how = if exit.timed_out {
        format!("was not done after {} s", timeout.as_secs())
    } else {
        format!("exited with {}", exit.code)
    };
    let text = collector.text();
    let mut from = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let tail = text[from..].trim();
    Err(Failure::Problem(
        Problem::new(Code::SetupFailed, format!("the set-up step `{command}` {how}:\n{tail}")).hint(format!(
            "correct the step in the environment or in the repository's .slipway.toml; it runs in {WORKSPACE} and reaches \
             only the hosts that the environment's egress allows"
        )),
    ))
}
