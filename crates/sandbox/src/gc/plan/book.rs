//! The book of who holds which layer, in which room is made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::Timestamp;

use super::{Facts, Item, LEASE, Plan, Thing, since, too_young, words};
use crate::LayerId;
use crate::base::Download;

/// Something that holds layers, and what becomes of it.
pub(super) struct Record {
    pub(super) thing: Thing,
    pub(super) bytes: u64,
    pub(super) layers: Vec<LayerId>,
    pub(super) remove: bool,
    pub(super) reason: String,
    /// When it has to go to make room; None for what stays however full the disk is.
    pub(super) turn: Option<Turn>,
}

/// The order in which things go to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// A snapshot that is not the last of its session, by when it was taken.
    Snapshot(Timestamp),
    /// An image that no sandbox stands on, by when it was built.
    Image(Timestamp),
    /// The last snapshot of a session that is not at work, by when it was taken.
    LastSnapshot(Timestamp),
}

impl Turn {
    fn reason(self) -> &'static str {
        match self {
            Self::Snapshot(_) => "the disk budget is used up, and it is not the last of its session",
            Self::Image(_) => {
                "the disk budget is used up, and no sandbox stands on it; it is built again when it is needed"
            }
            Self::LastSnapshot(_) => {
                "the disk budget is used up, and its session is not at work; what no commit holds goes with it"
            }
        }
    }
}

/// What is left over from a base that was not brought in is kept this long: the next build may use it.
const LEFT_OVER: Duration = Duration::from_secs(24 * 3600);
/// What is said of it meanwhile.
const LEFT: &str = "it is left over from a base that was not brought in; the next build may use it, as long as there is room";

fn download(download: &Download) -> Item {
    let (remove, reason) = match download {
        Download { busy: true, .. } => (false, "a base is being brought in".to_owned()),
        Download { age, .. } if *age > LEFT_OVER => {
            (true, format!("it is left over from a base that was not brought in, {} ago", words(*age)))
        }
        Download { .. } => (false, LEFT.to_owned()),
    };
    Item { thing: Thing::Download(download.name.clone()), bytes: download.bytes, remove, reason }
}

struct Held {
    bytes: u64,
    age: Duration,
    /// Whether it may go as soon as nobody holds it.
    free: bool,
    /// How many records that stay hold it.
    holders: usize,
    /// Whether a record that goes held it.
    was_held: bool,
    remove: bool,
    reason: String,
}

/// Who holds what.
pub(super) struct Book {
    records: Vec<Record>,
    layers: BTreeMap<LayerId, Held>,
    downloads: Vec<Item>,
    used: u64,
    frees: u64,
}

impl Book {
    pub(super) fn new(facts: &Facts, layer_age: Duration) -> Self {
        let in_images: BTreeSet<&LayerId> =
            facts.images.iter().flat_map(|image| &image.stack.layers).collect();
        let in_snapshots: BTreeSet<&LayerId> =
            facts.snapshots.iter().flat_map(|snapshot| &snapshot.stack.layers).collect();
        let held = |layer: &crate::Layer| {
            let age = since(facts.now, layer.made_at);
            // What images stand on goes with them. What only their builds look for is theirs to let go.
            let for_builds = facts.for_builds.contains(&layer.id) && !in_images.contains(&layer.id);
            let for_snapshots = facts.for_snapshots.contains(&layer.id);
            // What has a record is made; it goes when that does.
            let made = age > LEASE
                || [&in_images, &in_snapshots].iter().any(|all| all.contains(&layer.id))
                || facts.released.contains(&layer.id);
            let reason = match (for_builds, for_snapshots, made) {
                (true, ..) => "a build stands on it, or the next one will look for it".to_owned(),
                (_, true, _) => "a snapshot that is being taken stands on it".to_owned(),
                (.., false) => format!("nothing refers to it, but it is {}", too_young(age)),
                (.., true) => format!(
                    "nothing refers to it, but it was made {} ago: it stays for {}, because the next build may use it, as \
                     long as there is room",
                    words(age),
                    words(layer_age)
                ),
            };
            Held {
                bytes: layer.bytes,
                age,
                free: made && !for_builds && !for_snapshots,
                holders: 0,
                was_held: false,
                remove: false,
                reason,
            }
        };
        let downloads = facts.downloads.iter().map(download).collect();
        let mut book = Self {
            records: Vec::new(),
            downloads,
            layers: facts.layers.iter().map(|layer| (layer.id.clone(), held(layer))).collect(),
            used: facts.used,
            frees: 0,
        };
        for download in book.downloads.iter().filter(|download| download.remove) {
            book.used = book.used.saturating_sub(download.bytes);
            book.frees += download.bytes;
        }
        book
    }

    pub(super) fn record(&mut self, mut record: Record) {
        record.layers.sort();
        record.layers.dedup();
        for layer in &record.layers {
            let Some(held) = self.layers.get_mut(layer) else { continue };
            if record.remove {
                held.was_held = true;
            } else {
                held.holders += 1;
            }
        }
        self.records.push(record);
    }

    /// What only records that go held, goes with them.
    pub(super) fn settle(&mut self) {
        let orphans = |held: &Held| held.was_held && held.holders == 0 && held.free;
        let ids = self.layers.iter().filter(|(_, held)| orphans(held)).map(|(id, _)| id.clone());
        for id in ids.collect::<Vec<_>>() {
            self.remove_layer(&id, "only what goes as well referred to it");
        }
    }

