//! Output arrives whole, in order, from any point, and does not depend on who listens.

use std::io::Write;

use bytes::Bytes;
use guest::{Error, Output};

use crate::{Daemon, argv, listen, sh, type_line, until};

#[tokio::test]
async fn what_a_process_says_arrives_with_its_exit_code() {
    let daemon = Daemon::start();
    daemon.client.ping().await.unwrap();
    let said =
        listen(daemon.client.start("a", &sh("echo out; echo err >&2; exit 3")).await.unwrap()).await.unwrap();
    assert_eq!((said.out(), &said.stderr[..], said.code()), ("out\n", &b"err\n"[..], 3));
}

#[tokio::test]
async fn streams_come_in_the_order_they_were_written_with_offsets_of_the_whole() {
    let daemon = Daemon::start();
    let mut spec = sh("echo one; read x; echo two >&2; read x; echo three");
    spec.stdin = true;
    let mut process = daemon.client.start("a", &spec).await.unwrap();
    let mut seen = Vec::new();
    while let Some(output) = process.next().await.unwrap() {
        if !matches!(output, Output::Exit(_)) {
            seen.push(output);
            // It may have ended by the time the last answer is written.
            drop(daemon.client.write_stdin("a", Bytes::from_static(b"\n")).await);
        }
    }
    assert_eq!(
        seen,
        [
            Output::Stdout { offset: 0, data: Bytes::from_static(b"one\n") },
            Output::Stderr { offset: 4, data: Bytes::from_static(b"two\n") },
            Output::Stdout { offset: 8, data: Bytes::from_static(b"three\n") },
        ]
    );
}

#[tokio::test]
async fn much_output_arrives_intact_through_little_memory() {
    const LINES: u32 = 9_000_000;
    let daemon = Daemon::start();
    let mut process = daemon.client.start("a", &argv(&["seq", "1", &LINES.to_string()])).await.unwrap();
    // Unread, it must come to a stop by itself instead of filling memory or dropping bytes.
    while daemon.client.processes().await.unwrap()[0].output < 1 << 20 {
        tokio::task::yield_now().await;
    }
    let (mut line, mut expected, mut position) = (0, Vec::new(), 0);
    while let Some(output) = process.next().await.unwrap() {
        let Output::Stdout { offset, data } = output else { continue };
        assert_eq!(offset, position);
        position += data.len() as u64;
        while expected.len() < data.len() {
            line += 1;
            writeln!(expected, "{line}").unwrap();
        }
        assert!(data[..] == expected[..data.len()], "bytes differ before {position}");
        expected.drain(..data.len());
    }
    assert!(position > 64 << 20);
    assert_eq!((line, expected.len()), (LINES, 0));
    assert!(daemon.peak_kib() < 24 << 10, "the daemon used {} KiB", daemon.peak_kib());
}

#[tokio::test]
async fn with_nobody_listening_the_newest_output_is_kept_and_the_gap_is_visible() {
    let daemon = Daemon::start();
    let mut spec = sh("head -c 20000000 /dev/zero; echo last; read x");
    spec.stdin = true;
    drop(daemon.client.start("a", &spec).await.unwrap());
    while daemon.client.processes().await.unwrap()[0].output < 20_000_005 {
        tokio::task::yield_now().await;
    }
    daemon.client.close_stdin("a").await.unwrap();
    let mut process = daemon.client.attach("a", 100).await.unwrap();
    let Some(Output::Stdout { offset, data }) = process.next().await.unwrap() else { panic!() };
    assert!(offset > 10_000_000 && offset < 13_000_000, "it begins at {offset}");
    let rest = listen(process).await.unwrap();
    assert_eq!(offset as usize + data.len() + rest.stdout.len(), 20_000_005);
    assert!(rest.stdout.ends_with(b"\0last\n"));
    assert!(daemon.peak_kib() < 24 << 10, "the daemon used {} KiB", daemon.peak_kib());
}

