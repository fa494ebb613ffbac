//! Services of a session: they are up for the first command, and one that ends is told of and started again.

#![allow(clippy::print_stderr, reason = "what is left out says why")]

use std::path::{Path, PathBuf};

use protocol::event::{LimitKind, ServiceState};
use protocol::{EventBody, Outcome, Probe, Restart, Service};
use serde_json::json;
use testkit::model::Script;

use crate::support::{Follow, World, create};

/// How services changed.
fn changes(follow: &Follow) -> Vec<(&str, ServiceState, &str)> {
    let changes = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ServiceChanged { service, state, detail, .. } => {
            Some((service.as_str(), *state, detail.as_deref().unwrap_or_default()))
        }
        _ => None,
    });
    changes.collect()
}

fn service(name: &str, run: &str, ready: &str) -> Service {
    let ready = Probe { run: Some(ready.to_owned()), ..Probe::default() };
    Service { name: name.to_owned(), run: run.to_owned(), ready, ..Service::default() }
}

/// Writes its number into a file once it is up; each start adds a line to another.
fn counted() -> Service {
    let run = "echo start >> /tmp/starts; echo hello from db; echo $$ > /tmp/pid; exec sleep 4321";
    service("db", run, "test -s /tmp/pid && kill -0 $(cat /tmp/pid)")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_is_told_of_and_runs_again_for_the_next_command() {
    let script = Script::new()
        .call("shell", json!({"command": "kill -9 $(cat /tmp/pid); sleep 0.2"}))
        .call("shell", json!({"command": "kill -0 $(cat /tmp/pid) && cat /tmp/starts"}))
        .say("Seen.");
    let world = World::new(script).await.environment(|environment| environment.services = vec![counted()]);
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let told = |index: usize| follow.calls()[index].1.output.as_ref().unwrap().text.clone();
    let words =
        "(The service db was ended by signal 9 and is started again; the end of its output:\nhello from db)";
    assert!(told(0).contains(words), "{}", told(0));
    assert!(told(1).starts_with("start\nstart\n"), "{}", told(1));
    assert!(!told(1).contains("service"), "told once: {}", told(1));
    let states: Vec<_> = changes(&follow).iter().map(|change| (change.0, change.1)).collect();
    assert_eq!(states, [("db", ServiceState::Down), ("db", ServiceState::Up)]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ends_while_a_command_runs_is_started_again_meanwhile() {
    let wait = "kill $(cat /tmp/pid); until [ $(wc -l < /tmp/starts) -ge 2 ]; do sleep 0.05; done; echo both";
    let script = Script::new().call("shell", json!({"command": wait})).say("Seen.");
    let world = World::new(script).await.environment(|environment| environment.services = vec![counted()]);
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let text = follow.last_output();
    assert!(text.starts_with("both\n") && text.contains("started again"), "{text}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_not_to_be_started_again_is_told_of_once() {
    let script = Script::new()
        .call("shell", json!({"command": "kill $(cat /tmp/pid); sleep 0.2"}))
        .call("shell", json!({"command": "cat /tmp/starts"}))
        .say("Seen.");
    let world = World::new(script).await.environment(|environment| {
        environment.services = vec![Service { restart: Restart::Never, ..counted() }];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = |index: usize| follow.calls()[index].1.output.as_ref().unwrap().text.clone();
    assert!(told(0).contains("is down") && told(0).contains("exec sleep 4321"), "{}", told(0));
    assert!(told(1).starts_with("start\n(exit code 0)") && !told(1).contains("down"), "{}", told(1));
    let changes = changes(&follow);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!((changes[0].0, changes[0].1), ("db", ServiceState::Down));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_stay_up_is_left_alone_in_the_end() {
    let run = "test -e /tmp/pid && exit 3; echo $$ > /tmp/pid; exec sleep 4321";
    let fragile = service("db", run, "kill -0 $(cat /tmp/pid)");
    let script = (0..8).fold(
        Script::new().call("shell", json!({"command": "kill $(cat /tmp/pid); sleep 0.2"})),
        |script, _| script.call("shell", json!({"command": "echo on"})),
    );
    let world =
        World::new(script.say("Seen.")).await.environment(|environment| environment.services = vec![fragile]);
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let changes = changes(&follow);
    assert!(changes.iter().all(|change| change.1 == ServiceState::Down), "{changes:?}");
    let started = changes.iter().filter(|change| change.2.contains("it is started again")).count();
    assert_eq!(started, 5, "{changes:?}");
    let left = changes.iter().filter(|change| change.2.contains("left alone")).count();
    assert_eq!(left, 1, "{changes:?}");
    assert!(changes.iter().any(|change| change.2.contains("exited with 3")), "{changes:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_a_full_disk_ended_run_again() {
    let script = Script::new()
        .call("shell", json!({"command": "head -c 64M /dev/zero > /tmp/big; sleep 600"}))
        .call("shell", json!({"command": "rm /tmp/big; kill -0 $(cat /tmp/pid) && echo runs"}))
        .say("Seen.");
    let world = World::new(script).await.environment(|environment| {
        environment.services = vec![counted()];
        environment.limits.disk_mb = Some(16);
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Fill it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let told = |index: usize| follow.calls()[index].1.output.as_ref().unwrap().text.clone();
    assert!(told(0).contains("disk_mb") && told(0).contains("service db"), "{}", told(0));
    assert!(told(1).contains("runs\n"), "{}", told(1));
    let hit = |body: &EventBody| matches!(body, EventBody::LimitExceeded { limit: LimitKind::DiskBytes, .. });
    assert!(follow.events.iter().any(|event| hit(&event.body)));
    assert_eq!(changes(&follow).last().map(|change| change.1), Some(ServiceState::Up));
    world.end(sessions).await;
}

/// Where a program is, on the usual paths and in these directories.
fn find(program: &str, beside: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/local/bin", "/usr/bin"].map(PathBuf::from))
        .chain(beside.iter().cloned())
        .map(|dir| dir.join(program))
        .find(|file| file.is_file() && file.starts_with("/usr"));
    if found.is_none() {
        eprintln!("skipped: there is no {program} below /usr on this machine");
    }
    found
}

/// The directories of the versions of Postgres, the newest first.
fn postgres_versions() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    versions.reverse();
    versions
}

fn quoted(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_up_for_the_first_command() {
    let versions = postgres_versions();
    let (Some(postgres), Some(initdb), Some(psql)) =
        (find("postgres", &versions), find("initdb", &versions), find("psql", &versions))
    else {
        return;
    };
    let (postgres, initdb, psql) = (quoted(&postgres), quoted(&initdb), quoted(&psql));
    let make = format!(
        "test -e /tmp/db/PG_VERSION || {initdb} -D /tmp/db -A trust -U dev --no-sync >/tmp/initdb.log"
    );
    let database = Service {
        name: "postgres".into(),
        run: format!("{make} && exec {postgres} -D /tmp/db -k /tmp -c fsync=off"),
        ready: Probe { tcp: Some(5432), ..Probe::default() },
        ..Service::default()
    };
    let ask =
        |sql: &str| json!({"command": format!("{psql} -h 127.0.0.1 -U dev -d postgres -Atc \"{sql}\"")});
    let script = Script::new()
        .call("shell", ask("create table t as select 6 * 7 as answer; select answer from t"))
        .call(
            "shell",
            json!({"command": format!("{psql} -h /tmp -U dev -d postgres -Atc 'select count(*) from t'")}),
        )
        .say("Seen.");
    let world = World::new(script).await.environment(|environment| environment.services = vec![database]);
    let sessions = world.start().await;
    let id = create(&sessions, "Ask it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let told = |index: usize| follow.calls()[index].1.output.as_ref().unwrap().text.clone();
    assert!(told(0).contains("42\n"), "{}", told(0));
    assert!(told(1).starts_with("1\n"), "{}", told(1));
    assert_eq!(changes(&follow), [], "it stays up");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_development_server_answers_the_first_command() {
    let Some(node) = find("node", &[]) else { return };
    let node = quoted(&node);
    let serve = "require('http').createServer((_, answer) => answer.end('hello ' + process.getuid())).listen(5173, 'localhost')";
    let web = Service {
        name: "web".into(),
        run: format!("exec {node} -e \"{serve}\""),
        ready: Probe { http: Some("http://localhost:5173/".into()), ..Probe::default() },
        ..Service::default()
    };
    let ask = format!(
        "{node} -e \"require('http').get('http://localhost:5173/', answer => answer.pipe(process.stdout))\""
    );
    let script = Script::new().call("shell", json!({"command": ask})).say("Seen.");
    let world = World::new(script).await.environment(|environment| environment.services = vec![web]);
    let sessions = world.start().await;
    let id = create(&sessions, "Ask it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(follow.last_output().contains("hello 1000"), "{}", follow.last_output());
    world.end(sessions).await;
}
