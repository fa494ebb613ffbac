//! The images of the environments: what they are built from, when they are built again, and the sandboxes that are kept
//! ready on them. What nothing needs any more is collected here too, because builds are what makes most of it.

mod assemble;
mod base_room;
mod failed;
mod known;
mod room;
mod schedule;
mod wait;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::event::LimitKind;
use protocol::{
    Environment, GarbageReport, ImageState, ImageStatus, Problem, SandboxId, SessionId, WarmStatus,
};
use sandbox::image::{self, Image};
use sandbox::{Network, gc, pool};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exits::Exits;
use crate::failure::Failure;
use crate::workspace::recipe::{self, Resolved};
use crate::{Options, copies, environments, limits, problem};

use assemble::Assembled;

pub(crate) use assemble::ATTEMPTS;
pub(crate) use failed::Unbuilt;

/// The longest wait before a failed build is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What is known of an environment's builds in this process.
#[derive(Default)]
struct Entry {
    /// Builds under way or about to begin.
    running: u32,
    /// Builds that failed in a row.
    failures: u32,
    /// Not tried again before this.
    not_before: Option<Instant>,
    /// Branch and commit of the last build, if it failed: with another commit it is tried again at once.
    failed: Option<(String, String)>,
    /// When a session was last made from it.
    used: Option<Instant>,
    /// Why the last build failed before it had begun, such as a repository that cannot be read.
    error: Option<String>,
    /// The limit that the last build failed of, and the sandbox that came to it.
    limit: Option<(SandboxId, LimitKind)>,
    /// Whether the pool knows what to hold ready.
    pooled: bool,
    /// Whether this process has looked whether the image is what the recipe says now.
    confirmed: bool,
    /// What an image was last compared with, and whether it was outdated. Comparing takes several runs of git, and every
    /// session asks.
    compared: Option<Compared>,
    /// What a recipe was last completed to at a commit. That takes several runs of git too.
    completed: Option<Completed>,
}

/// A recipe with what the repository adds at a commit.
struct Completed {
    recipe: Environment,
    commit: String,
    resolved: Resolved,
}

/// A comparison of an image with a recipe.
struct Compared {
    image: String,
    recipe: Environment,
    outdated: bool,
}

/// Builds images, keeps them fresh and keeps sandboxes ready on them.
pub(crate) struct Builds {
    options: Arc<Options>,
    exits: Arc<Exits>,
    entries: Mutex<HashMap<String, Entry>>,
    tasks: TaskTracker,
    end: CancellationToken,
    collecting: tokio::sync::Mutex<()>,
    /// Held while checks are run on an image.
    trying: tokio::sync::Mutex<()>,
    /// Held while an image is compared or a recipe completed: many sessions want to know the same at the same time.
    learning: tokio::sync::Mutex<()>,
    disk: room::Disk,
    /// Set once what builds of an earlier process left was removed.
    swept: tokio::sync::OnceCell<()>,
}

