//! Appending, reading, owning.

use std::os::unix::fs::PermissionsExt;

use protocol::SessionId;
use store::{Epoch, Error, Holder, Store};
use tokio::task::JoinSet;

use crate::{assert_dense, fill, memory, names_in, new_log, text};

#[tokio::test]
async fn what_is_appended_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (session, log) = new_log(&store).await;
    assert_eq!(log.last_seq(), 0);
    assert_eq!(log.read(0, 10).await.unwrap(), []);
    let first = log.append(vec![memory("a"), memory("b")]).await.unwrap();
    drop((log, store));

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.sessions().await.unwrap(), [session]);
    let log = store.open_log(session).await.unwrap();
    assert_eq!(log.last_seq(), 2);
    let second = log.append(vec![memory("c")]).await.unwrap();
    let all = log.read(0, usize::MAX).await.unwrap();
    assert_eq!(all, [first, second].concat());
    assert_dense(&all);
    assert_eq!(log.read(1, 1).await.unwrap(), all[1..2]);
    assert_eq!(log.read(3, 10).await.unwrap(), []);
    assert_eq!(log.read(u64::MAX, 10).await.unwrap(), []);
    log.verify().await.unwrap();
}

#[tokio::test]
async fn a_long_read_gives_everything_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (_, log) = new_log(&store).await;
    // More events than one piece of a read has, then more bytes.
    log.append((0..1000).map(|n| memory(n.to_string())).collect()).await.unwrap();
    log.append((0..6).map(|_| memory("x".repeat(1 << 20))).collect()).await.unwrap();
    let all = log.read(0, usize::MAX).await.unwrap();
    assert_eq!(all.len(), 1006);
    assert_dense(&all);
    assert_eq!(log.read(10, 700).await.unwrap(), all[10..710]);
    assert_eq!(log.read(1000, 6).await.unwrap(), all[1000..]);
    log.verify().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_get_dense_numbers_in_order() {
    const SESSIONS: usize = 12;
    const TASKS: usize = 8;
    const EACH: usize = 12;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut logs = Vec::new();
    for _ in 0..SESSIONS {
        logs.push(new_log(&store).await.1);
    }
    let mut tasks = JoinSet::new();
    for log in &logs {
        for task in 0..TASKS {
            let log = log.clone();
            tasks.spawn(async move {
                let mut last = 0;
                for n in 0..EACH {
                    let events =
                        log.append(vec![memory(format!("{task} {n}")), memory("and")]).await.unwrap();
                    assert_eq!(events[1].seq, events[0].seq + 1, "an append stays together");
                    assert!(events[0].seq > last && log.last_seq() >= events[1].seq);
                    last = events[1].seq;
                }
            });
        }
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    for log in &logs {
        let events = log.read(0, usize::MAX).await.unwrap();
        assert_eq!(events.len(), TASKS * EACH * 2);
        assert_dense(&events);
        for task in 0..TASKS {
            let mine = events.iter().map(text).filter(|text| text.starts_with(&format!("{task} ")));
            let want: Vec<_> = (0..EACH).map(|n| format!("{task} {n}")).collect();
            assert_eq!(mine.collect::<Vec<_>>(), want);
        }
    }
    let counts = store.counts();
    assert_eq!(counts.appends, (SESSIONS * TASKS * EACH) as u64);
    assert!(counts.syncs < counts.appends, "{counts:?}");
}

#[tokio::test]
async fn a_newer_owner_fences_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (session, old) = new_log(&store).await;
    fill(&old, 1).await;
    let new = store.open_log(session).await.unwrap();
    assert_eq!((old.epoch(), new.epoch()), (Epoch(1), Epoch(2)));
    let (refused, taken) = tokio::join!(old.append(vec![memory("late")]), new.append(vec![memory("2")]));
    assert_eq!(refused.unwrap_err(), Error::Fenced);
    assert_eq!(taken.unwrap()[0].seq, 2);
    assert_eq!(store.read_log(session, 0, 10).await.unwrap().len(), 2);
    drop((old, new, store));

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.open_log(session).await.unwrap().epoch(), Epoch(3));
}

#[tokio::test]
async fn time_does_not_run_backwards_when_the_clock_does() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (session, log) = new_log(&store).await;
    fill(&log, 1).await;
    let file = store.session_dir(session).join("log.db");
    drop((log, store));
    let later = protocol::Timestamp::now() + std::time::Duration::from_secs(3600);
    let sql = rusqlite::Connection::open(file).unwrap();
    sql.execute("UPDATE head SET at = ?1", [later.as_microsecond()]).unwrap();
    drop(sql);
    let store = Store::open(dir.path()).unwrap();
    let log = store.open_log(session).await.unwrap();
    let event = log.append(vec![memory("2")]).await.unwrap().remove(0);
    assert_eq!(event.at.as_microsecond(), later.as_microsecond());
    assert_eq!(log.read(1, 1).await.unwrap(), [event]);
}

#[tokio::test]
async fn the_wrong_session_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let nobody = SessionId::new();
    assert_eq!(store.open_log(nobody).await.unwrap_err(), Error::NoSession(nobody));
    assert_eq!(store.read_log(nobody, 0, 1).await.unwrap_err(), Error::NoSession(nobody));
    let (session, _) = new_log(&store).await;
    let error = store.create_log(session).await.unwrap_err().to_string();
    assert!(error.contains("has a log already"), "{error}");
}

#[tokio::test]
async fn a_second_server_is_told_who_has_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (_, log) = new_log(&store).await;
    let error = Store::open(dir.path()).unwrap_err();
    let pid = std::process::id();
    assert_eq!(error, Error::Locked(Holder { dir: dir.path().to_owned(), pid: Some(pid) }));
    assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
    drop(store);
    assert!(matches!(Store::open(dir.path()), Err(Error::Locked(_))), "a log keeps the store");
    drop(log);
    Store::open(dir.path()).unwrap();
}

#[tokio::test]
async fn closing_leaves_only_private_files_and_no_write_ahead_log() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deep").join("data");
    let store = Store::open(&root).unwrap();
    let (session, log) = new_log(&store).await;
    fill(&log, 3).await;
    let session_dir = store.session_dir(session);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(names_in(&session_dir), ["log.db", "log.db-wal"]);
    assert_eq!(mode(&session_dir.join("log.db-wal")), 0o600);
    drop((log, store));
    assert_eq!(names_in(&session_dir), ["log.db"]);
    assert_eq!(names_in(&root), ["catalogue.db", "ends", "journal", "lock", "sessions"]);
    assert_eq!(names_in(&root.join("journal")), [] as [&str; 0]);
    for dir in [&root, &root.join("sessions"), &root.join("journal"), &session_dir] {
        assert_eq!(mode(dir), 0o700);
    }
    for file in [root.join("catalogue.db"), root.join("lock"), session_dir.join("log.db")] {
        assert_eq!(mode(&file), 0o600);
    }
}

#[tokio::test]
async fn a_session_that_was_not_finished_being_made_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let sessions = dir.path().join("sessions");
    let (half, files) = (SessionId::new(), SessionId::new());
    for session in [half, files] {
        std::fs::create_dir(sessions.join(session.to_string())).unwrap();
    }
    std::fs::write(sessions.join(half.to_string()).join("log.db.new"), "half").unwrap();
    std::fs::write(sessions.join(files.to_string()).join("output"), "someone's").unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.sessions().await.unwrap(), []);
    assert_eq!(names_in(&sessions), [files.to_string()], "files without a log are kept");
    fill(&store.create_log(half).await.unwrap(), 1).await;
}
