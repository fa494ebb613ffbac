//! The images of all environments: which are ready, which are being built, and what the last build said.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use protocol::{ImageInfo, ImageState, ImageStatus, SandboxId, StepKind, StepState, Timestamp};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio_util::task::TaskTracker;

use super::build::{Build, Built};
use super::checked::{self, Checked, Checking};
use super::log::Log;
use super::progress::{Progress, millis};
use super::record::{Files, Last, Record, is_name};
use super::{Image, Recipe, key};
use crate::{Driver, Error, LayerId, Owner, base::Bases};

/// Builds at once, over all environments: each uses as much of the machine as a session does.
const BUILDS: usize = 2;
/// The first wait after a failed attempt; later ones are longer.
const PAUSE: Duration = Duration::from_secs(1);
/// What is said of a build that nobody waited for any more. It says nothing of what was to be built.
const BROKEN_OFF: &str = "the build was broken off before it was done";
/// What is said of an image that had to make room.
const GIVEN_UP: &str = "the image was removed to make room, because the disk budget of sandboxes is used up; it is built again \
                        when it is needed\nraise `disk_budget_gb` in [sandbox], or remove what is not needed: `slipway gc \
                        --dry-run` shows what takes up room";

/// The images of all environments.
pub struct Images {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) bases: Bases,
    pub(super) files: Files,
    pub(super) pause: Duration,
    /// Sandboxes of builds that are under way in this process.
    pub(super) active: Arc<Mutex<BTreeSet<SandboxId>>>,
    /// Starts and removals of these sandboxes, which end even if nobody waits for them.
    pub(super) under_way: TaskTracker,
    environments: Mutex<HashMap<String, Entry>>,
    /// Layers of images that are no longer current, until a build wants them again. Taken after `environments`.
    released: Mutex<BTreeSet<LayerId>>,
    builds: Semaphore,
    locks: Mutex<HashMap<LayerId, Weak<tokio::sync::Mutex<()>>>>,
}

/// What is known of one environment.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) current: Option<Record>,
    last: Option<Last>,
    /// How the checks went on the last images, the latest first.
    pub(super) checked: Vec<Checked>,
    /// Checks that are under way.
    pub(super) checking: Option<Checking>,
    /// The build under way.
    live: Option<Progress>,
    /// Layers that the build under way stands on or made.
    held: BTreeSet<LayerId>,
    /// One build at a time.
    one: Arc<tokio::sync::Mutex<()>>,
}

/// What an environment's image should be of.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The commit at the tip of the branch.
    pub commit: &'a str,
    /// [`Recipe::digest`].
    pub recipe: &'a str,
    /// The image is looked at again after this long: what a base's name stands for may have changed.
    pub max_age: Duration,
}

/// A build that came to its end without an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBuild {
    /// [`Recipe::digest`] of what was to be built.
    pub recipe: String,
    /// Why there is no image, and what to do.
    pub error: String,
    /// The kind of the step that failed, if one did.
    pub step: Option<StepKind>,
    /// How long ago that was.
    pub age: Duration,
}

/// Why an image should be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is none.
    NeverBuilt,
    /// What is to be done changed.
    RecipeChanged,
    /// The tip of the branch moved.
    BranchMoved,
    /// It is older than it may be.
    TooOld,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NeverBuilt => "there is no image yet",
            Self::RecipeChanged => "the environment changed",
            Self::BranchMoved => "the branch moved",
            Self::TooOld => "the image is due to be built again",
        })
    }
}

impl Images {
    /// Opens the records in `dir` (`<dir>/<environment>/image.json` and `build.log`).
    pub fn open(dir: &Path, driver: Arc<dyn Driver>) -> Result<Self, Error> {
        let files = Files::open(dir)?;
        let mut environments = HashMap::new();
        for name in files.environments()? {
            let (current, last) = (files.image(&name), files.last(&name));
            let entry = Entry { current, last, checked: files.checked(&name), ..Entry::default() };
            if entry.current.is_some() || entry.last.is_some() {
                environments.insert(name, entry);
            }
        }
        Ok(Self {
            bases: Bases::new(Arc::clone(&driver), dir.join("downloads")),
            driver,
            files,
            pause: PAUSE,
            active: Arc::default(),
            under_way: TaskTracker::new(),
            environments: Mutex::new(environments),
            released: Mutex::default(),
            builds: Semaphore::new(BUILDS),
            locks: Mutex::default(),
        })
    }

