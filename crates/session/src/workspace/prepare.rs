//! Making a workspace ready: an existing sandbox is found again; otherwise a new one is made, the repository is put
//! into it (or the work as it was kept), and the set-up steps run.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::event::SandboxState;
use protocol::{Actor, Code, Environment, Problem, SandboxId};
use sandbox::{Base, Life, Sandbox, Spec, WORKSPACE};

use super::{PIECE, Workspace, branch_name, changed, git, recipe, saved::Saved};
use crate::failure::Failure;
use crate::process::{self, Command, Ending};
use crate::recorder::Recorder;
use crate::runner::output::Collector;
use crate::stop::Stop;

/// Wall-clock limit of one set-up step.
const SETUP_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Where the repository's bundle is while it is cloned, inside the sandbox.
const BUNDLE: &str = "/tmp/slipway-in.bundle";
/// How much of a failed step's output its error shows.
const TAIL: usize = 2 * 1024;

/// A workspace that takes commands.
pub(crate) struct Ready {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) saved: Saved,
    /// What a person should know of, such as keys of the repository's recipe that were ignored.
    pub(crate) notices: Vec<String>,
    /// Whether it was made just now.
    pub(crate) made: bool,
}

/// What goes into a new sandbox.
struct Content {
    mirror: forge::Mirror,
    saved: Saved,
    commit: String,
    /// The branch's name in the bundle.
    bundled: String,
    notices: Vec<String>,
}

impl Workspace {
    /// The sandbox of this session, made if there is none.
    pub(crate) async fn ensure(&self, recorder: &Arc<Recorder>, stop: &Stop) -> Result<Ready, Failure> {
        if let Some(ready) = self.find(recorder).await? {
            return Ok(ready);
        }
        let mut live = self.live.lock().await;
        let id = SandboxId::new();
        match self.provision(recorder, id, stop).await {
            Ok(ready) => {
                *live = Some(Arc::clone(&ready.sandbox));
                Ok(ready)
            }
            Err(failure) => {
                self.discard(id).await;
                let why = match &failure {
                    Failure::Store(_) => return Err(failure),
                    Failure::Problem(problem) => problem.title.clone(),
                    Failure::Stopped => "the turn was stopped".to_owned(),
                    Failure::Lost(detail) => detail.clone(),
                };
                let event = changed(id, SandboxState::Stopped, Some(why.clone()), None);
                recorder.append(&Actor::system(), vec![event]).await?;
                // A sandbox that dies while it is prepared would die again.
                Err(match failure {
                    Failure::Lost(_) => Failure::Problem(
                        Problem::new(
                            Code::SandboxUnavailable,
                            format!("the sandbox died while it was prepared: {why}"),
                        )
                        .hint("`slipway doctor` says what is missing on this machine"),
                    ),
                    other => other,
                })
            }
        }
    }

    /// The sandbox that the log says is there, if it answers.
    async fn find(&self, recorder: &Arc<Recorder>) -> Result<Option<Ready>, Failure> {
        let known = recorder.stream().with_state(|state| state.sandbox());
        let (Some((id, state)), saved) = (known, self.saved()) else { return Ok(None) };
        let Some(saved) = saved.filter(|_| state == SandboxState::Ready) else {
            // The server ended while it was being made; nobody knows how far it is.
            self.remove(recorder, "its preparation was interrupted").await?;
            return Ok(None);
        };
        let mut live = self.live.lock().await;
        if live.is_none() {
            *live = self.adopt(id).await;
        }
        if let Some(sandbox) = live.clone()
            && sandbox.guest().ping().await.is_ok()
        {
            return Ok(Some(Ready { sandbox, saved, notices: Vec::new(), made: false }));
        }
        drop(live);
        self.lost(recorder, "it did not answer any more").await?;
        Ok(None)
    }

    async fn provision(
        &self,
        recorder: &Arc<Recorder>,
        id: SandboxId,
        stop: &Stop,
    ) -> Result<Ready, Failure> {
        let began = Instant::now();
        let tell = async |state, duration| {
            recorder.append(&Actor::system(), vec![changed(id, state, None, duration)]).await
        };
        tell(SandboxState::Creating, None).await?;
        let spec = Spec { id, base: Base::Host, limits: self.options.limits.clone(), life: Life::Own };
        // The sandbox is made while the repository is fetched. Making it is not given up half-way, so that there is
        // one place that cleans up.
        let fetch = async {
            tokio::select! {
                content = self.content() => content,
                () = stop.given() => Err(Failure::Stopped),
            }
        };
        let (sandbox, content) = tokio::join!(self.options.driver.create(&spec), fetch);
        let content = content?;
        let sandbox = sandbox?;
        tell(SandboxState::Preparing, elapsed(began)).await?;
        let scratch = self.scratch()?;
        content.put_in(self.git(&*sandbox), scratch.path(), stop).await?;
        self.record.put(content.saved.clone())?;
        tell(SandboxState::Ready, elapsed(began)).await?;
        Ok(Ready { sandbox, saved: content.saved, notices: content.notices, made: true })
    }

    /// The work as it was kept, or the repository as it is now.
    async fn content(&self) -> Result<Content, Failure> {
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
        let saved = Saved {
            source: tip.branch.clone(),
            base: tip.commit.clone(),
            branch,
            remote: forge::public_url(url),
            tip: None,
            kept: None,
            unfinished: false,
            setup: resolved.setup,
            checks: resolved.checks,
            instructions: resolved.instructions,
            found: None,
        };
        Ok(Self { mirror, saved, commit: tip.commit, bundled: tip.branch, notices: resolved.notices })
    }

    /// Puts the repository into the sandbox's empty workspace, by way of a bundle in `scratch`, and runs the set-up
    /// steps.
    async fn put_in(&self, git: git::Git<'_>, scratch: &Path, stop: &Stop) -> Result<(), Failure> {
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
            unfinished: saved.unfinished && saved.kept.as_deref() == Some(self.commit.as_str()),
        };
        git.clone(&clone, stop).await?;
        for step in &saved.setup {
            set_up(git.sandbox, &step.run, stop).await?;
        }
        Ok(())
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

fn elapsed(since: Instant) -> Option<u64> {
    u64::try_from(since.elapsed().as_millis()).ok()
}

/// Copies a file into the sandbox: in one piece, or, when it is large, in several that are joined there.
async fn copy_in(sandbox: &dyn Sandbox, host: &Path, inside: &str, stop: &Stop) -> Result<(), Failure> {
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
async fn set_up(sandbox: &dyn Sandbox, command: &str, stop: &Stop) -> Result<(), Failure> {
    let id = protocol::ItemId::new().to_string();
    let mut collector = Collector::bounded();
    let process = sandbox.guest().start(&id, &process::shell(command, SETUP_TIMEOUT)).await?;
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
        format!("was not done after {} minutes", SETUP_TIMEOUT.as_secs() / 60)
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
            "correct the step in the environment or in the repository's .slipway.toml; it runs in {WORKSPACE} without a network"
        )),
    ))
}
