//! Budgets: people are warned, work is paused, the queue stays, and raising them goes on; a restart changes nothing of it.

use protocol::{
    Actor, Budget, BudgetKind, BudgetScope, Budgets, EditSession, EventBody, Gate, ItemStatus, Outcome,
    Session, SessionId, Status, Usage,
};
use serde_json::json;
use session::{Sessions, ShutDown, SpendFilter};
use testkit::model::{At, Reply, Script};

use crate::support::{Follow, World, ann, create};

/// Each answer uses 45 tokens.
fn priced(reply: Reply) -> Reply {
    reply.usage(Usage { input: 40, output: 5, ..Usage::default() })
}

/// Works for ever, step by step, on the first prompt; the others are done at once.
fn busy() -> Script {
    Script::from_fn(|request, step| {
        let asked = request.last_user().unwrap_or_default();
        priced(if asked == "Work" {
            Reply::new().call("shell", json!({"command": format!("echo {step}")}))
        } else {
            Reply::text(format!("You said {asked}"))
        })
    })
}

fn of_turn(turn: Budget) -> Budgets {
    Budgets { turn, ..Budgets::default() }
}

fn of_session(session: Budget) -> Budgets {
    Budgets { session, ..Budgets::default() }
}

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), ..Budget::default() }
}

async fn set(sessions: &Sessions, id: SessionId, budgets: Budgets) -> Session {
    let edit = EditSession { budgets: Some(budgets), ..EditSession::default() };
    sessions.edit(id, Actor::user("bob"), edit).await.unwrap()
}

fn warnings(follow: &Follow) -> Vec<(BudgetScope, BudgetKind, f64, f64)> {
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::BudgetWarned(warning) => Some((warning.scope, warning.kind, warning.used, warning.limit)),
        _ => None,
    });
    told.collect()
}

