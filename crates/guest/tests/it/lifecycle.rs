//! How processes start and end, and what becomes of what they leave behind.

use guest::{Error, Output};

use crate::{Daemon, Runner, argv, listen, sh, until};

/// A script that leaves one child in its own session and one in the session of the script, and prints their pids.
const FAMILY: &str = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & \
                      sh -c 'echo $$; exec sleep 60' & ";

/// Whether a process is gone; it is a zombie at most until the daemon, which reaps everything, has seen it.
fn gone(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}

#[tokio::test]
async fn a_signal_reaches_everything_it_started_and_is_told_in_the_exit() {
    let daemon = Daemon::start();
    let script = format!("{FAMILY} wait");
    let mut process = daemon.client.start("a", &sh(&script)).await.unwrap();
    let mut pids = String::new();
    while pids.lines().count() < 2 {
        let Some(Output::Stdout { data, .. }) = process.next().await.unwrap() else { panic!() };
        pids.push_str(std::str::from_utf8(&data).unwrap());
    }
    daemon.client.signal("a", libc::SIGKILL).await.unwrap();
    let exit = listen(process).await.unwrap().exit.unwrap();
    assert_eq!((exit.code, exit.signal, exit.timed_out), (128 + 9, Some(9), false));
    assert!(pids.lines().all(gone), "{pids}");
    let error = daemon.client.signal("a", 99).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)));
}

#[tokio::test]
async fn the_time_limit_ends_grandchildren_too() {
    let daemon = Daemon::start();
    let mut spec = sh(&format!("{FAMILY} wait"));
    spec.timeout_ms = Some(1000);
    let said = listen(daemon.client.start("a", &spec).await.unwrap()).await.unwrap();
    let exit = said.exit.clone().unwrap();
    assert_eq!((exit.signal, exit.timed_out), (Some(15), true));
    assert_eq!(said.out().lines().count(), 2);
    assert!(said.out().lines().all(gone), "{said:?}");
}

