//! One step of a build: a sandbox on what is there so far, a command in it, and what that wrote as a layer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guest::Exit;
use protocol::event::LimitKind;
use protocol::{SandboxId, Service, StepState};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::build::Build;
use super::progress::Place;
use super::way_out::WayOut;
use super::{Images, Repo, Step, inside, portable, probe, retry};
use crate::{
    Driver, Error, Layer, LayerId, Life, Network, Owner, Sandbox, Save, Spec, Stack, WORKSPACE, service,
};

/// What no layer keeps: files that are of one run, such as sockets, locks and the sandbox's own certificates.
const PASSING: [&str; 3] = ["/run", "/tmp", "/var/tmp"];
/// What the layer of a repository leaves out: everything but the workspace.
const BESIDE_WORKSPACE: [&str; 12] =
    ["/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/tmp", "/var"];

/// Where the repository's bundle is while it is cloned.
const BUNDLE: &str = "/tmp/slipway-in.bundle";
/// How often a clone is tried; only the machine can be at fault.
const CLONE_ATTEMPTS: u32 = 3;
/// Wall-clock limit of a clone.
const CLONE_TIMEOUT: Duration = Duration::from_secs(1800);
/// What a sandbox may live longer than its step: services start, what it wrote is looked at. Only an orphan lives so long.
const SLACK: Duration = Duration::from_secs(1800);

/// Clones the bundle `$1` of branch `$2` so that the branch is at commit `$3` and its remote at `$4`, in the directory `$5`.
/// Nothing of the repository's own is run.
const CLONE: &str = r#"set -e
plain() { GIT_LFS_SKIP_SMUDGE=1 git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c submodule.recurse=false -c fetch.recurseSubmodules=no -c gc.auto=0 -c safe.directory='*' -c advice.detachedHead=false -c init.defaultBranch=main "$@"; }
g() { plain --git-dir=.git --work-tree=. -c core.bare=false "$@"; }
mkdir -p -- "$5"
cd "$5"
plain clone -q --branch "$2" "$1" .
rm -f "$1"
if [ "$(g rev-parse -q --verify HEAD)" != "$3" ]; then g checkout -q -B "$2" "$3" --; fi
g remote set-url origin "$4"
g update-ref "refs/remotes/origin/$2" "$3"
"#;

/// A sandbox that is removed on every way out.
pub(super) struct Held {
    driver: Arc<dyn Driver>,
    active: Arc<Mutex<BTreeSet<SandboxId>>>,
    under_way: TaskTracker,
    id: SandboxId,
    /// Until it is known how the start ended.
    start: Option<Start>,
    there: bool,
}

type Start = JoinHandle<Result<Arc<dyn Sandbox>, Error>>;

impl Held {
    /// Begins to make it. A start is not broken off: what is half there can be told neither from what is to come nor from
    /// what is on its way out.
    fn begin(images: &Images, spec: Spec) -> Self {
        let active = Arc::clone(&images.active);
        let id = spec.id;
        active.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        let driver = Arc::clone(&images.driver);
        let start = images.under_way.spawn(async move { driver.create(&spec).await });
        Self {
            driver: Arc::clone(&images.driver),
            active,
            under_way: images.under_way.clone(),
            id,
            start: Some(start),
            there: true,
        }
    }

    /// Waits until it is there. If nobody waits any more, it goes when it is.
    async fn started(&mut self) -> Result<Arc<dyn Sandbox>, Error> {
        let Some(start) = &mut self.start else {
            return Err(Error::Start("it was asked for twice".to_owned()));
        };
        let started = start.await;
        self.start = None;
        started.map_err(|error| Error::Start(format!("a start was lost: {error}")))?
    }

    /// Removes it now.
    pub(super) async fn remove(mut self) {
        if let Some(removal) = self.give_back()
            && let Err(error) = removal.await
        {
            tracing::warn!(sandbox = %self.id, %error, "the removal of a build's sandbox was lost");
        }
    }

