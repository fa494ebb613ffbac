//! A second look at work by the model of the route `judge`, after its checks passed.

use std::time::{Duration, Instant};

use llm::{Model, Overrides, Provider};
use protocol::event::Verdict;
use protocol::{Budget, Budgets, CreateSession, EventBody, Outcome, SessionId};
use serde_json::json;
use session::{Routes, ShutDown};
use testkit::model::{At, Gate, Reply, Script, Server};
use testkit::repo::Repo;

use crate::models::model;
use crate::support::{Follow, World, ann};

const TASK: &str = "Write two into notes.txt";
const GOOD: &str = r#"{"words": "It does.", "verdict": "good"}"#;
const DOUBTFUL: &str = r#"{"words": "notes.txt still says one.", "verdict": "doubtful"}"#;

/// A turn that writes `one`, and `two` when it is told of a doubt; the judge gives these answers, then the last one again.
async fn judged(answers: &'static [&'static str]) -> (World, session::Sessions, Follow, Server) {
    let judge = Script::from_fn(move |_, asked| Reply::text(*answers.get(asked).or(answers.last()).unwrap()));
    let (world, sessions, id, judge) = judged_by(TASK, judge, |world, _| world, Budget::default()).await;
    let follow = Follow::new(&sessions, id).await;
    (world, sessions, follow, judge)
}

/// The same with a judge that answers so; more models can come with it.
async fn judged_by(
    task: &str,
    judge: Script,
    also: impl FnOnce(World, &str) -> World,
    turn: Budget,
) -> (World, session::Sessions, SessionId, Server) {
    let write = |text: &str| Reply::new().call("write", json!({"path": "notes.txt", "content": text}));
    let script = Script::from_fn(move |request, step| match step {
        0 => write("one\n"),
        1 => Reply::text("It says one."),
        2 if request.json.to_string().contains("notes.txt still says one") => write("two\n"),
        _ => Reply::text("That is all."),
    });
    let judge = Server::start(judge).await;
    let routes = Routes { judge: Some("judge".into()), ..Routes::default() };
    let repo = Repo::bare_with(&[("a.txt", "a\n")]);
    let world = World::with(repo, script).await.routes(routes);
    let world = world.environment(|environment| environment.checks[0].run = "true".into());
    let fallback = vec!["other".to_owned()];
    let overrides = Overrides { context: Some(16_384), fallback, ..Overrides::default() };
    let world = world.also(Model { overrides, ..model("judge", Provider::Anthropic, &judge.url()) });
    let world = also(world, &judge.url());
    let sessions = world.start().await;
    let request = CreateSession {
        environment: "plain".into(),
        prompt: task.into(),
        images: Vec::new(),
        model: None,
        budgets: Some(Budgets { turn, ..Budgets::default() }),
        policy: None,
    };
    let id = sessions.create(ann(), request).await.unwrap().id;
    (world, sessions, id, judge)
}

/// What people were told of models.
fn told(follow: &Follow) -> Vec<&str> {
    let messages = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ErrorRaised { message, .. } => Some(message.as_str()),
        _ => None,
    });
    messages.collect()
}

