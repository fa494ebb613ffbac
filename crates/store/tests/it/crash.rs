//! kill -9 at any moment: what was confirmed is there, and there is no gap.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use protocol::SessionId;
use store::Store;

use crate::{assert_dense, memory, text};

const DIR: &str = "STORE_CRASH_DIR";
const ROUNDS: u64 = 10;
const SESSIONS: usize = 3;

/// Not a test of its own: the parent below runs this in a process that it kills. It appends from several tasks to several
/// sessions and prints what was confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = Store::open(dir.as_ref()).unwrap();
    let mut sessions = store.sessions().await.unwrap();
    while sessions.len() < SESSIONS {
        let session = SessionId::new();
        store.create_log(session).await.unwrap();
        sessions.push(session);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for session in sessions {
        let log = store.open_log(session).await.unwrap();
        for _ in 0..4 {
            let log = log.clone();
            tasks.spawn(async move {
                for n in 0.. {
                    // Sizes that make the write-ahead log go into the file now and then.
                    let mark = format!("{n}:{}", "x".repeat(n % 7 * 900));
                    for event in log.append(vec![memory(mark.clone()), memory(mark)]).await.unwrap() {
                        let size = text(&event).len();
                        writeln!(std::io::stdout(), "acked {session} {} {size}", event.seq).unwrap();
                    }
                }
            });
        }
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn nothing_confirmed_is_lost_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked: HashMap<SessionId, HashMap<u64, usize>> = HashMap::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::victim", "--exact", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The child does not wait for the reader, so counting lines stops it in the middle of whatever it does.
        let patience = RandomState::new().hash_one(round) % 400;
        let mut seen = 0;
        let mut note = |line: &str| {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap();
            let (session, seq, size) =
                (word().parse().unwrap(), word().parse().unwrap(), word().parse().unwrap());
            acked.entry(session).or_default().insert(seq, size);
        };
        while seen < patience {
            let line = lines.next().expect("the child died by itself").unwrap();
            if let Some((_, acked)) = line.split_once("acked ") {
                note(acked);
                seen += 1;
            }
        }
        child.kill().unwrap();
        // What it printed before it died counts too; the last line may be cut off.
        let rest: Vec<_> = lines.map_while(Result::ok).collect();
        child.wait().unwrap();
        let whole = rest.iter().rev().skip(1);
        whole.filter_map(|line| line.split_once("acked ")).for_each(|(_, acked)| note(acked));

        let store = Store::open(dir.path()).unwrap();
        for session in store.sessions().await.unwrap() {
            let log = store.open_log(session).await.unwrap();
            log.verify().await.unwrap();
            let events = log.read(0, usize::MAX).await.unwrap();
            assert_eq!(log.last_seq(), events.len() as u64);
            assert_dense(&events);
            for (seq, size) in acked.get(&session).into_iter().flatten() {
                assert_eq!(text(&events[*seq as usize - 1]).len(), *size, "event {seq} of {session}");
            }
            // An append is there as a whole or not at all.
            assert!(events.chunks(2).all(|pair| pair.len() == 2 && pair[0].body == pair[1].body));
        }
    }
    let confirmed: usize = acked.values().map(HashMap::len).sum();
    assert!(confirmed > 100, "only {confirmed} events were confirmed in all rounds");
}
