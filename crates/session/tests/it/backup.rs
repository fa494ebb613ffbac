//! Backups that an older version made: without idempotency keys and without the key of the placeholders.

use std::io::Read;

use protocol::Outcome;
use serde_json::Value;
use testkit::model::Script;

use crate::support::{Follow, World, create};

/// What only newer archives have.
const NEWER: [&str; 2] = ["keys.json", "placeholders"];

/// The archive as the older version would have written it.
fn older(archive: &[u8]) -> Vec<u8> {
    let mut older = tar::Builder::new(Vec::new());
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if NEWER.contains(&name.as_str()) {
            continue;
        }
        if name == "manifest.json" {
            let mut manifest: Value = serde_json::from_slice(&content).unwrap();
            let entries = manifest["entries"].as_array_mut().unwrap();
            let before = entries.len();
            entries.retain(|entry| !NEWER.contains(&entry["name"].as_str().unwrap()));
            assert!(entries.len() < before, "{manifest}");
            content = serde_json::to_vec(&manifest).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        older.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    older.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_an_older_version_is_put_back() {
    let here = World::new(Script::new().say("Nothing to do.")).await;
    let sessions = here.start().await;
    let id = create(&sessions, "Look").await;
    assert_eq!(Follow::new(&sessions, id).await.finished().await.outcome, Outcome::Done);
    let mut pieces = sessions.backup().await.unwrap();
    let mut archive = Vec::new();
    while let Some(piece) = pieces.recv().await {
        archive.extend_from_slice(&piece.unwrap());
    }
    here.end(sessions).await;

    let there = World::new(Script::new()).await;
    let path = there.dir.path().join("older.tar");
    std::fs::write(&path, older(&archive)).unwrap();
    let sessions = there.start().await;
    let report = sessions.restore(&path).await.unwrap();
    assert_eq!((report.sessions, report.keys, report.placeholders_left), (vec![id], 0, false));
    assert_eq!(Follow::new(&sessions, id).await.finished().await.outcome, Outcome::Done);
    there.end(sessions).await;
}