/// The texts of the prompts in the order in which they were worked on.
fn begun(follow: &Follow) -> Vec<String> {
    let texts = follow.items().into_iter().filter_map(|item| match &item.kind {
        protocol::ItemKind::Prompt { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

async fn restart(world: &World, sessions: Sessions) -> Sessions {
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    world.start().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_warned_then_paused_and_goes_on_when_its_budget_is_raised_also_after_a_restart() {
    let world = World::new(busy()).await.budgets(of_turn(tokens(100)));
    let sessions = world.start().await;
    let id = create(&sessions, "Work").await;
    sessions.prompt(id, ann(), "later".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, finished.receipt.steps), (Outcome::OutOfBudget, 3));
    let reason = finished.reason.unwrap();
    assert!(
        reason.starts_with("the turn used 135 of 100 tokens; to go on: slipway budget ")
            && reason.contains(&format!("{id} --turn-tokens 270")),
        "{reason}"
    );
    assert_eq!(warnings(&follow), [(BudgetScope::Turn, BudgetKind::Tokens, 90.0, 100.0)]);
    let statuses: Vec<ItemStatus> = follow.calls().iter().map(|(item, _)| item.status).collect();
    assert_eq!(statuses, [ItemStatus::Completed; 3], "the step that went over it came to its end");
    drop(follow);
    let before = sessions.get(id).await.unwrap();
    assert_eq!((before.status, before.queued.len(), before.paused), (Status::OutOfBudget, 1, true));
    assert_eq!(before.reason.as_ref(), Some(&reason));
    assert_eq!(
        (before.spend.usage.total(), before.turn_spend, before.used.turn.steps),
        (135, before.spend, 3)
    );
    let report = sessions.spend(SpendFilter::default()).await.unwrap();
    assert_eq!((report.total, &report.spent), (before.spend, &before.spent));

    let sessions = restart(&world, sessions).await;
    let after = sessions.get(id).await.unwrap();
    assert_eq!((after.spend, &after.spent, after.used), (before.spend, &before.spent, before.used));
    assert_eq!((after.status, after.queued.len()), (Status::OutOfBudget, 1), "nothing began by itself");
    assert_eq!(sessions.spend(SpendFilter::default()).await.unwrap(), report);
    assert_eq!(world.model.requests().len(), 3);

    let raised = set(&sessions, id, of_turn(tokens(1000))).await;
    assert_eq!(raised.budgets, of_turn(tokens(1000)));
    let mut follow = Follow::new(&sessions, id).await;
    for _ in 0..3 {
        follow.finished().await;
    }
    let worked_on = begun(&follow);
    assert_eq!((worked_on.len(), worked_on[0].as_str(), worked_on[2].as_str()), (3, "Work", "later"));
    assert!(worked_on[1].contains("budget was raised"), "{worked_on:?}");
    let asked = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::PromptQueued { now: true, .. } => Some(event.actor.id.as_str()),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), ["bob"], "who raised it asks for the rest");
    assert_eq!(warnings(&follow).len(), 1);
    assert_eq!(sessions.get(id).await.unwrap().status, Status::Done);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_money_that_cannot_hold_is_told_once() {
    let world = World::new(busy()).await;
    let sessions = world.start().await;
    let usd = |usd| Budget { usd: Some(usd), steps: Some(3), ..Budget::default() };
    let mut told = Vec::new();
    for budget in [Budget { usd: None, ..usd(1.0) }, usd(0.000_001)] {
        let request = protocol::CreateSession {
            environment: "plain".into(),
            prompt: "Work".into(),
            images: Vec::new(),
            model: None,
            budgets: Some(of_session(budget)),
            policy: None,
        };
        let id = sessions.create(ann(), request).await.unwrap().id;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!((finished.outcome, finished.receipt.steps), (Outcome::OutOfBudget, 3));
        let notes = follow.events.iter().filter_map(|event| match &event.body {
            EventBody::ErrorRaised { message, .. } => Some(message.clone()),
            _ => None,
        });
        told.push(notes.collect::<Vec<_>>());
    }
    assert_eq!((told[0].len(), told[1].len()), (0, 1), "{told:?}");
    assert!(told[1][0].starts_with("main: the limit on money does not hold"), "{told:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_stays_once_the_session_has_used_its_budget_up() {
    let world = World::new(busy()).await.budgets(of_session(tokens(100)));
    let sessions = world.start().await;
    let id = create(&sessions, "Work").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::OutOfBudget);
    assert_eq!(warnings(&follow), [(BudgetScope::Session, BudgetKind::Tokens, 90.0, 100.0)]);
    sessions.prompt(id, ann(), "more".into()).await.unwrap();
    let why = sessions.out_of_budget(id).await.unwrap().unwrap();
    drop(follow);
    assert!(why.contains("the session used 135 of 100 tokens") && why.contains("--tokens 270"), "{why}");
    let sessions = restart(&world, sessions).await;
    set(&sessions, id, of_session(tokens(120))).await;
    let shown = sessions.get(id).await.unwrap();
    assert_eq!((shown.status, shown.queued.len()), (Status::OutOfBudget, 1), "that is not enough");
    set(&sessions, id, Budgets::default()).await;
    let mut follow = Follow::new(&sessions, id).await;
    for _ in 0..3 {
        follow.finished().await;
    }
    assert_eq!(begun(&follow)[2], "more", "after the work that was interrupted");
    assert_eq!(sessions.out_of_budget(id).await.unwrap(), None);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_is_over_ends_a_command_and_its_work_is_kept() {
    let script = Script::new()
        .call("shell", json!({"command": "echo half > half.txt; echo begun; sleep 1000"}))
        .say("I went on.");
    // What was left is checked by the turn that goes on; here nothing checks it.
    let world = World::new(script).await.environment(|environment| environment.checks.clear());
    let sessions = world.start().await;
    let id = create(&sessions, "Wait").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    // It takes effect on what runs.
    set(&sessions, id, of_turn(Budget { seconds: Some(1), ..Budget::default() })).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::OutOfBudget);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("of 1 seconds") && reason.contains("--turn-minutes"), "{reason}");
    let (item, call) = follow.calls()[0];
    assert_eq!(item.status, ItemStatus::Cancelled);
    assert!(call.output.as_ref().unwrap().text.contains("begun"));
    let diff = sessions.diff(id).await.unwrap();
    assert!(diff.patch.contains("half.txt"), "{}", diff.patch);

    set(&sessions, id, Budgets::default()).await;
    let finished = follow.finished().await;
    assert_ne!(finished.outcome, Outcome::OutOfBudget, "{:?}", finished.reason);
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_is_over_ends_a_model_call_and_a_stop_is_still_a_stop() {
    let gate = testkit::model::Gate::new();
    let script = Script::new()
        .answer(Reply::text("Half of a sentence that is never finished").stall(At::Event(3), &gate))
        .answer(Reply::text("Half of another one that is not either").stall(At::Event(3), &gate));
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Talk").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("Half").await;
    set(&sessions, id, of_turn(Budget { seconds: Some(1), ..Budget::default() })).await;
    assert_eq!(follow.finished().await.outcome, Outcome::OutOfBudget);
    set(&sessions, id, of_turn(Budget { seconds: Some(600), ..Budget::default() })).await;
    follow.text("Half").await;
    sessions.stop(id, ann()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(
        (finished.outcome, finished.reason.as_deref()),
        (Outcome::Cancelled, Some("a person stopped it"))
    );
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_in_a_call_that_a_server_did_not_live_to_see_the_end_of_is_not_forgotten() {
    let gate = testkit::model::Gate::new();
    let hangs = || Reply::text("Half of a sentence that is never finished").stall(At::Event(3), &gate);
    let world = World::new(Script::new().answer(hangs()).answer(hangs())).await;
    let world = world.budgets(of_turn(Budget { seconds: Some(600), ..Budget::default() }));
    let sessions = world.start().await;
    let id = create(&sessions, "Talk").await;
    let used = async |sessions: &Sessions| sessions.get(id).await.unwrap().used.turn.seconds;
    // It is kept each second, so by then one was.
    while used(&sessions).await < 2.5 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let sessions = restart(&world, sessions).await;
    let after = used(&sessions).await;
    assert!(after >= 1.0, "{after}");
    sessions.stop(id, ann()).await.unwrap();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_person_is_no_time_that_is_used() {
    let script = Script::new().call("shell", json!({"command": "echo 42 > answer.txt"})).say("Done.");
    let world = World::new(script).await.environment(|plain| plain.approve = vec![Gate::Delivery]);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;
    let waiting = sessions.get(id).await.unwrap();
    assert_eq!(waiting.status, Status::Waiting);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(sessions.get(id).await.unwrap().used, waiting.used);
    let decide = protocol::Decide { approved: true, ..protocol::Decide::default() };
    sessions.decide(id, ann(), waiting.approval.unwrap().id, decide).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(finished.receipt.duration_ms as f64 / 1000.0 >= waiting.used.turn.seconds);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_says_it_is_finished_is_not_ended_before_its_checks() {
    let write = |text: &str| json!({"command": format!("echo {text} > answer.txt")});
    let script =
        Script::new().call("shell", write("42")).say("Done.").call("shell", write("41")).say("Done.");
    let steps = Budget { steps: Some(2), ..Budget::default() };
    let world = World::new(script).await.budgets(of_turn(steps));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, finished.receipt.steps), (Outcome::Done, 2), "{:?}", finished.reason);

    sessions.prompt(id, ann(), "Break it".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::OutOfBudget);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("2 of 2 steps") && reason.ends_with("checks still fail: test"), "{reason}");
    world.end(sessions).await;
}

/// A model that tells at the beginning of an answer what it read.
fn telling(world: &World) -> llm::Model {
    crate::models::model("telling", llm::Provider::Anthropic, &world.model.url())
}

async fn choose_telling(sessions: &Sessions, id: SessionId) {
    let edit = EditSession { model: Some("telling".into()), ..EditSession::default() };
    sessions.edit(id, ann(), edit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_has_read_is_counted_when_it_is_stopped() {
    let gate = testkit::model::Gate::new();
    let read = Usage { input: 50_000, cache_write: 7000, output: 900, ..Usage::default() };
    let slow = Reply::text("It is a long story.".repeat(9)).usage(read).stall(At::Event(6), &gate);
    let world = World::new(Script::new().answer(priced(Reply::text("Well."))).answer(slow)).await;
    let model = telling(&world);
    let world = world.also(model);
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    choose_telling(&sessions, id).await;
    sessions.prompt(id, ann(), "Tell me".into()).await.unwrap();
    gate.reached().await;
    // What the server sent before is there once it is seen as text.
    follow.until(|body| matches!(body, EventBody::ItemStarted { item, .. } if matches!(item.kind, protocol::ItemKind::Message { .. }))).await;
    sessions.stop(id, ann()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    let spend = finished.receipt.spend;
    assert_eq!((spend.calls, spend.usage.input, spend.usage.cache_write), (1, 50_000, 7000), "{spend:?}");
    assert!((1..900).contains(&spend.usage.output), "as much as came: {spend:?}");
    assert_eq!(finished.receipt.steps, 0, "it is no step");
    gate.open();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_has_read_is_counted_once_when_the_server_does_not_live_to_see_its_end() {
    let gate = testkit::model::Gate::new();
    let read = Usage { input: 50_000, output: 900, ..Usage::default() };
    let slow = || Reply::text("It is a long story.".repeat(9)).usage(read);
    let script = Script::new()
        .answer(priced(Reply::text("Well.")))
        .answer(slow().stall(At::Event(6), &gate))
        .answer(slow());
    let world = World::new(script).await;
    let model = telling(&world);
    let world = world.also(model);
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    choose_telling(&sessions, id).await;
    sessions.prompt(id, ann(), "Tell me".into()).await.unwrap();
    gate.reached().await;
    let kept = world.dir.path().join("data/sessions").join(id.to_string()).join("call");
    while !std::fs::read_to_string(&kept).is_ok_and(|text| text.ends_with('}')) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(follow);
    let sessions = restart(&world, sessions).await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let spend = finished.receipt.spend;
    assert_eq!((spend.calls, spend.usage.input), (2, 100_000), "{spend:?}");
    assert_eq!(finished.receipt.steps, 1);
    drop(follow);
    // It is not counted again by a server that finds what was kept.
    let total = sessions.get(id).await.unwrap().spend;
    let sessions = restart(&world, sessions).await;
    assert_eq!(sessions.get(id).await.unwrap().spend, total);
    gate.open();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_that_is_recorded_meanwhile_does_not_make_a_call_under_way_forgotten() {
    let (gate, title) = (testkit::model::Gate::new(), testkit::model::Gate::new());
    let read = Usage { input: 50_000, output: 900, ..Usage::default() };
    let slow = move || Reply::text("It is a long story.".repeat(9)).usage(read);
    let mut asked = 0;
    let script = Script::from_fn({
        let (gate, title) = (gate.clone(), title.clone());
        move |request, _| match request.model.as_str() {
            "namer-model" => Reply::text("A long story").stall(At::Response, &title),
            _ => {
                asked += 1;
                if asked == 1 { slow().stall(At::Event(6), &gate) } else { slow() }
            }
        }
    });
    let routes = session::Routes { title: Some("namer".into()), ..session::Routes::default() };
    let world = World::new(script).await.routes(routes);
    let namer = crate::models::model("namer", llm::Provider::Anthropic, &world.model.url());
    let model = telling(&world);
    let world = world.also(model).also(namer);
    let sessions = world.start().await;
    let request = protocol::CreateSession {
        environment: "plain".into(),
        prompt: "Tell me".into(),
        images: Vec::new(),
        model: Some("telling".into()),
        budgets: None,
        policy: None,
    };
    let id = sessions.create(ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, id).await;
    gate.reached().await;
    let file = world.dir.path().join("data/sessions").join(id.to_string()).join("call");
    let kept = loop {
        match std::fs::read_to_string(&file) {
            Ok(text) if text.ends_with('}') => break text,
            _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
        }
    };
    title.open();
    follow.until(|body| matches!(body, EventBody::SessionRenamed { .. })).await;
    drop(follow);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    // As if the server had died before it wrote the file again.
    std::fs::write(&file, kept).unwrap();
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let of = |name: &str| {
        let used = follow
            .events
            .iter()
            .filter(|event| matches!(&event.body, EventBody::UsageRecorded { model, .. } if model == name));
        used.count()
    };
    assert_eq!(
        (of("namer"), of("telling")),
        (1, 2),
        "the title, the call that broke off and the one after it"
    );
    assert!(finished.receipt.spend.usage.input >= 100_000, "{:?}", finished.receipt.spend);
    assert_eq!(finished.receipt.steps, 1);
    gate.open();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_broke_off_is_not_made_again_when_nothing_is_left_to_pay_it() {
    let read = Usage { input: 50_000, ..Usage::default() };
    let broken = Reply::text("It is a long story.".repeat(9)).usage(read).cut(6);
    let world = World::new(Script::new().answer(priced(Reply::text("Well."))).answer(broken)).await;
    let model = telling(&world);
    let world = world.also(model).budgets(of_turn(tokens(50_000)));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    choose_telling(&sessions, id).await;
    sessions.prompt(id, ann(), "Tell me".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::OutOfBudget, "{:?}", finished.reason);
    assert_eq!((world.model.requests().len(), finished.receipt.spend.calls), (2, 1));
    assert!(!follow.names().contains(&"retry.scheduled"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_does_not_tell_is_estimated_counts_and_is_said_once() {
    let script = Script::from_fn(|_, step| {
        Reply::new().call("shell", json!({"command": format!("echo {step}")})).without_usage()
    });
    let world = World::new(script).await.budgets(of_turn(tokens(20_000)));
    let sessions = world.start().await;
    let id = create(&sessions, "Work").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::OutOfBudget);
    let said = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ErrorRaised { code: protocol::Code::ModelAdapted, message, .. } => Some(message.as_str()),
        _ => None,
    });
    let said: Vec<&str> = said.collect();
    assert!(said.len() == 1 && said[0].contains("estimated"), "{said:?}");
    assert!(world.model.requests().len() > 1, "one call is not as much");
    world.end(sessions).await;
}
