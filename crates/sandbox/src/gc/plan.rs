//! Deciding what goes: pure, from one look at everything.

mod book;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::{GarbageEntry, SandboxId, SessionId, SnapshotId, Timestamp};

use super::Policy;
use crate::base::Download;
use crate::image::Image;
use crate::snapshot::Snapshot;
use crate::{Info, Layer, LayerId, Owner, State};
use book::{Book, Record, Turn};

/// What no record speaks of, or no longer runs, and is younger than this may belong to something that is only being made; it
/// never goes.
pub(super) const LEASE: Duration = Duration::from_secs(600);
/// An ended sandbox whose session still exists is kept this long after it was made.
const ENDED: Duration = Duration::from_secs(24 * 3600);

/// Everything there is.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) now: Timestamp,
    /// Bytes on disk, measured.
    pub(super) used: u64,
    pub(super) sandboxes: Vec<Info>,
    /// How long ago each sandbox was made.
    pub(super) ages: BTreeMap<SandboxId, Duration>,
    pub(super) layers: Vec<Layer>,
    pub(super) images: Vec<Image>,
    /// Layers that images stand on, that builds under way stand on, and that the next builds will look for.
    pub(super) for_builds: BTreeSet<LayerId>,
    /// Layers of images that were replaced or given up: they are made, however young they are.
    pub(super) released: BTreeSet<LayerId>,
    /// Environments of which an image is being built.
    pub(super) building: BTreeSet<String>,
    /// What is on its way to become a layer of a base, or was.
    pub(super) downloads: Vec<Download>,
    pub(super) snapshots: Vec<Snapshot>,
    /// Layers of snapshots that are being taken.
    pub(super) for_snapshots: BTreeSet<LayerId>,
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) environments: BTreeSet<String>,
}

/// Something on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Thing {
    /// A sandbox.
    Sandbox(SandboxId),
    /// A snapshot's record.
    Snapshot(SnapshotId),
    /// The record of an environment's image.
    Image(String),
    /// A layer.
    Layer(LayerId),
    /// What was downloaded of a base, or unpacked on the way.
    Download(String),
}

/// What becomes of something.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) thing: Thing,
    pub(super) bytes: u64,
    pub(super) remove: bool,
    pub(super) reason: String,
}

impl Item {
    pub(super) fn into_entry(self) -> GarbageEntry {
        let (kind, id) = match self.thing {
            Thing::Sandbox(id) => ("sandbox", id.to_string()),
            Thing::Snapshot(id) => ("snapshot", id.to_string()),
            Thing::Image(environment) => ("image", environment),
            Thing::Layer(id) => ("layer", id.to_string()),
            Thing::Download(name) => ("download", name),
        };
        GarbageEntry {
            kind: kind.to_owned(),
            id,
            bytes: self.bytes,
            remove: self.remove,
            reason: self.reason,
        }
    }
}

/// What becomes of everything.
pub(super) struct Plan {
    pub(super) items: Vec<Item>,
    /// Bytes of the layers that go.
    pub(super) frees: u64,
}

/// Decides.
pub(super) fn decide(facts: &Facts, policy: &Policy) -> Plan {
    let mut book = Book::new(facts, policy.layer_age);
    for info in &facts.sandboxes {
        book.record(sandbox(info, facts));
    }
    for image in &facts.images {
        book.record(self::image(image, facts));
    }
    for record in snapshots(facts, policy) {
        book.record(record);
    }
    book.settle();
    book.remove_old_layers(policy.layer_age);
    book.make_room(policy.budget_bytes);
    book.into_plan(policy.budget_bytes)
}

/// Whether a session began so recently that it may not be known everywhere.
pub(super) fn is_new(session: &SessionId) -> bool {
    session.age().is_some_and(|age| age <= LEASE)
}

fn is_active(info: &Info, facts: &Facts) -> bool {
    match info.state {
        State::Running | State::Frozen => true,
        // Whoever made it may have died over it; nothing takes this long to start.
        State::Starting => age_of(info, facts) <= LEASE,
        State::Ended => false,
    }
}

fn age_of(info: &Info, facts: &Facts) -> Duration {
    facts.ages.get(&info.id).copied().unwrap_or_default()
}