impl Builds {
    pub(crate) fn new(options: Arc<Options>, exits: Arc<Exits>) -> Arc<Self> {
        let builds = Arc::new(Self {
            options,
            exits,
            entries: Mutex::default(),
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
            collecting: tokio::sync::Mutex::new(()),
            trying: tokio::sync::Mutex::new(()),
            learning: tokio::sync::Mutex::new(()),
            disk: room::Disk::default(),
            swept: tokio::sync::OnceCell::new(),
        });
        builds.keep_bases_within_budget();
        builds
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with what is known of an environment.
    fn entry<T>(&self, name: &str, with: impl FnOnce(&mut Entry) -> T) -> T {
        with(self.entries().entry(name.to_owned()).or_default())
    }

    /// The image that sandboxes of an environment start from.
    pub(crate) fn current(&self, name: &str) -> Option<Image> {
        self.options.images.current(name)
    }

    /// Whether an image was built from something else than what the environment says now.
    pub(crate) async fn outdated(&self, name: &str, environment: &Environment, image: &Image) -> bool {
        let known = || {
            self.entry(name, |entry| {
                let same = |one: &&Compared| one.image == image.key && one.recipe == *environment;
                entry.compared.as_ref().filter(same).map(|one| one.outdated)
            })
        };
        if let Some(outdated) = known() {
            return outdated;
        }
        let _learning = self.learning.lock().await;
        if let Some(outdated) = known() {
            return outdated;
        }
        match assemble::outdated(&self.options, &self.exits, name, environment, image).await {
            Ok(outdated) => {
                let (image, recipe) = (image.key.clone(), environment.clone());
                self.entry(name, |entry| entry.compared = Some(Compared { image, recipe, outdated }));
                outdated
            }
            Err(failure) => {
                let problem = failure.into_problem();
                tracing::warn!(environment = %name, error = %problem.title, "an image could not be compared");
                false
            }
        }
    }

    /// A recipe, completed at the commit of its image.
    pub(crate) async fn completed(
        &self,
        name: &str,
        recipe: &Environment,
        mirror: &crate::joint::Joint,
        tip: &forge::Tip,
    ) -> Result<Resolved, Failure> {
        let known = || {
            self.entry(name, |entry| {
                let same = |one: &&Completed| one.commit == tip.commit && one.recipe == *recipe;
                entry.completed.as_ref().filter(same).map(|one| one.resolved.clone())
            })
        };
        if let Some(resolved) = known() {
            return Ok(resolved);
        }
        let _learning = self.learning.lock().await;
        if let Some(resolved) = known() {
            return Ok(resolved);
        }
        let resolved = recipe::resolve(recipe, mirror, tip).await?;
        let completed =
            Completed { recipe: recipe.clone(), commit: tip.commit.clone(), resolved: resolved.clone() };
        self.entry(name, |entry| entry.completed = Some(completed));
        Ok(resolved)
    }

    /// How far an environment's image is, and whether it is still what the environment says.
    pub(crate) async fn status_of(&self, name: &str, environment: &Environment) -> ImageStatus {
        let mut status = self.status(name);
        if let Some(image) = self.current(name) {
            status.outdated = self.outdated(name, environment, &image).await;
        }
        status
    }

    /// How far an environment's image is.
    pub(crate) fn status(&self, name: &str) -> ImageStatus {
        let mut status = self.options.images.status(name);
        status.warm = self.options.pool.status(name).ready;
        self.entry(name, |entry| {
            if entry.running > 0 {
                if status.state != ImageState::Building {
                    // The steps of the last build say nothing of the one that is about to begin.
                    status.steps.clear();
                }
                status.state = ImageState::Building;
            } else if let Some(error) = &entry.error {
                status.state = ImageState::Failed;
                status.error = Some(error.clone());
            }
        });
        status
    }

    /// The limit that an environment's last build failed of, and the sandbox that came to it.
    pub(crate) fn limit_hit(&self, name: &str) -> Option<(SandboxId, LimitKind)> {
        self.entry(name, |entry| entry.limit)
    }

    /// Starts a build unless one is under way.
    pub(crate) fn start(self: &Arc<Self>, name: &str) -> ImageStatus {
        let begin = self.entry(name, |entry| {
            let idle = entry.running == 0;
            entry.running += u32::from(idle);
            idle
        });
        if begin && !self.end.is_cancelled() {
            let this = Arc::clone(self);
            let name = name.to_owned();
            self.tasks.spawn(async move {
                let running = Running { builds: &this, name: &name };
                let built = this.until_the_end(&name).await;
                drop(running);
                match built {
                    Ok(due) => this.find_out_if(due).await,
                    Err(problem) => this.log_failure(&name, &problem),
                }
            });
        } else if begin {
            self.entry(name, |entry| entry.running = entry.running.saturating_sub(1));
        }
        self.status(name)
    }

    /// What fails on a server is in its log too; who runs one command is shown it by that.
    fn log_failure(&self, name: &str, problem: &Problem) {
        if self.options.prebuild {
            let error = problem.title.lines().next().unwrap_or_default();
            tracing::warn!(environment = %name, %error, "an image was not built; slipway env ls shows more");
        }
    }

    /// Builds and waits for it, and for its checks. One that is under way is waited for first; what it made is re-used.
    pub(crate) async fn run(self: &Arc<Self>, name: &str) -> Result<ImageStatus, Problem> {
        let due = self.run_now(name).await?;
        self.find_out_if(due).await;
        Ok(self.status(name))
    }

    /// Builds and waits for it. What its checks say is found out beside whatever comes next.
    pub(super) async fn run_unchecked(self: &Arc<Self>, name: &str) -> Result<(), Problem> {
        let due = self.run_now(name).await?;
        // Who runs one command has no other use for it.
        if self.options.prebuild {
            let this = Arc::clone(self);
            self.tasks.spawn(async move { this.find_out_if(due).await });
        }
        Ok(())
    }

    async fn run_now(self: &Arc<Self>, name: &str) -> Result<Option<known::Due>, Problem> {
        self.entry(name, |entry| entry.running += 1);
        let _running = Running { builds: self, name };
        self.until_the_end(name).await
    }

    async fn find_out_if(&self, due: Option<known::Due>) {
        if let Some(due) = due {
            self.find_out(due).await;
        }
    }

    /// Builds, unless the server ends meanwhile. Gives the checks that are to be run on what was built.
    async fn until_the_end(self: &Arc<Self>, name: &str) -> Result<Option<known::Due>, Problem> {
        tokio::select! {
            built = self.build(name) => built,
            () = self.end.cancelled() => Err(problem::closing()),
        }
    }

    async fn build(self: &Arc<Self>, name: &str) -> Result<Option<known::Due>, Problem> {
        // A build that died with its process has left its sandbox.
        self.swept
            .get_or_init(|| async {
                if let Err(error) = self.options.images.sweep().await {
                    tracing::warn!(%error, "what earlier builds left could not be removed");
                }
            })
            .await;
        let found = environments::find(&self.options, name).await?;
        let assembled = match self.make_room(1).await {
            Ok(()) => assemble::recipe(&self.options, &self.exits, name, &found.recipe).await,
            Err(problem) => Err(problem.into()),
        };
        let built = match assembled {
            Ok(assembled) => {
                self.entry(name, |entry| (entry.error, entry.limit) = (None, None));
                let image::Repo { branch, commit, .. } = &assembled.recipe.repo;
                self.entry(name, |entry| entry.failed = Some((branch.clone(), commit.clone())));
                let built = self.options.images.build(&assembled.recipe).await;
                if let Err(sandbox::Error::Limit { sandbox, limit, .. }) = &built {
                    self.entry(name, |entry| entry.limit = Some((*sandbox, *limit)));
                }
                built.map(|image| (image, assembled)).map_err(|error| problem::sandbox(&error))
            }
            Err(failure) => {
                let problem = failure.into_problem();
                self.entry(name, |entry| entry.error = Some(problem.title.clone()));
                Err(problem)
            }
        };
        self.entry(name, |entry| entry.compared = None);
        match built {
            Ok((image, assembled)) => {
                self.entry(name, |entry| {
                    entry.failures = 0;
                    entry.not_before = None;
                    entry.failed = None;
                    entry.confirmed = true;
                });
                let Assembled { recipe, services, checks, .. } = assembled;
                self.hold_ready(name, &found.recipe, image.clone(), services)?;
                self.collect_after_build();
                Ok(self.due(&image, recipe, checks))
            }
            Err(problem) => {
                self.entry(name, |entry| {
                    entry.failures += 1;
                    let wait = Duration::from_secs(30) * 2u32.saturating_pow(entry.failures.min(10));
                    entry.not_before = Some(Instant::now() + wait.min(LONGEST_WAIT));
                });
                Err(problem)
            }
        }
    }

    /// Tells the pool what to hold ready.
    fn hold_ready(
        &self,
        name: &str,
        recipe: &Environment,
        image: Image,
        services: Vec<protocol::Service>,
    ) -> Result<(), Problem> {
        let rules =
            sandbox::egress::Rules::parse(&recipe.egress).map_err(|error| problem::sandbox(&error))?;
        let size = recipe.pool.unwrap_or(self.options.pool_size);
        // A service that was started before the secrets came would never see them; those start with the claim.
        let services = if recipe.secrets.is_empty() { services } else { Vec::new() };
        let target = pool::Target {
            size: if self.options.prebuild { size } else { 0 },
            image,
            limits: limits::merge(&self.options.limits, &recipe.limits),
            network: network(&recipe.egress),
            rules,
            outside: Arc::clone(&self.options.outside),
            services,
        };
        self.options.pool.set(name, target);
        self.entry(name, |entry| entry.pooled = true);
        Ok(())
    }

    /// Tells the pool what to hold ready on an image that an earlier server built.
    async fn hold_ready_again(&self, name: &str, recipe: &Environment, image: Image) -> Result<(), Problem> {
        if self.entry(name, |entry| entry.pooled) {
            return Ok(());
        }
        let services = assemble::services(&self.options.mirrors, recipe, Some(&image)).await;
        let services = services.map_err(crate::failure::Failure::into_problem)?;
        self.hold_ready(name, recipe, image, services)
    }

    /// A session was made from this environment.
    pub(crate) fn used(self: &Arc<Self>, name: &str) {
        self.entry(name, |entry| entry.used = Some(Instant::now()));
        if self.options.prebuild && self.current(name).is_none() && self.may_try(name) {
            self.start(name);
        }
    }

    fn may_try(&self, name: &str) -> bool {
        self.entry(name, |entry| entry.not_before.is_none_or(|at| at <= Instant::now()))
    }

    /// The environment was changed, or removed when there is no recipe any more.
    pub(crate) fn changed(self: &Arc<Self>, name: &str, recipe: Option<&Environment>) {
        self.entry(name, |entry| {
            entry.not_before = None;
            entry.failures = 0;
            entry.error = None;
            entry.pooled = false;
        });
        if recipe.is_none() {
            self.options.pool.unset(name);
            self.entries().remove(name);
            if let Err(error) = self.options.images.forget(name) {
                tracing::warn!(environment = %name, %error, "an image could not be forgotten");
            }
        } else if self.options.prebuild {
            self.start(name);
        }
    }

    /// What an environment allows was changed: sandboxes that are kept ready are made anew. A build that failed is tried
    /// again at once, since it may have failed for want of what is allowed now; an image that is there waits for its turn.
    pub(crate) fn rules_changed(self: &Arc<Self>, name: &str) {
        self.entry(name, |entry| {
            entry.pooled = false;
            entry.not_before = None;
        });
        if self.options.prebuild && self.status(name).state == ImageState::Failed {
            self.start(name);
        }
        let (this, name) = (Arc::clone(self), name.to_owned());
        self.tasks.spawn(async move {
            let again = async {
                let Some(image) = this.current(&name) else { return Ok(()) };
                let found = environments::find(&this.options, &name).await?;
                this.hold_ready_again(&name, &found.recipe, image).await
            };
            if let Err(problem) = again.await {
                tracing::warn!(environment = %name, error = %problem.title, "no sandbox can be kept ready");
            }
        });
    }

    /// One sandbox at least, or an image to make it from.
    pub(crate) async fn warm(
        self: &Arc<Self>,
        name: &str,
        recipe: &Environment,
    ) -> Result<WarmStatus, Problem> {
        self.entry(name, |entry| entry.used = Some(Instant::now()));
        match self.current(name) {
            Some(image) => {
                self.hold_ready_again(name, recipe, image).await?;
                Ok(self.options.pool.warm(name).await)
            }
            None => {
                if self.may_try(name) {
                    self.start(name);
                }
                Ok(self.options.pool.status(name))
            }
        }
    }

    fn collect_after_build(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move { this.collect_quietly().await });
    }

