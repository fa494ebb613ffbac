//! Skills: listed by name, loaded on demand, and the same for the whole session, whatever becomes of where they came from.

use protocol::{EventBody, ForkSession, ItemKind, Outcome, PinnedSkill, SkillSource};
use serde_json::json;
use session::ShutDown;
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Follow, World, ann, create};

fn skill(name: &str, description: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n")
}

/// A repository with skills of a team, at the tag v1; its branch is further.
fn source() -> Repo {
    let ship = skill("ship", "How we ship.", "Run scripts/go.sh first.");
    let go = "#!/bin/sh\necho shipped from $(dirname \"$0\")\n";
    let repo = Repo::bare_with(&[("team/ship/SKILL.md", &ship), ("team/ship/scripts/go.sh", go)]);
    repo.git(&["tag", "v1", "main"]);
    let later = skill("ship", "How we ship now.", "Do nothing.");
    repo.commit("main", &[("team/ship/SKILL.md", &later)]);
    repo
}

fn from(repo: &Repo, revision: Option<&str>) -> SkillSource {
    SkillSource {
        url: Some(repo.url()),
        revision: revision.map(str::to_owned),
        folder: Some("team".to_owned()),
        path: None,
    }
}

fn workspace() -> Repo {
    let repo = Repo::plain();
    let (own, ship) = (skill("review", "How we review.", "Be kind."), skill("ship", "Ours.", "Not this."));
    repo.commit(
        "main",
        &[
            (".claude/skills/review/SKILL.md", &own),
            (".claude/skills/review/list.md", "1. Read it."),
            (".agents/skills/ship/SKILL.md", &ship),
            (".slipway/skills/broken/SKILL.md", "# No front matter"),
            (".slipway/skills/small/skill.md", &skill("small", "Small.", "Letters.")),
            (".slipway/skills/SKILL.md", &skill("alone", "Alone.", "Nowhere.")),
        ],
    );
    repo.link("main", ".agents/skills/linked/SKILL.md", "../../../docs/linked.md");
    repo.link("main", ".claude/skills/outside", "/srv/skills/outside");
    // What it leads to is found there.
    repo.link("main", ".claude/skills/again", "../../.agents/skills/ship");
    repo
}

