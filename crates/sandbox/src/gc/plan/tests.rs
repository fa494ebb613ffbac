//! What goes and what stays, in worlds made up by hand and by chance.

use proptest::prelude::*;
use protocol::TurnId;

use super::*;
use crate::Stack;

const NOW: i64 = 1_800_000_000;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

fn ago(seconds: u64) -> Timestamp {
    Timestamp::from_second(NOW - i64::try_from(seconds).unwrap()).unwrap()
}

fn layer_id(number: usize) -> LayerId {
    format!("layer-{number}").parse().unwrap()
}

fn stack(layers: &[usize]) -> Stack {
    Stack { layers: layers.iter().copied().map(layer_id).collect(), ..Stack::host() }
}

fn session(number: u128) -> SessionId {
    SessionId::from_u128(number)
}

impl Facts {
    fn empty() -> Self {
        Self {
            now: ago(0),
            used: 0,
            sandboxes: Vec::new(),
            ages: BTreeMap::new(),
            layers: Vec::new(),
            images: Vec::new(),
            for_builds: BTreeSet::new(),
            released: BTreeSet::new(),
            building: BTreeSet::new(),
            downloads: Vec::new(),
            snapshots: Vec::new(),
            for_snapshots: BTreeSet::new(),
            sessions: BTreeSet::new(),
            environments: BTreeSet::new(),
        }
    }

    fn layer(mut self, number: usize, bytes: u64, age: u64) -> Self {
        self.layers.push(Layer { id: layer_id(number), bytes, inodes: 1, made_at: ago(age), blurred: false });
        self.used += bytes;
        self
    }

    fn image(mut self, environment: &str, layers: &[usize], age: u64) -> Self {
        self.images.push(Image {
            environment: environment.to_owned(),
            key: format!("key of {environment}"),
            stack: stack(layers),
            url: String::new(),
            branch: String::new(),
            commit: String::new(),
            built_at: ago(age),
            duration_ms: 0,
            bytes: 0,
            notes: Vec::new(),
        });
        self.for_builds.extend(layers.iter().copied().map(layer_id));
        self
    }

    fn snapshot(mut self, number: u128, of: u128, layers: &[usize], age: u64) -> Self {
        self.snapshots.push(Snapshot {
            id: SnapshotId::from_u128(number),
            session: session(of),
            turn: TurnId::from_u128(1),
            stack: stack(layers),
            bytes: 0,
            taken_at: ago(age),
            blurred: false,
        });
        self
    }

    fn sandbox(mut self, number: u128, state: State, owner: Owner, layers: &[usize], age: u64) -> Self {
        let id = SandboxId::from_u128(number);
        self.ages.insert(id, Duration::from_secs(age));
        let (owner, stack) = (Some(owner), Some(stack(layers)));
        self.sandboxes.push(Info { id, state, pid: None, owner, stack });
        self
    }

    fn with(mut self, environments: &[&str], sessions: &[u128]) -> Self {
        self.environments = environments.iter().map(|name| (*name).to_owned()).collect();
        self.sessions = sessions.iter().copied().map(session).collect();
        self
    }
}

/// The names of what goes, in the order of the plan.
fn goes(facts: &Facts, policy: &Policy) -> Vec<String> {
    let plan = decide(facts, policy);
    for item in &plan.items {
        assert!(!item.reason.is_empty(), "{item:?}");
    }
    plan.items.into_iter().filter(|item| item.remove).map(|item| item.into_entry().id).collect()
}

fn budget(bytes: u64) -> Policy {
    Policy { budget_bytes: bytes, ..Policy::default() }
}

