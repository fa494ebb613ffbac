//! What sessions tell of the walls: connections that were refused and limits that were reached.

use protocol::event::LimitKind;
use protocol::{Code, Egress, EventBody, Outcome};
use serde_json::json;
use session::ShutDown;
use testkit::model::Script;

use crate::support::{Follow, World, create};

/// Connects by way of the proxy that the variables name, with nothing but bash.
const CONNECT: &str = "exec 3<>/dev/tcp/127.0.0.1/3128; \
    printf 'CONNECT evil.example:443 HTTP/1.1\\r\\nHost: evil.example:443\\r\\n\\r\\n' >&3; head -c 12 <&3; echo; echo $HTTPS_PROXY";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_host_is_told_to_the_model_recorded_and_listed() {
    let script = Script::new().call("shell", json!({"command": CONNECT})).say("So be it.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Try it").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let text = follow.last_output();
    assert!(text.contains("HTTP/1.1 403") && text.contains("127.0.0.1:3128"), "{text}");
    assert!(
        text.contains("evil.example:443") && text.contains("slipway env allow plain evil.example"),
        "{text}"
    );
    let recorded = sessions.egress("plain").await.unwrap();
    assert_eq!(recorded.egress, Egress::default());
    assert_eq!((recorded.refused[0].host.as_str(), recorded.refused[0].port), ("evil.example", 443));
    let told = |body: &EventBody| matches!(body, EventBody::EgressDecided(one) if one.host == "evil.example" && !one.allowed);
    // It may have come before the turn's end.
    if !follow.events.iter().any(|event| told(&event.body)) {
        follow.until(told).await;
    }
    let refused = sessions.allow("plain", vec!["evil.example".into()]).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict, "it is written in the configuration");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_later_counts_in_a_sandbox_that_runs_also_after_a_restart() {
    let wait = format!("until [ -e /tmp/go ]; do sleep 0.02; done; {CONNECT}");
    let script = Script::new().call("shell", json!({"command": format!("echo begun; {wait}")})).say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let recipe = sessions.environment("plain").await.unwrap().recipe;
    sessions.put_environment("other", recipe).await.unwrap();
    let request = protocol::CreateSession {
        environment: "other".into(),
        prompt: "Try it".into(),
        images: Vec::new(),
        model: None,
        budgets: None,
        policy: None,
    };
    let id = sessions.create(crate::support::ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    let status = sessions.allow("other", vec!["evil.example".into()]).await.unwrap();
    assert_eq!(status.egress, Egress::Allow(vec!["evil.example".into()]));
    assert_eq!(sessions.allow("other", vec!["b@d".into()]).await.unwrap_err().code, Code::BadRequest);
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let text = follow.last_output();
    // It is let through, and then nobody is there.
    assert!(text.contains("HTTP/1.1 50") && !text.contains("refused:"), "{text}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_was_reached_is_named_with_the_key_that_raises_it() {
    let bomb = "python3 -c 'x = bytearray(600 << 20); print(len(x))' || exit 9";
    let files = "ulimit -n 16; python3 -c 'import os; x = [open(\"/dev/null\") for _ in range(99)]'";
    let script = Script::new()
        .call("shell", json!({"command": bomb}))
        .call("shell", json!({"command": files}))
        .say("Too much.");
    let world = World::new(script).await.environment(|environment| environment.limits.memory_mb = Some(256));
    let sessions = world.start().await;
    let id = create(&sessions, "Use too much").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = |index: usize| follow.calls()[index].1.output.as_ref().unwrap().text.clone();
    let hits: Vec<LimitKind> = follow
        .events
        .iter()
        .filter_map(|event| match event.body {
            EventBody::LimitExceeded { limit, .. } => Some(limit),
            _ => None,
        })
        .collect();
    assert!(told(1).contains("open files") && told(1).contains("open_files"), "{}", told(1));
    // Without control groups a program is refused the memory instead of being killed for it; it is told all the same.
    assert!(told(0).contains("256 MiB") && told(0).contains("memory_mb"), "{}", told(0));
    assert_eq!(hits, [LimitKind::Memory, LimitKind::OpenFiles]);
    world.end(sessions).await;
}

/// A shell that goes on as if nothing had happened has not failed, but a process of it was ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_was_reached_is_told_even_when_the_command_goes_on() {
    let bomb = "python3 -c 'x = bytearray(600 << 20); print(len(x))'; echo after $?";
    let script = Script::new().call("shell", json!({"command": bomb})).say("It was too much.");
    let world = World::new(script).await.environment(|environment| environment.limits.memory_mb = Some(256));
    let sessions = world.start().await;
    let id = create(&sessions, "Use too much").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let text = follow.last_output();
    // Without control groups a program is refused the memory instead of being killed for it.
    assert!(text.contains("after 137") || text.contains("MemoryError"), "{text}");
    assert!(text.contains("256 MiB") && text.contains("memory_mb"), "{text}");
    let memory = |event: &protocol::Event| {
        matches!(event.body, EventBody::LimitExceeded { limit: LimitKind::Memory, .. })
    };
    assert_eq!(follow.events.iter().filter(|event| memory(event)).count(), 1);
    world.end(sessions).await;
}

/// Every file below a directory that has these bytes in it.
fn files_with(dir: &std::path::Path, bytes: &[u8], found: &mut Vec<std::path::PathBuf>) {
    // What overlayfs has for itself is closed to everybody but root, and empty.
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files_with(&entry.path(), bytes, found);
        } else if kind.is_file() {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            if content.windows(bytes.len()).any(|window| window == bytes) {
                found.push(entry.path());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_nowhere_but_where_it_was() {
    const CANARY: &str = "canary-7f3a9c5e";
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("token");
    std::fs::write(&file, format!("{CANARY}\n")).unwrap();
    let look = "env | sort; tr '\\0' ' ' < /proc/1/environ; head -1 /run/slipway/ca.pem; test $SSL_CERT_FILE -ef /run/slipway/ca.pem && echo trusted";
    let script = Script::new().call("shell", json!({"command": look})).say("Seen.");
    let world = World::new(script).await.environment(|environment| {
        environment.secrets = vec![protocol::Secret {
            name: "TOKEN".into(),
            env: None,
            file: Some(file.to_str().unwrap().into()),
            secret: None,
            hosts: vec!["api.example.com".into()],
            form: "bearer".into(),
        }];
    });
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let text = follow.last_output();
    assert!(text.contains("TOKEN=slipway-TOKEN-") && text.contains("trusted"), "{text}");
    follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    let mut found = Vec::new();
    files_with(world.dir.path(), CANARY.as_bytes(), &mut found);
    assert_eq!(found, Vec::<std::path::PathBuf>::new());
    files_with(outside.path(), CANARY.as_bytes(), &mut found);
    assert_eq!(found, [file], "the search finds what is there");
    let asked = world.model.requests().iter().any(|request| request.json.to_string().contains(CANARY));
    assert!(!asked, "the model was not told");
}

#[tokio::test(flavor = "multi_thread")]
async fn recipes_that_cannot_work_are_refused_with_what_to_write() {
    let world = World::new(Script::new()).await;
    let sessions = world.start().await;
    let recipe = sessions.environment("plain").await.unwrap().recipe;
    let secret = || protocol::Secret {
        name: "TOKEN".into(),
        env: Some("TOKEN".into()),
        file: None,
        secret: None,
        hosts: vec!["api.example.com".into()],
        form: "bearer".into(),
    };
    let step = || protocol::SetupStep { run: "true".into(), ..Default::default() };
    type Change<'a> = Box<dyn Fn(&mut protocol::Environment) + 'a>;
    let wrong: Vec<(&str, Change<'_>)> = vec![
        ("base", Box::new(|one| one.base = "floppy:a".into())),
        ("b@d", Box::new(|one| one.egress = Egress::Allow(vec!["b@d".into()]))),
        ("attempts", Box::new(|one| one.setup = vec![protocol::SetupStep { attempts: Some(0), ..step() }])),
        ("timeout_s", Box::new(|one| one.warm = vec![protocol::SetupStep { timeout_s: Some(0), ..step() }])),
        (
            "../x",
            Box::new(|one| one.setup = vec![protocol::SetupStep { inputs: vec!["../x".into()], ..step() }]),
        ),
        ("memory_mb", Box::new(|one| one.limits.memory_mb = Some(0))),
        ("cpus", Box::new(|one| one.limits.cpus = Some(f64::NAN))),
        ("name", Box::new(|one| one.secrets = vec![protocol::Secret { name: "9 x".into(), ..secret() }])),
        ("env = ", Box::new(|one| one.secrets = vec![protocol::Secret { env: None, ..secret() }])),
        (
            "header:NAME",
            Box::new(|one| one.secrets = vec![protocol::Secret { form: "cookie".into(), ..secret() }]),
        ),
        (
            "db",
            Box::new(|one| {
                let service = protocol::Service { name: "db".into(), run: "x".into(), ..Default::default() };
                one.services = vec![service.clone(), service];
            }),
        ),
    ];
    for (word, change) in wrong {
        let mut recipe = recipe.clone();
        change(&mut recipe);
        let refused = sessions.put_environment("wrong", recipe).await.unwrap_err();
        assert_eq!(refused.code, Code::BadRequest, "{refused}");
        assert!(refused.to_string().contains(word) && refused.hint.is_some(), "{word}: {refused}");
    }
    let mut right = recipe;
    right.secrets = vec![secret()];
    right.setup = vec![step()];
    sessions.put_environment("right", right).await.unwrap();
    world.end(sessions).await;
}
