//! Filling an empty workspace: the repository is put into it (or the work as it was kept), and the set-up steps run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{Actor, Code, Environment, EventBody, Problem, SetupStep};
use sandbox::{Sandbox, WORKSPACE};

use super::clones::Clones;
use super::extras::{self, Whence};
use super::one_off::BRANCH;
use super::{Patience, Workspace, branch_name, git, recipe, saved::Saved};
use crate::builds::ATTEMPTS;
use crate::failure::Failure;
use crate::joint::{Joint, join, of, split};
use crate::process::{self, Ending};
use crate::recorder::Recorder;
use crate::runner::output::Collector;
use crate::stop::Stop;

/// Wall-clock limit of one set-up step that does not say.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Where the repository's bundle is while it is cloned, inside the sandbox.
pub(super) const BUNDLE: &str = "/tmp/slipway-in.bundle";
/// How much of a failed step's output its error shows.
const TAIL: usize = 2 * 1024;
/// The first wait after a failed attempt where nothing else is configured.
const PAUSE: Duration = Duration::from_secs(1);

/// What goes into a new sandbox.
pub(super) struct Content {
    pub(super) mirrors: Joint,
    pub(super) saved: Saved,
    /// The commit of each repository.
    pub(super) commit: String,
    /// The branches' names in the bundles.
    pub(super) bundled: String,
    pub(super) notices: Vec<String>,
}

impl Workspace {
    /// The work as it was kept, or the repository as it is now.
    pub(super) async fn content(&self) -> Result<Content, Failure> {
        if let Some(saved) = self.saved() {
            let mirrors = self.mirrors().await?;
            // The mirror's own word on what is kept counts: the file may be older than a crash.
            let kept = match &saved.kept {
                Some(kept) => Some(mirrors.kept(&self.session.to_string(), kept).await?),
                None => None,
            };
            let (commit, bundled) = match kept {
                Some(kept) => {
                    let bundled = join(split(&kept).map(|_| saved.branch.as_str()));
                    (kept, bundled)
                }
                None => (saved.base.clone(), saved.source.clone()),
            };
            return Ok(Content { mirrors, saved, commit, bundled, notices: Vec::new() });
        }
        Content::of_the_repository(
            &self.copies,
            &self.recipe,
            branch_name(&self.options, &self.recipe.secrets, &self.title, self.session).await,
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
        let mirrors = Joint::fetch(mirrors, environment).await?;
        let tip = mirrors.tip().await?;
        let resolved = recipe::resolve(environment, &mirrors, &tip).await?;
        let notices = resolved.notices.clone();
        let saved = begun(resolved, &tip, branch, super::remotes(environment));
        Ok(Self { mirrors, saved, commit: tip.commit, bundled: tip.branch, notices })
    }

    /// Puts the repository into the sandbox's empty workspace, by way of a bundle in `scratch`, and runs the set-up
    /// steps.
    pub(super) async fn put_in(
        &self,
        clones: Clones<'_>,
        scratch: &Path,
        stop: &Stop,
        source: (&forge::Mirrors, &protocol::Egress),
        witness: Option<Witness<'_>>,
    ) -> Result<Vec<String>, Failure> {
        let (host, saved) = (scratch.join("in.bundle"), &self.saved);
        clones.make_places().await?;
        for ((number, git), (_, mirror)) in clones.each().enumerate().zip(self.mirrors.parts()) {
            let (bundled, commit) = (of(&self.bundled, number), of(&self.commit, number));
            mirror.bundle(bundled, commit, &host).await?;
            copy_in(git.sandbox, &host, BUNDLE, stop).await?;
            let (source, base) = (of(&saved.source, number), of(&saved.base, number));
            let at_base = bundled == source && commit == base;
            let clone = git::Clone {
                bundle: BUNDLE,
                bundled,
                branch: &saved.branch,
                source,
                base: (!at_base).then_some(base),
                remote: remote(saved, number),
                unfinished: self.unfinished(number),
            };
            git.clone(&clone, stop).await?;
        }
        let whence = Whence { mirrors: source.0, egress: source.1, steps: &saved.setup };
        let changes = (&self.mirrors, self.commit.as_str(), None);
        let notices = extras::lay_all(&whence, &clones, changes, scratch, stop).await?;
        for step in &saved.setup {
            set_up(clones.sandbox, step, stop, witness).await?;
        }
        Ok(notices)
    }

    /// Whether the commit of a repository is work in progress.
    pub(super) fn unfinished(&self, number: usize) -> bool {
        let kept = self.saved.kept.as_deref().map(|kept| of(kept, number));
        self.saved.is_unfinished(number) && kept == Some(of(&self.commit, number))
    }
}

/// Where a repository goes.
pub(super) fn remote(saved: &Saved, number: usize) -> &str {
    saved.remote.lines().nth(number).unwrap_or_default()
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
        unfinished_in: Vec::new(),
        cleared: None,
        shared_by: Vec::new(),
        setup: resolved.setup,
        checks: resolved.checks,
        approve: resolved.approve,
        policy: resolved.policy,
        policies: resolved.policies,
        instructions: resolved.instructions,
        hooks: resolved.hooks,
        onto: None,
        has_skills: resolved.has_skills,
        mcp: resolved.mcp,
        found: None,
        services: resolved.services,
        frozen: None,
        running: Vec::new(),
        products: None,
        began: None,
        left_out: Vec::new(),
        merges: Vec::new(),
        grounds: Vec::new(),
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
        let content = Content::of_the_repository(mirrors, environment, BRANCH.to_owned()).await?;
        let places = environment.places();
        let git = Clones { sandbox, author: &author, patience: Patience::default(), places: &places };
        let source = (mirrors, &environment.egress);
        content.put_in(git, scratch.path(), &Stop::default(), source, None).await.map(drop)
    };
    work.await.map_err(Failure::into_problem)
}