#[test]
fn what_nothing_refers_to_goes_when_it_is_old() {
    let facts = Facts::empty()
        .with(&["app"], &[1])
        .layer(1, 10, 2 * DAY)
        .layer(2, 10, 2 * DAY)
        .layer(3, 10, 2 * DAY)
        .layer(4, 10, 2 * DAY)
        .layer(5, 10, HOUR)
        .layer(6, 10, 2 * DAY)
        .image("app", &[1], DAY)
        .snapshot(1, 1, &[2, 1], DAY)
        .sandbox(1, State::Running, Owner::OneOff, &[3], DAY);
    let mut facts = facts;
    facts.for_builds.insert(layer_id(6));
    assert_eq!(goes(&facts, &Policy::default()), ["layer-4"]);
}

#[test]
fn what_belongs_to_nobody_takes_along_what_it_alone_held() {
    let facts = Facts::empty()
        .with(&["app"], &[])
        .layer(1, 10, HOUR)
        .layer(2, 10, HOUR)
        .layer(3, 10, HOUR)
        .layer(4, 10, 60)
        .layer(5, 10, 60)
        .image("gone", &[2, 1], HOUR)
        .image("app", &[1], HOUR)
        .snapshot(1, 7, &[3, 1], HOUR)
        .snapshot(2, 7, &[4], HOUR);
    let (one, two) = (SnapshotId::from_u128(1).to_string(), SnapshotId::from_u128(2).to_string());
    let gone = goes(&facts, &Policy::default());
    assert_eq!(
        gone,
        ["gone", &one, &two, "layer-2", "layer-3", "layer-4"],
        "of layer-5 there is no record yet"
    );
}

/// However fast they are taken, what can go makes room for the next.
#[test]
fn under_pressure_snapshots_go_at_any_age() {
    let mut facts = Facts::empty()
        .with(&[], &[1, 2])
        .layer(1, 100, 50)
        .layer(2, 100, 40)
        .layer(3, 100, 30)
        .layer(4, 100, 20)
        .layer(5, 100, 10)
        .snapshot(1, 1, &[1], 50)
        .snapshot(2, 1, &[2], 40)
        .snapshot(3, 1, &[3], 30)
        .snapshot(4, 2, &[4], 20)
        .sandbox(1, State::Running, Owner::Session(session(1)), &[], HOUR);
    let both = |numbers: &[u128]| {
        let records = numbers.iter().map(|number| SnapshotId::from_u128(*number).to_string());
        records.chain(numbers.iter().map(|number| format!("layer-{number}"))).collect::<Vec<_>>()
    };
    assert_eq!(goes(&facts, &budget(500)), both(&[]));
    assert_eq!(goes(&facts, &budget(400)), both(&[1]));
    assert_eq!(goes(&facts, &budget(300)), both(&[1, 2]));
    assert_eq!(goes(&facts, &budget(250)), both(&[1, 2, 4]), "the last of one that is not at work");
    assert_eq!(goes(&facts, &budget(0)), both(&[1, 2, 4]), "session 1 is at work, and layer-5 has no record");
    // What another that is being taken shares with stays until that has its record.
    facts.for_snapshots.insert(layer_id(2));
    assert_eq!(goes(&facts, &budget(300)), both(&[1, 4]));
}

#[test]
fn what_stays_though_the_disk_is_full_says_why() {
    let facts = Facts::empty()
        .with(&[], &[1])
        .layer(1, 100, 60)
        .layer(2, 100, 60)
        .snapshot(1, 1, &[1], 60)
        .snapshot(2, 1, &[2], 30)
        .sandbox(1, State::Running, Owner::OneOff, &[2, 1], HOUR);
    let reasons = |bytes| {
        let plan = decide(&facts, &budget(bytes));
        let kept = plan.items.into_iter().filter(|item| matches!(item.thing, Thing::Snapshot(_)));
        kept.map(|item| item.reason).collect::<Vec<_>>()
    };
    assert!(reasons(200).iter().all(|reason| !reason.contains("freed")), "{:?}", reasons(200));
    assert!(reasons(0).iter().all(|reason| reason.contains("nothing would be freed")), "{:?}", reasons(0));
}

