//! Policies: calls that are refused, calls that wait for a person, every way to decide on them, and what survives.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::item::ToolCall;
use protocol::{
    Actor, ApprovalId, AskedCall, Check, Code, CreateSession, Decide, DiffSummary, EditSession, Egress,
    EventBody, ForkSession, Gate, ItemKind, ItemStatus, Outcome, Permission, Policy, PolicyRule, SessionId,
    Status,
};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, ann, create};

fn rule(then: Permission, tool: &str) -> PolicyRule {
    PolicyRule::tool(then, tool)
}

fn command(then: Permission, pattern: &str) -> PolicyRule {
    PolicyRule { command: Some(pattern.into()), ..rule(then, "shell") }
}

fn path(then: Permission, tool: &str, pattern: &str) -> PolicyRule {
    PolicyRule { path: Some(pattern.into()), ..rule(then, tool) }
}

fn policy(rules: Vec<PolicyRule>) -> Policy {
    Policy { rules, after_every: None }
}

async fn world(script: Script, rules: Vec<PolicyRule>) -> World {
    lenient(World::new(script).await).environment(|environment| environment.policy = policy(rules))
}

/// With a check that passes whatever was done.
fn lenient(world: World) -> World {
    let check = Check { name: "none".into(), run: "true".into(), parser: "auto".into() };
    world.environment(|environment| environment.checks = vec![check])
}

fn shell(script: Script, line: &str) -> Script {
    script.call("shell", json!({"command": line}))
}

fn approve() -> Decide {
    Decide { approved: true, ..Decide::default() }
}

fn bob() -> Actor {
    Actor::user("bob")
}

/// Waits until somebody must decide on a call.
async fn asked(follow: &mut Follow) -> (ApprovalId, AskedCall, DiffSummary) {
    let event = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    match event.body {
        EventBody::ApprovalRequested {
            approval,
            gate: Gate::Call,
            call: Some(call),
            diff: Some(diff),
            ..
        } => (approval, *call, *diff),
        other => panic!("{other:?}"),
    }
}

/// The same in a session whose log begins with another's: what waits there now.
async fn asked_in(
    follow: &mut Follow,
    sessions: &Sessions,
    id: SessionId,
) -> (ApprovalId, AskedCall, DiffSummary) {
    loop {
        let asked = asked(follow).await;
        let session = sessions.get(id).await.unwrap();
        if session.approval.is_some_and(|pending| pending.id == asked.0) {
            return asked;
        }
    }
}

/// What the model was last told of its calls.
fn told(world: &World) -> String {
    let requests = world.model.requests();
    let messages = requests.last().unwrap().json["messages"].as_array().unwrap().clone();
    messages.last().unwrap().to_string()
}

/// Waits for the end of the turn.
async fn ends(world: &World, follow: &mut Follow, outcome: Outcome) {
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, outcome, "{:?}", finished.reason);
    assert_eq!(world.model.violations(), Vec::<String>::new());
}

/// How each call ended, in order.
fn ended(follow: &Follow) -> Vec<(ItemStatus, ToolCall)> {
    follow.calls().into_iter().map(|(item, call)| (item.status, call.clone())).collect()
}

fn statuses(follow: &Follow) -> Vec<ItemStatus> {
    ended(follow).into_iter().map(|(status, _)| status).collect()
}

