//! Models for tasks: titles beside the work, and summaries.

use llm::{Overrides, Provider};
use protocol::event::CompactionLevel;
use protocol::{Code, CreatePrompt, EditSession, EventBody, Outcome, Status};
use serde_json::json;
use session::Routes;
use testkit::model::{At, Gate, Reply, Script, Server, Small};

use crate::models::model;
use crate::support::{Follow, World, ann, create};

fn titles(routes: &str) -> Routes {
    Routes { title: Some(routes.into()), ..Routes::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_written_beside_the_first_turn_and_counted() {
    let script = Script::from_fn(|request, _| match request.model.as_str() {
        "namer-model" => Reply::text("<think>\nOkay, the user\n</think>\n\n\"Mend the answer.\"\n"),
        _ => Reply::text("Nothing to do."),
    });
    let world = World::new(script).await.routes(titles("namer"));
    let url = world.model.url();
    let world = world.also(model("namer", Provider::Anthropic, &url));
    let sessions = world.start().await;
    let tasks = |name: &str| {
        sessions.models().into_iter().find(|model| model.name == name).map(|model| model.tasks).unwrap()
    };
    assert_eq!((tasks("namer"), tasks("main")), (vec!["title".to_owned()], Vec::new()));
    let id = create(&sessions, "The answer is 41, which is wrong").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::SessionRenamed { .. })).await;
    let session = sessions.get(id).await.unwrap();
    assert_eq!(session.title, "Mend the answer");
    let used = follow.events.iter().find_map(|event| match &event.body {
        EventBody::UsageRecorded { model, step: 0, .. } => Some(model.clone()),
        _ => None,
    });
    assert_eq!(used.as_deref(), Some("namer"));
    if sessions.get(id).await.unwrap().status != Status::Done {
        follow.finished().await;
    }
    let prompt = CreatePrompt { prompt: "Go on".into(), now: false, images: Vec::new() };
    sessions.send(id, ann(), prompt).await.unwrap();
    follow.until(|body| matches!(body, EventBody::TurnStarted { .. })).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(sessions.get(id).await.unwrap().spend.calls, 3);
    assert_eq!(world.model.violations(), Vec::<String>::new());
    let asked = world.model.requests().iter().filter(|request| request.model == "namer-model").count();
    assert_eq!(asked, 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_title_wins_and_a_failing_model_changes_nothing() {
    let gate = Gate::new();
    let script = Script::from_fn({
        let gate = gate.clone();
        move |request, _| match request.model.as_str() {
            "namer-model" if request.json.to_string().contains("Look around") => {
                Reply::text("Too late").stall(At::Response, &gate)
            }
            "namer-model" => Reply::status(401, "no"),
            _ => Reply::text("Nothing to do."),
        }
    });
    let world = World::new(script).await.routes(titles("namer"));
    let url = world.model.url();
    let world = world.also(model("namer", Provider::OpenAiCompatible, &url));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    gate.reached().await;
    let edit = EditSession { title: Some("Mine".into()), ..EditSession::default() };
    sessions.edit(id, ann(), edit).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the turn did not wait for it");
    gate.open();
    follow.until(|body| matches!(body, EventBody::UsageRecorded { step: 0, .. })).await;
    assert_eq!(sessions.get(id).await.unwrap().title, "Mine");

    let id = create(&sessions, "Another look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(sessions.get(id).await.unwrap().title, "Another look");
    let told = |body: &EventBody| matches!(body, EventBody::ErrorRaised { code: Code::ModelAdapted, .. });
    if !follow.events.iter().any(|event| told(&event.body)) {
        follow.until(told).await;
    }
    let said = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { message, .. } => Some(message.as_str()),
        _ => None,
    });
    assert!(said.unwrap().starts_with("namer: it could not write a title"), "{said:?}");
    assert!(!follow.names().contains(&"retry.scheduled"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_asked_for_again_and_then_of_the_next_model_of_the_list() {
    let mut asked = 0;
    let script = Script::from_fn(move |request, _| match request.model.as_str() {
        "namer-model" => {
            asked += 1;
            match asked {
                1 => Reply::status(429, "slow down").header("retry-after-ms", "200"),
                2 => Reply::status(400, "prompt is too long: 5000 tokens > 4000 maximum"),
                // Longer than anybody waits for a title.
                _ => Reply::status(429, "slow down").header("retry-after", "100"),
            }
        }
        "other-model" => Reply::text("Mend the answer"),
        _ => Reply::text("Nothing to do."),
    });
    let world = World::new(script).await.routes(titles("namer"));
    let url = world.model.url();
    let overrides = Overrides { fallback: vec!["other".into()], ..Overrides::default() };
    let namer = llm::Model { overrides, ..model("namer", Provider::OpenAiCompatible, &url) };
    let world = world.also(namer).also(model("other", Provider::Anthropic, &url));
    let sessions = world.start().await;
    let prompt = "The answer is 41, which is wrong. ".repeat(100);
    let id = create(&sessions, &prompt).await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::SessionRenamed { .. })).await;
    assert_eq!(sessions.get(id).await.unwrap().title, "Mend the answer");
    let waits: Vec<_> = follow
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RetryScheduled { attempt: 2, reason, wake_at: Some(_), .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        matches!(waits[..], [why] if why.starts_with("title: the model server asks for a slower pace")),
        "{waits:?}"
    );
    let sizes: Vec<usize> = world
        .model
        .requests()
        .iter()
        .filter(|request| request.model == "namer-model")
        .map(|request| request.json.to_string().len())
        .collect();
    assert!(sizes.len() == 3 && sizes[0] == sizes[1] && sizes[2] + 1000 < sizes[1], "{sizes:?}");
    let told = follow.events.iter().any(|event| {
        matches!(&event.body, EventBody::ErrorRaised { message, .. } if message.starts_with("namer: it could not write a title, so other does it: "))
    });
    assert!(told, "{:?}", follow.names());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_asked_for_again_and_then_of_the_next_model_of_the_list() {
    let small = Small::new(16_384);
    let script = small.script(|_, step| match step {
        0..12 => {
            let call = json!({"command": format!("echo {step}")});
            Reply::text(format!("{step} is next. {}", "So it is. ".repeat(500))).call("shell", call)
        }
        _ => Reply::text("Nothing to do."),
    });
    let mut asked = 0;
    let summer = Server::start(Script::from_fn(move |request, _| {
        if request.model == "other-model" {
            return Reply::text("Objective\nGo on.\nDone\nSome steps.");
        }
        asked += 1;
        match asked {
            1 => Reply::status(529, "busy").header("retry-after-ms", "200"),
            2 => Reply::status(400, "prompt is too long: 20000 tokens > 8000 maximum"),
            _ => Reply::status(401, "who are you?"),
        }
    }))
    .await;
    let narrow = Overrides { context: Some(16_384), ..Overrides::default() };
    let routes = Routes { summarise: Some("summer".into()), ..Routes::default() };
    let world = World::new(script).await.profile(narrow).routes(routes);
    let overrides = Overrides { fallback: vec!["other".into()], ..Overrides::default() };
    let by = llm::Model { overrides, ..model("summer", Provider::OpenAiCompatible, &summer.url()) };
    let world = world.also(by).also(model("other", Provider::Anthropic, &summer.url()));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let of_summer = follow.events.iter().filter(|event| event.actor.id == "summer");
    let waits = of_summer.filter(|event| matches!(event.body, EventBody::RetryScheduled { attempt: 2, .. }));
    assert_eq!(waits.count(), 1, "{:?}", follow.names());
    let sizes: Vec<usize> = summer
        .requests()
        .iter()
        .filter(|request| request.model == "summer-model")
        .map(|request| request.json.to_string().len())
        .take(3)
        .collect();
    assert!(sizes.len() == 3 && sizes[0] == sizes[1] && sizes[2] < sizes[1], "{sizes:?}");
    let summaries = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::UsageRecorded { model, step: 0, .. } => Some(model.as_str()),
        _ => None,
    });
    let summaries: Vec<&str> = summaries.collect();
    assert!(!summaries.is_empty() && summaries.iter().all(|by| *by == "other"), "{summaries:?}");
    let told = follow.events.iter().any(|event| {
        matches!(&event.body, EventBody::ErrorRaised { message, .. } if message.starts_with("summer: it could not sum up the conversation, so other does it: "))
    });
    assert!(told, "{:?}", follow.names());
    world.end(sessions).await;
}

/// The models that were asked for summaries, in order.
async fn summaries(able: bool) -> Vec<String> {
    let small = Small::new(16_384);
    // What a model said itself cannot be left out, so it has to be summed up.
    let script = small.script(|_, step| match step {
        0..12 => {
            let call = json!({"command": format!("echo {step}")});
            Reply::text(format!("{step} is next. {}", "So it is. ".repeat(500))).call("shell", call)
        }
        _ => Reply::text("Nothing to do."),
    });
    let summer = Script::from_fn(move |_, _| match able {
        true => Reply::text("<think>\nIDLE THOUGHTS\n</think>\n\nObjective\nGo on.\nDone\nSome steps."),
        // Later than anybody waits.
        false => Reply::status(503, "try later").header("retry-after", "1000"),
    });
    let summer = Server::start(summer).await;
    let narrow = Overrides { context: Some(16_384), ..Overrides::default() };
    let routes = Routes { summarise: Some("summer".into()), ..Routes::default() };
    let world = World::new(script).await.profile(narrow).routes(routes);
    let world = world.also(model("summer", Provider::OpenAiResponses, &summer.url()));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!((world.model.violations(), summer.violations()), (Vec::new(), Vec::new()));
    let beside = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::UsageRecorded { model, step: 0, .. } => Some(model.clone()),
        _ => None,
    });
    let beside: Vec<String> = beside.collect();
    assert_eq!(finished.receipt.spend.calls as usize, finished.receipt.steps as usize + beside.len());
    assert!(!summer.requests().is_empty());
    let thoughts = |request: &testkit::model::Request| request.json.to_string().contains("IDLE THOUGHTS");
    assert!(!world.model.requests().iter().any(thoughts), "only what a summary says takes room");
    let told = follow.names().iter().filter(|name| **name == "error.raised").count();
    assert_eq!(told, usize::from(!able), "whoever named a model that cannot do it is told once");
    world.end(sessions).await;
    beside
}

