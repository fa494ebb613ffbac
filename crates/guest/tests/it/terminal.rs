//! Processes on a terminal.

use guest::wire::PtySize;
use guest::{Error, Output, Process};

use crate::{Daemon, listen, sh, type_line};

/// Reads until the terminal has shown `text`, and returns all it showed.
async fn shown(process: &mut Process, text: &str) -> String {
    let mut seen = Vec::new();
    loop {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. }) => seen.extend_from_slice(&data),
            other => panic!("after {:?} came {other:?}", String::from_utf8_lossy(&seen)),
        }
        let seen = String::from_utf8_lossy(&seen);
        if seen.contains(text) {
            return seen.into_owned();
        }
    }
}

#[tokio::test]
async fn a_terminal_has_a_size_that_changes_and_takes_input() {
    let daemon = Daemon::start();
    let mut spec = sh("tty; stty size; trap 'stty size' WINCH; echo ready; cat; stty size >&2; exit 6");
    spec.argv[0] = "bash".into();
    spec.pty = Some(PtySize { cols: 101, rows: 33 });
    let mut process = daemon.client.start("a", &spec).await.unwrap();
    let seen = shown(&mut process, "ready\r\n").await;
    assert!(seen.starts_with("/dev/pts/") && seen.contains("33 101\r\n"), "{seen:?}");
    type_line(&daemon.client, "a", "hello\n").await;
    // Once echoed by the terminal and once by cat.
    shown(&mut process, "hello\r\nhello\r\n").await;
    daemon.client.resize("a", PtySize { cols: 80, rows: 24 }).await.unwrap();
    daemon.client.close_stdin("a").await.unwrap();
    let said = listen(process).await.unwrap();
    assert!(said.out().contains("24 80\r\n"), "{said:?}");
    assert_eq!((said.code(), said.stderr.len()), (6, 0));
    assert!(matches!(daemon.client.resize("a", PtySize { cols: 1, rows: 1 }).await, Err(Error::Refused(_))));
}

#[tokio::test]
async fn the_interrupt_key_reaches_the_foreground_and_all_output_comes_before_the_exit() {
    let daemon = Daemon::start();
    let mut spec = sh("trap 'seq 1 20000; exit 9' INT; echo ready; while :; do sleep 1; done");
    spec.pty = Some(PtySize { cols: 80, rows: 24 });
    let mut process = daemon.client.start("a", &spec).await.unwrap();
    shown(&mut process, "ready\r\n").await;
    type_line(&daemon.client, "a", "\x03").await;
    let said = listen(process).await.unwrap();
    assert!(said.out().ends_with("19999\r\n20000\r\n"));
    assert_eq!(said.code(), 9);
}