#[tokio::test]
async fn what_escaped_its_parent_and_session_is_found_by_its_name() {
    let daemon = Daemon::start();
    // The middle shell ends, so the sleeper has neither parent nor session in common with the process.
    let script = "(setsid sh -c 'sleep 60 >/dev/null 2>&1 & echo $!') & wait; read x";
    let mut spec = sh(script);
    spec.stdin = true;
    let mut process = daemon.client.start("a", &spec).await.unwrap();
    let Some(Output::Stdout { data, .. }) = process.next().await.unwrap() else { panic!() };
    let pid = std::str::from_utf8(&data).unwrap().trim();
    assert!(!gone(pid));
    daemon.client.signal("a", libc::SIGTERM).await.unwrap();
    listen(process).await.unwrap();
    while !gone(pid) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_time_limit_ends_what_escaped_its_parent_its_session_and_its_variables() {
    let daemon = Daemon::start();
    let neighbour = sh("setsid env -i sleep 60 >/dev/null 2>&1 & echo $!; wait");
    let mut other = daemon.client.start("other", &neighbour).await.unwrap();
    let Some(Output::Stdout { data, .. }) = other.next().await.unwrap() else { panic!() };
    let neighbour = String::from_utf8(data.to_vec()).unwrap();
    let mut spec = sh("(setsid env -i sh -c 'sleep 60 >/dev/null 2>&1 & echo $!') & wait; sleep 60");
    spec.timeout_ms = Some(1000);
    let said = listen(daemon.client.start("a", &spec).await.unwrap()).await.unwrap();
    assert!(said.exit.clone().unwrap().timed_out);
    let pid = said.out().trim();
    assert!(!pid.is_empty() && gone(pid), "{said:?}");
    assert!(!gone(neighbour.trim()), "another process's are left alone");
    daemon.client.signal("other", libc::SIGKILL).await.unwrap();
    listen(other).await.unwrap();
    assert!(gone(neighbour.trim()));
}

#[tokio::test]
async fn a_background_child_that_holds_the_output_does_not_hold_the_exit() {
    let daemon = Daemon::start();
    let script = "(while [ ! -e stop ]; do sleep 0.05; done; echo after || echo broken > broken; echo $? > status) & \
                  echo before; exit 7";
    let said = listen(daemon.client.start("a", &sh(script)).await.unwrap()).await.unwrap();
    assert_eq!((said.out(), said.code()), ("before\n", 7));
    daemon.client.write_file("stop", "".into()).await.unwrap();
    while daemon.client.stat("status").await.map_or(true, |stat| stat.size < 2) {
        tokio::task::yield_now().await;
    }
    assert_eq!(daemon.client.read_file("status", 0, 10).await.unwrap().0, "0\n", "it can still write");
}

#[tokio::test]
async fn an_endless_talker_in_the_background_does_not_hold_the_exit_either() {
    let daemon = Daemon::start();
    let process = daemon.client.start("a", &sh("yes & echo $! >&2; exit 5")).await.unwrap();
    let said = listen(process).await.unwrap();
    assert_eq!(said.code(), 5);
    let pid = String::from_utf8(said.stderr).unwrap();
    assert!(!gone(pid.trim()), "its pipe is still read, so it lives");
    daemon.client.signal("a", libc::SIGKILL).await.unwrap();
    while !gone(pid.trim()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_process_finds_only_what_it_was_given() {
    let daemon = Daemon::start();
    let mut spec =
        sh("env | sort; pwd; ls -l /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign)' /proc/self/status; umask");
    spec.env.insert("MINE".into(), "a b".into());
    let said = listen(daemon.client.start("job-1", &spec).await.unwrap()).await.unwrap();
    let lines: Vec<&str> = said.out().lines().collect();
    let home = daemon.directory.path().canonicalize().unwrap();
    assert!(lines.contains(&"SLIPWAY_PROCESS=job-1") && lines.contains(&"MINE=a b"), "{lines:?}");
    assert!(lines.contains(&"FROM_CONFIG=yes") && !said.out().contains("GUEST_TEST_HOME"), "{lines:?}");
    assert!(lines.contains(&home.to_str().unwrap()), "{lines:?}");
    // The three of its own, the directory that ls reads, and the line with the total.
    assert!(lines.contains(&"5"), "{lines:?}");
    assert!(lines.contains(&"SigBlk:\t0000000000000000"), "{lines:?}");
    assert!(lines.contains(&"SigIgn:\t0000000000000000"), "{lines:?}");
    // Its own session and group: the fields after the parent are both its own number.
    let said =
        listen(daemon.client.start("s", &sh("echo $$; cat /proc/$$/stat")).await.unwrap()).await.unwrap();
    let (pid, stat) = said.out().split_once('\n').unwrap();
    let fields: Vec<&str> = stat.split_ascii_whitespace().collect();
    assert_eq!((fields[4], fields[5]), (pid, pid));
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let daemon = Daemon::start();
    let mut nowhere = sh("true");
    nowhere.cwd = Some("not/there".into());
    let mut named = sh("true");
    named.env.insert("A=B".into(), String::new());
    std::fs::write(daemon.directory.path().join("plain"), "x").unwrap();
    for (id, spec, reason) in [
        ("a", argv(&["no-such-program"]), "no-such-program is not found in PATH"),
        ("a", argv(&["./no-such-program"]), "does not exist"),
        ("a", argv(&["./plain"]), "not an executable file"),
        ("a", argv(&[]), "argv is empty"),
        ("a", nowhere, "not/there does not exist"),
        ("a", named, "cannot be the name of a variable"),
        ("a", argv(&["echo", "a\0b"]), "cannot be started"),
        ("a/b c", sh("true"), "cannot be the id"),
        ("a", argv(&["echo", &"x".repeat(2 << 20)]), "cannot be read"),
    ] {
        let error = daemon.client.start(id, &spec).await.unwrap_err();
        assert!(matches!(&error, Error::Refused(message) if message.contains(reason)), "{reason}: {error}");
    }
    assert_eq!(daemon.client.processes().await.unwrap(), [], "nothing is left of them");
}

#[tokio::test]
async fn unknown_processes_are_not_found_and_running_ones_not_forgotten() {
    let daemon = Daemon::start();
    let size = guest::wire::PtySize { cols: 1, rows: 1 };
    assert!(matches!(daemon.client.attach("x", 0).await, Err(Error::NotFound(_))));
    assert!(matches!(daemon.client.signal("x", 15).await, Err(Error::NotFound(_))));
    assert!(matches!(daemon.client.write_stdin("x", "a".into()).await, Err(Error::NotFound(_))));
    assert!(matches!(daemon.client.close_stdin("x").await, Err(Error::NotFound(_))));
    assert!(matches!(daemon.client.resize("x", size).await, Err(Error::NotFound(_))));
    assert!(matches!(daemon.client.forget("x").await, Err(Error::NotFound(_))));
    let mut process = daemon.client.start("y", &sh("echo; sleep 60")).await.unwrap();
    until(&mut process, "\n").await;
    assert!(matches!(daemon.client.forget("y").await, Err(Error::Refused(_))));
    assert!(matches!(daemon.client.resize("y", size).await, Err(Error::Refused(_))));
}

#[tokio::test]
async fn a_daemon_that_dies_is_unavailable() {
    let mut daemon = Daemon::start();
    let mut spec = sh("echo; cat");
    spec.stdin = true;
    let mut process = daemon.client.start("a", &spec).await.unwrap();
    until(&mut process, "\n").await;
    daemon.child.kill().unwrap();
    assert!(matches!(listen(process).await, Err(Error::Unavailable(_))));
    daemon.child.wait().unwrap();
    assert!(matches!(daemon.client.ping().await, Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn a_daemon_told_to_end_ends_its_processes_first() {
    let mut daemon = Daemon::start();
    let mut process = daemon.client.start("a", &sh("setsid sleep 60 & echo $!; wait")).await.unwrap();
    let Some(Output::Stdout { data, .. }) = process.next().await.unwrap() else { panic!() };
    daemon.signal(libc::SIGTERM);
    assert!(daemon.child.wait().unwrap().success());
    assert!(gone(std::str::from_utf8(&data).unwrap().trim()));
}

#[tokio::test]
async fn as_init_it_is_out_of_reach_of_its_processes_and_ends_only_from_outside() {
    let mut daemon = Daemon::start_as_init();
    // It must survive the signals, and neither its memory nor its descriptors may be looked at.
    let script = "echo $PPID; kill -TERM 1; kill -INT 1; kill -KILL 1; \
                  cat /proc/1/environ || readlink /proc/1/fd/0 || readlink /proc/1/root || echo hidden";
    let said = listen(daemon.client.start("a", &sh(script)).await.unwrap()).await.unwrap();
    assert_eq!(said.out(), "1\nhidden\n", "{said:?}");
    // Orphans come to it and are reaped: soon there is nothing in the table but init and the shell that looks.
    listen(daemon.client.start("b", &sh("setsid true & exit 0")).await.unwrap()).await.unwrap();
    let mut look = 0;
    loop {
        look += 1;
        let script = "set -- /proc/[0-9]*; echo $#";
        let process = daemon.client.start(&format!("look-{look}"), &sh(script)).await.unwrap();
        if listen(process).await.unwrap().out() == "2\n" {
            break;
        }
        assert!(look < 100, "something stays in the process table");
    }
    let inside = format!("/proc/{0}/task/{0}/children", daemon.child.id());
    let inside: i32 = std::fs::read_to_string(inside).unwrap().trim().parse().unwrap();
    // SAFETY: kill takes no pointers, and the daemon is the child of a process we have not waited for.
    assert_eq!(unsafe { libc::kill(inside, libc::SIGTERM) }, 0);
    assert!(daemon.child.wait().unwrap().success());
}

#[tokio::test]
async fn a_socket_path_may_be_longer_than_an_address() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let daemon = Daemon::start_as(Runner::Plain, directory, deep.join("guest.sock"));
    let said = listen(daemon.client.start("a", &argv(&["echo", "far"])).await.unwrap()).await.unwrap();
    assert_eq!(said.out(), "far\n");
}

#[tokio::test]
async fn variables_that_are_set_later_reach_what_is_started_later() {
    let daemon = Daemon::start();
    let client = &daemon.client;
    let show = sh("echo $FROM_CONFIG,$LATER,$MINE");
    let set = |pairs: &[(&str, &str)]| -> std::collections::BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    client.set_env(&set(&[("LATER", "one"), ("FROM_CONFIG", "no")])).await.unwrap();
    client.set_env(&set(&[("LATER", "two"), ("MINE", "theirs")])).await.unwrap();
    let mut spec = show.clone();
    spec.env.insert("MINE".into(), "mine".into());
    assert_eq!(listen(client.start("a", &spec).await.unwrap()).await.unwrap().out(), "no,two,mine\n");
    for bad in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
        let refused = client.set_env(&set(&[bad, ("LATER", "three")])).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{bad:?}: {refused:?}");
    }
    let huge = "x".repeat(700 << 10);
    assert!(matches!(client.set_env(&set(&[("HUGE", &huge)])).await, Err(Error::Refused(_))));
    assert_eq!(listen(client.start("b", &show).await.unwrap()).await.unwrap().out(), "no,two,theirs\n");
}

#[tokio::test]
async fn a_connection_that_was_made_ahead_of_time_is_used_once() {
    let daemon = Daemon::start();
    let client = &daemon.client;
    client.prepare().await.unwrap();
    std::fs::remove_file(daemon.path("guest.sock")).unwrap();
    let other = client.clone();
    let said = listen(other.start("a", &argv(&["echo", "ready"])).await.unwrap()).await.unwrap();
    assert_eq!(said.out(), "ready\n");
    assert!(matches!(client.ping().await, Err(Error::Unavailable(_))));
}

#[tokio::test]
async fn one_that_is_over_at_once_has_said_everything_and_is_found_and_forgotten_like_any_other() {
    let daemon = Daemon::start();
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let spec = sh("echo out; echo err >&2; exit 3");
        let first = listen(daemon.client.start(id, &spec).await.unwrap()).await.unwrap();
        let again = listen(daemon.client.attach(id, 0).await.unwrap()).await.unwrap();
        for said in [first, again] {
            assert_eq!((said.out(), &said.stderr[..], said.code()), ("out\n", &b"err\n"[..], 3));
        }
        assert_eq!(daemon.client.processes().await.unwrap()[0].output, 8);
        daemon.client.forget(id).await.unwrap();
    }
    assert!(daemon.client.processes().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_one_leaves_behind_that_is_killed_at_once_is_killed_too() {
    let daemon = Daemon::start();
    let spec = sh("sleep 60 >/dev/null 2>&1 & echo $!; kill -9 $$");
    let said = listen(daemon.client.start("a", &spec).await.unwrap()).await.unwrap();
    assert_eq!(said.exit.as_ref().unwrap().signal, Some(libc::SIGKILL));
    assert!(gone(said.out().trim()), "{said:?}");
}

#[tokio::test]
async fn text_is_utf_8_unless_somebody_says_otherwise() {
    let daemon = Daemon::start();
    let mut spec = sh("echo $LC_CTYPE,$LANG");
    let said = listen(daemon.client.start("a", &spec).await.unwrap()).await.unwrap();
    assert_eq!(said.out(), "C.UTF-8,\n");
    spec.env.insert("LANG".into(), "C".into());
    let said = listen(daemon.client.start("b", &spec).await.unwrap()).await.unwrap();
    assert_eq!(said.out(), ",C\n");
}