    pub(super) fn remove_old_layers(&mut self, age: Duration) {
        for id in self.unreferenced(age) {
            self.remove_layer(&id, "nothing refers to it, and it is old");
        }
    }

    /// Makes room until the budget is kept or everything that is left is in use.
    pub(super) fn make_room(&mut self, budget: u64) {
        for download in self.downloads.iter_mut().filter(|download| download.reason == LEFT) {
            if self.used <= budget {
                return;
            }
            download.remove = true;
            download.reason = "it is left over from a base, and the disk budget is used up".to_owned();
            self.used = self.used.saturating_sub(download.bytes);
            self.frees += download.bytes;
        }
        // Of these, what may belong to something that is being made is not free.
        for id in self.unreferenced(Duration::ZERO) {
            if self.used <= budget {
                return;
            }
            self.remove_layer(&id, "nothing refers to it, and the disk budget is used up");
        }
        let mut order: Vec<(Turn, usize)> = self
            .records
            .iter()
            .enumerate()
            .filter_map(|(index, record)| Some((record.turn.filter(|_| !record.remove)?, index)))
            .collect();
        order.sort_unstable();
        // What frees nothing by itself is left for later: it may once what shares its layers is gone. In the end it has
        // to go with them, if all of them together hold what nobody else does.
        while self.remove_in_turn(&order, budget, Self::frees_alone) {}
        self.remove_in_turn(&order, budget, Self::frees_with_others);
    }

    /// Removes records in their order, those that free something, until the budget is kept. Whether any was removed.
    fn remove_in_turn(
        &mut self,
        order: &[(Turn, usize)],
        budget: u64,
        frees: impl Fn(&Self, usize) -> bool,
    ) -> bool {
        let mut any = false;
        for (turn, index) in order {
            if self.used > budget && !self.records[*index].remove && frees(self, *index) {
                self.remove_record(*index, turn.reason());
                any = true;
            }
        }
        any
    }

    /// Layers that may go now and are at least this old, oldest first.
    fn unreferenced(&self, age: Duration) -> Vec<LayerId> {
        let goes = |held: &Held| !held.remove && held.holders == 0 && held.free && held.age >= age;
        let mut found: Vec<_> = self.layers.iter().filter(|(_, held)| goes(held)).collect();
        found.sort_by_key(|(_, held)| std::cmp::Reverse(held.age));
        found.into_iter().map(|(id, _)| id.clone()).collect()
    }

    fn frees_alone(&self, index: usize) -> bool {
        let frees = |layer| self.layers.get(layer).is_some_and(|held: &Held| held.holders == 1 && held.free);
        self.records[index].layers.iter().any(frees)
    }

    /// Whether it holds a layer that only such records hold as can go.
    fn frees_with_others(&self, index: usize) -> bool {
        let stays = |record: &Record| !record.remove && record.turn.is_none();
        self.records[index].layers.iter().any(|layer| {
            let pinned = self.records.iter().any(|record| stays(record) && record.layers.contains(layer));
            self.layers.get(layer).is_some_and(|held| held.free) && !pinned
        })
    }

    fn remove_record(&mut self, index: usize, reason: &str) {
        let record = &mut self.records[index];
        record.remove = true;
        record.reason = reason.to_owned();
        let mut orphans = Vec::new();
        for layer in &record.layers {
            let Some(held) = self.layers.get_mut(layer) else { continue };
            held.holders -= 1;
            if held.holders == 0 && held.free {
                orphans.push(layer.clone());
            }
        }
        for id in orphans {
            self.remove_layer(&id, "only what goes as well referred to it, and the disk budget is used up");
        }
    }

    fn remove_layer(&mut self, id: &LayerId, reason: &str) {
        if let Some(held) = self.layers.get_mut(id) {
            held.remove = true;
            held.reason = reason.to_owned();
            self.used = self.used.saturating_sub(held.bytes);
            self.frees += held.bytes;
        }
    }

    pub(super) fn into_plan(mut self, budget: u64) -> Plan {
        if self.used > budget {
            for record in self.records.iter_mut().filter(|record| !record.remove && record.turn.is_some()) {
                record.reason.push_str(
                    ", and without it nothing would be freed: all it stands on is needed by others",
                );
            }
        }
        for record in self.records.iter().filter(|record| !record.remove) {
            for layer in &record.layers {
                let Some(held) = self.layers.get_mut(layer) else { continue };
                held.reason = match &record.thing {
                    Thing::Sandbox(id) => format!("sandbox {id} stands on it"),
                    Thing::Snapshot(id) => format!("part of snapshot {id}"),
                    Thing::Image(environment) => format!("part of the image of {environment}"),
                    Thing::Layer(id) => format!("part of {id}"),
                    Thing::Download(name) => format!("part of {name}"),
                };
            }
        }
        let records = self.records.into_iter().map(|record| {
            let Record { thing, bytes, remove, reason, .. } = record;
            Item { thing, bytes, remove, reason }
        });
        let layers = self.layers.into_iter().map(|(id, held)| {
            let Held { bytes, remove, reason, .. } = held;
            Item { thing: Thing::Layer(id), bytes, remove, reason }
        });
        Plan { items: records.chain(layers).chain(self.downloads).collect(), frees: self.frees }
    }
}
