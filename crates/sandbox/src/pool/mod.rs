//! The warm pool: started sandboxes, ready for whoever comes first.
//!
//! What is to be done is decided ([`room`]) whenever something changes, under one short lock; making and removing
//! sandboxes is done by tasks. One more task sleeps until the next moment at which time alone changes something, and looks
//! now and then whether those that are ready still run. So a pool that is full costs next to nothing, and a claim waits for
//! nobody.

mod make;
mod room;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use protocol::{Service, WarmStatus};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::image::Image;
use crate::{Driver, Error, Limits, Network, Owner, Sandbox, egress};
use room::{Order, Room};

/// A sandbox that was asked for with [`Pool::warm`] and that nobody claimed is kept this long.
const WARM_FOR: Duration = Duration::from_secs(600);

/// How often it is looked whether those that are ready still run.
const LOOK: Duration = Duration::from_secs(5);

/// What the pool of an environment holds ready.
#[derive(Clone)]
pub struct Target {
    /// How many.
    pub size: u32,
    /// What they stand on.
    pub image: Image,
    /// What they may use.
    pub limits: Limits,
    /// Whether they have a way out.
    pub network: Network,
    /// What they can reach before they are claimed; no secret is there before that.
    pub rules: egress::Rules,
    /// How it is reached.
    pub outside: Arc<dyn egress::Outside>,
    /// What runs in them.
    pub services: Vec<Service>,
}

impl Target {
    /// Whether a sandbox that was made for the other is as good, but for what it stands on.
    fn same_but_image(&self, other: &Self) -> bool {
        self.limits == other.limits
            && self.network == other.network
            && self.rules == other.rules
            && self.services == other.services
    }

    fn same(&self, other: &Self) -> bool {
        self.image.key == other.image.key && self.same_but_image(other)
    }
}

/// A sandbox that was claimed.
pub struct Claimed {
    /// The sandbox; its owner is who claimed it.
    pub sandbox: Arc<dyn Sandbox>,
    /// Its way out.
    pub proxy: Option<egress::Proxy>,
    /// What it stands on.
    pub image: Image,
}

/// A sandbox that nobody has claimed yet.
struct Ready {
    sandbox: Arc<dyn Sandbox>,
    proxy: Option<egress::Proxy>,
    made_for: Arc<Target>,
}

/// The pools of all environments.
///
/// Its sandboxes have a life of their own: those of a pool that was dropped without [`Pool::close`], or of a server that
/// was killed, are still there, with [`Owner::Pool`], and are for whoever opens the driver next to remove.
pub struct Pool {
    driver: Arc<dyn Driver>,
    me: Weak<Self>,
    runtime: Handle,
    rooms: Mutex<Rooms>,
    /// Everything that makes or removes a sandbox.
    tasks: TaskTracker,
    /// The next moment may have come nearer.
    earlier: Arc<Notify>,
    warm_for: Duration,
}

#[derive(Default)]
struct Rooms {
    by_environment: BTreeMap<String, Room>,
    /// Number of the last recipe that was set, of whatever environment.
    generation: u64,
    closed: bool,
}

