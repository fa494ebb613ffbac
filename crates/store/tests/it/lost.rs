//! A log whose file is gone: told as damage by whoever was told of the session, and of no concern to the others.

use protocol::SessionId;
use store::{Error, Store};

use crate::{fill, memory, new_log};

fn is_missing<T: std::fmt::Debug>(result: Result<T, Error>) {
    match result {
        Err(Error::Damaged { path, detail }) => {
            assert!(path.ends_with("log.db") && detail == "it is missing", "{} {detail}", path.display());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_log_that_is_gone_is_damage_and_not_a_session_that_never_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (gone, log) = new_log(&store).await;
    fill(&log, 3).await;
    let (sound, other) = new_log(&store).await;
    fill(&other, 3).await;
    drop((log, other, store));
    std::fs::remove_file(dir.path().join("sessions").join(gone.to_string()).join("log.db")).unwrap();

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.sessions().await.unwrap(), [sound]);
    is_missing(store.open_log(gone).await.map(|_| ()));
    is_missing(store.last_seq(gone).await);
    is_missing(store.read_log(gone, 0, 10).await);
    is_missing(store.read_sound(gone, 0, 10).await.map(|_| ()));
    assert!(store.is_known(gone).await.unwrap());
    assert_eq!(store.open_log(sound).await.unwrap().last_seq(), 3);

    let nobody = SessionId::new();
    assert!(!store.is_known(nobody).await.unwrap());
    assert_eq!(store.last_seq(nobody).await, Err(Error::NoSession(nobody)));
}

#[tokio::test]
async fn the_index_knows_a_log_that_is_gone_and_forgets_it_when_another_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (session, log) = new_log(&store).await;
    fill(&log, 2).await;
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let (source, file) = (store.clone(), copy.join("log.db"));
    let copied = tokio::task::spawn_blocking(move || source.copy_log(session, &file)).await.unwrap().unwrap();
    assert_eq!(copied.seq, 2);
    fill(&log, 5).await;
    store.index(&crate::catalogue::session(session, 7, 20), "").await.unwrap();
    assert_eq!(store.lost().await.unwrap(), []);
    drop((log, store));
    std::fs::remove_dir_all(dir.path().join("sessions").join(session.to_string())).unwrap();
    // Nothing but the index knows it.
    std::fs::remove_file(dir.path().join("ends")).unwrap();

    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.lost().await.unwrap(), [session]);
    is_missing(store.open_log(session).await.map(|_| ()));
    store::append_to_copy(&copy.join("log.db"), session, memory("3")).unwrap();
    assert_eq!(store::check_copy(&copy.join("log.db"), session), Ok(3));
    store.adopt_session(session, &copy, Vec::new()).await.unwrap();
    assert_eq!(store.lost().await.unwrap(), []);
    let log = store.open_log(session).await.unwrap();
    fill(&log, 1).await;
    let events = log.read(0, 10).await.unwrap();
    crate::assert_dense(&events);
    assert_eq!(events.iter().map(crate::text).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
}