/// A request for a session with a policy of its own.
fn with_policy(policy: Policy) -> CreateSession {
    CreateSession {
        environment: "plain".into(),
        prompt: "Do it".into(),
        images: Vec::new(),
        model: None,
        budgets: None,
        policy: Some(policy),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_is_answered_with_why_and_what_is_allowed_beside_it_runs() {
    let both = Reply::new()
        .call("shell", json!({"command": "echo one > one.txt"}))
        .call("shell", json!({"command": "true && git push"}))
        .call("shell", json!({"command": "cat one.txt"}));
    let script = Script::new().answer(both).say("Done.");
    let mut push = command(Permission::Deny, "git push *");
    push.reason = Some("slipway pushes itself".into());
    let world = world(script, vec![push]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    let calls = ended(&follow);
    assert_eq!(statuses(&follow), [ItemStatus::Completed, ItemStatus::Failed, ItemStatus::Completed]);
    let refused = &calls[1].1;
    let text = &refused.output.as_ref().unwrap().text;
    assert!(text.contains("does not allow it") && text.contains("slipway pushes itself"), "{text}");
    assert_eq!(refused.duration_ms, None, "it never ran");
    assert!(!follow.names().contains(&"approval.requested"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asked_call_waits_over_a_restart_and_an_idle_sandbox_and_runs_once_when_it_is_approved() {
    let script = shell(
        shell(Script::new(), "echo 42 > answer.txt; mkdir node_modules; echo kept > node_modules/x"),
        "deploy() { :; }; true",
    )
    .call("shell", json!({"command": "cat node_modules/x; echo ran >> ran.txt; cat ran.txt"}))
    .say("Done.");
    // A line that cannot be taken apart is asked too.
    let rules = vec![command(Permission::Ask, "cat *"), command(Permission::Deny, "deploy *")];
    let world = world(script, rules).await.idle(Duration::from_millis(100));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (first, call, diff) = asked(&mut follow).await;
    assert!(
        call.input["command"].as_str().unwrap().starts_with("deploy()") && call.kind.is_empty(),
        "{call:?}"
    );
    assert_eq!((diff.count, diff.files[0].path.as_str()), (1, "answer.txt"));
    sessions.decide(id, ann(), first, approve()).await.unwrap();

    let (approval, call, diff) = asked(&mut follow).await;
    assert_ne!(first, approval);
    assert!(call.why.contains("cat *") && diff.count == 1, "{call:?}");
    let session = sessions.get(id).await.unwrap();
    assert_eq!((session.status, session.approval.unwrap().call.unwrap().item), (Status::Waiting, call.item));
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "who waits needs no sandbox");
    let patch = sessions.diff(id).await.unwrap().patch;
    assert!(patch.contains("answer.txt") && patch.contains("+42"), "the whole diff can be had: {patch}");
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    assert_eq!(sessions.get(id).await.unwrap().status, Status::Waiting);
    assert_eq!(world.model.requests().len(), 3, "nobody was asked for anything meanwhile");
    let all = Decide { comment: Some("fine".into()), ..approve() };
    let decision = sessions.decide(id, bob(), approval, all.clone()).await.unwrap();
    assert_eq!((decision.gate, decision.by.as_str()), (Gate::Call, "bob"));
    assert_eq!(
        sessions.decide(id, ann(), approval, all).await.unwrap().by,
        "bob",
        "the same again is the first"
    );
    let other = sessions.decide(id, ann(), approval, Decide::default()).await.unwrap_err();
    assert!(other.code == Code::Conflict && other.title.contains("bob approved"), "{other}");
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    let output = follow.last_output();
    assert!(
        output.contains("kept\nran\n") && !output.contains("ran\nran"),
        "all files are there, once: {output}"
    );
    assert!(output.contains("bob approved this call and said: fine"), "{output}");
    assert!(told(&world).contains("kept") && !told(&world).contains("interrupted"), "{}", told(&world));
    let begun = follow
        .events
        .iter()
        .filter(|event| matches!(&event.body, EventBody::ItemStarted { item, .. } if item.id == call.item));
    assert_eq!(begun.count(), 2, "it came into being, and it began");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_after_the_decision_leaves_a_call_that_runs_once() {
    let script = shell(Script::new(), "echo begun; sleep 1; echo ran >> ran.txt; cat ran.txt").say("Done.");
    let world = world(script, vec![rule(Permission::Ask, "shell")]).await;
    let mut sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, call, _) = asked(&mut follow).await;
    sessions.decide(id, ann(), approval, approve()).await.unwrap();
    // Once at any moment after the decision, and once while it runs.
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let starts =
        |body: &EventBody| matches!(body, EventBody::ItemStarted { item, .. } if item.id == call.item);
    follow.until(starts).await;
    follow.until(starts).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    assert_eq!(follow.last_output(), "begun\nran\n(exit code 0)");
    assert_eq!(
        follow.names().iter().filter(|name| **name == "approval.requested").count(),
        1,
        "nobody is asked twice"
    );
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_call_does_not_run_and_the_model_reads_the_comment() {
    let script = shell(Script::new(), "echo bad > bad.txt");
    let script = shell(shell(script, "echo worse > bad.txt"), "echo good > good.txt; ls").say("Done.");
    let world =
        world(script, vec![command(Permission::Ask, "echo bad"), command(Permission::Ask, "echo worse")])
            .await;
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, ..) = asked(&mut follow).await;
    let no = Decide { comment: Some(" call it good.txt ".into()), ..Decide::default() };
    sessions.decide(id, bob(), approval, no).await.unwrap();
    let (approval, _, diff) = asked(&mut follow).await;
    assert_eq!(diff, DiffSummary::default(), "nothing ran");
    let heard = told(&world);
    assert!(heard.contains("bob did not approve this call and said: call it good.txt"), "{heard}");
    sessions.decide(id, ann(), approval, Decide::default()).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    let output = follow.last_output();
    assert!(output.contains("good.txt") && !output.contains("bad.txt"), "{output}");
    assert_eq!(follow.events.iter().filter(|event| event.body.name() == "turn.started").count(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_call_runs_as_it_was_edited_and_never_what_is_denied() {
    let script = shell(shell(Script::new(), "echo model > who.txt"), "echo again > who.txt").say("Done.");
    let rules = vec![command(Permission::Deny, "rm *"), rule(Permission::Ask, "shell")];
    let world = world(script, rules).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, ..) = asked(&mut follow).await;
    for (wrong, says) in [
        (Decide { input: Some(json!({"comand": "ls"})), ..approve() }, "cannot be run with this input"),
        (Decide { input: Some(json!({"command": "ls"})), ..Decide::default() }, "does not run"),
        (Decide { all: true, ..approve() }, "no rule can say"),
        (
            Decide { input: Some(json!({"command": "rm who.txt"})), ..approve() },
            "is denied, whoever approves it",
        ),
    ] {
        let problem = sessions.decide(id, bob(), approval, wrong).await.unwrap_err();
        assert!(problem.code == Code::BadRequest && problem.title.contains(says), "{problem}");
    }
    let edited = json!({"command": "echo person > who.txt; cat who.txt"});
    sessions.decide(id, bob(), approval, Decide { input: Some(edited.clone()), ..approve() }).await.unwrap();
    let (approval, ..) = asked(&mut follow).await;
    let output = follow.last_output();
    assert!(output.contains("bob changed this call") && output.contains(")\nperson\n"), "{output}");
    let call = ended(&follow).pop().unwrap().1;
    assert_eq!(call.input, edited, "what ran is told");
    let heard = world.model.requests()[1].json.to_string();
    assert!(heard.contains("echo model") && heard.contains("echo person"), "the model knows both: {heard}");
    // So is what the session's own policy denies by now.
    let late = policy(vec![command(Permission::Deny, "touch *")]);
    set(&sessions, id, late).await.unwrap();
    let denied = Decide { input: Some(json!({"command": "touch x"})), ..approve() };
    let problem = sessions.decide(id, bob(), approval, denied).await.unwrap_err();
    assert!(problem.title.contains("is denied") && problem.title.contains("touch *"), "{problem}");
    let no = Decide { comment: Some("leave it".into()), ..Decide::default() };
    sessions.decide(id, bob(), approval, no).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    let refused = ended(&follow).pop().unwrap();
    assert_eq!(refused.0, ItemStatus::Failed);
    assert!(refused.1.output.unwrap().text.contains("leave it"));
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "who.txt").as_deref(), Some("person\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_kind_is_not_asked_again_in_this_session_nor_inherited() {
    let turn = |script: Script| {
        shell(shell(shell(script, "git status --short"), "git status"), "git log --oneline").say("Done.")
    };
    let script = turn(turn(turn(Script::new())));
    let world = world(script, vec![rule(Permission::Ask, "shell")]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, call, _) = asked(&mut follow).await;
    assert_eq!(call.kind, [command(Permission::Allow, "git status --short *")]);
    sessions.decide(id, ann(), approval, Decide { all: true, ..approve() }).await.unwrap();
    let (approval, call, _) = asked(&mut follow).await;
    assert_eq!(call.input["command"], "git log --oneline", "the second of the kind ran unasked");
    sessions.decide(id, ann(), approval, approve()).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    assert_eq!(sessions.get(id).await.unwrap().granted, [command(Permission::Allow, "git status --short *")]);
    sessions.prompt(id, ann(), "Again".into()).await.unwrap();
    let (approval, call, _) = asked(&mut follow).await;
    assert_eq!(call.input["command"], "git log --oneline", "one approval is for one call");
    sessions.decide(id, ann(), approval, approve()).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    // A fork has the policy, and asks anew.
    set(&sessions, id, policy(vec![command(Permission::Deny, "git log *")])).await.unwrap();
    let request = ForkSession { prompt: "Once more".into(), images: Vec::new(), snapshot: None, model: None };
    let fork = sessions.fork(id, ann(), request).await.unwrap();
    assert_eq!((fork.granted.len(), fork.policy.rules.len()), (0, 1));
    let mut follow = Follow::new(&sessions, fork.id).await;
    let session = fork.id;
    for expected in ["git status --short", "git status"] {
        let (approval, call, _) = asked_in(&mut follow, &sessions, session).await;
        assert_eq!(call.input["command"], expected, "nothing was allowed here yet");
        sessions.decide(session, ann(), approval, approve()).await.unwrap();
    }
    while sessions.get(session).await.unwrap().status != Status::Done {
        follow.next().await;
    }
    assert!(ended(&follow).pop().unwrap().1.output.unwrap().text.contains("does not allow it"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_batch_each_call_is_decided_and_they_run_in_their_order() {
    let batch = Reply::new()
        .call("shell", json!({"command": "echo 1 >> order.txt"}))
        .call("write", json!({"path": "guarded/a.txt", "content": "a\n"}))
        .call("shell", json!({"command": "echo 2 >> order.txt"}))
        .call("write", json!({"path": "guarded/b.txt", "content": "b\n"}))
        .call("shell", json!({"command": "cat order.txt; ls guarded"}));
    let world =
        world(Script::new().answer(batch).say("Done."), vec![path(Permission::Ask, "edit", "guarded/**")])
            .await;
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, call, diff) = asked(&mut follow).await;
    assert_eq!((call.tool.as_str(), diff.count), ("write", 1), "what came before it ran");
    // The server ends, and the rest still waits.
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    let sessions = world.start().await;
    sessions.decide(id, ann(), approval, approve()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    asked(&mut follow).await;
    let (approval, call, diff) = asked(&mut follow).await;
    assert_eq!((call.input["path"].as_str().unwrap(), diff.count), ("guarded/b.txt", 2));
    sessions.decide(id, ann(), approval, Decide::default()).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    assert_eq!(follow.last_output(), "1\n2\na.txt\n(exit code 0)");
    assert_eq!(world.model.requests().len(), 2, "one step, however often it waited");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_so_many_actions_a_person_is_asked_and_can_let_it_be() {
    let mut script = Script::new();
    for n in 0..9 {
        script = shell(script, &format!("echo {n} >> n.txt")).call("read", json!({"path": "n.txt"}));
    }
    let world = world(script.say("Done."), Vec::new()).await;
    let sessions = world.start().await;
    let request = with_policy(serde_json::from_value(json!({"after_every": true})).unwrap());
    let id = sessions.create(ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, call, diff) = asked(&mut follow).await;
    assert!(call.after_every && call.why.contains("5 actions"), "{call:?}");
    assert_eq!((call.input["command"].as_str().unwrap(), diff.insertions), ("echo 5 >> n.txt", 5));
    sessions.decide(id, ann(), approval, Decide { all: true, ..approve() }).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    assert_eq!(follow.names().iter().filter(|name| **name == "approval.requested").count(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_what_waits_and_nothing_of_it_runs() {
    let world =
        world(shell(Script::new(), "echo x > x.txt").say("No."), vec![rule(Permission::Ask, "shell")]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, ..) = asked(&mut follow).await;
    assert!(sessions.stop(id, ann()).await.unwrap().turn.is_some());
    ends(&world, &mut follow, Outcome::Cancelled).await;
    let (status, call) = ended(&follow).pop().unwrap();
    assert_eq!((status, call.duration_ms), (ItemStatus::Cancelled, None));
    assert_eq!(call.output.unwrap().text, agent::history::NOT_BEGUN, "it has no effects to look for");
    let late = sessions.decide(id, bob(), approval, approve()).await.unwrap_err();
    assert_eq!(late.code, Code::Conflict);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_followed_before_it_is_decided() {
    let script = shell(Script::new(), "mkdir guarded open; ln -s ../guarded open/link; ln -s guarded/x file")
        .call("write", json!({"path": "open/link/y", "content": "y"}))
        .call("write", json!({"path": "file", "content": "x"}))
        .call("write", json!({"path": "open/z", "content": "z"}))
        .say("Done.");
    let world = world(script, vec![path(Permission::Deny, "write", "guarded/**")]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    assert_eq!(
        statuses(&follow),
        [ItemStatus::Completed, ItemStatus::Failed, ItemStatus::Failed, ItemStatus::Completed],
        "{:?}",
        follow.calls()
    );
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_narrows_what_its_environment_allows_and_so_does_its_repository() {
    let repo = testkit::repo::Repo::plain();
    let recipe = "policy = { rules = [{ then = \"deny\", tool = \"shell\", command = \"curl *\" }] }\n";
    repo.commit("main", &[(".slipway.toml", recipe)]);
    let script = shell(shell(shell(Script::new(), "curl x"), "rm -f x"), "ls").say("Done.");
    let world = lenient(World::with(repo, script).await);
    let world = world.environment(|plain| plain.policy = policy(vec![command(Permission::Deny, "rm *")]));
    let sessions = world.start().await;
    let request = with_policy(policy(vec![rule(Permission::Allow, "shell")]));
    let wrong = |rules| CreateSession { policy: Some(policy(rules)), ..request.clone() };
    for (rules, says) in [
        (vec![rule(Permission::Ask, "shel")], "unknown tool"),
        (
            vec![PolicyRule { host: Some("https://x".into()), tool: None, ..rule(Permission::Deny, "") }],
            "host",
        ),
        (vec![path(Permission::Ask, "write", "")], "empty path"),
    ] {
        let problem = sessions.create(ann(), wrong(rules)).await.unwrap_err();
        assert!(problem.code == Code::BadRequest && problem.title.contains(says), "{problem}");
    }
    let id = sessions.create(ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    assert_eq!(
        statuses(&follow),
        [ItemStatus::Failed, ItemStatus::Failed, ItemStatus::Completed],
        "what it allows opens nothing"
    );
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_refused_until_a_person_allows_it_and_a_denied_one_for_good() {
    // Whatever is let through finds nothing there, and is told so by the proxy.
    let get = |host: &str| json!({"command": format!("curl -sS --max-time 20 http://{host}/ 2>&1; true")});
    let script = Script::new()
        .call("shell", get("ask.example.com"))
        .call("shell", get("ask.example.com"))
        .call("shell", get("deny.example.com"))
        .say("Done.");
    let host = |then, host: &str| PolicyRule { tool: None, host: Some(host.into()), ..rule(then, "") };
    let rules = vec![host(Permission::Deny, "deny.example.com"), host(Permission::Ask, "*.example.com")];
    let world = world(script, rules).await.environment(|plain| plain.egress = Egress::Open);
    let sessions = world.start().await;
    let id = create(&sessions, "Fetch").await;
    let mut follow = Follow::new(&sessions, id).await;
    let event = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    let EventBody::ApprovalRequested { approval, gate: Gate::Host, question, call: Some(call), .. } =
        event.body
    else {
        panic!("{event:?}")
    };
    assert!(question.contains("ask.example.com") && question.contains("curl"), "{question}");
    assert_eq!(call.kind, [host(Permission::Allow, "ask.example.com")]);
    let refused = follow.last_output();
    assert!(refused.contains("a person to allow it first") && !refused.contains("env allow"), "{refused}");
    let wrong = Decide { input: Some(json!({"command": "ls"})), ..approve() };
    assert_eq!(sessions.decide(id, ann(), approval, wrong).await.unwrap_err().code, Code::BadRequest);
    sessions.decide(id, ann(), approval, approve()).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    let outputs: Vec<String> =
        ended(&follow).into_iter().filter_map(|(_, call)| Some(call.output?.text)).collect();
    assert!(!outputs[1].contains("refused: a policy") && !outputs[1].contains("is asked"), "{}", outputs[1]);
    assert!(outputs[2].contains("denies"), "{}", outputs[2]);
    let heard = world.model.requests()[1].json.to_string();
    assert!(heard.contains("ann allowed connections to ask.example.com"), "{heard}");
    assert_eq!(follow.names().iter().filter(|name| **name == "approval.requested").count(), 1);
    assert_eq!(sessions.get(id).await.unwrap().granted.len(), 1);
    world.end(sessions).await;
}

/// Gives the session another policy.
async fn set(sessions: &Sessions, id: SessionId, policy: Policy) -> Result<Policy, protocol::Problem> {
    let edit = EditSession { policy: Some(policy), ..EditSession::default() };
    sessions.edit(id, ann(), edit).await.map(|session| session.policy)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_policy_holds_from_the_next_call_on_also_for_what_waits() {
    let script = shell(shell(shell(Script::new(), "echo 1"), "echo 2"), "echo 3").say("Done.");
    let world = world(script, vec![]).await;
    let sessions = world.start().await;
    let request = with_policy(policy(vec![rule(Permission::Ask, "shell")]));
    let id = sessions.create(ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, ..) = asked(&mut follow).await;
    let none = set(&sessions, id, Policy::default()).await.unwrap();
    assert!(none.is_empty());
    let denies = policy(vec![command(Permission::Deny, "echo 2"), command(Permission::Deny, "echo 1")]);
    assert_eq!(set(&sessions, id, denies.clone()).await.unwrap(), denies);
    sessions.decide(id, bob(), approval, approve()).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    assert_eq!(statuses(&follow), [ItemStatus::Failed, ItemStatus::Failed, ItemStatus::Completed]);
    assert_eq!(follow.names().iter().filter(|name| **name == "policy.changed").count(), 3);
    assert!(set(&sessions, id, policy(vec![rule(Permission::Ask, "nothing")])).await.is_err());
    let kinds = follow.events.iter().filter(|event| {
        matches!(&event.body, EventBody::ItemCompleted { item, .. } if matches!(item.kind, ItemKind::Notice { .. }))
    });
    assert_eq!(kinds.count(), 0, "a call is answered with its result and nothing else");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_on_is_what_is_touched_whatever_links_say() {
    // The shell makes links; the rules are for what they lead to, however the path is written.
    let links = "mkdir -p private deep/er; echo hidden > private/key; ln -s deep/er hop; ln -s private door; \
                 echo plain > deep/key; echo beside > key";
    let script = Script::new().call("shell", json!({"command": links})).answer(
        Reply::new()
            .call("read", json!({"path": "door/key"}))
            .call("read", json!({"path": "hop/../key"}))
            .call("write", json!({"path": "hop/../note", "content": "x"}))
            .call("list", json!({"path": "hop/.."}))
            .call("search", json!({"pattern": "b", "path": "key"})),
    );
    let world = world(script.say("Done."), vec![path(Permission::Deny, "read", "private/**")]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    let texts: Vec<String> = ended(&follow).into_iter().map(|(_, call)| call.output.unwrap().text).collect();
    assert!(texts[1].contains("does not allow it"), "{}", texts[1]);
    // The kernel would go to deep/key: what is read is what the rules were asked for.
    assert!(texts[2].contains("beside") && !texts[2].contains("plain"), "{}", texts[2]);
    assert!(texts[3].starts_with("Wrote"), "{}", texts[3]);
    assert!(texts[4].contains("note") && texts[4].contains("private/"), "{}", texts[4]);
    assert!(texts[5].contains("beside"), "{}", texts[5]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_a_command_are_followed_to_where_links_lead() {
    let links =
        "mkdir private open; echo hidden > private/key; ln -s private door; ln -s ../private/key open/file";
    let script = shell(Script::new(), links).answer(
        Reply::new()
            .call("shell", json!({"command": "cat door/key"}))
            .call("shell", json!({"command": "cat d*r/key"}))
            .call("shell", json!({"command": "cat open/fil[e]"}))
            .call("shell", json!({"command": "cat < open/file"}))
            .call("shell", json!({"command": "ls ope* && echo 'two\nlines'"})),
    );
    let rules = vec![command(Permission::Allow, "mkdir *"), path(Permission::Deny, "shell", "private/**")];
    let rules =
        [vec![command(Permission::Allow, "echo * > private/key"), command(Permission::Allow, "ln *")], rules];
    let world = world(script.say("Done."), rules.concat()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    let texts: Vec<String> = ended(&follow).into_iter().map(|(_, call)| call.output.unwrap().text).collect();
    for text in &texts[1..5] {
        assert!(text.contains("does not allow it") && !text.contains("hidden"), "{text}");
    }
    assert!(texts[5].contains("file") && texts[5].contains("two"), "{}", texts[5]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_not_told_by_a_change_that_does_not_fit() {
    let moved = "*** Begin Patch\n*** Update File: private/key\n*** Move to: public\n@@\n-hidden word\n+x\n*** End Patch";
    let missed = "*** Begin Patch\n*** Update File: private/key\n@@\n-hidden ward\n+x\n*** End Patch";
    let script = shell(Script::new(), "mkdir private; echo 'hidden word' > private/key").answer(
        Reply::new()
            .call("edit", json!({"path": "private/key", "old": "hidden ward", "new": "x"}))
            .call("apply_patch", json!({"patch": missed}))
            .call("apply_patch", json!({"patch": moved}))
            .call("edit", json!({"path": "private/key", "old": "hidden word", "new": "known"})),
    );
    let world = world(script.say("Done."), vec![path(Permission::Deny, "read", "private/**")]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    let texts: Vec<String> = ended(&follow).into_iter().map(|(_, call)| call.output.unwrap().text).collect();
    assert!(texts[1].contains("does not fit") && !texts[1].contains("word"), "{}", texts[1]);
    assert!(!texts[2].contains("word"), "{}", texts[2]);
    assert!(!texts[3].contains("word") && !texts[3].contains("is now public"), "{}", texts[3]);
    assert!(texts[4].starts_with("Changed."), "{}", texts[4]);
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "private/key").as_deref(), Some("known\n"));
    assert_eq!(world.repo.file(&branch, "public"), None);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_decided_on_by_where_it_is_from_and_by_where_it_goes() {
    let moves = |from: &str, to: &str| {
        let patch = format!(
            "*** Begin Patch\n*** Update File: {from}\n*** Move to: {to}\n@@\n-old\n+new\n*** End Patch"
        );
        json!({ "patch": patch })
    };
    let script = shell(Script::new(), "mkdir kept; echo old > kept/a; echo old > free")
        .call("apply_patch", moves("kept/a", "b"))
        .call("apply_patch", moves("free", "kept/c"))
        .call("apply_patch", moves("free", "d"))
        .say("Done.");
    let world = world(script, vec![path(Permission::Deny, "write", "kept/**")]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Move them").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow, Outcome::Done).await;
    let texts: Vec<String> = ended(&follow).into_iter().map(|(_, call)| call.output.unwrap().text).collect();
    assert!(texts[1].contains("does not allow it"), "from: {}", texts[1]);
    assert!(texts[2].contains("does not allow it"), "to: {}", texts[2]);
    let branch = follow.deliveries().last().unwrap().branch.clone();
    let file = |name: &str| world.repo.file(&branch, name);
    assert_eq!((file("kept/a").as_deref(), file("b")), (Some("old\n"), None));
    assert_eq!((file("kept/c"), file("free"), file("d").as_deref()), (None, None, Some("new\n")));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_call_that_leads_to_what_is_denied_is_refused_when_it_is_to_run() {
    let script = shell(Script::new(), "mkdir private; ln -s private/key link; echo secret > private/key")
        .call("write", json!({"path": "a.txt", "content": "mine\n"}))
        .say("Done.");
    let rules = vec![path(Permission::Deny, "write", "private/**"), rule(Permission::Ask, "write")];
    let world = world(script, rules).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Write it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, ..) = asked(&mut follow).await;
    // Where the link leads is known only where it is.
    let edited = Decide { input: Some(json!({"path": "link", "content": "mine\n"})), ..approve() };
    sessions.decide(id, bob(), approval, edited).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    let (status, call) = ended(&follow).pop().unwrap();
    let text = call.output.unwrap().text;
    assert_eq!(status, ItemStatus::Failed, "{text}");
    assert!(
        text.contains("bob changed this call to") && text.contains("denied, whoever approves it"),
        "{text}"
    );
    assert!(told(&world).contains("whoever approves it"), "the model reads it");
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "private/key").as_deref(), Some("secret\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_given_a_directory_waits_where_a_denied_file_lies_below() {
    let made = "mkdir -p app/deep src; echo hidden > app/deep/.env; echo hidden > src/a";
    let script = shell(Script::new(), made).answer(
        Reply::new()
            .call("shell", json!({"command": "grep -r hidden src"}))
            .call("shell", json!({"command": "ls -a app"}))
            .call("shell", json!({"command": "grep -r hidden ."})),
    );
    let rules =
        vec![command(Permission::Allow, "echo *> app/deep/.env"), path(Permission::Deny, "shell", ".env")];
    let world = world(script.say("Done."), rules).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, call, _) = asked(&mut follow).await;
    assert_eq!(call.input, json!({"command": "grep -r hidden ."}));
    assert!(call.why.contains("cannot be ruled out"), "{}", call.why);
    let before = ended(&follow);
    assert!(before[1].1.output.as_ref().unwrap().text.contains("src/a"), "{before:?}");
    let refuse = Decide { approved: false, comment: Some("look in src".into()), ..Decide::default() };
    sessions.decide(id, ann(), approval, refuse).await.unwrap();
    ends(&world, &mut follow, Outcome::Done).await;
    let last = ended(&follow).pop().unwrap().1.output.unwrap().text;
    assert!(!last.contains(".env"), "{last}");
    world.end(sessions).await;
}
