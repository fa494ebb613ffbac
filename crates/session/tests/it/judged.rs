//! A second look at work by the model of the route `judge`, after its checks passed.

use llm::Provider;
use protocol::event::Verdict;
use protocol::{EventBody, Outcome};
use serde_json::json;
use session::Routes;
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::models::model;
use crate::support::{Follow, World, create};

const GOOD: &str = r#"{"words": "It does.", "verdict": "good"}"#;
const DOUBTFUL: &str = r#"{"words": "notes.txt still says one.", "verdict": "doubtful"}"#;

/// A turn that writes `one`, and `two` when it is told of a doubt; the judge gives these answers, then the last one again.
async fn judged(answers: &'static [&'static str]) -> (World, session::Sessions, Follow, Server) {
    let write = |text: &str| Reply::new().call("write", json!({"path": "notes.txt", "content": text}));
    let script = Script::from_fn(move |request, step| match step {
        0 => write("one\n"),
        1 => Reply::text("It says one."),
        2 if request.json.to_string().contains("notes.txt still says one") => write("two\n"),
        _ => Reply::text("That is all."),
    });
    let judge = Server::start(Script::from_fn(move |_, asked| {
        Reply::text(*answers.get(asked).or(answers.last()).unwrap())
    }))
    .await;
    let routes = Routes { judge: Some("judge".into()), ..Routes::default() };
    let repo = Repo::bare_with(&[("a.txt", "a\n")]);
    let world = World::with(repo, script).await.routes(routes);
    let world = world.environment(|environment| environment.checks[0].run = "true".into());
    let world = world.also(model("judge", Provider::Anthropic, &judge.url()));
    let sessions = world.start().await;
    let id = create(&sessions, "Write two into notes.txt").await;
    let follow = Follow::new(&sessions, id).await;
    (world, sessions, follow, judge)
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
