//! What a model does that cannot be used: it is answered, counted, and ends the turn when nothing helps.

use protocol::{EventBody, Mistake, Mistakes, Outcome, Usage};
use serde_json::json;
use testkit::model::{At, Gate, Reply, Script};

use crate::support::{Follow, World, create};

fn made(follow: &Follow) -> Vec<Mistake> {
    let mistake = |body: &EventBody| match body {
        EventBody::MistakeMade { mistake, .. } => Some(*mistake),
        _ => None,
    };
    follow.events.iter().filter_map(|event| mistake(&event.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_answered_and_counted_by_their_kind() {
    let script = Script::new()
        .call("bash", json!({"command": "ls"}))
        .answer(Reply::new().raw_call("read", "{\"path\": \"answer"))
        .say(" ")
        .call("list", json!({}))
        .call("list", json!({}))
        .call("list", json!({}))
        .call("list", json!({}))
        .say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    use Mistake::{BrokenArguments, EmptyAnswer, RepeatedCalls, UnknownTool};
    assert_eq!(made(&follow), [UnknownTool, BrokenArguments, EmptyAnswer, RepeatedCalls, RepeatedCalls]);
    let expected = Mistakes {
        unknown_tool: 1,
        broken_arguments: 1,
        empty_answer: 1,
        repeated_calls: 2,
        ..Mistakes::default()
    };
    assert_eq!(finished.receipt.mistakes, expected);
    let requests = world.model.requests();
    let result = |place: usize| requests[place].results().last().unwrap().text.clone();
    assert!(result(1).contains("There is no tool \"bash\""), "{}", result(1));
    assert!(result(2).contains("not valid JSON"), "{}", result(2));
    assert!(requests[3].last_user().unwrap().contains("Your answer was empty"));
    assert!(result(7).contains("list is withheld for this step"), "{}", result(7));
    let offers = |place: usize| requests[place].tool_names().contains(&"list");
    assert_eq!([5, 6, 7].map(offers), [true, false, true], "it is not offered for one step");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_ends_is_cut_off_and_not_kept_whole() {
    let gate = Gate::new();
    let endless = Reply::text("I will look at the file again.\n".repeat(1000)).stall(At::Event(2500), &gate);
    let script = Script::new().answer(endless).say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(made(&follow), [Mistake::EndlessAnswer]);
    let sent = world.model.requests()[1].json.to_string();
    assert!(sent.contains("the same again and again"), "{sent}");
    assert!(sent.matches("I will look at the file again.").count() < 4, "{sent}");
    // Nobody said what it used, and it was paid for.
    assert!(finished.receipt.spend.usage.output > 2000, "{:?}", finished.receipt.spend);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_answer_used_is_counted_also_when_it_broke_off() {
    let piece = r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}],
        "usage":{"prompt_tokens":7,"completion_tokens":2}}"#
        .replace('\n', "");
    let last = Reply::text("Nothing to do.").usage(Usage { input: 40, output: 5, ..Usage::default() });
    let world = World::new(Script::new().answer(Reply::events([("", piece)])).answer(last)).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, finished.receipt.steps), (Outcome::Done, 1), "{:?}", finished.reason);
    let used = finished.receipt.spend.usage;
    assert_eq!((used.input, used.output), (47, 7));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_told_with_the_time_of_its_end() {
    let busy = Reply::status(429, "slow down").header("retry-after-ms", "300");
    let world = World::new(Script::new().answer(busy).say("Nothing to do.")).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let told = follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
    let EventBody::RetryScheduled { delay_ms, wake_at, reason, attempt, .. } = told.body else { panic!() };
    assert_eq!((attempt, reason.contains("slow down")), (2, true), "{reason}");
    let wake = wake_at.unwrap().as_millisecond();
    let wait = i64::try_from(delay_ms).unwrap();
    assert!(wait >= 300 && (wake - wait - told.at.as_millisecond()).abs() < 10_000, "{wake} {wait}");
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_busy_may_break_off_as_often_as_any_other() {
    let broken = || Reply::text("This is lost on the way").cut(3);
    let busy = Reply::status(503, "busy").header("retry-after-ms", "1");
    let script = Script::new().answer(busy).answer(broken()).answer(broken()).say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::RetryScheduled { attempt, attempts, .. } => Some((*attempt, *attempts)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(2, 6), (2, 3), (3, 3)]);
    // Nobody told what the broken ones used before their end, and they were paid for.
    assert_eq!(finished.receipt.spend.calls, 3, "{:?}", finished.receipt.spend);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_its_server_could_not_read_is_answered_as_a_mistake() {
    let unread = r#"{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"<function=shell{"}}"#;
    let script = Script::new().answer(Reply::raw(400, "application/json", unread)).say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(made(&follow).len(), 1);
    let requests = world.model.requests();
    let results = requests[1].results();
    assert!(results[0].text.contains("shell") && results.len() == 1, "{results:?}");
    world.end(sessions).await;
}