fn notices(follow: &Follow) -> String {
    let text = |item: &protocol::Item| match &item.kind {
        ItemKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    follow.items().into_iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

fn pinned(follow: &Follow) -> Vec<Vec<PinnedSkill>> {
    let skills = |body: &EventBody| match body {
        EventBody::SkillsPinned { skills } => Some(skills.clone()),
        _ => None,
    };
    follow.events.iter().filter_map(|event| skills(&event.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_are_listed_loaded_on_demand_and_pinned_for_the_whole_session() {
    let skills = source();
    let run = "cd /run/slipway/skills/ship && scripts/go.sh; stat -c %a . scripts/go.sh SKILL.md";
    let script = Script::new()
        .call("skill", json!({"name": "ship"}))
        .call("shell", json!({"command": run}))
        .call("skill", json!({"name": "review"}))
        .call("read", json!({"path": ".claude/skills/review/list.md"}))
        .call("skill", json!({"name": "deploy"}))
        .say("Nothing to do.")
        .call("skill", json!({"name": "ship"}))
        .say("Nothing to do.")
        .call("skill", json!({"name": "ship"}))
        .say("Nothing to do.");
    let world = World::with(workspace(), script)
        .await
        .environment(|environment| environment.skills = vec![from(&skills, Some("v1"))]);
    let sessions = world.start().await;
    let id = create(&sessions, "Ship it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(world.model.violations(), Vec::<String>::new());

    let request = &world.model.requests()[0];
    assert!(request.tool_names().contains(&"skill"), "{:?}", request.tool_names());
    let system = request.system.clone();
    assert!(system.contains("- ship (/run/slipway/skills/ship): How we ship.\n"), "{system}");
    assert!(system.contains("- review (/workspace/.claude/skills/review): How we review."), "{system}");
    assert!(!system.contains("Be kind") && !system.contains("scripts/go.sh"), "bodies come on demand");
    let output = |number: usize| follow.calls()[number].1.output.as_ref().unwrap().text.clone();
    let ship = output(0);
    assert!(ship.ends_with("\n\nRun scripts/go.sh first."), "{ship}");
    assert!(
        ship.contains("/run/slipway/skills/ship (read-only)") && ship.contains("scripts/go.sh"),
        "{ship}"
    );
    assert_eq!(output(1), "shipped from scripts\n555\n555\n444\n(exit code 0)");
    assert!(output(2).contains("Its folder is /workspace/.claude/skills/review"), "{}", output(2));
    assert!(output(2).ends_with("Be kind.") && output(3).contains("Read it."), "{}", output(2));
    assert_eq!(output(4), "There is no skill \"deploy\". The skills are: ship, review.");
    let told = notices(&follow);
    assert!(
        told.contains(".slipway/skills/broken/SKILL.md") && told.contains("does not begin with"),
        "{told}"
    );
    assert!(told.contains("two skills \"ship\"") && told.contains(".agents/skills/ship/SKILL.md"), "{told}");
    for (place, why) in [
        (".slipway/skills/small/skill.md", "its name must be SKILL.md"),
        (".slipway/skills/SKILL.md", "a folder of its own"),
        (".agents/skills/linked/SKILL.md", "it is a link"),
        (".claude/skills/outside", "it is a link"),
    ] {
        let line =
            told.lines().find(|line| line.contains(place)).unwrap_or_else(|| panic!("{place}: {told}"));
        assert!(line.contains(why), "{line}");
    }
    assert!(!told.contains(".claude/skills/again"), "{told}");

    let session = sessions.get(id).await.unwrap();
    assert_eq!(pinned(&follow), std::slice::from_ref(&session.skills));
    let v1 = skills.git(&["rev-parse", "v1"]).trim().to_owned();
    let tree = skills.git(&["rev-parse", "v1:team/ship"]).trim().to_owned();
    let [ship, review] = session.skills.as_slice() else { panic!("{:?}", session.skills) };
    assert_eq!((ship.commit.as_deref(), ship.tree.as_str()), (Some(v1.as_str()), tree.as_str()));
    assert_eq!(review.commit, Some(world.repo.tip("main")));
    assert_eq!((ship.folder.as_str(), review.source.as_str()), ("team/ship", "repository"));

    // The tag moves, the repository goes, and another server comes: the session has what it had.
    skills.git(&["tag", "--force", "v1", "main"]);
    drop(skills);
    let snapshot = follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;
    sessions.shut_down(ShutDown::RemoveSandboxes).await;
    drop((sessions, follow));
    let sessions = world.start().await;
    sessions.prompt(id, ann(), "Again".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().ends_with("Run scripts/go.sh first."), "{}", follow.last_output());
    assert_eq!(pinned(&follow).len(), 1);
    assert_eq!(world.model.requests().last().unwrap().system, system, "the same bytes");

    let EventBody::SnapshotTaken { snapshot, .. } = snapshot.body else { panic!() };
    let fork = ForkSession {
        prompt: "Another way".into(),
        images: Vec::new(),
        snapshot: Some(snapshot),
        model: None,
    };
    let forked = sessions.fork(id, ann(), fork).await.unwrap();
    let mut follow = Follow::new(&sessions, forked.id).await;
    follow.finished().await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().ends_with("Run scripts/go.sh first."), "{}", follow.last_output());
    assert_eq!(sessions.get(forked.id).await.unwrap().skills.len(), 2);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_skills_nobody_is_told_of_any_and_a_source_that_is_gone_is_told() {
    let script = Script::new().say("Nothing to do.").say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let request = &world.model.requests()[0];
    assert!(!request.tool_names().contains(&"skill") && !request.system.contains("Skills"));
    assert_eq!(pinned(&follow).len(), 0);
    world.end(sessions).await;

    let skills = source();
    let script = Script::new().say("Nothing to do.").say("Nothing to do.");
    let world = World::new(script)
        .await
        .environment(|environment| environment.skills = vec![from(&skills, Some("v1"))]);
    let sessions = world.start().await;
    let mut commits = Vec::new();
    for _ in 0..2 {
        let id = create(&sessions, "Look").await;
        let mut follow = Follow::new(&sessions, id).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        commits.push((pinned(&follow)[0][0].commit.clone(), notices(&follow).contains("last fetched")));
        // From here on nobody answers.
        std::fs::remove_file(skills.path().join("HEAD")).ok();
    }
    assert!(!commits[0].1 && commits[1].1, "{commits:?}");
    assert_eq!(commits[0].0, commits[1].0);
    world.end(sessions).await;

    let skills = source();
    for (revision, why) in [(Some("v9"), "v9"), (Some(&*"0".repeat(40)), "has no commit")] {
        let script = Script::new().say("Nothing to do.");
        let world = World::new(script)
            .await
            .environment(|environment| environment.skills = vec![from(&skills, revision)]);
        let sessions = world.start().await;
        let id = create(&sessions, "Look").await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        let reason = finished.reason.unwrap();
        assert_eq!(finished.outcome, Outcome::Failed, "{reason}");
        assert!(reason.contains("the skills of") && reason.contains(why), "{reason}");
        assert_eq!(world.model.requests().len(), 0);
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_image_has_the_skills_and_hooks_of_its_commit() {
    let hooks = "hooks = [{ on = \"before\", tool = \"*\", run = \"echo no >&2; exit 2\" }]\n";
    let repo = workspace();
    repo.commit("main", &[(".slipway.toml", hooks)]);
    let script = Script::new().call("read", json!({"path": "answer.txt"})).say("Nothing to do.");
    let world = World::with(repo, script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let built = world.repo.tip("main");
    // The image is behind: reads are served before the workspace is at the tip, and hooks are asked for them all the same.
    world.repo.commit("main", &[("later.txt", "later")]);
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(follow.last_output().contains("vetoed this call: no"), "{}", follow.last_output());
    let skills = sessions.get(id).await.unwrap().skills;
    let pinned: Vec<(&str, Option<&str>)> =
        skills.iter().map(|skill| (skill.name.as_str(), skill.commit.as_deref())).collect();
    assert_eq!(pinned, [("ship", Some(built.as_str())), ("review", Some(built.as_str()))]);
    world.end(sessions).await;
}