    async fn collect_quietly(&self) {
        let collected = tokio::select! {
            collected = self.collect_garbage(false) => collected,
            () = self.end.cancelled() => return,
        };
        match collected {
            Ok(report) if report.freed_bytes > 0 => {
                tracing::info!(freed_bytes = report.freed_bytes, "garbage was collected");
            }
            Ok(_) => {}
            Err(problem) => tracing::warn!(error = %problem.title, "garbage could not be collected"),
        }
    }

    /// Removes what nothing refers to and what is over the budget.
    pub(crate) async fn collect_garbage(&self, dry_run: bool) -> Result<GarbageReport, Problem> {
        let options = &self.options;
        let _one_at_a_time = self.collecting.lock().await;
        // Only now: what was made while another collected is known too.
        let known = self.known().await?;
        let measuring = self.disk.begin();
        let collected = gc::collect(&known.world(options), &options.disk, dry_run).await;
        let mut report = collected.map_err(|error| problem::sandbox(&error))?;
        if !dry_run {
            measuring.found(report.used_bytes.saturating_sub(report.freed_bytes));
        }
        copies::collect(options.store.dir(), &mut report).await?;
        Ok(report)
    }

    async fn known(&self) -> Result<Known, Problem> {
        let mut sessions = self.options.store.sessions().await.map_err(problem::store)?;
        // One whose log is gone can come back from a backup.
        sessions.extend(self.options.store.lost().await.map_err(problem::store)?);
        let environments = environments::list(&self.options).await?;
        Ok(Known { sessions, environments: environments.into_iter().map(|one| one.name).collect() })
    }