impl Pool {
    /// An empty pool. Must be called in a tokio runtime.
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        let earlier = Arc::new(Notify::new());
        let pool = Arc::new_cyclic(|me: &Weak<Self>| Self {
            driver,
            me: me.clone(),
            runtime: Handle::current(),
            rooms: Mutex::default(),
            tasks: TaskTracker::new(),
            earlier: Arc::clone(&earlier),
            warm_for: WARM_FOR,
        });
        tokio::spawn(watch(Arc::downgrade(&pool), earlier));
        pool
    }

    /// What an environment's pool is to hold. Sandboxes of another image (or of other limits, rules or services) are
    /// replaced, new ones first.
    pub fn set(&self, environment: &str, target: Target) {
        let mut rooms = self.rooms();
        if rooms.closed {
            return;
        }
        rooms.generation += 1;
        let generation = rooms.generation;
        match rooms.by_environment.get_mut(environment) {
            Some(room) => room.change(target, generation),
            None => {
                rooms.by_environment.insert(environment.to_owned(), Room::new(target, generation));
            }
        }
        self.settle(&mut rooms, environment);
    }

    /// Removes an environment's pool.
    pub fn unset(&self, environment: &str) {
        let room = self.rooms().by_environment.remove(environment);
        self.remove_all(room.into_iter().flat_map(Room::close));
    }

    /// At least one, now, whatever the target's size: somebody is about to ask. Goes away again if nobody does.
    pub async fn warm(&self, environment: &str) -> WarmStatus {
        // One that ended is nothing to count on.
        self.drop_ended(Some(environment)).await;
        let mut rooms = self.rooms();
        if let Some(room) = rooms.by_environment.get_mut(environment) {
            room.warm(Instant::now() + self.warm_for);
        }
        self.settle(&mut rooms, environment);
        rooms.by_environment.get(environment).map_or(WarmStatus { ready: 0, starting: 0 }, Room::status)
    }

    /// How many there are.
    pub fn status(&self, environment: &str) -> WarmStatus {
        self.rooms()
            .by_environment
            .get(environment)
            .map_or(WarmStatus { ready: 0, starting: 0 }, Room::status)
    }

    /// Why the last attempt to make a sandbox for this environment failed; None once one was made since.
    pub fn error(&self, environment: &str) -> Option<String> {
        self.rooms().by_environment.get(environment)?.error.clone()
    }

    /// Takes one of this image, if one is ready. It is the caller's from then on, and another is made.
    pub async fn claim(&self, environment: &str, image: &str, owner: &Owner) -> Option<Claimed> {
        loop {
            let ready = self.rooms().by_environment.get_mut(environment)?.take(image)?;
            // Until it is handed over it is removed however this ends, also when the caller no longer waits.
            let mut held = Held { pool: self, environment, ready: Some(ready) };
            let usable = match &held.ready {
                // One whose monitor is gone is not given; anything else shows with the first command, as in any other.
                Some(ready) => self.driver.give(ready.sandbox.id(), owner).await,
                None => Ok(()),
            };
            match usable {
                Ok(()) => {
                    let ready = held.ready.take()?;
                    let mut rooms = self.rooms();
                    if let Some(room) = rooms.by_environment.get_mut(environment) {
                        room.claimed(Instant::now());
                    }
                    self.settle(&mut rooms, environment);
                    let image = ready.made_for.image.clone();
                    return Some(Claimed { sandbox: ready.sandbox, proxy: ready.proxy, image });
                }
                Err(error) => {
                    tracing::warn!(environment, %error, "a warm sandbox was of no use and is removed");
                }
            }
        }
    }

    /// Removes every sandbox that was not claimed, and waits until the last is gone. Nothing is made afterwards.
    pub async fn close(&self) {
        let rooms = {
            let mut rooms = self.rooms();
            rooms.closed = true;
            std::mem::take(&mut rooms.by_environment)
        };
        self.remove_all(rooms.into_values().flat_map(Room::close));
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        // Every change under the lock is whole before the next line, so there is nothing half-done to fear.
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what an environment's room wants done now.
    fn settle(&self, rooms: &mut Rooms, environment: &str) {
        let Some(room) = rooms.by_environment.get_mut(environment) else { return };
        let Order { make, remove, .. } = room.plan(Instant::now());
        self.remove_all(remove);
        for _ in 0..make {
            self.make(environment, room);
        }
        // The watcher works out by itself when that is.
        self.earlier.notify_one();
    }

    /// Starts making one.
    fn make(&self, environment: &str, room: &Room) {
        let (driver, pool) = (Arc::clone(&self.driver), Weak::clone(&self.me));
        let (target, cancel) = (Arc::clone(&room.target), room.cancel.clone());
        let (environment, generation) = (environment.to_owned(), room.generation);
        let making = make::make(Arc::clone(&driver), environment.clone(), target, cancel);
        let task = async move {
            // A task of its own, so that a panic in there is a failure like any other.
            let made = tokio::spawn(making).await;
            let made = made.unwrap_or_else(|error| Err(Error::Start(error.to_string())));
            let left_over = match pool.upgrade() {
                Some(pool) => pool.made(&environment, generation, made),
                None => made.ok().flatten(),
            };
            if let Some(ready) = left_over {
                make::remove(&*driver, ready).await;
            }
        };
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// One was made, or not. Gives it back if nobody wants it any more.
    fn made(&self, environment: &str, generation: u64, made: Result<Option<Ready>, Error>) -> Option<Ready> {
        let mut rooms = self.rooms();
        let room = rooms.by_environment.get_mut(environment).filter(|room| room.generation == generation);
        let Some(room) = room else { return made.ok().flatten() };
        room.starting = room.starting.saturating_sub(1);
        match made {
            Ok(Some(ready)) => room.add(ready),
            // It was told to stop.
            Ok(None) => {}
            Err(error) => {
                let error = error.to_string();
                if room.error.as_ref() != Some(&error) {
                    tracing::warn!(environment, %error, "no warm sandbox could be made");
                }
                room.fail(error, Instant::now());
            }
        }
        self.settle(&mut rooms, environment);
        None
    }

    /// Lets go of what ended by itself, of one environment or of all, and has others made.
    async fn drop_ended(&self, environment: Option<&str>) {
        let ready: Vec<(String, Arc<dyn Sandbox>)> = {
            let rooms = self.rooms();
            let of = |name: &String| environment.is_none_or(|environment| environment == name);
            let rooms = rooms.by_environment.iter().filter(|(name, _)| of(name));
            rooms.flat_map(|(name, room)| room.sandboxes().map(|one| (name.clone(), one))).collect()
        };
        for (environment, sandbox) in ready {
            let Some(why) = sandbox.ended().await else { continue };
            let mut rooms = self.rooms();
            // Somebody may have claimed it meanwhile.
            let room = rooms.by_environment.get_mut(&environment);
            let Some(ended) = room.and_then(|room| room.take_out(sandbox.id())) else { continue };
            tracing::warn!(environment, sandbox = %sandbox.id(), %why, "a warm sandbox ended and is replaced");
            self.remove_all([ended]);
            self.settle(&mut rooms, &environment);
        }
    }

    fn has_any(&self) -> bool {
        self.rooms().by_environment.values().any(|room| room.sandboxes().next().is_some())
    }

    fn remove_all(&self, unwanted: impl IntoIterator<Item = Ready>) {
        for ready in unwanted {
            let driver = Arc::clone(&self.driver);
            self.tasks.spawn_on(async move { make::remove(&*driver, ready).await }, &self.runtime);
        }
    }

    /// Does what time alone made necessary; says when to look again.
    fn tick(&self) -> Option<Instant> {
        let mut rooms = self.rooms();
        let now = Instant::now();
        let due = |room: &Room| room.next().is_some_and(|next| next <= now);
        let late = rooms.by_environment.iter().filter(|(_, room)| due(room)).map(|(name, _)| name.clone());
        for environment in late.collect::<Vec<_>>() {
            self.settle(&mut rooms, &environment);
        }
        rooms.by_environment.values().filter_map(|room| room.next()).min()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for room in self.rooms.get_mut().unwrap_or_else(PoisonError::into_inner).by_environment.values() {
            room.cancel.cancel();
        }
        // The watcher finds nothing left to watch.
        self.earlier.notify_one();
    }
}

/// Wakes a pool when time alone changes something, and has it look after what it holds. Ends with the pool.
async fn watch(pool: Weak<Pool>, earlier: Arc<Notify>) {
    let mut look = Instant::now() + LOOK;
    loop {
        let next = {
            let Some(pool) = pool.upgrade() else { return };
            if look <= Instant::now() {
                pool.drop_ended(None).await;
                look = Instant::now() + LOOK;
            }
            let next = pool.tick();
            next.into_iter().chain(pool.has_any().then_some(look)).min()
        };
        match next {
            Some(next) => {
                tokio::select! {
                    () = earlier.notified() => {}
                    () = tokio::time::sleep_until(next) => {}
                }
            }
            None => earlier.notified().await,
        }
    }
}

/// A sandbox that is neither the pool's nor the claimant's.
struct Held<'a> {
    pool: &'a Pool,
    environment: &'a str,
    ready: Option<Ready>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(ready) = self.ready.take() {
            self.pool.remove_all([ready]);
            self.pool.settle(&mut self.pool.rooms(), self.environment);
        }
    }
}
