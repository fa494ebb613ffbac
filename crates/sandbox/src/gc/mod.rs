//! The collection of garbage: what nothing refers to goes, what is old goes, and when the disk budget is used up, what was
//! not used for longest goes first. Nothing that is in use ever goes.
//!
//! What goes is decided ([`plan`]) from one look at everything, and then done, with another look at whatever could have
//! been taken into use meanwhile. Layers share files, so what removing one frees is only an estimate; as long as the
//! measured use is over the budget, the next round decides again.

mod perform;
mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::{GarbageReport, ImageState, SessionId, Timestamp};

use crate::image::Images;
use crate::snapshot::Snapshots;
use crate::{Driver, Error};
use plan::{Facts, Item};

/// When something goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Bytes that layers, snapshots, sandboxes and downloads of bases may take up together.
    pub budget_bytes: u64,
    /// A layer that nothing refers to is kept this long; it may be of use to the next build.
    pub layer_age: Duration,
    /// Snapshots of a session beside its last are kept this long.
    pub snapshot_age: Duration,
    /// At most this many snapshots of one session.
    pub snapshots: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            budget_bytes: 50 << 30,
            layer_age: Duration::from_secs(24 * 3600),
            snapshot_age: Duration::from_secs(14 * 24 * 3600),
            snapshots: 20,
        }
    }
}

/// What there is beside the driver's own sandboxes and layers.
pub struct World<'a> {
    /// Sandboxes and layers.
    pub driver: &'a dyn Driver,
    /// Images.
    pub images: &'a Images,
    /// Snapshots.
    pub snapshots: &'a Snapshots,
    /// Sessions that still exist; the snapshots of others go.
    pub sessions: &'a [SessionId],
    /// Environments that still exist; the images of others go.
    pub environments: &'a [String],
}

/// Bytes on disk of everything that counts against the budget: layers, snapshots, sandboxes, and what is downloaded and
/// unpacked on its way to become a layer.
pub async fn used(driver: &dyn Driver, images: &Images) -> Result<u64, Error> {
    let on_the_way: u64 = images.downloads().await?.iter().map(|download| download.bytes).sum();
    Ok(driver.disk_used().await?.saturating_add(on_the_way))
}

/// Says what goes and why, and, unless it is only asked for, removes it. What a dry run says would be freed is an
/// estimate; what a real one says was freed is measured.
pub async fn collect(world: &World<'_>, policy: &Policy, dry_run: bool) -> Result<GarbageReport, Error> {
    let used_bytes = used(world.driver, world.images).await?;
    let report = |freed_bytes, items: Vec<Item>| GarbageReport {
        dry_run,
        used_bytes,
        budget_bytes: policy.budget_bytes,
        freed_bytes,
        entries: items.into_iter().map(Item::into_entry).collect(),
    };
    let mut now = used_bytes;
    let mut gone = Vec::new();
    loop {
        let facts = look(world, now).await?;
        let mut plan = plan::decide(&facts, policy);
        if dry_run {
            return Ok(report(plan.frees.min(used_bytes), plan.items));
        }
        let removed = perform::perform(world, &mut plan.items).await;
        if removed > 0 {
            now = used(world.driver, world.images).await?;
        }
        if removed == 0 || now <= policy.budget_bytes {
            if let Err(error) = world.images.forget_bases().await {
                tracing::warn!(%error, "what is known of bases that are gone could not be forgotten");
            }
            gone.append(&mut plan.items);
            return Ok(report(used_bytes.saturating_sub(now), gone));
        }
        gone.extend(plan.items.into_iter().filter(|item| item.remove));
    }
}

/// How many bytes are used, once there is room for so many more: what can go goes first if there is not. When that is not
/// enough, the error says what to do. Measuring looks at every file, so this is not for where somebody waits.
pub async fn make_room(world: &World<'_>, policy: &Policy, wanted: u64) -> Result<u64, Error> {
    let budget = policy.budget_bytes;
    let fits = |used: u64| used.saturating_add(wanted) <= budget;
    let mut now = used(world.driver, world.images).await?;
    if !fits(now) {
        let policy = Policy { budget_bytes: budget.saturating_sub(wanted), ..policy.clone() };
        collect(world, &policy, false).await?;
        now = used(world.driver, world.images).await?;
    }
    if fits(now) {
        return Ok(now);
    }
    let message = match now >= budget {
        true => format!(
            "the disk budget of sandboxes is used up: {} of {}, and everything that is left is in use or was only \
             just made",
            size(now),
            size(budget)
        ),
        false => format!(
            "{} more are needed than the disk budget of sandboxes leaves: {} of {} are used, and everything that is left is \
             in use or was only just made",
            size(wanted - (budget - now)),
            size(now),
            size(budget)
        ),
    };
    Err(Error::NoRoom {
        message,
        hint:
            "end sessions or remove environments and run `slipway gc`, or raise `disk_budget_gb` in [sandbox]"
                .to_owned(),
    })
}

/// A number of bytes for a person.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// One look at everything. Records come last: what was saved before its record was written is then seen as young, or as
/// part of what is being taken, and not as something that nobody needs.
async fn look(world: &World<'_>, used: u64) -> Result<Facts, Error> {
    let layers = world.driver.layers().await?;
    let sandboxes = world.driver.list().await?;
    // Before their records: what is taken meanwhile is in the one or in the other.
    let for_snapshots = world.snapshots.needed();
    let images = world.images.all();
    let known = images.iter().map(|image| &image.environment).chain(world.environments);
    let is_building = |name: &&String| world.images.status(name).state == ImageState::Building;
    let building: BTreeSet<String> = known.filter(is_building).cloned().collect();
    let snapshots = world.snapshots.all();
    // A session that began only now may be on no list yet.
    let new = snapshots.iter().map(|snapshot| snapshot.session).filter(plan::is_new);
    let sessions = world.sessions.iter().copied().chain(new).collect();
    Ok(Facts {
        now: Timestamp::now(),
        used,
        ages: sandboxes.iter().map(|info| (info.id, info.id.age().unwrap_or_default())).collect(),
        sandboxes,
        layers,
        for_builds: world.images.layers(),
        released: world.images.released(),
        building,
        images,
        downloads: world.images.downloads().await?,
        for_snapshots,
        snapshots,
        sessions,
        environments: world.environments.iter().cloned().collect(),
    })
}