    /// Whether a build, or what follows one, is under way in this process.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Ends builds and removes what is kept ready.
    pub(crate) async fn close(&self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.options.pool.close().await;
        if let Err(error) = self.options.images.close().await {
            tracing::warn!(%error, "the sandboxes of builds could not be removed");
        }
    }
}

/// What exists, by name; everything that belongs to something else is garbage.
struct Known {
    sessions: Vec<SessionId>,
    environments: Vec<String>,
}

impl Known {
    fn world<'a>(&'a self, options: &'a Options) -> gc::World<'a> {
        gc::World {
            driver: &*options.driver,
            images: &options.images,
            snapshots: &options.snapshots,
            sessions: &self.sessions,
            environments: &self.environments,
        }
    }
}

/// A build under way; counted as such until it is dropped.
struct Running<'a> {
    builds: &'a Builds,
    name: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.builds.entry(self.name, |entry| entry.running = entry.running.saturating_sub(1));
    }
}

/// What runs beside the work in a sandbox of this environment: its own services, or those that the repository declares,
/// at the commit of the image that the sandbox stands on or at the tip of the branch as it was last fetched.
pub async fn services(
    mirrors: &forge::Mirrors,
    environment: &Environment,
    image: Option<&Image>,
) -> Result<Vec<protocol::Service>, Problem> {
    let services = assemble::services(mirrors, environment, image).await;
    services.map_err(crate::failure::Failure::into_problem)
}

/// Whether sandboxes of an environment have a way out.
pub(crate) fn network(egress: &protocol::Egress) -> Network {
    match egress {
        protocol::Egress::None => Network::None,
        protocol::Egress::Open | protocol::Egress::Allow(_) => Network::Egress,
    }
}