#[tokio::test(flavor = "multi_thread")]
async fn summaries_are_made_by_the_model_for_them_or_else_by_the_one_that_works() {
    let by = summaries(true).await;
    assert!(!by.is_empty() && by.iter().all(|name| name == "summer"), "{by:?}");
    let by = summaries(false).await;
    assert!(!by.is_empty() && by.iter().all(|name| name == "main"), "{by:?}");
}

/// Begins a turn whose conversation the model that works, `first`, must sum up, which it answers in this way.
async fn must_sum_up(
    answer: impl Fn() -> Reply + Send + 'static,
    fallback: &[&str],
    budgets: Option<protocol::Budgets>,
) -> (World, session::Sessions, Follow, protocol::SessionId) {
    must_sum_up_in(12, answer, fallback, budgets).await
}

async fn must_sum_up_in(
    steps: usize,
    answer: impl Fn() -> Reply + Send + 'static,
    fallback: &[&str],
    budgets: Option<protocol::Budgets>,
) -> (World, session::Sessions, Follow, protocol::SessionId) {
    let mut step = 0;
    let script =
        Script::from_fn(move |request, _| match (request.model.as_str(), request.tools.is_empty()) {
            ("first-model", true) => answer(),
            ("first-model", false) if step < steps => {
                step += 1;
                let call = json!({"command": format!("echo {step}")});
                Reply::text(format!("{step} is next. {}", "So it is. ".repeat(500))).call("shell", call)
            }
            (_, true) => Reply::text("Objective\nGo on."),
            (_, false) => Reply::text("Nothing to do."),
        });
    let world = World::new(script).await;
    let url = world.model.url();
    let fallback = fallback.iter().map(|name| (*name).to_owned()).collect();
    let overrides = Overrides { context: Some(16_384), fallback, ..Overrides::default() };
    let first = llm::Model { overrides, ..model("first", Provider::Anthropic, &url) };
    let world = world.also(first).also(model("second", Provider::OpenAiCompatible, &url));
    let sessions = world.start().await;
    let request = protocol::CreateSession {
        environment: "plain".into(),
        prompt: "Look around".into(),
        images: Vec::new(),
        model: Some("first".into()),
        budgets,
        policy: None,
    };
    let id = sessions.create(ann(), request).await.unwrap().id;
    let follow = Follow::new(&sessions, id).await;
    (world, sessions, follow, id)
}

