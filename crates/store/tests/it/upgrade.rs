//! Logs that an older version wrote: read as they are, brought up to date when they are written to, with a copy kept.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::SessionId;
use store::{Error, KeptFold, Store};

use crate::{assert_dense, memory, names_in, text};

/// The session whose log is in `golden/v1`: 50 events, the last ten in the write-ahead log only.
const SESSION: SessionId = SessionId::from_u128(1);

/// A data directory with the old log.
fn old() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("sessions").join(SESSION.to_string());
    fs::create_dir_all(&session).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/v1");
    for name in ["log.db", "log.db-wal"] {
        fs::copy(golden.join(name), session.join(name)).unwrap();
    }
    (dir, session)
}

fn version(file: &Path) -> i64 {
    let sql = rusqlite::Connection::open(file).unwrap();
    sql.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

async fn assert_old_events(store: &Store) {
    let events = store.read_log(SESSION, 0, 50).await.unwrap();
    assert_dense(&events);
    assert_eq!(
        events.iter().map(text).collect::<Vec<_>>(),
        (1..=50).map(|n| n.to_string()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn reading_an_old_log_leaves_it_as_it_is() {
    let (dir, session) = old();
    let store = Store::open(dir.path()).unwrap();
    assert_old_events(&store).await;
    assert_eq!(store.kept_fold(SESSION, 1).await.unwrap(), None);
    drop(store);
    assert_eq!(names_in(&session), ["log.db"]);
    assert_eq!(version(&session.join("log.db")), 1);
}

#[tokio::test]
async fn an_old_log_is_brought_up_to_date_and_kept_as_it_was() {
    let (dir, session) = old();
    let store = Store::open(dir.path()).unwrap();
    let log = store.open_log(SESSION).await.unwrap();
    log.append(vec![memory("51")]).await.unwrap();
    let fold = KeptFold { seq: 51, format: 1, data: vec![1] };
    log.keep_fold(fold.clone()).await.unwrap();
    assert_eq!(log.kept_fold(1).await.unwrap(), Some(fold));
    log.verify().await.unwrap();
    assert_old_events(&store).await;
    drop((log, store));
    assert_eq!(names_in(&session), ["log.db", "log.db.v1"]);
    assert_eq!((version(&session.join("log.db")), version(&session.join("log.db.v1"))), (2, 1));

    // The copy is the log as it was, and could take its place.
    fs::rename(session.join("log.db.v1"), session.join("log.db")).unwrap();
    fs::remove_file(dir.path().join("ends")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.last_seq(SESSION).await.unwrap(), 50);
    assert_old_events(&store).await;
}

#[tokio::test]
async fn a_failed_upgrade_leaves_the_old_log_in_use() {
    // The new table is there already, so the step cannot be taken.
    let (dir, session) = old();
    rusqlite::Connection::open(session.join("log.db"))
        .unwrap()
        .execute("CREATE TABLE folds (x)", ())
        .unwrap();
    let store = Store::open(dir.path()).unwrap();
    for _ in 0..2 {
        let error = store.open_log(SESSION).await.unwrap_err().to_string();
        assert!(error.contains("could not be brought up to this version"), "{error}");
        assert!(error.contains("is as it was") && error.contains("log.db.v1 is a copy"), "{error}");
        assert_old_events(&store).await;
    }
    drop(store);
    assert_eq!((version(&session.join("log.db")), version(&session.join("log.db.v1"))), (1, 1));

    // Without a copy nothing is changed at all.
    let (dir, session) = old();
    fs::create_dir_all(session.join("log.db.v1").join("in the way")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let error = store.open_log(SESSION).await.unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("log.db.v1")), "{error}");
    assert_old_events(&store).await;
    drop(store);
    assert_eq!(version(&session.join("log.db")), 1);
}

#[tokio::test]
async fn a_log_whose_number_is_that_of_an_older_version_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let log = store.create_log(SESSION).await.unwrap();
    log.append((1..=50).map(|n| memory(n.to_string())).collect()).await.unwrap();
    drop((log, store));
    let session = dir.path().join("sessions").join(SESSION.to_string());
    let sql = rusqlite::Connection::open(session.join("log.db")).unwrap();
    sql.pragma_update(None, "user_version", 1).unwrap();
    drop(sql);
    let store = Store::open(dir.path()).unwrap();
    let error = store.open_log(SESSION).await.unwrap_err().to_string();
    assert!(error.contains("it calls itself version 1, but has the tables of version 2"), "{error}");
    assert_old_events(&store).await;
    drop(store);
    assert_eq!(names_in(&session), ["log.db"]);
}

#[tokio::test]
async fn an_old_catalogue_is_brought_up_to_date_and_kept_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.put_environment("shop", &protocol::Environment::default()).await.unwrap();
    drop(store);
    let path = dir.path().join("catalogue.db");
    let sql = rusqlite::Connection::open(&path).unwrap();
    sql.execute_batch("DROP TABLE refused; DROP TABLE listed; DROP TABLE authors; PRAGMA user_version = 1")
        .unwrap();
    drop(sql);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.environments().await.unwrap().len(), 1);
    drop(store);
    assert!(version(&path) > 1);
    assert_eq!(version(&dir.path().join("catalogue.db.v1")), 1);
}
