//! Too many open files: what is open goes on, what is not says so, and nothing is lost.

use std::fs::File;
use std::process::Command;

use store::{Error, Store};

use crate::{assert_dense, memory, new_log};

const DIR: &str = "STORE_FILES_DIR";
const SESSIONS: usize = 60;

/// Not a test of its own: the one below runs it in a process that may open few files.
#[tokio::test]
async fn with_few_files() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = Store::open(dir.as_ref()).unwrap();
    let mut logs = Vec::new();
    // More logs than files: the store closes some for others.
    for _ in 0..SESSIONS {
        let (_, log) = new_log(&store).await;
        log.append(vec![memory("1")]).await.unwrap();
        logs.push(log);
    }
    // Then others take every file there is.
    let mut hogs = Vec::new();
    while let Ok(hog) = File::open("/dev/null") {
        hogs.push(hog);
    }
    let mut refused = 0;
    for log in &logs {
        match log.append(vec![memory("while there were none")]).await {
            Ok(_) => {}
            Err(error) => {
                refused += 1;
                assert!(matches!(error, Error::OpenFiles(_)), "{error}");
                assert!(error.to_string().contains("ulimit -n"), "{error}");
            }
        }
    }
    let last: Vec<u64> = logs.iter().map(|log| log.last_seq()).collect();
    drop(hogs);
    for (log, last) in logs.iter().zip(last) {
        let event = log.append(vec![memory("again")]).await.unwrap().remove(0);
        assert_eq!(event.seq, last + 1);
        assert_dense(&log.read(0, 10).await.unwrap());
        log.verify().await.unwrap();
    }
    println!("few files were enough, {refused} refused");
}

#[test]
fn too_many_open_files_are_reported_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 90; exec \"$0\" files::with_few_files --exact --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("enough"), "{stdout}\n{stderr}");
}