    /// With another first wait after a failed attempt of a step; the second is four times as long, later ones ten times.
    pub fn with_pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// What is on its way to become a layer of a base, or was when somebody died over it.
    pub(crate) async fn downloads(&self) -> Result<Vec<crate::base::Download>, Error> {
        self.bases.downloads().await
    }

    /// Removes one of these, unless somebody is at it.
    pub(crate) async fn remove_download(&self, name: &str) -> Result<(), Error> {
        self.bases.remove_download(name).await
    }

    /// Forgets what is remembered of bases' layers that are gone.
    pub(crate) async fn forget_bases(&self) -> Result<(), Error> {
        self.bases.sweep().await
    }

    /// Asks for room on the disk from now on before a base is downloaded or unpacked.
    pub fn ask_for_room(&self, room: Arc<dyn crate::base::Room>) {
        self.bases.ask_for_room(room);
    }

    /// The first wait after a failed attempt.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// The image that sandboxes of an environment start from: the last good one.
    pub fn current(&self, environment: &str) -> Option<Image> {
        self.environments().get(environment)?.current.as_ref().map(|record| record.image.clone())
    }

    /// Every image in use, for the collection of garbage.
    pub fn all(&self) -> Vec<Image> {
        let environments = self.environments();
        let current = environments.values().filter_map(|entry| entry.current.as_ref());
        let mut all: Vec<Image> = current.map(|record| record.image.clone()).collect();
        all.sort_by(|one, other| one.environment.cmp(&other.environment));
        all
    }

    /// Every layer that images stand on or that the next build of one will look for, and those of builds under way.
    pub fn layers(&self) -> BTreeSet<LayerId> {
        let mut layers = BTreeSet::new();
        for entry in self.environments().values() {
            layers.extend(entry.held.iter().cloned());
            if let Some(record) = &entry.current {
                layers.extend(record.image.stack.layers.iter().chain(&record.parts).cloned());
            }
        }
        layers
    }

