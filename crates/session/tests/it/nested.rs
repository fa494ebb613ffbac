//! `AGENTS.md` below the root: given when the work comes there, once, and again when it changed or was left out.

use protocol::chat::Message;
use protocol::event::CompactionLevel;
use protocol::{EditFormat, EventBody, ItemKind, Outcome, Permission, PolicyRule, ToolMode};
use serde_json::json;
use session::ShutDown;
use testkit::model::{Reply, Request, Script, Small};
use testkit::repo::Repo;

use crate::support::{Follow, World, ann, create};

const FOR_SRC: &str = "Instructions of the repository for src/ (src/AGENTS.md).";

fn repo(more: &[(&str, &str)]) -> Repo {
    let repo = Repo::plain();
    let files = [
        ("AGENTS.md", "Root: be brief."),
        ("src/AGENTS.md", "Src: use tabs."),
        ("src/a.txt", "a\n"),
        ("src/deep/AGENTS.md", "Deep: never given."),
        ("src/deep/AGENTS.override.md", "Deep: use spaces."),
        ("src/deep/b.txt", "b\n"),
    ];
    repo.commit("main", &[&files[..], more].concat());
    repo
}

/// The messages of a request that give instructions of directories.
fn given(request: &Request) -> Vec<&str> {
    let text = |message: &'_ Message| match message {
        Message::User { text, .. } if text.starts_with("Instructions of the repository for ") => Some(()),
        _ => None,
    };
    let texts = request.messages.iter().filter(|message| text(message).is_some());
    texts
        .map(|message| match message {
            Message::User { text, .. } => text.as_str(),
            _ => "",
        })
        .collect()
}