    /// Begins to remove it, which goes on even if nobody waits for it. Until it is gone it counts as somebody's.
    fn give_back(&mut self) -> Option<JoinHandle<()>> {
        if !std::mem::take(&mut self.there) {
            return None;
        }
        let (driver, active, id) = (Arc::clone(&self.driver), Arc::clone(&self.active), self.id);
        let start = self.start.take();
        let removal = async move {
            // However it ended: a driver owes nothing for a start that failed, but may have left something.
            if let Some(start) = start
                && let Err(error) = start.await
            {
                tracing::warn!(sandbox = %id, %error, "the start of a build's sandbox was lost");
            }
            // What could not be removed is found by the next sweep; the step's own result matters more.
            if let Err(error) = driver.remove(id).await {
                tracing::warn!(sandbox = %id, %error, "a sandbox of a build could not be removed");
            }
            active.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        };
        // Without a runtime the process is ending; the next server sweeps.
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(self.under_way.spawn_on(removal, &runtime))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Under which names a step's layer may be stored.
pub(super) struct Names {
    /// For any commit, provided that the step left the repository alone.
    pub(super) portable: Option<LayerId>,
    /// For this commit.
    pub(super) full: LayerId,
}

/// A layer that was made, and what speaks against using it with other commits.
pub(super) struct Made {
    pub(super) layer: Layer,
    pub(super) changed: Option<String>,
}

impl Build<'_> {
    /// Makes the layer of the repository. The clone is made on the host's own system, whatever the base: it has git.
    pub(super) async fn clone_repo(&self, layer: &LayerId) -> Result<Layer, Error> {
        let repo = &self.recipe.repo;
        let work = |before| async move {
            self.attempt(Place::Clone, before + 1, CLONE_ATTEMPTS);
            let (sandbox, held) = self.sandbox(Stack::host(), CLONE_TIMEOUT, Network::None).await?;
            let work = async {
                let clones = self.recipe.clones.iter().map(|clone| (clone.place.as_str(), &clone.repo));
                let mut repos: Vec<(&str, &Repo)> = clones.collect();
                if repos.is_empty() {
                    repos.push((".", repo));
                }
                for (place, repo) in repos {
                    inside::copy_in(&*sandbox, &repo.bundle, BUNDLE).await?;
                    let args = [BUNDLE, &repo.branch, &repo.commit, &repo.url, place];
                    let script = crate::shell::script(CLONE, &args, Some(CLONE_TIMEOUT));
                    let mut exit = self.follow(Place::Clone, &*sandbox, &script).await?;
                    if exit.code == 0 && !repo.extras.files.is_empty() {
                        for (host, inside) in &repo.extras.files {
                            inside::copy_in(&*sandbox, host, inside).await?;
                        }
                        let lay = crate::shell::script(&repo.extras.script, &[place], Some(CLONE_TIMEOUT));
                        exit = self.follow(Place::Clone, &*sandbox, &lay).await?;
                    }
                    if exit.code != 0 {
                        return Err(Error::Build {
                            message: format!(
                                "the clone of {} {}",
                                repo.url,
                                self.ending(Place::Clone, &exit, CLONE_TIMEOUT)
                            ),
                            hint:
                                "the repository may be damaged, or too large for the limits of the environment"
                                    .to_owned(),
                        });
                    }
                }
                self.save(sandbox.id(), layer, &BESIDE_WORKSPACE).await
            };
            self.finish(held, work.await).await
        };
        self.retried(Place::Clone, CLONE_ATTEMPTS, work).await
    }

    /// Makes the layer of a set-up or warm step that stands on `below`.
    pub(super) async fn run_step(
        &self,
        place: Place,
        step: &Step,
        below: &Stack,
        names: &Names,
        services: &[Service],
    ) -> Result<Made, Error> {
        let attempts = step.attempts.max(1);
        let work = |before| async move {
            self.attempt(place, before + 1, attempts);
            let network = if self.recipe.egress.is_some() { Network::Egress } else { Network::None };
            let (sandbox, held) = self.sandbox(below.clone(), step.timeout, network).await?;
            let work = self.in_sandbox(place, step, names, services, &*sandbox);
            self.finish(held, work.await).await
        };
        self.retried(place, attempts, work).await
    }

    async fn in_sandbox(
        &self,
        place: Place,
        step: &Step,
        names: &Names,
        services: &[Service],
        sandbox: &dyn Sandbox,
    ) -> Result<Made, Error> {
        // Held until the command is done: without it nothing leads out.
        let way_out = WayOut::open(self.recipe.egress.as_ref(), sandbox, self.log).await?;
        let watched = match names.portable {
            Some(_) => portable::before(sandbox, &self.recipe.places()).await?,
            None => false,
        };
        if let Err(error) = service::start(sandbox, services).await {
            return Err(because_of_a_limit(sandbox, error).await);
        }
        let exit = self.follow(place, sandbox, &crate::shell::command(&step.run, Some(step.timeout))).await?;
        if exit.code != 0 || exit.timed_out {
            return Err(self.step_failed(place, step, &exit, sandbox, way_out.as_ref()).await);
        }
        if !services.is_empty() {
            inside::end_services(sandbox).await?;
        }
        let (layer, changed) = match &names.portable {
            None => (&names.full, None),
            Some(_) if !watched => (&names.full, Some("git does not work in this base".to_owned())),
            Some(portable) => match portable::changed(sandbox, &self.recipe.places()).await? {
                None => (portable, None),
                changed => (&names.full, changed),
            },
        };
        let mut without = PASSING.map(str::to_owned).to_vec();
        if *layer != names.full {
            // What stands on any commit has nothing of git's own.
            let git = |place: &str| match place {
                "." => format!("{WORKSPACE}/.git"),
                place => format!("{WORKSPACE}/{place}/.git"),
            };
            without.extend(self.recipe.places().into_iter().map(git));
        }
        let without: Vec<&str> = without.iter().map(String::as_str).collect();
        let layer = self.save(sandbox.id(), layer, &without).await?;
        Ok(Made { layer, changed })
    }

    /// What differs from the commit when these layers are stacked; None if nothing does.
    pub(super) async fn conflict(&self, stack: &Stack) -> Result<Option<String>, Error> {
        let (sandbox, held) = self.sandbox(stack.clone(), CLONE_TIMEOUT, Network::None).await?;
        let found = portable::conflict(&*sandbox, &self.recipe.places()).await;
        held.remove().await;
        found
    }

    /// Looks for the programs that the base must have; gives those that are missing.
    pub(super) async fn missing(&self, stack: &Stack, programs: &[&str]) -> Result<Vec<String>, Error> {
        let (sandbox, held) = self.sandbox(stack.clone(), CLONE_TIMEOUT, Network::None).await?;
        let found = probe::missing(&*sandbox, programs).await;
        held.remove().await;
        found
    }

    pub(super) async fn sandbox(
        &self,
        stack: Stack,
        timeout: Duration,
        network: Network,
    ) -> Result<(Arc<dyn Sandbox>, Held), Error> {
        let owner = Owner::Build(self.recipe.environment.clone());
        let mut spec = Spec { network, ..Spec::new(stack, Life::Own, owner) };
        spec.limits = self.recipe.limits.clone();
        spec.limits.wall_clock = Some(timeout.saturating_add(SLACK));
        let mut held = Held::begin(self.images, spec);
        let sandbox = held.started().await?;
        Ok((sandbox, held))
    }

    /// After a save there is nothing left to remove, but a driver may have left something over a failure.
    async fn finish<T>(&self, held: Held, result: Result<T, Error>) -> Result<T, Error> {
        held.remove().await;
        result
    }

    async fn save(&self, id: SandboxId, layer: &LayerId, without: &[&str]) -> Result<Layer, Error> {
        self.images.driver.save(id, layer, Save::Stop { without }).await
    }

    async fn follow(
        &self,
        place: Place,
        sandbox: &dyn Sandbox,
        spec: &guest::ProcessSpec,
    ) -> Result<Exit, Error> {
        let mut output = |data: &[u8]| {
            self.log.write(data);
            self.progress(|progress| progress.output(place, data));
        };
        inside::run(sandbox, spec, &mut output).await
    }

    async fn retried<T, F: Future<Output = Result<T, Error>>>(
        &self,
        place: Place,
        attempts: u32,
        work: impl FnMut(u32) -> F,
    ) -> Result<T, Error> {
        self.progress(|progress| progress.begin(place));
        let told = retry::retry(attempts, self.images.pause, work, |error, wait| {
            // The rest of the message is what the log has just above.
            let error = error.to_string();
            self.log.line(&format!("=== failed: {}", error.lines().next().unwrap_or_default()));
            if let Some(wait) = wait {
                self.log.line(&format!("=== it is tried again in {} ms", wait.as_millis()));
            }
        });
        told.await
    }

    /// A step begins, with what a person should know of it.
    pub(super) fn begin(&self, place: Place, notes: &[String]) {
        self.progress(|progress| {
            progress.begin(place);
            progress.note(place, notes);
        });
        for note in notes {
            self.log.line(&format!("=== {}: {note}", self.title(place)));
        }
    }

    fn attempt(&self, place: Place, number: u32, of: u32) {
        self.progress(|progress| progress.attempt(place));
        self.log.line(&format!("=== {}: attempt {number} of at most {of}", self.title(place)));
    }

    async fn step_failed(
        &self,
        place: Place,
        step: &Step,
        exit: &Exit,
        sandbox: &dyn Sandbox,
        way_out: Option<&WayOut>,
    ) -> Error {
        let message = format!("{} {}", self.title(place), self.ending(place, exit, step.timeout));
        // A limit or a closed door is the likelier cause than the step itself.
        if let Some((limit, hint)) = limit_hit(sandbox).await {
            return Error::Limit { sandbox: sandbox.id(), limit, message, hint };
        }
        let refused = way_out.and_then(WayOut::hint);
        let late = exit.timed_out.then(|| "raise the step's `timeout_s`, or make it end sooner".to_owned());
        let mut hints: Vec<String> = refused.into_iter().chain(late).collect();
        if hints.is_empty() {
            hints.push("correct the step in the environment or in the repository's .slipway.toml".to_owned());
        }
        if self.recipe.egress.is_none() {
            hints.push("it runs without a network".to_owned());
        }
        Error::Build { message, hint: hints.join("; ") }
    }

    /// How a command ended, and the end of what it printed.
    fn ending(&self, place: Place, exit: &Exit, timeout: Duration) -> String {
        let how = if exit.timed_out {
            format!("was not done after {} s", timeout.as_secs())
        } else {
            format!("exited with {}", exit.code)
        };
        let tail = self.progress(|progress| progress.tail(place));
        if tail.is_empty() { format!("{how} and printed nothing") } else { format!("{how}:\n{tail}") }
    }

    /// Ends a step in the status and in the log.
    pub(super) fn done(&self, place: Place, state: StepState, layers: &[Layer]) {
        let bytes = layers.iter().map(|layer| layer.bytes).sum();
        let took = self.progress(|progress| progress.end(place, state, bytes));
        let how = if state == StepState::Cached { "was there already" } else { "done" };
        let names: Vec<&str> = layers.iter().map(|layer| layer.id.as_str()).collect();
        let names = if names.is_empty() { "no layer".to_owned() } else { names.join(" ") };
        let title = self.title(place);
        self.log.line(&format!("=== {title}: {how} in {} ms, {bytes} bytes, {names}\n", took.as_millis()));
    }

    fn title(&self, place: Place) -> String {
        let (what, number, steps) = match place {
            Place::Base => return "the base".to_owned(),
            Place::Clone => return "the clone".to_owned(),
            Place::Setup(number) => ("the set-up step", number, &self.recipe.setup),
            Place::Warm(number) => ("the warm step", number, &self.recipe.warm),
        };
        let run = steps.get(number).map(|step| step.run.as_str()).unwrap_or_default();
        format!("{what} `{run}` ({} of {})", number + 1, steps.len())
    }
}

/// Which limit a sandbox came to, if it came to one, and how to raise it.
async fn limit_hit(sandbox: &dyn Sandbox) -> Option<(LimitKind, String)> {
    let usage = match sandbox.usage().await {
        Ok(usage) => usage,
        Err(error) => {
            tracing::debug!(sandbox = %sandbox.id(), %error, "what a sandbox used cannot be told");
            return None;
        }
    };
    let limits = [
        (usage.memory_hits, "memory ran out", LimitKind::Memory),
        (usage.disk_hits, "the disk limit was reached", LimitKind::DiskBytes),
        (usage.inode_hits, "there were too many files", LimitKind::DiskInodes),
        (usage.process_hits, "there were too many processes", LimitKind::Processes),
        (usage.open_file_hits, "a process had too many files open", LimitKind::OpenFiles),
        (usage.shared_memory_hits, "/dev/shm was full", LimitKind::SharedMemory),
    ];
    let (_, what, limit) = limits.into_iter().find(|(hits, ..)| *hits > 0)?;
    let key = crate::limit_key(limit);
    Some((limit, format!("{what}: raise {key} in the limits of the environment")))
}

/// The same error, with the limit that the sandbox came to if it came to one.
async fn because_of_a_limit(sandbox: &dyn Sandbox, error: Error) -> Error {
    match (error, limit_hit(sandbox).await) {
        (Error::Build { message, .. }, Some((limit, hint))) => {
            Error::Limit { sandbox: sandbox.id(), limit, message, hint }
        }
        (error, _) => error,
    }
}