#[test]
fn a_session_keeps_its_last_snapshots() {
    let mut facts = Facts::empty().with(&[], &[1, 2]);
    for number in 0..5_u32 {
        facts = facts.snapshot(u128::from(number) + 1, 1, &[], DAY * u64::from(5 - number));
    }
    facts = facts.snapshot(9, 2, &[], 100 * DAY);
    let ids =
        |numbers: &[u128]| numbers.iter().map(|n| SnapshotId::from_u128(*n).to_string()).collect::<Vec<_>>();
    let few = Policy { snapshots: 3, ..Policy::default() };
    assert_eq!(goes(&facts, &few), ids(&[1, 2]));
    let short = Policy { snapshot_age: Duration::from_secs(3 * DAY + 1), ..Policy::default() };
    assert_eq!(goes(&facts, &short), ids(&[1, 2]));
    let none = Policy { snapshots: 0, ..Policy::default() };
    assert_eq!(goes(&facts, &none), ids(&[1, 2, 3, 4]), "the last stays");
}

#[test]
fn ended_sandboxes_go_when_nobody_goes_on_from_them() {
    let pool = || Owner::Pool { environment: "app".to_owned(), image: "k".to_owned() };
    let build = |name: &str| Owner::Build(name.to_owned());
    let of = |number| Owner::Session(session(number));
    let mut facts = Facts::empty()
        .with(&["app"], &[1])
        .sandbox(1, State::Ended, pool(), &[], HOUR)
        .sandbox(2, State::Ended, build("app"), &[], HOUR)
        .sandbox(3, State::Ended, build("busy"), &[], HOUR)
        .sandbox(4, State::Ended, of(1), &[], HOUR)
        .sandbox(5, State::Ended, of(1), &[], 2 * DAY)
        .sandbox(6, State::Ended, of(2), &[], HOUR)
        .sandbox(7, State::Running, of(2), &[], 9 * DAY)
        .sandbox(8, State::Frozen, of(1), &[], 9 * DAY)
        .sandbox(9, State::Starting, pool(), &[], 5)
        .sandbox(10, State::Starting, pool(), &[], HOUR)
        .sandbox(11, State::Ended, Owner::OneOff, &[], 5);
    facts.building.insert("busy".to_owned());
    let expected: Vec<String> = [1, 2, 5, 6, 10].map(|n| SandboxId::from_u128(n).to_string()).into();
    assert_eq!(goes(&facts, &Policy::default()), expected);
}

#[test]
fn room_is_made_with_what_is_missed_least() {
    let facts = || {
        Facts::empty()
            .with(&["old", "new", "used", "busy"], &[1, 2, 3])
            .layer(1, 10, 2 * HOUR)
            .layer(2, 10, 3 * HOUR)
            .layer(3, 10, 60)
            .layer(11, 10, HOUR)
            .layer(12, 10, HOUR)
            .layer(13, 10, HOUR)
            .layer(14, 10, HOUR)
            .layer(21, 10, HOUR)
            .layer(22, 10, HOUR)
            .layer(23, 10, HOUR)
            .layer(24, 10, HOUR)
            .image("old", &[11], 2 * DAY)
            .image("new", &[12], HOUR)
            .image("used", &[13], 3 * DAY)
            .image("busy", &[14], 4 * DAY)
            .snapshot(1, 1, &[21], 3 * HOUR)
            .snapshot(2, 1, &[22], 2 * HOUR)
            .snapshot(3, 2, &[23], 4 * HOUR)
            .snapshot(4, 3, &[24], 5 * HOUR)
            .sandbox(1, State::Running, Owner::Session(session(3)), &[13], DAY)
    };
    let order = ["layer-2", "layer-1", "layer-21", "layer-11", "layer-12", "layer-23", "layer-22"];
    for count in 0..=order.len() {
        let mut facts = facts();
        facts.building.insert("busy".to_owned());
        let gone = goes(&facts, &budget(110 - 10 * count as u64));
        let mut layers: Vec<&str> =
            gone.iter().map(String::as_str).filter(|id| id.starts_with("layer")).collect();
        layers.sort_unstable();
        let mut expected = order[..count].to_vec();
        expected.sort_unstable();
        assert_eq!(layers, expected, "{count} must go");
    }
    let mut facts = facts();
    facts.building.insert("busy".to_owned());
    let plan = decide(&facts, &budget(0));
    assert_eq!(plan.frees, 70);
    let stays = |id: &str| plan.items.iter().any(|item| !item.remove && item.clone().into_entry().id == id);
    for id in ["used", "busy", "layer-3", "layer-13", "layer-14", "layer-24"] {
        assert!(stays(id), "{id}");
    }
    assert!(plan.items.iter().any(|item| item.reason.contains("what no commit holds goes with it")));
}