fn summaries_asked(world: &World, model: &str) -> usize {
    let sums_up = |request: &&testkit::model::Request| request.tools.is_empty() && request.model == model;
    world.model.requests().iter().filter(sums_up).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_sum_up_is_waited_for_once() {
    let broken = || Reply::text("Objective\nGo on, and on, and on.").cut(2);
    let (world, sessions, mut follow, _) = must_sum_up_in(40, broken, &[], None).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let fresh = follow.events.iter().filter(|event| {
        matches!(&event.body, EventBody::ContextCompacted(compaction) if compaction.level == CompactionLevel::Fresh)
    });
    let (fresh, retried) =
        (fresh.count(), follow.names().iter().filter(|name| **name == "retry.scheduled").count());
    assert!(fresh > 1 && retried > 0, "{fresh} fresh windows after {retried} attempts more");
    assert_eq!(summaries_asked(&world, "first-model"), fresh + retried);
    let waits = follow.names().iter().rposition(|name| *name == "retry.scheduled");
    let first = follow.names().iter().position(|name| *name == "context.compacted");
    assert!(waits < first, "nobody waits after the first time");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_waits_to_be_made_again_is_not_waited_for_by_another_model() {
    let later = || Reply::status(429, "slower").header("retry-after", "200");
    let (world, sessions, mut follow, id) = must_sum_up(later, &[], None).await;
    follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
    let edit = EditSession { model: Some("second".into()), ..EditSession::default() };
    sessions.edit(id, ann(), edit).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(summaries_asked(&world, "first-model"), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_the_working_model_cannot_give_is_for_the_next_one_or_is_told() {
    let refused = || Reply::status(401, "who are you?");
    let (world, sessions, mut follow, _) = must_sum_up(refused, &["second"], None).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.names().contains(&"model.changed"), "{:?}", follow.names());
    world.end(sessions).await;
    for (answer, why) in [
        ("", "its answer has no words in it"),
        (
            r#"{"thought": "ODD STEP", "call": {"tool": "shell", "command": "ls"}}"#,
            "it called a tool instead",
        ),
    ] {
        let (world, sessions, mut follow, _) = must_sum_up(move || Reply::text(answer), &[], None).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        let told = follow.events.iter().filter(|event| match &event.body {
            EventBody::ErrorRaised { message, .. } => {
                message.contains("could not sum up") && message.ends_with(why)
            }
            _ => false,
        });
        assert_eq!(told.count(), 1, "{why}");
        let odd = |request: &testkit::model::Request| request.json.to_string().contains("ODD STEP");
        assert!(!world.model.requests().iter().any(odd), "it is not taken for a summary");
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_is_not_made_again_when_nothing_is_left_to_pay_for_it() {
    let usage = protocol::Usage { input: 1_000_000, output: 5, ..Default::default() };
    let broken = move || Reply::text("Objective").usage(usage).cut(3);
    let session = protocol::Budget { tokens: Some(900_000), ..Default::default() };
    let budgets = protocol::Budgets { session, ..Default::default() };
    let (world, sessions, mut follow, _) = must_sum_up(broken, &[], Some(budgets)).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::OutOfBudget, "{:?}", finished.reason);
    assert_eq!(summaries_asked(&world, "first-model"), 1);
    world.end(sessions).await;
}