/// Copies a file into the sandbox, unless the turn is stopped meanwhile.
pub(super) async fn copy_in(
    sandbox: &dyn Sandbox,
    host: &Path,
    inside: &str,
    stop: &Stop,
) -> Result<(), Failure> {
    let copied = tokio::select! {
        copied = sandbox::image::copy_in(sandbox, host, inside) => copied,
        () = stop.given() => return Err(Failure::Stopped),
    };
    match copied {
        // A sandbox that died can be replaced; one that lives and does not take the file cannot be helped.
        Err(error) if sandbox.guest().ping().await.is_err() => Err(Failure::Lost(error.to_string())),
        other => Ok(other?),
    }
}

/// Whom the set-up, and trouble with it, is told to.
#[derive(Clone, Copy)]
pub(super) struct Witness<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) recorder: &'a Arc<Recorder>,
    /// What the sandbox is while the steps run.
    pub(super) state: SandboxState,
}

impl Witness<'_> {
    /// Records that an attempt of a step begins, and when it is ended.
    async fn begins(self, sandbox: &dyn Sandbox, step: &SetupStep) -> Result<(), Failure> {
        let line = step.run.trim().lines().next().unwrap_or_default();
        let begins = EventBody::SandboxChanged {
            sandbox: sandbox.id(),
            state: self.state,
            detail: Some(format!("the set-up step {line}")),
            duration_ms: None,
            limit_ms: u64::try_from(limit_of(step).as_millis()).ok(),
        };
        self.recorder.append(&Actor::system(), vec![begins]).await?;
        Ok(())
    }

    /// Records that a step failed and is tried again.
    async fn again(self, attempt: u32, attempts: u32, why: &str, wait: Duration) -> Result<(), Failure> {
        let turn = self.recorder.stream().with_state(|state| state.turn().map(|turn| turn.id));
        let retry = turn.map(|turn| EventBody::RetryScheduled {
            turn,
            attempt,
            attempts,
            reason: why.to_owned(),
            delay_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            wake_at: crate::stopwatch::after(wait),
        });
        self.recorder.append(&Actor::system(), Vec::from_iter(retry)).await?;
        Ok(())
    }
}

/// Runs one set-up step, as often as it says before it is given up. Each attempt finds what the one before it left.
pub(super) async fn set_up(
    sandbox: &dyn Sandbox,
    step: &SetupStep,
    stop: &Stop,
    witness: Option<Witness<'_>>,
) -> Result<(), Failure> {
    let attempts = step.attempts.unwrap_or(ATTEMPTS).max(1);
    let pause = witness.map_or(PAUSE, |witness| witness.workspace.options.images.pause());
    let mut attempt = 1;
    loop {
        if let Some(witness) = witness {
            witness.begins(sandbox, step).await?;
        }
        let Some(failed) = attempt_step(sandbox, step, stop).await? else { return Ok(()) };
        let hits = match witness {
            Some(Witness { workspace, recorder, .. }) => {
                workspace.tell_limits(recorder, sandbox, &failed.output).await?
            }
            None => Vec::new(),
        };
        let Failed { how, output, late } = failed;
        if attempt == attempts {
            let tail = tail(&output);
            let hint = match hits.first() {
                Some(hit) => hit.message.clone(),
                None if late => {
                    "raise the step's `timeout_s`, or make it end sooner; it reaches only the hosts that \
                                 the environment's egress allows"
                        .to_owned()
                }
                None => format!(
                    "correct the step in the environment or in the repository's .slipway.toml; it runs in {WORKSPACE} \
                     and reaches only the hosts that the environment's egress allows"
                ),
            };
            return Err(Problem::new(Code::SetupFailed, format!("{how}:\n{tail}")).hint(hint).into());
        }
        let wait = sandbox::image::wait_after(attempt, pause);
        attempt += 1;
        if let Some(witness) = witness {
            witness.again(attempt, attempts, &how, wait).await?;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.given() => return Err(Failure::Stopped),
        }
    }
}

/// How long one attempt of a step may take.
fn limit_of(step: &SetupStep) -> Duration {
    step.timeout_s.map_or(SETUP_TIMEOUT, Duration::from_secs)
}

/// How an attempt of a step failed.
struct Failed {
    /// In words, without what it printed.
    how: String,
    output: String,
    /// Whether it was ended because its time was over.
    late: bool,
}

async fn attempt_step(
    sandbox: &dyn Sandbox,
    step: &SetupStep,
    stop: &Stop,
) -> Result<Option<Failed>, Failure> {
    let command = &step.run;
    let timeout = limit_of(step);
    let id = protocol::ItemId::new().to_string();
    let mut collector = Collector::bounded();
    let process = sandbox.guest().start(&id, &sandbox::shell::command(command, Some(timeout))).await?;
    let ending = process::follow(sandbox, &id, process, &mut collector, None, Some(stop)).await?;
    process::forget(sandbox, &id).await;
    let exit = match ending {
        Ending::Stopped => return Err(Failure::Stopped),
        Ending::Exited(exit) => exit,
    };
    let how = match (exit.timed_out, exit.code, exit.signal) {
        (false, 0, _) => return Ok(None),
        (true, ..) => format!("was not done after {} s", timeout.as_secs()),
        (false, _, Some(signal)) => format!("was ended by signal {signal}"),
        (false, code, None) => format!("exited with {code}"),
    };
    let how = format!("the set-up step `{command}` {how}");
    Ok(Some(Failed { how, output: collector.text(), late: exit.timed_out }))
}

/// The end of an output.
fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].trim()
}