#[tokio::test]
async fn a_process_can_be_followed_late_again_and_from_the_middle() {
    let daemon = Daemon::start();
    let mut spec = sh("printf abc; read x; printf def >&2; exit 4");
    spec.stdin = true;
    let mut first = daemon.client.start("a", &spec).await.unwrap();
    until(&mut first, "abc").await;
    let second = daemon.client.attach("a", 1).await.unwrap();
    type_line(&daemon.client, "a", "\n").await;
    let (first, second) = (listen(first).await.unwrap(), listen(second).await.unwrap());
    assert_eq!((&first.stderr[..], first.code()), (&b"def"[..], 4));
    assert_eq!((second.out(), &second.stderr[..], second.code()), ("bc", &b"def"[..], 4));
    let after = listen(daemon.client.attach("a", 5).await.unwrap()).await.unwrap();
    assert_eq!((after.out(), &after.stderr[..], after.code()), ("", &b"f"[..], 4));
    let error = daemon.client.attach("a", 7).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(message) if message.contains("only 6 bytes")), "{error}");
}

#[tokio::test]
async fn the_same_id_does_not_start_twice() {
    let daemon = Daemon::start();
    let spec = sh("echo $$ >> started; cat started");
    let (one, two) = tokio::join!(daemon.client.start("a", &spec), daemon.client.start("a", &spec));
    let (one, two) = tokio::join!(listen(one.unwrap()), listen(two.unwrap()));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.out().lines().count(), 1);
    assert_eq!(one.out(), two.out());
    daemon.client.forget("a").await.unwrap();
    assert!(matches!(daemon.client.attach("a", 0).await, Err(Error::NotFound(_))));
    let again = listen(daemon.client.start("a", &spec).await.unwrap()).await.unwrap();
    assert_eq!(again.out().lines().count(), 2, "a forgotten id is free again");
}

#[tokio::test]
async fn input_is_echoed_until_its_end() {
    let daemon = Daemon::start();
    let mut spec = argv(&["cat"]);
    spec.stdin = true;
    let process = daemon.client.start("a", &spec).await.unwrap();
    // More than all the pipes hold, so it only goes through if both directions move.
    let sent: Bytes = (0..3_000_000_u32).map(|index| (index / 7) as u8).collect();
    let client = daemon.client.clone();
    let writer = async {
        client.write_stdin("a", sent.clone()).await.unwrap();
        client.write_stdin("a", Bytes::from_static(b"end")).await.unwrap();
        client.close_stdin("a").await.unwrap();
    };
    let (said, ()) = tokio::join!(listen(process), writer);
    let said = said.unwrap();
    assert!(said.stdout[..sent.len()] == sent[..]);
    assert_eq!(&said.stdout[sent.len()..], b"end");
    assert_eq!(said.code(), 0);
}

#[tokio::test]
async fn input_that_nobody_reads_is_an_error() {
    let daemon = Daemon::start();
    let mut spec = sh("exec 0<&-; echo closed; exec sleep 60");
    spec.stdin = true;
    let mut process = daemon.client.start("deaf", &spec).await.unwrap();
    until(&mut process, "closed\n").await;
    let error = daemon.client.write_stdin("deaf", Bytes::from(vec![0; 1 << 20])).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(message) if message.contains("no longer reads")), "{error}");
    let mut process = daemon.client.start("never", &sh("cat; echo end; exec sleep 60")).await.unwrap();
    until(&mut process, "end\n").await;
    let error = daemon.client.write_stdin("never", Bytes::from_static(b"x")).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(message) if message.contains("not kept open")), "{error}");
}

#[tokio::test]
async fn a_follower_that_leaves_does_not_end_the_process() {
    let daemon = Daemon::start();
    let mut spec = sh("echo $$; while read x; do echo got $x; done");
    spec.stdin = true;
    let mut process = daemon.client.start("a", &spec).await.unwrap();
    assert!(process.next().await.unwrap().is_some());
    drop(process);
    type_line(&daemon.client, "a", "more\n").await;
    let mut process = daemon.client.attach("a", 0).await.unwrap();
    until(&mut process, "got more\n").await;
    daemon.client.close_stdin("a").await.unwrap();
    assert_eq!(listen(process).await.unwrap().code(), 0);
}

#[tokio::test]
async fn two_hundred_at_once() {
    let daemon = Daemon::start();
    let mut running = tokio::task::JoinSet::new();
    for index in 0..200 {
        let client = daemon.client.clone();
        running.spawn(async move {
            let spec = sh(&format!("echo {index}; exit {}", index % 7));
            let process = client.start(&format!("p{index}"), &spec).await.unwrap();
            let said = listen(process).await.unwrap();
            (said.out().to_owned(), said.code()) == (format!("{index}\n"), index % 7)
        });
    }
    assert_eq!(running.join_all().await, [true; 200]);
}
