//! Environments with several repositories: each lies in a directory of its own, and each that changed has a branch and a pull
//! request of its own in the end, linked with the others, whatever breaks in between.

use std::sync::Arc;
use std::time::Duration;

use forge::gitea::Gitea;
use forge::github::GitHub;
use protocol::event::{DeliveryState, ReviewState};
use protocol::{Check, Code, Environment, EventBody, ForkSession, Outcome, Repo as RepoSpec, SessionId};
use serde_json::json;
use session::{Outbox, Patience, Sessions};
use testkit::forge::{Fault, Kind, On, Server as Forge};
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Follow, World, ann, create};

const TOKEN: &str = "forge-token-4711";
const PATIENCE: Patience =
    Patience { attempts: 3, first: Duration::from_millis(5), longest: Duration::from_millis(20) };
/// Passes when all say the same.
const CHECK: &str = "cmp api/version web/version";

/// Two or three repositories on one or two forges.
struct Several {
    world: World,
    api: Repo,
    web: Repo,
    docs: Option<Repo>,
    hub: Forge,
    /// Where `web` is, where that is another.
    tea: Option<Forge>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Forges {
    One,
    Two,
}

fn repo(name: &str) -> Repo {
    Repo::bare_with(&[
        ("version", "1\n"),
        ("README.md", &format!("# {name}\n")),
        ("AGENTS.md", &format!("Rules of {name}.\n")),
    ])
}

impl Several {
    async fn new(forges: Forges, script: Script) -> Self {
        let (api, web) = (repo("api"), repo("web"));
        let hub = Forge::start(TOKEN).await;
        let tea = if forges == Forges::Two { Some(Forge::start(TOKEN).await) } else { None };
        let api_url = hub.serve("acme", "api", &api);
        let web_url = tea.as_ref().unwrap_or(&hub).serve("acme", "web", &web);
        let mut known = forge::Forges::default();
        let token = || Some(forge::Token::new(TOKEN));
        let github = GitHub::new(&hub.api_url(), token(), "TOKEN").unwrap();
        known.add(&hub.root().to_string_lossy(), Arc::new(github)).unwrap();
        if let Some(tea) = &tea {
            let gitea = Gitea::new(&tea.api_of(Kind::Gitea), token(), "TOKEN").unwrap();
            known.add(&tea.root().to_string_lossy(), Arc::new(gitea)).unwrap();
        }
        let mut world = World::with(Repo::plain(), script).await.environment(|environment| {
            environment.repos = vec![RepoSpec::at(api_url), RepoSpec::at(web_url)];
            environment.checks =
                vec![Check { name: "same".into(), run: CHECK.into(), parser: "auto".into() }];
        });
        world.outbox =
            Outbox { forges: known, delivery: PATIENCE, notification: PATIENCE, ..Outbox::default() };
        Self { world, api, web, docs: None, hub, tea }
    }

    /// With a third repository, below another directory.
    fn and_docs(mut self) -> Self {
        let docs = repo("docs");
        let url = self.hub.serve("acme", "docs", &docs);
        self.docs = Some(docs);
        self.world = self.world.environment(|environment| {
            environment.repos.push(RepoSpec { path: Some("more/docs".to_owned()), ..RepoSpec::at(url) });
        });
        self
    }

    fn forge_of_web(&self) -> &Forge {
        self.tea.as_ref().unwrap_or(&self.hub)
    }