fn sandbox(info: &Info, facts: &Facts) -> Record {
    let age = age_of(info, facts);
    let goes = |reason: String| (true, reason);
    let stays = |reason: String| (false, reason);
    let (remove, reason) = match &info.owner {
        owner if is_active(info, facts) => stays(match owner {
            Some(owner) => format!("it is {}: {owner}", info.state.as_str()),
            None => format!("it is {}", info.state.as_str()),
        }),
        _ if age <= LEASE => stays(format!("it ended, but is {}", too_young(age))),
        Some(Owner::Build(environment)) if facts.building.contains(environment) => {
            stays(format!("a build of {environment} is under way"))
        }
        Some(Owner::Session(session)) if !facts.sessions.contains(session) => {
            goes(format!("it ended, and session {session} no longer exists"))
        }
        Some(Owner::Session(session)) if age <= ENDED => stays(format!(
            "it ended, but was made {} ago: it stays for a day, because session {session} may go on from it",
            words(age)
        )),
        Some(owner @ (Owner::OneOff | Owner::Pool { .. } | Owner::Build(_))) => {
            goes(format!("it ended, and nobody goes on from it: {owner}"))
        }
        Some(Owner::Session(_)) => goes("it ended, and is more than a day old".to_owned()),
        None if age <= ENDED => stays(format!(
            "it ended, and nobody can tell whose it is; made {} ago, it stays for a day to be safe",
            words(age)
        )),
        None => goes("it ended, is more than a day old, and nobody can tell whose it is".to_owned()),
    };
    let layers = info.stack.as_ref().map(|stack| stack.layers.clone()).unwrap_or_default();
    Record { thing: Thing::Sandbox(info.id), bytes: 0, layers, remove, reason, turn: None }
}

fn image(image: &Image, facts: &Facts) -> Record {
    let name = &image.environment;
    let top = image.stack.layers.first();
    let uses = |info: &&Info| {
        let of_pool = matches!(&info.owner, Some(Owner::Pool { image: key, .. }) if *key == image.key);
        let stands =
            info.stack.as_ref().is_some_and(|stack| top.is_some_and(|top| stack.layers.contains(top)));
        is_active(info, facts) && (of_pool || stands)
    };
    let (remove, reason, turn) = if facts.building.contains(name) {
        (false, format!("a build of {name} is under way"), None)
    } else if !facts.environments.contains(name) {
        (true, format!("environment {name} no longer exists"), None)
    } else if let Some(user) = facts.sandboxes.iter().find(uses) {
        (false, format!("sandbox {} stands on it", user.id), None)
    } else if since(facts.now, image.built_at) <= LEASE {
        // Whoever had it built is about to use it; taken now, it would be built and taken again and again.
        (false, format!("sessions of {name} start from it, and it was only just built"), None)
    } else {
        (false, format!("sessions of {name} start from it"), Some(Turn::Image(image.built_at)))
    };
    let (thing, layers) = (Thing::Image(name.clone()), image.stack.layers.clone());
    Record { thing, bytes: image.bytes, layers, remove, reason, turn }
}

/// The snapshots, each with what its session still needs of it.
fn snapshots(facts: &Facts, policy: &Policy) -> Vec<Record> {
    let mut by_session: BTreeMap<SessionId, Vec<&Snapshot>> = BTreeMap::new();
    for snapshot in &facts.snapshots {
        by_session.entry(snapshot.session).or_default().push(snapshot);
    }
    let mut records = Vec::new();
    for (session, mut own) in by_session {
        own.sort_by_key(|snapshot| (snapshot.taken_at, snapshot.id));
        let last = own.len() - 1;
        let runs = facts
            .sandboxes
            .iter()
            .any(|info| is_active(info, facts) && info.owner.as_ref() == Some(&Owner::Session(session)));
        for (index, snapshot) in own.iter().enumerate() {
            let days = policy.snapshot_age.as_secs() / (24 * 3600);
            let when = snapshot.taken_at;
            let (remove, reason, turn) = if !facts.sessions.contains(&session) {
                (true, format!("session {session} no longer exists"), None)
            } else if index == last && runs {
                (false, format!("the last of session {session}, which is at work"), None)
            } else if index == last {
                (false, format!("session {session} goes on from it"), Some(Turn::LastSnapshot(when)))
            } else if last - index >= policy.snapshots.max(1) {
                (true, format!("session {session} has {} later ones", last - index), None)
            } else if since(facts.now, when) > policy.snapshot_age {
                (true, format!("older than {days} days, and not the last of session {session}"), None)
            } else {
                (false, format!("session {session} can go back to it"), Some(Turn::Snapshot(when)))
            };
            let (thing, layers) = (Thing::Snapshot(snapshot.id), snapshot.stack.layers.clone());
            records.push(Record { thing, bytes: snapshot.bytes, layers, remove, reason, turn });
        }
    }
    records
}

/// Why something stays that nothing else speaks for.
fn too_young(age: Duration) -> String {
    format!(
        "too young: it was only just made, {} ago, and what is less than {} old may belong to something that is still being \
         made",
        words(age),
        words(LEASE)
    )
}

/// A length of time for a person, in its largest unit.
fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// How long ago something was; nothing is from the future, whatever the clock says.
fn since(now: Timestamp, then: Timestamp) -> Duration {
    now.duration_since(then).try_into().unwrap_or_default()
}
