//! Power cuts: writes that were not synced are lost, in part and in any order. What was confirmed is there.

mod disk;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::SessionId;
use store::{KeptFold, Store};

use crate::{assert_dense, memory, quick_dir, text};
use disk::{Acked, Dice};

const CUTS: &str = "STORE_POWER_CUTS";
const SEED: &str = "STORE_POWER_SEED";
const SESSIONS: usize = 4;
/// Cuts that one set of logs goes through.
const LIVES: usize = 20;

/// Not a test of its own: those below run it in a process where every database is on a disk that remembers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_disk_that_forgets() {
    let Ok(cuts) = std::env::var(CUTS) else { return };
    let cuts: usize = cuts.parse().unwrap();
    let mut dice = Dice(std::env::var(SEED).unwrap().parse::<u64>().unwrap() | 1);
    disk::install();
    let root = quick_dir();
    let acked = Arc::new(Mutex::new(Acked::new()));
    let mut dir = root.path().join("0");
    let (mut more, mut confirmed) = (0, 0);
    for round in 1..=cuts {
        let next = root.path().join(round.to_string());
        let store = Store::open(&dir).unwrap();
        let mut sessions = store.sessions().await.unwrap();
        while sessions.len() < SESSIONS {
            let session = SessionId::new();
            store.create_log(session).await.unwrap();
            sessions.push(session);
        }
        let mut work = tokio::task::JoinSet::new();
        for session in sessions {
            let (store, acked, seed) = (store.clone(), acked.clone(), dice.below(u64::MAX));
            work.spawn(busy(store, session, acked, Dice(seed | 1)));
        }
        let patience = disk::syncs() + 1 + dice.below(120);
        while disk::syncs() < patience {
            std::thread::sleep(Duration::from_micros(200));
        }
        let promised = disk::cut(&dir, &next, &mut dice, || acked.lock().unwrap().clone());
        work.shutdown().await;
        drop(store);
        disk::forget(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        more += check(&next, &promised).await;
        confirmed += promised.values().map(|events| events.len()).sum::<usize>();
        *acked.lock().unwrap() = promised;
        dir = next;
        if round % LIVES == 0 {
            // Logs that grow for ever would only be read again and again.
            acked.lock().unwrap().clear();
            disk::forget(&dir);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
    println!("{cuts} cuts survived, {confirmed} times an event was looked for, {more} others were found");
}

/// Appends for ever, and notes what was confirmed.
async fn busy(store: Store, session: SessionId, acked: Arc<Mutex<Acked>>, mut dice: Dice) {
    let log = store.open_log(session).await.unwrap();
    loop {
        let drafts = (0..=dice.below(3)).map(|_| memory("x".repeat(dice.below(6000) as usize))).collect();
        let events = log.append(drafts).await.unwrap();
        let last = events.last().unwrap().seq;
        let noted = events.iter().map(|event| (event.seq, text(event).len()));
        acked.lock().unwrap().entry(session).or_default().extend(noted);
        if dice.below(10) == 0 {
            log.keep_fold(KeptFold { seq: last, format: 1, data: last.to_le_bytes().into() }).await.unwrap();
        }
    }
}

/// Everything that was promised is there, and nothing is torn. Gives how many other events are there.
async fn check(dir: &Path, promised: &Acked) -> u64 {
    let store = Store::open(dir).unwrap();
    let there: BTreeSet<_> = store.sessions().await.unwrap().into_iter().collect();
    let mut more = 0;
    for (session, events) in promised {
        assert!(there.contains(session), "{session} is gone");
        let log = store.open_log(*session).await.unwrap();
        log.verify().await.unwrap();
        let found = log.read(0, usize::MAX).await.unwrap();
        assert_dense(&found);
        for (seq, length) in events {
            let event = found.get(*seq as usize - 1);
            let event = event.unwrap_or_else(|| panic!("event {seq} of {session} was confirmed and is gone"));
            assert_eq!(text(event).len(), *length);
        }
        if let Some(fold) = log.kept_fold(1).await.unwrap() {
            assert_eq!(fold.data, fold.seq.to_le_bytes());
        }
        more += found.len() as u64 - events.len() as u64;
    }
    more
}

fn survive(cuts: usize) {
    let seed = RandomState::new().hash_one(cuts);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["power::on_a_disk_that_forgets", "--exact", "--nocapture"])
        .env(CUTS, cuts.to_string())
        .env(SEED, seed.to_string())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("cuts survived"), "seed {seed}\n{stdout}\n{stderr}");
}

#[test]
fn nothing_confirmed_is_lost_when_the_power_goes() {
    survive(24);
}

#[test]
#[ignore = "a minute: hundreds of power cuts"]
fn nothing_confirmed_is_lost_when_the_power_goes_again_and_again() {
    survive(600);
}