    /// One pull request for each of these, each naming the others, and nothing that a forge would not have understood.
    async fn assert_linked(&self, sessions: &Sessions, id: SessionId, names: &[&str]) {
        let session = sessions.get(id).await.unwrap();
        let deliveries = &session.deliveries;
        let mut named: Vec<&str> = deliveries.iter().filter_map(|one| one.repository.as_deref()).collect();
        named.sort_unstable();
        assert_eq!(named, names, "{deliveries:?}");
        for one in deliveries {
            assert_eq!(one.state, DeliveryState::Opened, "{deliveries:?}");
            let repo = match one.repository.as_deref().unwrap() {
                "api" => &self.api,
                "web" => &self.web,
                _ => self.docs.as_ref().unwrap(),
            };
            assert_eq!(Some(repo.tip(&one.branch)), one.commit, "{one:?}");
        }
        let forges = [Some(&self.hub), self.tea.as_ref()].into_iter().flatten();
        let pulls: Vec<_> = forges.clone().flat_map(Forge::pull_requests).collect();
        assert_eq!(pulls.len(), names.len(), "{pulls:?}");
        for pull in &pulls {
            for one in deliveries {
                let line =
                    format!("- {}: {}", one.repository.as_deref().unwrap(), one.url.as_deref().unwrap());
                let times = usize::from(names.len() > 1);
                assert_eq!(pull.body.matches(&line).count(), times, "{line}\n{}", pull.body);
            }
        }
        for forge in forges {
            assert_eq!(forge.violations(), Vec::<String>::new());
        }
    }
}

/// Changes both repositories in the same way.
fn both() -> Script {
    Script::new()
        .call("edit", json!({"path": "api/version", "old": "1", "new": "2"}))
        .call("edit", json!({"path": "web/version", "old": "1", "new": "2"}))
        .say("Both say 2.")
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_two_repositories_is_one_branch_and_one_pull_request_in_each() {
    let script = both().call("shell", json!({"command": "echo more > web/more.txt"})).say("There is more.");
    let several = Several::new(Forges::One, script).await;
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!((finished.receipt.files_changed, finished.receipt.insertions), (2, 2));
    several.assert_linked(&sessions, id, &["api", "web"]).await;

    let asked = serde_json::to_string(&several.world.model.requests()[0].json).unwrap();
    for words in
        ["holds several repositories", "- api/ is", "- web/ is", "For what is below web/", "Rules of api."]
    {
        assert!(asked.contains(words), "{words}: {asked}");
    }
    let diff = sessions.diff(id).await.unwrap();
    for words in ["a/api/version", "b/web/version"] {
        assert!(diff.patch.contains(words), "{}", diff.patch);
    }
    assert_eq!((diff.files, diff.insertions, diff.deletions), (2, 2, 2));
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(several.api.file(&branch, "version").as_deref(), Some("2\n"));
    assert!(several.api.log(&branch)[0].contains("Raise the version"));

    let web = several.web.tip(&branch);
    let (api, asked) = (several.api.tip(&branch), several.hub.requests(On::Push).len());
    sessions.prompt(id, ann(), "And more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    several.assert_linked(&sessions, id, &["api", "web"]).await;
    assert_eq!(several.web.file(&branch, "more.txt").as_deref(), Some("more\n"));
    assert_ne!(several.web.tip(&branch), web);
    assert_eq!(several.api.tip(&branch), api, "what did not change is left alone");
    let pushed: Vec<_> =
        follow.deliveries().into_iter().filter(|one| one.state == DeliveryState::Pushed).collect();
    let names: Vec<_> = pushed.iter().filter_map(|one| one.repository.as_deref()).collect();
    assert_eq!(names, ["api", "web", "web"], "{asked}");
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_delivered() {
    let script = Script::new()
        .call(
            "shell",
            json!({"command": "cd more/docs && echo Words >> README.md && git log --oneline | cat"}),
        )
        .call("search", json!({"pattern": "Words"}))
        .call("search", json!({"pattern": "Words", "path": "more/docs"}))
        .say("Done.");
    let several = Several::new(Forges::One, script).await.and_docs();
    let sessions = several.world.start().await;
    let id = create(&sessions, "Write it down").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    several.assert_linked(&sessions, id, &["more/docs"]).await;
    assert_eq!(several.hub.pull_requests()[0].repository, "acme/docs");
    assert!(!several.hub.pull_requests()[0].body.contains("Belongs together"));
    let outputs: Vec<String> =
        follow.calls().iter().map(|(_, call)| call.output.as_ref().unwrap().text.clone()).collect();
    assert!(outputs[1].contains("more/docs/README.md:2:Words"), "{outputs:?}");
    assert_eq!(outputs[1], outputs[2], "a file has one name wherever it is looked for");
    assert!(several.api.branches() == ["main"] && several.web.branches() == ["main"]);
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_opening_that_fails_for_one_is_made_later_and_holds_up_no_other() {
    let several = Several::new(Forges::Two, both()).await;
    several.forge_of_web().fail_times(On::Open, Fault::Refuse(503), 100);
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.starts_with("web: ") && reason.contains("slipway deliver"), "{reason}");
    let session = sessions.get(id).await.unwrap();
    let states: Vec<_> =
        session.deliveries.iter().map(|one| (one.repository.as_deref(), one.state)).collect();
    assert_eq!(states, [(Some("api"), DeliveryState::Opened), (Some("web"), DeliveryState::Unknown)]);
    assert!(!several.hub.pull_requests()[0].body.contains("Belongs together"));

    several.forge_of_web().heal();
    sessions.deliver(id, ann()).await.unwrap();
    several.assert_linked(&sessions, id, &["api", "web"]).await;
    let asked = several.hub.entries().len();
    sessions.deliver(id, ann()).await.unwrap();
    assert_eq!(several.hub.entries().len(), asked, "what is whole is left alone");
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_refused_by_one_holds_up_no_other() {
    let several = Several::new(Forges::One, both()).await;
    let hook = several.web.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho frozen until monday >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.starts_with("web: ") && reason.contains("frozen until monday"), "{reason}");
    let states = |session: protocol::Session| -> Vec<DeliveryState> {
        session.deliveries.iter().map(|one| one.state).collect()
    };
    let before = sessions.get(id).await.unwrap();
    assert_eq!(states(before), [DeliveryState::Opened, DeliveryState::Failed]);
    std::fs::remove_file(hook).unwrap();
    sessions.deliver(id, ann()).await.unwrap();
    several.assert_linked(&sessions, id, &["api", "web"]).await;
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_person_must_see_are_named_where_they_lie() {
    let workflow = "mkdir -p api/.github/workflows && echo on: push > api/.github/workflows/ci.yml";
    let script = Script::new().call("shell", json!({"command": workflow})).say("Done.");
    let several = Several::new(Forges::One, script).await;
    let sessions = several.world.start().await;
    let id = create(&sessions, "Build it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let asked = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    let EventBody::ApprovalRequested { approval, question, .. } = asked.body else { unreachable!() };
    assert!(question.contains("- api/.github/workflows/ci.yml: it runs with"), "{question}");
    assert!(question.contains("(api)") && !question.contains("(web)"), "{question}");
    assert_eq!(several.hub.pull_requests().len(), 0);
    let yes = protocol::Decide { approved: true, ..protocol::Decide::default() };
    sessions.decide(id, ann(), approval, yes).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    several.assert_linked(&sessions, id, &["api"]).await;
    several.world.end(sessions).await;
}

/// A server that dies when this has happened at the forge of `web`, and one that comes after it.
async fn dies(forges: Forges, on: On, fault: Fault) {
    let several = Several::new(forges, both()).await;
    several.forge_of_web().fail(on, fault);
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    several.forge_of_web().wait_for(on, 1).await;
    drop(sessions);

    let sessions = several.world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{on:?} {fault:?}: {:?}", finished.reason);
    several.assert_linked(&sessions, id, &["api", "web"]).await;
    let session = sessions.get(id).await.unwrap();
    assert!(session.deliveries.iter().all(|one| one.number.is_some()));
    drop(follow);
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_two_pull_requests_leaves_one_in_each_repository() {
    // With two forges the first is there when the second is asked for; with one, the first is asked for.
    for forges in [Forges::Two, Forges::One] {
        dies(forges, On::Open, Fault::Hang).await;
        dies(forges, On::Open, Fault::ActThenHang).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_they_are_linked_links_them() {
    dies(Forges::Two, On::Update, Fault::Hang).await;
    dies(Forges::One, On::Update, Fault::ActThenHang).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_wrote_stays_when_another_one_is_linked() {
    let script = Script::new()
        .call("shell", json!({"command": "echo Words >> web/README.md"}))
        .say("Web.")
        .call("shell", json!({"command": "echo Words >> api/README.md"}))
        .say("And the other.");
    let several = Several::new(Forges::One, script).await;
    let sessions = several.world.start().await;
    let id = create(&sessions, "Write it down").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    several.assert_linked(&sessions, id, &["web"]).await;
    let edit = protocol::EditPullRequest { body: Some("My own words.".into()), ..Default::default() };
    sessions.edit_pull_request(id, ann(), None, edit).await.unwrap();

    sessions.prompt(id, ann(), "The other, too".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    several.assert_linked(&sessions, id, &["api", "web"]).await;
    let body = &several.hub.pull_requests()[0].body;
    assert!(body.starts_with("My own words.\n\n<!--"), "{body}");

    let refused = sessions.pull_request(id, None).await.unwrap_err();
    assert!(refused.hint.unwrap().contains("api"), "which one is meant must be said");
    assert_eq!(sessions.pull_request(id, Some("web")).await.unwrap().repository.as_deref(), Some("web"));
    assert_eq!(sessions.bundle(id, None).await.err().unwrap().code, Code::BadRequest);
    assert!(sessions.bundle(id, Some("api")).await.is_ok());
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_both_outlives_the_sandbox_and_is_in_a_fork() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 2 > api/version; echo 2 > web/version; echo kept > web/kept"}))
        .say("Both.")
        .call("shell", json!({"command": "cat api/version web/version web/kept; git -C web status --short"}))
        .say("Seen.")
        .call("shell", json!({"command": "echo forked > api/forked; git -C api branch --show-current"}))
        .say("Forked.");
    let several = Several::new(Forges::One, script).await;
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let snapshot = follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;
    let EventBody::SnapshotTaken { snapshot, .. } = snapshot.body else { unreachable!() };
    let first = sessions.get(id).await.unwrap().sandbox.unwrap();
    drop((follow, sessions));
    several.world.driver.remove(first).await.unwrap();
    std::fs::remove_dir_all(several.world.dir.path().join("sandbox/snapshots")).unwrap();

    let sessions = several.world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    sessions.prompt(id, ann(), "Look at it".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(follow.last_output().starts_with("2\n2\nkept\n(exit"), "made again from what both mirrors keep");
    let _ = snapshot;

    let taken = follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;
    let EventBody::SnapshotTaken { snapshot, .. } = taken.body else { unreachable!() };
    let (prompt, images) = ("Go on".to_owned(), Vec::new());
    let fork = ForkSession { prompt, images, snapshot: Some(snapshot), model: None };
    let forked = sessions.fork(id, ann(), fork).await.unwrap().id;
    let mut branched = Follow::new(&sessions, forked).await;
    branched.until(|body| matches!(body, EventBody::SandboxChanged { state, .. } if *state == protocol::event::SandboxState::Ready)).await;
    let finished = branched.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let deliveries = sessions.get(forked).await.unwrap().deliveries;
    assert_eq!(deliveries.len(), 2, "all of its work is on its own branch: {deliveries:?}");
    let branch = &deliveries[0].branch;
    assert_ne!(*branch, sessions.get(id).await.unwrap().delivery.unwrap().branch);
    assert_eq!(several.api.file(branch, "forked").as_deref(), Some("forked\n"));
    assert_eq!(several.web.file(branch, "kept").as_deref(), Some("kept\n"));
    drop((follow, branched));
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_moved_in_one_is_merged_there() {
    let script = both().say("Nothing was in the way.");
    let several = Several::new(Forges::One, script).await;
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let api = several.api.tip(&branch);
    several.web.commit("main", &[("news.txt", "news\n")]);
    sessions.rebase(id, ann(), protocol::PromptId::new()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(several.web.file(&branch, "news.txt").as_deref(), Some("news\n"));
    assert_eq!(several.api.tip(&branch), api);
    several.assert_linked(&sessions, id, &["api", "web"]).await;
    let diff = sessions.diff(id).await.unwrap();
    assert!(!diff.patch.contains("news.txt"), "what came from the base is not the session's: {}", diff.patch);
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_begin_from_an_image_of_all_and_at_the_tip_of_each() {
    let script = Script::new()
        .call("shell", json!({"command": "cat made web/version; git -C api log --format=%s | cat"}))
        .say("Seen.");
    let several = Several::new(Forges::One, script).await;
    let several = Several {
        world: several.world.environment(|environment: &mut Environment| {
            environment.setup = vec![protocol::SetupStep {
                run: "cat api/version web/version > made; echo run >> runs".into(),
                inputs: vec!["api/version".into()],
                ..Default::default()
            }];
            environment.checks.clear();
        }),
        ..several
    };
    let sessions = several.world.start().await;
    let image = sessions.build_and_wait("plain").await.unwrap();
    assert!(image.error.is_none(), "{image:?}");
    several.web.commit("main", &[("version", "7\n")]);
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let said = follow.last_output();
    assert!(said.contains("1\n1\n7\n") && said.contains("Brought forward: web from commit"), "{said}");
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_is_merged_when_all_of_it_is() {
    let several = Several::new(Forges::One, both()).await;
    let sessions = several.world.start().await;
    let id = create(&sessions, "Raise the version").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    for (name, number, merged) in [("api", 1, false), ("web", 2, true)] {
        several.hub.merge(number).unwrap();
        let comment = protocol::EditPullRequest { comment: Some("Thanks.".into()), ..Default::default() };
        sessions.edit_pull_request(id, ann(), Some(name), comment).await.unwrap();
        let session = sessions.get(id).await.unwrap();
        let own = session.deliveries.iter().find(|one| one.repository.as_deref() == Some(name)).unwrap();
        assert_eq!(own.review.unwrap().state, ReviewState::Merged);
        assert_eq!(session.listing.merged_at.is_some(), merged, "{name}");
    }
    several.world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_that_cannot_lie_beside_each_other_are_refused() {
    let world = World::new(Script::new()).await;
    let (one, other) = (Repo::plain(), Repo::plain());
    let sessions = world.start().await;
    for (repos, words) in [
        (vec![RepoSpec::at(one.url()), RepoSpec::at(one.url() + "/")], "two repositories would lie in"),
        (
            vec![
                RepoSpec { path: Some("a".into()), ..RepoSpec::at(one.url()) },
                RepoSpec { path: Some("b".into()), ..RepoSpec::at(one.url()) },
            ],
            "twice",
        ),
        (
            vec![
                RepoSpec { path: Some("a".into()), ..RepoSpec::at(one.url()) },
                RepoSpec { path: Some("a/b".into()), ..RepoSpec::at(other.url()) },
            ],
            "one repository would lie in another",
        ),
        (
            vec![
                RepoSpec { path: Some("../a".into()), ..RepoSpec::at(one.url()) },
                RepoSpec::at(other.url()),
            ],
            "leads out of the workspace",
        ),
    ] {
        let recipe = Environment { repos, ..Environment::default() };
        let problem = sessions.put_environment("several", recipe).await.unwrap_err();
        assert_eq!(problem.code, Code::BadRequest);
        assert!(problem.title.contains(words), "{problem}");
    }
    world.end(sessions).await;
}
