//! A full disk: a small file system of its own, in a mount namespace that goes away with the process.

use std::fs;
use std::path::Path;
use std::process::Command;

use store::{Error, Store};

use crate::{assert_dense, fill, memory, new_log};

const DIR: &str = "STORE_FULL_DIR";

fn in_namespace() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount"]);
    command
}

fn mount(dir: &Path) -> Command {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(dir);
    command
}

/// Not a test of its own: the one below runs it in a mount namespace.
#[tokio::test]
async fn on_a_small_disk() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    assert!(mount(dir).status().unwrap().success());
    // With room for a part of the catalogue only, nothing is made that a later start would take for it.
    let first = dir.join("first");
    fs::write(&first, vec![0_u8; (2 << 20) - 64 * 1024]).unwrap();
    let error = Store::open(&dir.join("data")).unwrap_err();
    assert!(matches!(error, Error::Full(_)), "{error}");
    fs::remove_file(&first).unwrap();

    let store = Store::open(&dir.join("data")).unwrap();
    let (session, log) = new_log(&store).await;
    let (other, neighbour) = new_log(&store).await;
    fill(&log, 3).await;

    // An append that is too large fails alone and leaves nothing of itself.
    let large = log.append((0..40).map(|_| memory("x".repeat(100_000))).collect());
    let (large, small) = tokio::join!(large, neighbour.append(vec![memory("1")]));
    assert!(matches!(large.unwrap_err(), Error::Full(_)));
    assert_eq!(small.unwrap()[0].seq, 1);
    assert_eq!((log.last_seq(), log.read(0, 100).await.unwrap().len()), (3, 3));
    fill(&log, 1).await;

    // Then the disk is filled up by others, to the last byte.
    let ballast = dir.join("ballast");
    let error = fs::write(&ballast, vec![0_u8; 2 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let error = loop {
        match log.append(vec![memory("y".repeat(5000))]).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
    let kept = log.last_seq();
    assert!(kept >= 4);
    let events = log.read(0, usize::MAX).await.unwrap();
    assert_eq!(events.len() as u64, kept);
    assert!(matches!(store.create_log(protocol::SessionId::new()).await.unwrap_err(), Error::Full(_)));
    let wordy =
        protocol::Environment { instructions: Some("z".repeat(100_000)), ..protocol::Environment::default() };
    let error = store.put_environment("e", &wordy).await.unwrap_err();
    assert!(matches!(error, Error::Full(_)));

    // The same handles work once there is space again.
    fs::remove_file(&ballast).unwrap();
    log.append(vec![memory("on")]).await.unwrap();
    fill(&neighbour, 5).await;
    store.put_environment("e", &protocol::Environment::default()).await.unwrap();
    log.verify().await.unwrap();
    let events = log.read(0, usize::MAX).await.unwrap();
    assert_eq!((events.len() as u64, log.last_seq()), (kept + 1, kept + 1));
    assert_dense(&events);
    drop((log, neighbour, store));

    // A server that starts on a full disk still shows what it has.
    fs::write(&ballast, vec![0_u8; 2 << 20]).unwrap_err();
    let store = Store::open(&dir.join("data")).unwrap();
    assert_eq!(store.read_log(session, 0, usize::MAX).await.unwrap(), events);
    assert_eq!(store.read_log(other, 0, usize::MAX).await.unwrap().len(), 6);
    drop(store);

    // Also when the one before it was killed, and only the journal has the last event.
    fs::remove_file(&ballast).unwrap();
    let store = Store::open(&dir.join("data")).unwrap();
    let log = store.open_log(session).await.unwrap();
    log.append(vec![memory("last")]).await.unwrap();
    copy_dir(&dir.join("data"), &dir.join("killed"));
    drop((log, store));
    fs::write(&ballast, vec![0_u8; 2 << 20]).unwrap_err();
    let store = Store::open(&dir.join("killed")).unwrap();
    let found = store.read_log(session, 0, usize::MAX).await.unwrap();
    assert_eq!((found.len(), &found[..events.len()]), (events.len() + 1, &events[..]));
    let error = store.open_log(session).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("free some space"), "{error}");
    drop(store);
    fs::remove_dir_all(dir.join("killed")).unwrap();
    fs::remove_file(&ballast).unwrap();
    let store = Store::open(&dir.join("data")).unwrap();
    let events = store.read_log(session, 0, usize::MAX).await.unwrap();
    drop(store);
    fs::write(&ballast, vec![0_u8; 2 << 20]).unwrap_err();

    // Also with a catalogue of an older version, which is brought up to date as soon as there is room for its copy.
    fs::remove_file(&ballast).unwrap();
    let sql = rusqlite::Connection::open(dir.join("data/catalogue.db")).unwrap();
    sql.execute_batch("DROP TABLE refused; DROP TABLE listed; DROP TABLE authors; PRAGMA user_version = 1")
        .unwrap();
    drop(sql);
    fs::write(&ballast, vec![0_u8; 2 << 20]).unwrap_err();
    let store = Store::open(&dir.join("data")).unwrap();
    assert_eq!(store.read_log(session, 0, usize::MAX).await.unwrap(), events);
    assert_eq!(store.environments().await.unwrap().len(), 1);
    assert_eq!(store.refused().await.unwrap(), []);
    let error = store.put_refused("e", Vec::new()).await.unwrap_err();
    assert!(matches!(error, Error::Full(_)), "{error}");
    fs::remove_file(&ballast).unwrap();
    while store.put_refused("e", Vec::new()).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(dir.join("data/catalogue.db.v1").exists(), "it is kept as it was");
    drop(store);
    fs::write(&ballast, vec![0_u8; 2 << 20]).unwrap_err();

    // One that may not write says so.
    assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(dir).status().unwrap().success());
    let error = Store::open(&dir.join("data")).unwrap_err().to_string();
    assert!(error.contains("is it writable by this user?"), "{error}");
    println!("the small disk was survived");
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_dir(&entry.path(), &place),
            kind if kind.is_file() => drop(fs::copy(entry.path(), &place).unwrap()),
            _ => {}
        }
    }
}

#[test]
fn a_full_disk_is_reported_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let probe = in_namespace().arg("mount").args(mount(dir.path()).get_args()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: this machine does not let the test mount a small disk");
        return;
    }
    let output = in_namespace()
        .arg(std::env::current_exe().unwrap())
        .args(["full::on_a_small_disk", "--exact", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("survived"), "{stdout}\n{stderr}");
}