    /// Layers of images that were replaced or given up: no build that is under way needs them.
    pub(crate) fn released(&self) -> BTreeSet<LayerId> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A layer is gone; whoever makes it again makes another.
    pub(crate) fn layer_removed(&self, layer: &LayerId) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).remove(layer);
    }

    fn release(&self, record: Option<Record>) {
        if let Some(Record { image, parts, .. }) = record {
            let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
            released.extend(image.stack.layers.into_iter().chain(parts));
        }
    }

    /// How far an environment's image is.
    pub fn status(&self, environment: &str) -> ImageStatus {
        let environments = self.environments();
        let Some(entry) = environments.get(environment) else { return ImageStatus::default() };
        let current = entry.current.as_ref().map(|record| info(entry, &record.image));
        if let Some(live) = &entry.live {
            return ImageStatus {
                state: ImageState::Building,
                current,
                steps: live.steps(),
                ..ImageStatus::default()
            };
        }
        let error = entry.last.as_ref().and_then(|last| last.error.clone());
        let state = match (&error, &current) {
            (Some(_), _) => ImageState::Failed,
            (None, Some(_)) => ImageState::Ready,
            (None, None) => ImageState::None,
        };
        let steps = entry.last.as_ref().map(|last| last.steps.clone()).unwrap_or_default();
        let gone = || entry.last.as_ref().and_then(|last| last.removed.clone());
        let error = error.or_else(|| if current.is_none() { gone() } else { None });
        ImageStatus { state, current, steps, error, warm: 0, outdated: false }
    }

    /// Why an environment's image should be built now; None while it need not be. What failed is not tried again
    /// before it is due, unless something changed.
    pub fn needs_build(&self, environment: &str, wanted: &Wanted<'_>) -> Option<Reason> {
        let environments = self.environments();
        let entry = environments.get(environment);
        let last = entry.and_then(|entry| entry.last.as_ref());
        let failed = last.filter(|last| {
            last.error.is_some() && last.commit == wanted.commit && last.recipe == wanted.recipe
        });
        if failed.is_some_and(|last| age(last.ended_at) < wanted.max_age) {
            return None;
        }
        let Some(record) = entry.and_then(|entry| entry.current.as_ref()) else {
            return Some(Reason::NeverBuilt);
        };
        if record.recipe != wanted.recipe {
            Some(Reason::RecipeChanged)
        } else if record.image.commit != wanted.commit {
            Some(Reason::BranchMoved)
        } else {
            (age(record.image.built_at) >= wanted.max_age).then_some(Reason::TooOld)
        }
    }

    /// How the last build failed, if it was of this commit.
    pub fn failed_at(&self, environment: &str, commit: &str) -> Option<FailedBuild> {
        let environments = self.environments();
        let last = environments.get(environment)?.last.as_ref().filter(|last| last.commit == commit)?;
        let error = last.error.clone().filter(|error| error != BROKEN_OFF)?;
        let failed = last.steps.iter().find(|step| step.state == StepState::Failed);
        let (recipe, step) = (last.recipe.clone(), failed.map(|step| step.kind));
        Some(FailedBuild { recipe, error, step, age: age(last.ended_at) })
    }

    /// Builds an environment's image, from what is cached as far as possible. One build of an environment at a time: a
    /// second caller waits for the first and then looks again. The last good image stays current until this one is
    /// ready, and for good when it fails. Dropping the future leaves no sandbox behind once [`Self::close`] ran.
    pub async fn build(&self, recipe: &Recipe) -> Result<Image, Error> {
        let name = &recipe.environment;
        if !is_name(name) {
            return Err(Error::Unsupported {
                message: format!("\"{}\" is no name for an environment", name.escape_debug()),
                hint: "use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit"
                    .to_owned(),
            });
        }
        let one = Arc::clone(&self.environments().entry(name.clone()).or_default().one);
        let _one = one.lock().await;
        let under_way = UnderWay::begin(self, recipe);
        let result = match self.builds.acquire().await {
            Ok(_turn) => self.build_now(recipe).await,
            Err(closed) => Err(Error::Start(closed.to_string())),
        };
        under_way.end(result.as_ref().err());
        result
    }

    async fn build_now(&self, recipe: &Recipe) -> Result<Image, Error> {
        let began = Instant::now();
        let name = &recipe.environment;
        let log = Arc::new(Log::begin(&self.log(name))?);
        let commit = &recipe.repo.commit;
        log.line(&format!("=== build of {name} at {commit}, begun at {}\n", Timestamp::now()));
        let before = self.environments().get(name).and_then(|entry| entry.current.clone());
        let build = Build { images: self, recipe, log: &log, before: before.as_ref() };
        let built = match build.run().await {
            Ok(built) => built,
            Err(error) => {
                let text = error.in_full();
                log.line(&format!("=== the build failed: {}", text.lines().next().unwrap_or_default()));
                return Err(error);
            }
        };
        let record = record(recipe, built, before.as_ref(), began.elapsed());
        self.files.put_image(name, &record)?;
        log.line(&format!("=== image {} is ready after {} ms", record.image.key, millis(began.elapsed())));
        let image = record.image.clone();
        let mut environments = self.environments();
        let before = environments.entry(name.clone()).or_default().current.replace(record);
        self.release(before);
        drop(environments);
        Ok(image)
    }

    /// Removes sandboxes of builds that nobody works on any more: those of a server that is gone.
    pub async fn sweep(&self) -> Result<(), Error> {
        let mut failed = None;
        for info in self.driver.list().await? {
            let active = || self.active.lock().unwrap_or_else(PoisonError::into_inner).contains(&info.id);
            if matches!(info.owner, Some(Owner::Build(_)))
                && !active()
                && let Err(error) = self.driver.remove(info.id).await
            {
                // One that does not go is no reason to keep the others.
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits for the sandboxes of builds that were broken off, and removes what is left of any. No build is under way any more.
    pub async fn close(&self) -> Result<(), Error> {
        self.under_way.close();
        self.under_way.wait().await;
        self.sweep().await
    }

    /// Forgets an environment's image; its layers are left to the collection of garbage.
    pub fn forget(&self, environment: &str) -> Result<(), Error> {
        let mut environments = self.environments();
        if let Some(entry) = environments.get_mut(environment) {
            // The entry stays: a build may be under way, and whoever comes next must wait for it.
            self.release(entry.current.take());
            entry.last = None;
            (entry.checked, entry.checking) = (Vec::new(), None);
        }
        self.files.forget(environment)
    }

    /// Forgets an environment's image to make room, and remembers why there is none; its layers are left to the collection of
    /// garbage. One that is being built or is younger than the lease stays.
    pub(crate) fn give_up(&self, environment: &str, lease: Duration) -> Result<(), Error> {
        let mut environments = self.environments();
        let Some(entry) = environments.get_mut(environment) else { return Ok(()) };
        let Some(record) = &entry.current else { return Ok(()) };
        if entry.live.is_some() || age(record.image.built_at) <= lease {
            let (what, by) =
                (format!("the image of {environment}"), "a build that began or ended meanwhile".to_owned());
            return Err(Error::InUse { what, by });
        }
        let before = entry.last.clone().unwrap_or_else(|| Last {
            commit: record.image.commit.clone(),
            recipe: record.recipe.clone(),
            error: None,
            removed: None,
            steps: Vec::new(),
            ended_at: record.image.built_at,
        });
        let last = Last { removed: Some(GIVEN_UP.to_owned()), ..before };
        // The reason first: as long as there is an image, it is not spoken of.
        self.files.put_last(environment, &last)?;
        self.files.forget_image(environment)?;
        entry.last = Some(last);
        self.release(entry.current.take());
        Ok(())
    }

    /// The whole log of the last build.
    pub fn log(&self, environment: &str) -> PathBuf {
        self.files.log_path(environment)
    }

    pub(super) fn environments(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is shown of a build under way.
    pub(super) fn progress<T: Default>(
        &self,
        environment: &str,
        change: impl FnOnce(&mut Progress) -> T,
    ) -> T {
        let mut environments = self.environments();
        let live = environments.get_mut(environment).and_then(|entry| entry.live.as_mut());
        live.map(change).unwrap_or_default()
    }

    /// Keeps a layer from the collection of garbage as long as the build goes on.
    pub(super) fn hold(&self, environment: &str, layer: &LayerId) {
        if let Some(entry) = self.environments().get_mut(environment) {
            entry.held.insert(layer.clone());
            // Should the build fail, what it made anew is young again.
            self.released.lock().unwrap_or_else(PoisonError::into_inner).remove(layer);
        }
    }

    /// A layer is made by one at a time: environments can share them.
    pub(super) async fn layer_lock(&self, layer: &LayerId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(layer).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(layer.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

fn info(entry: &Entry, image: &Image) -> ImageInfo {
    ImageInfo {
        key: image.key.clone(),
        branch: image.branch.clone(),
        commit: image.commit.clone(),
        built_at: image.built_at,
        age_s: age(image.built_at).as_secs(),
        bytes: image.bytes,
        duration_ms: image.duration_ms,
        checks: checked::shown(image, entry.checking.as_ref(), &entry.checked),
    }
}

/// None of a negative length, should the clock have been set back.
fn age(since: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(since)).unwrap_or_default()
}

/// The record of a build that succeeded. An image that was only confirmed keeps the time its build took.
fn record(recipe: &Recipe, built: Built, before: Option<&Record>, took: Duration) -> Record {
    let key = key::image(&built.stack);
    let same = before.filter(|before| before.image.key == key);
    let image = Image {
        environment: recipe.environment.clone(),
        key,
        stack: built.stack,
        url: recipe.repo.url.clone(),
        branch: recipe.repo.branch.clone(),
        commit: recipe.repo.commit.clone(),
        built_at: Timestamp::now(),
        duration_ms: same.map_or(millis(took), |before| before.image.duration_ms),
        bytes: built.bytes,
        notes: recipe.notes.clone(),
    };
    Record { image, recipe: recipe.digest(), parts: built.parts }
}

/// A build under way; however it ends, what is shown says so.
struct UnderWay<'a> {
    images: &'a Images,
    recipe: &'a Recipe,
    ended: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(images: &'a Images, recipe: &'a Recipe) -> Self {
        let mut environments = images.environments();
        let entry = environments.entry(recipe.environment.clone()).or_default();
        entry.live = Some(Progress::of(recipe));
        entry.held.clear();
        drop(environments);
        Self { images, recipe, ended: false }
    }

    fn end(mut self, error: Option<&Error>) {
        self.ended = true;
        self.finish(error.map(Error::in_full));
    }

    fn finish(&self, error: Option<String>) {
        let name = &self.recipe.environment;
        let last = {
            let mut environments = self.images.environments();
            let Some(entry) = environments.get_mut(name) else { return };
            entry.held.clear();
            let Some(mut live) = entry.live.take() else { return };
            if error.is_some() {
                live.fail();
            }
            let last = Last {
                commit: self.recipe.repo.commit.clone(),
                recipe: self.recipe.digest(),
                error,
                removed: None,
                steps: live.steps(),
                ended_at: Timestamp::now(),
            };
            entry.last = Some(last.clone());
            last
        };
        // It is for a person to read after a restart; the image itself is safe.
        if let Err(error) = self.images.files.put_last(name, &last) {
            tracing::warn!(environment = %name, %error, "how a build went could not be kept");
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Some(BROKEN_OFF.to_owned()));
        }
    }
}