fn notices(follow: &Follow) -> Vec<&str> {
    let text = |item: &&'_ protocol::Item| matches!(item.kind, ItemKind::Notice { .. });
    let items = follow.items().into_iter().filter(text);
    items
        .map(|item| match &item.kind {
            ItemKind::Notice { text, .. } => text.as_str(),
            _ => "",
        })
        .filter(|text| text.starts_with("Instructions of the repository for "))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_of_directories_are_given_once_in_order_and_again_when_they_change() {
    let both = Reply::new()
        .call("read", json!({"path": "src/deep/b.txt"}))
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}));
    let script = Script::new()
        .answer(both)
        .call("list", json!({"path": "src"}))
        .call("shell", json!({"command": "echo 'Src: use nothing.' > src/AGENTS.md"}))
        .call("search", json!({"pattern": "a", "path": "src/a.txt"}))
        .say("Done.")
        .call("read", json!({"path": "src/a.txt"}))
        .say("Nothing to do.");
    let world = World::with(repo(&[]), script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    // Whoever comes later knows what was given.
    let sessions = world.start().await;
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(world.model.violations(), Vec::<String>::new());

    let requests = world.model.requests();
    assert!(requests.iter().all(|request| request.system == requests[0].system), "the prefix stays");
    let system = requests[0].system.as_str();
    assert!(system.contains("Root: be brief.") && !system.contains("Src:"), "{system}");
    assert_eq!(given(&requests[0]), Vec::<&str>::new());
    let first = given(&requests[1]);
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(first[0].starts_with(FOR_SRC) && first[0].ends_with("Src: use tabs."), "{}", first[0]);
    assert!(first[0].contains("the nearest to a file win"), "{}", first[0]);
    assert!(first[1].contains("for src/deep/ (src/deep/AGENTS.override.md)"), "{}", first[1]);
    assert!(first[1].ends_with("Deep: use spaces."), "{}", first[1]);
    assert_eq!(given(&requests[2]), first, "once");
    assert_eq!(given(&requests[3]), first, "a command is in no directory");
    let after = given(&requests[4]);
    assert_eq!((after.len(), &after[..2]), (3, &first[..]), "{after:?}");
    assert!(after[2].starts_with(FOR_SRC) && after[2].ends_with("Src: use nothing."), "{}", after[2]);
    assert_eq!(given(requests.last().unwrap()), after, "nothing new after a restart");
    assert_eq!(notices(&follow), after, "all of it is in the log");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_that_a_compaction_left_out_are_given_again() {
    const CONTEXT: u64 = 16_384;
    let small = Small::new(CONTEXT);
    let script = small.script(move |_, step| match step {
        0 | 70 => Reply::new().call("read", json!({"path": "src/a.txt"})),
        step if step < 70 => {
            let command = format!("echo step {step}; seq {} | sed 's/^/some line /'", 100 + step * 53 % 300);
            Reply::new().call("shell", json!({"command": command}))
        }
        _ => Reply::text("Nothing to do."),
    });
    let overrides = llm::Overrides { context: Some(CONTEXT), ..llm::Overrides::default() };
    let world = World::with(repo(&[]), script).await.profile(overrides);
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let left_out = |body: &EventBody| matches!(body, EventBody::ContextCompacted(compaction) if compaction.level != CompactionLevel::Masked);
    assert!(follow.events.iter().any(|event| left_out(&event.body)), "the older part was left out");
    assert_eq!(notices(&follow).len(), 2, "given again");
    let requests = world.model.requests();
    assert_eq!(given(requests.last().unwrap()), [notices(&follow)[0]], "and once in the context");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_mode_has_the_instructions_of_the_files_it_works_on() {
    let mode = |tool_mode| llm::Overrides {
        tool_mode: Some(tool_mode),
        edit_format: Some(EditFormat::Whole),
        ..llm::Overrides::default()
    };
    let script = Script::new().say("answer.txt\n```\n42\n```");
    let world = World::with(repo(&[]), script).await.profile(mode(ToolMode::Fenced));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct answer.txt, as src/a.txt says").await;
    let finished = Follow::new(&sessions, id).await.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let request = &world.model.requests()[0];
    let shown = request.last_user().unwrap();
    assert!(shown.contains(FOR_SRC) && shown.contains("Src: use tabs."), "{shown}");
    assert!(shown.contains("Deep: use spaces.") && !shown.contains("Deep: never given."), "{shown}");
    assert!(request.system.contains("Root: be brief."), "{}", request.system);
    world.end(sessions).await;

    let step = |call: serde_json::Value| json!({"thought": "next", "call": call}).to_string();
    let script = Script::new()
        .say(step(json!({"tool": "read", "path": "src/a.txt"})))
        .say(step(json!({"tool": "finish", "summary": "Read."})));
    let world = World::with(repo(&[]), script).await.profile(mode(ToolMode::JsonStep));
    let sessions = world.start().await;
    let id = create(&sessions, "Read it").await;
    assert_eq!(Follow::new(&sessions, id).await.finished().await.outcome, Outcome::Done);
    let told = world.model.requests()[1].json.to_string();
    assert!(told.contains(FOR_SRC) && told.contains("Src: use tabs."), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instructions_show_nothing_that_the_model_may_not_read() {
    let script = Script::new()
        .call("shell", json!({"command": "mkdir l && ln -s ../hidden/key l/AGENTS.md && echo x > l/x"}))
        .call("read", json!({"path": "l/x"}))
        .call("list", json!({"path": "hidden"}))
        .call("read", json!({"path": "src/a.txt"}))
        .call("shell", json!({"command": "rm -r l; seq 9000 | sed 's/^/Src: /' > src/AGENTS.md"}))
        .call("read", json!({"path": "src/a.txt"}))
        .call("shell", json!({"command": "git checkout src"}))
        .say("Nothing to do.");
    let files = [("hidden/AGENTS.md", "Hidden: s3cret"), ("hidden/key", "s3cret")];
    let world = World::with(repo(&files), script).await.environment(|environment| {
        let rule = PolicyRule::tool(Permission::Deny, "read");
        environment.policy.rules.push(PolicyRule { path: Some("hidden/**".into()), ..rule });
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let told = notices(&follow);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(!world.model.requests().iter().any(|request| request.json.to_string().contains("s3cret")));
    assert!(told[1].len() < 17_000 && told[1].contains("This was cut"), "{} bytes", told[1].len());
    world.end(sessions).await;
}