fn verdicts(follow: &Follow) -> Vec<Verdict> {
    let verdict = |event: &protocol::Event| match &event.body {
        EventBody::WorkJudged { judgement, .. } => Some(judgement.verdict),
        _ => None,
    };
    follow.events.iter().filter_map(verdict).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_doubts_goes_back_to_the_model_that_works() {
    let (world, sessions, mut follow, judge) = judged(&[DOUBTFUL, GOOD]).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(verdicts(&follow), [Verdict::Doubtful, Verdict::Good]);
    assert_eq!(finished.receipt.judgement.unwrap().words, "It does.");
    let asked = judge.requests();
    let texts: Vec<String> = asked.iter().map(|request| request.json.to_string()).collect();
    assert!(texts[0].contains("Write two into notes.txt") && texts[0].contains("+one"), "{}", texts[0]);
    assert!(texts[1].contains("+two"), "{}", texts[1]);
    // Where an answer has a form, this format takes it as a call; there is nothing else to call.
    let called = asked.iter().flat_map(|request| &request.tools).map(|tool| tool.name.as_str());
    assert!(called.clone().count() == 2 && called.clone().all(|name| name == "answer"), "{}", texts[1]);
    // It is paid for and is no step.
    assert_eq!(finished.receipt.spend.calls, finished.receipt.steps + 2);
    let told = follow.deliveries().last().map(|delivery| delivery.branch.clone());
    assert_eq!(world.repo.file(&told.unwrap(), "notes.txt").as_deref(), Some("two\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_that_stays_is_told_to_people_and_holds_nothing_up() {
    let (world, sessions, mut follow, judge) = judged(&[DOUBTFUL]).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let judgement = finished.receipt.judgement.unwrap();
    assert_eq!((judgement.verdict, judgement.model.as_str()), (Verdict::Doubtful, "judge"));
    assert_eq!(judge.requests().len(), 2, "the same work is not judged twice");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_verdict_the_work_is_handed_over_and_that_is_told() {
    let (world, sessions, mut follow, judge) = judged(&["It looks fine to me."]).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!((verdicts(&follow), finished.receipt.judgement), (Vec::new(), None));
    assert_eq!(judge.requests().len(), 1);
    let said = follow.events.iter().any(|event| {
        matches!(&event.body, EventBody::ErrorRaised { message, .. } if message.contains("could not judge the work"))
    });
    assert!(said, "{:?}", follow.names());
    assert_eq!(finished.receipt.spend.calls, finished.receipt.steps + 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_is_busy_is_asked_again_when_its_server_says() {
    let judge = Script::from_fn(|_, asked| match asked {
        0 => Reply::status(529, "Overloaded").header("retry-after-ms", "300"),
        _ => Reply::text(GOOD),
    });
    let (world, sessions, id, judge) = judged_by(TASK, judge, |world, _| world, Budget::default()).await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, verdicts(&follow)), (Outcome::Done, vec![Verdict::Good]));
    let waits: Vec<_> = follow
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RetryScheduled { attempt, delay_ms, wake_at: Some(_), .. } => {
                Some((*attempt, *delay_ms, event.actor.id.as_str()))
            }
            _ => None,
        })
        .collect();
    assert!(matches!(waits[..], [(2, 300..=375, "judge")]), "{waits:?}");
    assert_eq!((judge.requests().len(), told(&follow)), (2, Vec::new()));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_model_of_its_list_judges_where_a_judge_failed_for_good() {
    let judge = Script::from_fn(|request, _| match request.model.as_str() {
        "judge-model" => Reply::status(401, "who are you?"),
        _ => Reply::text(GOOD),
    });
    let also = |world: World, url: &str| world.also(model("other", Provider::OpenAiCompatible, url));
    let (world, sessions, id, judge) = judged_by(TASK, judge, also, Budget::default()).await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(finished.receipt.judgement.unwrap().model, "other");
    assert_eq!(judge.requests().len(), 2);
    let told = told(&follow);
    assert!(
        matches!(told[..], [said] if said.starts_with("judge: it could not judge the work, so other does it: ")),
        "{told:?}"
    );
    assert!(!follow.names().contains(&"model.changed"), "the work goes on with the model that does it");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_can_read_less_than_was_thought_is_shown_less() {
    // What it is said to read, it reads; but each byte is two tokens.
    let judge = Script::from_fn(|request, _| match 2 * request.json.to_string().len() {
        ..16_384 => Reply::text(GOOD),
        tokens => Reply::status(400, format!("prompt is too long: {tokens} tokens > 16384 maximum")),
    });
    let task = "Write two into notes.txt. ".repeat(1500);
    let (world, sessions, id, judge) = judged_by(&task, judge, |world, _| world, Budget::default()).await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, verdicts(&follow)), (Outcome::Done, vec![Verdict::Good]));
    assert!(judge.requests().len() > 1);
    assert_eq!(told(&follow), Vec::<&str>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_does_not_answer_takes_no_more_time_than_there_is() {
    let gate = Gate::new();
    let stall = gate.clone();
    let judge = Script::from_fn(move |_, _| Reply::text(GOOD).stall(At::Response, &stall));
    let turn = Budget { seconds: Some(8), ..Budget::default() };
    let began = Instant::now();
    let (world, sessions, id, judge) = judged_by(TASK, judge, |world, _| world, turn).await;
    let mut follow = Follow::new(&sessions, id).await;
    gate.reached().await;
    let finished = follow.finished().await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // The work passed its checks before, so it is handed over.
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!((verdicts(&follow), finished.receipt.judgement), (Vec::new(), None));
    let told = told(&follow);
    assert!(
        matches!(told[..], [said] if said.ends_with("handed over without that: nothing is left of the budget")),
        "{told:?}"
    );
    assert!(follow.names().contains(&"budget.warned"), "{:?}", follow.names());
    assert_eq!(judge.requests().len(), 1);
    gate.open();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_is_told_once_in_a_turn_also_by_two_servers() {
    let gate = Gate::new();
    let stall = gate.clone();
    let judge = Script::from_fn(move |_, asked| match asked {
        1 => Reply::text(DOUBTFUL).stall(At::Response, &stall),
        _ => Reply::text(DOUBTFUL),
    });
    let (world, sessions, id, judge) = judged_by(TASK, judge, |world, _| world, Budget::default()).await;
    // It was told of the first doubt and wrote something else, which is judged when the server ends.
    gate.reached().await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    gate.open();
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(finished.receipt.judgement.unwrap().verdict, Verdict::Doubtful);
    let doubts = world.model.requests();
    let doubts = doubts.last().unwrap().json.to_string().matches("doubts that they do").count();
    assert_eq!((doubts, judge.requests().len()), (1, 3));
    world.end(sessions).await;
}