/// A build whose image does not fit beside the one that it replaces: that one's layers go, however young they are.
#[test]
fn what_was_only_just_built_stays_and_what_it_replaced_goes_first() {
    let mut facts = Facts::empty()
        .with(&["app", "other", "old"], &[])
        .layer(1, 600, 60)
        .layer(2, 600, 5)
        .layer(3, 600, 300)
        .layer(4, 600, HOUR)
        .layer(5, 600, 60)
        .image("app", &[2], 1)
        .image("other", &[3], 300)
        .image("old", &[4], HOUR);
    assert_eq!(goes(&facts, &budget(2600)), ["old", "layer-4"], "layer-1 may belong to what is being made");
    facts.released.extend([layer_id(1), layer_id(2)]);
    assert_eq!(goes(&facts, &budget(2600)), ["layer-1"], "it is known to be left over");
    assert_eq!(goes(&facts, &budget(2000)), ["old", "layer-1", "layer-4"]);
    assert_eq!(goes(&facts, &budget(0)), ["old", "layer-1", "layer-4"], "those two were only just built");
    let kept =
        decide(&facts, &budget(0)).items.into_iter().find(|item| item.thing == Thing::Image("app".into()));
    assert!(kept.unwrap().reason.contains("only just built"));
    facts.for_builds.insert(layer_id(1));
    assert_eq!(goes(&facts, &budget(2600)), ["old", "layer-4"], "a build wants it again");
}

#[test]
fn what_frees_nothing_is_not_given_up_for_nothing() {
    let facts = Facts::empty().with(&["app"], &[1]).layer(1, 100, DAY).image("app", &[1], HOUR).sandbox(
        1,
        State::Ended,
        Owner::Session(session(1)),
        &[1],
        HOUR,
    );
    assert!(goes(&facts, &budget(0)).is_empty(), "an ended sandbox still stands on the only layer");
}

#[test]
fn what_shares_everything_goes_together() {
    let facts = Facts::empty().with(&["one", "two"], &[]).layer(1, 100, HOUR).image("one", &[1], HOUR).image(
        "two",
        &[1],
        HOUR,
    );
    assert_eq!(goes(&facts, &budget(50)), ["one", "two", "layer-1"]);
}

/// A made-up world: a dozen layers, and records that hold some of them.
fn worlds() -> impl Strategy<Value = Facts> {
    let some = || proptest::collection::vec(0..12_usize, 0..4);
    let age = || prop_oneof![0..LEASE.as_secs(), LEASE.as_secs()..2 * DAY, 2 * DAY..40 * DAY];
    let owner = (0..4_u8, 0..4_u8).prop_map(|(kind, which)| match kind {
        0 => Owner::OneOff,
        1 => Owner::Session(session(u128::from(which))),
        2 => Owner::Pool { environment: format!("e{which}"), image: format!("key of e{which}") },
        _ => Owner::Build(format!("e{which}")),
    });
    let state =
        prop_oneof![Just(State::Starting), Just(State::Running), Just(State::Frozen), Just(State::Ended)];
    let layers = proptest::collection::vec((1..100_u64, age()), 12);
    let images = proptest::collection::btree_map(0..5_u8, (some(), age()), 0..5);
    let snapshots = proptest::collection::vec((0..4_u8, some(), age()), 0..8);
    let sandboxes = proptest::collection::vec((state, owner, some(), age()), 0..5);
    let known =
        (proptest::collection::btree_set(0..5_u8, 0..5), proptest::collection::btree_set(0..4_u8, 0..4));
    let builds = (proptest::collection::btree_set(0..5_u8, 0..2), some(), some());
    (layers, images, snapshots, sandboxes, known, builds).prop_map(
        |(layers, images, snapshots, sandboxes, (environments, sessions), (building, held, released))| {
            let mut facts = Facts::empty();
            for (number, (bytes, age)) in layers.into_iter().enumerate() {
                facts = facts.layer(number, bytes, age);
            }
            for (name, (layers, age)) in images {
                facts = facts.image(&format!("e{name}"), &layers, age);
            }
            for (number, (of, layers, age)) in snapshots.into_iter().enumerate() {
                facts = facts.snapshot(number as u128, u128::from(of), &layers, age);
            }
            for (number, (state, owner, layers, age)) in sandboxes.into_iter().enumerate() {
                facts = facts.sandbox(number as u128, state, owner, &layers, age);
            }
            facts.environments = environments.into_iter().map(|name| format!("e{name}")).collect();
            facts.sessions = sessions.into_iter().map(|number| session(u128::from(number))).collect();
            facts.building = building.into_iter().map(|name| format!("e{name}")).collect();
            facts.for_builds.extend(held.into_iter().map(layer_id));
            facts.released.extend(released.into_iter().map(layer_id));
            facts
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_in_use_ever_goes_and_room_is_made_with_the_rest(facts in worlds(), bytes in 0..1200_u64, most in 0..4_usize) {
        let policy = Policy { budget_bytes: bytes, snapshots: most, ..Policy::default() };
        let plan = decide(&facts, &policy);
        let removed = |thing: &Thing| plan.items.iter().any(|item| item.remove && item.thing == *thing);
        prop_assert_eq!(plan.items.len(), facts.sandboxes.len() + facts.images.len() + facts.snapshots.len() + facts.layers.len());

        // Whoever stays finds all of its layers.
        let mut holders: Vec<(Thing, &[LayerId])> = Vec::new();
        for info in &facts.sandboxes {
            holders.push((Thing::Sandbox(info.id), info.stack.as_ref().map_or(&[], |stack| &stack.layers)));
        }
        for image in &facts.images {
            holders.push((Thing::Image(image.environment.clone()), &image.stack.layers));
        }
        for snapshot in &facts.snapshots {
            holders.push((Thing::Snapshot(snapshot.id), &snapshot.stack.layers));
        }
        for (thing, layers) in holders.iter().filter(|(thing, _)| !removed(thing)) {
            for layer in *layers {
                prop_assert!(!removed(&Thing::Layer(layer.clone())), "{layer} goes under {thing:?}");
            }
        }

        // What is at work stays.
        for info in facts.sandboxes.iter().filter(|info| matches!(info.state, State::Running | State::Frozen)) {
            prop_assert!(!removed(&Thing::Sandbox(info.id)));
            if let Some(Owner::Session(at_work)) = info.owner && facts.sessions.contains(&at_work) {
                let own = facts.snapshots.iter().filter(|snapshot| snapshot.session == at_work);
                let last = own.max_by_key(|snapshot| (snapshot.taken_at, snapshot.id));
                prop_assert!(!last.is_some_and(|last| removed(&Thing::Snapshot(last.id))));
            }
        }
        for image in facts.images.iter().filter(|image| since(facts.now, image.built_at) <= LEASE) {
            let known = facts.environments.contains(&image.environment);
            prop_assert!(!known || !removed(&Thing::Image(image.environment.clone())), "it was only just built");
        }
        for name in &facts.building {
            prop_assert!(!removed(&Thing::Image(name.clone())));
        }
        let recorded = |layer: &Layer| {
            let images = facts.images.iter().map(|image| &image.stack);
            let mut stacks = images.chain(facts.snapshots.iter().map(|snapshot| &snapshot.stack));
            stacks.any(|stack| stack.layers.contains(&layer.id)) || facts.released.contains(&layer.id)
        };
        let leased = |layer: &Layer| since(facts.now, layer.made_at) <= LEASE && !recorded(layer);
        for layer in facts.layers.iter().filter(|layer| leased(layer)) {
            prop_assert!(!removed(&Thing::Layer(layer.id.clone())));
        }

        // Either there is room, or nothing is left that could go.
        let left: u64 = facts.layers.iter().filter(|layer| !removed(&Thing::Layer(layer.id.clone()))).map(|layer| layer.bytes).sum();
        prop_assert_eq!(left + plan.frees, facts.used);
        if left > bytes {
            let in_images: BTreeSet<_> = facts.images.iter().flat_map(|image| &image.stack.layers).collect();
            for layer in &facts.layers {
                let gone = removed(&Thing::Layer(layer.id.clone()));
                let leased = leased(layer);
                let for_build = facts.for_builds.contains(&layer.id) && !in_images.contains(&layer.id);
                let pinned = holders.iter().any(|(thing, layers)| {
                    let pinned = match thing {
                        Thing::Sandbox(_) => true,
                        Thing::Image(name) => plan.items.iter().any(|item| item.thing == Thing::Image(name.clone())
                            && ["under way", "stands on it", "only just built"].iter().any(|why| item.reason.contains(why))),
                        thing => plan.items.iter().any(|item| item.thing == *thing && item.reason.contains("at work")),
                    };
                    pinned && !removed(thing) && layers.contains(&layer.id)
                });
                prop_assert!(gone || leased || for_build || pinned, "{} could have gone", layer.id);
            }
        }
    }
}

#[test]
fn what_stays_says_why_in_words() {
    let facts = Facts::empty()
        .with(&["app"], &[1])
        .layer(1, 10, 90)
        .layer(2, 10, 5 * HOUR)
        .layer(3, 10, 120)
        .snapshot(2, 1, &[], DAY)
        .sandbox(1, State::Ended, Owner::OneOff, &[], 1)
        .sandbox(2, State::Ended, Owner::Session(session(1)), &[], 2 * HOUR);
    // However full the disk is: what is too young stays.
    for policy in [Policy::default(), budget(0)] {
        let plan = decide(&facts, &policy);
        let said = |name: &str| {
            let mut items = plan.items.iter().cloned().map(Item::into_entry);
            let entry = items.find(|entry| entry.id == name).unwrap();
            (entry.remove, entry.reason)
        };
        let sandbox = |number| SandboxId::from_u128(number).to_string();
        for (name, age) in [
            ("layer-1".to_owned(), "1 minute"),
            ("layer-3".to_owned(), "2 minutes"),
            (sandbox(1), "1 second"),
        ] {
            let (goes, why) = said(&name);
            assert!(
                !goes && why.contains("too young") && why.contains(&format!("{age} ago")),
                "{name}: {why}"
            );
            assert!(why.contains("less than 10 minutes old"), "{name}: {why}");
        }
        let (goes, why) = said(&sandbox(2));
        assert!(!goes && why.contains("2 hours ago") && why.contains("stays for a day"), "{why}");
    }
    let plan = decide(&facts, &Policy::default());
    let kept = plan.items.iter().find(|item| item.thing == Thing::Layer(layer_id(2))).unwrap();
    assert!(kept.reason.contains("5 hours ago") && kept.reason.contains("stays for 24 hours"), "{kept:?}");
}
