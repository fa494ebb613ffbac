//! Which model works: lists of those that take over, and a change in the middle of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llm::{Overrides, Provider};
use protocol::chat::Message;
use protocol::{
    ActorKind, Code, CommandId, EditSession, Event, EventBody, Outcome, SessionId, SetQueue, Status,
};
use serde_json::json;
use session::{Before, Cause, Command, Sessions};
use testkit::model::{At, Format, Gate, Reply, Request, Script, Server, Small};

use crate::support::{Follow, World, ann, create};

/// A model at this address.
pub(crate) fn model(name: &str, provider: Provider, url: &str) -> llm::Model {
    llm::Model {
        name: name.into(),
        provider,
        model: format!("{name}-model"),
        base_url: Some(url.into()),
        key: None,
        headers: Default::default(),
        price: None,
        overrides: Overrides::default(),
    }
}

/// A list of those that take over.
fn fallback(names: &[&str]) -> Overrides {
    Overrides { fallback: names.iter().map(|name| (*name).into()).collect(), ..Overrides::default() }
}

/// A world whose first model has these to take over, all at one server.
async fn world(script: Script, spares: &[(&str, Provider)]) -> World {
    let names: Vec<&str> = spares.iter().map(|(name, _)| *name).collect();
    let world = World::new(script).await.profile(fallback(&names));
    let url = world.model.url();
    spares.iter().fold(world, |world, (name, provider)| world.also(model(name, *provider, &url)))
}

fn overloaded() -> Reply {
    Reply::status(503, "try later").header("retry-after", "0")
}

async fn choose(sessions: &Sessions, id: SessionId, model: &str) {
    let edit = EditSession { model: Some(model.into()), ..EditSession::default() };
    assert_eq!(sessions.edit(id, ann(), edit).await.unwrap().model, model);
}

/// The models that answered, in order.
fn answered(events: &[Event]) -> Vec<&str> {
    fn model(event: &Event) -> Option<&str> {
        match &event.body {
            EventBody::UsageRecorded { step: 0, .. } => None,
            EventBody::UsageRecorded { model, .. } => Some(model.as_str()),
            _ => None,
        }
    }
    events.iter().filter_map(model).collect()
}

/// The changes of model: to, from, whether for a turn only.
fn changes(follow: &Follow) -> Vec<(String, String, bool)> {
    let change = |event: &Event| match &event.body {
        EventBody::ModelChanged { model, from, turn, .. } => {
            Some((model.clone(), from.clone(), turn.is_some()))
        }
        _ => None,
    };
    follow.events.iter().filter_map(change).collect()
}

fn change(model: &str, from: &str, for_turn: bool) -> (String, String, bool) {
    (model.into(), from.into(), for_turn)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_model_takes_over_for_the_rest_of_the_turn_and_says_so() {
    let script = Script::from_fn(|request, _| {
        let first_turn = request.last_user() == Some("Correct the answer");
        match (request.model.as_str(), request.results().is_empty()) {
            ("scripted", true) if first_turn => {
                Reply::new().call("shell", json!({"command": "cat answer.txt"}))
            }
            ("scripted", false) => overloaded(),
            ("spare-model", false) if request.messages.len() < 4 => {
                Reply::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
            }
            _ => Reply::text("The answer is 42 now."),
        }
    });
    let world = world(script, &[("spare", Provider::Anthropic)]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    assert_eq!(answered(&follow.events), ["main", "spare", "spare"]);
    assert_eq!(changes(&follow), [change("spare", "main", true)]);
    let names = follow.names();
    let told = |name: &str| -> Vec<usize> {
        names.iter().enumerate().filter(|(_, other)| **other == name).map(|(at, _)| at).collect()
    };
    let changed = told("model.changed")[0];
    assert_eq!(
        told("retry.scheduled").iter().filter(|at| **at < changed).count(),
        5,
        "its own attempts come first"
    );
    assert_eq!(told("retry.scheduled").len(), 5);
    assert_eq!(told("error.raised").len(), 0, "nothing failed for good");
    match &follow.events[changed].body {
        EventBody::ModelChanged { reason: Some(reason), .. } => {
            assert!(reason.contains("too much to do") && reason.contains("try later"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let by = |event: &Event| (event.actor.kind == ActorKind::Agent).then(|| event.actor.id.clone());
    assert_eq!(follow.events[changed + 1..].iter().find_map(by).as_deref(), Some("spare"));
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(answered(&follow.events)[3..], ["main"], "the next turn begins with the session's own");
    assert_eq!(sessions.get(id).await.unwrap().model, "main");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_fail_the_turn_fails_with_each_error_and_what_waits_stays() {
    let (gate, mended) = (Gate::new(), Arc::new(AtomicBool::new(false)));
    let script = Script::from_fn({
        let (gate, mended) = (gate.clone(), Arc::clone(&mended));
        move |request, number| match request.model.as_str() {
            _ if mended.load(Ordering::SeqCst) => Reply::text("Nothing to do."),
            "scripted" if number == 0 => Reply::status(401, "bad key").stall(At::Response, &gate),
            "scripted" => Reply::status(401, "bad key"),
            "spare-model" => overloaded(),
            _ => Reply::status(404, "no such model"),
        }
    });
    let world = world(script, &[("spare", Provider::Anthropic), ("last", Provider::OpenAiResponses)]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "one").await;
    gate.reached().await;
    for text in ["two", "three"] {
        sessions.prompt(id, ann(), text.into()).await.unwrap();
    }
    gate.open();
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    let reason = finished.reason.unwrap();
    assert_eq!(finished.outcome, Outcome::Failed);
    for said in ["main: ", "key", "spare: ", "try later", "last: ", "does not know the model"] {
        assert!(reason.contains(said), "{said}: {reason}");
    }
    assert_eq!(changes(&follow), [change("spare", "main", true), change("last", "spare", true)]);
    let retries = follow.names().iter().filter(|name| **name == "retry.scheduled").count();
    assert_eq!(retries, 5, "a bad key and an unknown model are not tried again");
    follow.until(|body| matches!(body, EventBody::QueuePaused { .. })).await;
    let held = sessions.get(id).await.unwrap();
    assert_eq!((held.paused, held.queued.len(), held.status), (true, 2, Status::Failed));
    assert!(held.reason.unwrap().contains("no model could do the work"));

    mended.store(true, Ordering::SeqCst);
    sessions.set_queue(id, ann(), SetQueue { paused: false }).await.unwrap();
    for _ in 0..2 {
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
    }
    assert_eq!(changes(&follow).len(), 2, "each turn begins anew");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_taken_up_again_is_on_the_model_that_took_over() {
    let gate = Gate::new();
    let script = Script::from_fn({
        let gate = gate.clone();
        move |request, number| match request.model.as_str() {
            "scripted" => Reply::status(401, "bad key"),
            _ if number < 2 => Reply::text("Never heard").stall(At::Response, &gate),
            _ => Reply::text("Nothing to do."),
        }
    });
    let world = world(script, &[("spare", Provider::GeminiNative)]).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    gate.reached().await;
    // No farewell: the process is gone.
    drop(sessions);
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(changes(&follow), [change("spare", "main", true)], "it is not changed again");
    let asked: Vec<String> = world.model.requests().iter().map(|request| request.model.clone()).collect();
    assert_eq!(asked, ["scripted", "spare-model", "spare-model"]);
    world.end(sessions).await;
}

/// Every result in a request with the tool that it is of.
fn results(request: &Request) -> usize {
    let count = |message: &Message| match message {
        Message::Tools { results } => results.len(),
        Message::User { .. } | Message::Assistant { .. } => 0,
    };
    request.messages.iter().map(count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_across_all_wire_formats() {
    let script = Script::from_fn(|request, number| {
        let signature = format!("SIG{}", request.model.replace("-model", ""));
        if matches!(request.messages.last(), Some(Message::Tools { .. })) {
            return Reply::text(format!("Looked, {number}."));
        }
        let call = Reply::new().signed_reasoning("I look first.", signature);
        call.call("shell", json!({"command": "cat answer.txt"})).call("list", json!({}))
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let world = [
        ("responses", Provider::OpenAiResponses),
        ("anthropic", Provider::Anthropic),
        ("gemini", Provider::GeminiNative),
    ]
    .into_iter()
    .fold(world, |world, (name, provider)| world.also(model(name, provider, &url)));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let line = ["responses", "anthropic", "gemini", "main", "anthropic", "responses", "gemini"];
    for name in line {
        choose(&sessions, id, name).await;
        sessions.prompt(id, ann(), "Look again".into()).await.unwrap();
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{name}: {:?}", finished.reason);
    }
    assert_eq!(world.model.violations(), Vec::<String>::new());
    let turns: Vec<&str> = std::iter::once("main").chain(line).collect();
    let twice: Vec<&str> = turns.iter().flat_map(|name| [*name, *name]).collect();
    assert_eq!(answered(&follow.events), twice);
    let requests = world.model.requests();
    assert_eq!(requests.len(), twice.len(), "no server had to refuse anything");
    for (place, (request, name)) in requests.iter().zip(&twice).enumerate() {
        assert_eq!(results(request), place.div_ceil(2) * 2, "{name}: no result is lost");
        let sent = request.json.to_string();
        for other in ["responses", "anthropic", "gemini"] {
            let earlier = twice[..place].contains(&other);
            let wanted = other == *name && earlier;
            assert_eq!(sent.contains(&format!("SIG{other}")), wanted, "request {place} of {name}: {other}");
        }
        let format = match *name {
            "responses" => Format::Responses,
            "anthropic" => Format::Anthropic,
            "gemini" => Format::Gemini,
            _ => Format::Chat,
        };
        assert_eq!(request.format, format);
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_chosen_works_from_the_next_step_on() {
    let gate = Gate::new();
    let script = Script::new()
        .answer(Reply::new().call("shell", json!({"command": "cat answer.txt"})).stall(At::Response, &gate))
        .then(|request, _| Reply::text(format!("{} is here.", request.model)));
    let world = World::new(script).await;
    let url = world.model.url();
    let steps = llm::Overrides { tool_mode: Some(protocol::ToolMode::JsonStep), ..Overrides::default() };
    let other = llm::Model { overrides: steps, ..model("other", Provider::OpenAiCompatible, &url) };
    let world = world.also(other);
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    gate.reached().await;
    choose(&sessions, id, "other").await;
    gate.open();
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(answered(&follow.events)[..2], ["main", "other"], "{:?}", finished.reason);
    assert_eq!(changes(&follow), [change("other", "main", false)]);
    let requests = world.model.requests();
    assert!(!requests[0].tools.is_empty() && requests[1].tools.is_empty(), "it is asked in its own way");
    assert!(requests[1].json.to_string().contains("shell gave:"), "{}", requests[1].json);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_chooses_another_model_does_not_wait_for_the_one_before() {
    let script = Script::from_fn(|request, _| match request.model.as_str() {
        "scripted" => Reply::status(503, "try later").header("retry-after", "200"),
        _ => Reply::text("Nothing to do."),
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let world = world.also(model("other", Provider::Anthropic, &url));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
    choose(&sessions, id, "other").await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(answered(&follow.events), ["other"]);
    world.end(sessions).await;
}

/// A model that has read much, and one that takes over in the middle of the turn or is chosen after it, and can read less.
async fn narrowed(takes_over: bool) {
    let script = Script::from_fn(move |_, number| match number {
        0..6 => Reply::new().call("shell", json!({"command": format!("seq {number}000 1 {number}999")})),
        _ if takes_over => Reply::status(401, "bad key"),
        _ => Reply::text("Looked."),
    });
    let small = Small::new(16_384).wants("heliotrope");
    let little = Server::start(small.script(|_, _| Reply::text("Nothing to do."))).await;
    let list = if takes_over { fallback(&["narrow"]) } else { Overrides::default() };
    let world = World::new(script).await.profile(Overrides { context: Some(200_000), ..list });
    let narrow = Overrides { context: Some(16_384), ..Overrides::default() };
    let narrow = llm::Model { overrides: narrow, ..model("narrow", Provider::Anthropic, &little.url()) };
    let world = world.also(narrow);
    let sessions = world.start().await;
    let id = create(&sessions, "Look around, heliotrope").await;
    let mut follow = Follow::new(&sessions, id).await;
    if !takes_over {
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        assert!(!follow.names().contains(&"context.compacted"));
        choose(&sessions, id, "narrow").await;
        sessions.prompt(id, ann(), "Go on".into()).await.unwrap();
    }
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(changes(&follow), [change("narrow", "main", takes_over)]);
    let seen = small.seen();
    assert_eq!((seen.refused, seen.steps, seen.missing.len()), (0, 1, 0), "{seen:?}");
    assert!(follow.names().contains(&"context.compacted"));
    assert_eq!((little.violations(), world.model.violations()), (Vec::new(), Vec::new()));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_window_is_compacted_for_before_the_first_call() {
    narrowed(false).await;
    narrowed(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_would_not_take_is_told_once() {
    let script = Script::from_fn(|request, _| match request.model.as_str() {
        "one-model" => Reply::new().signed_reasoning("Hm.", "SIGone").say("Nothing to do."),
        _ if request.json.to_string().contains("SIGone") => {
            Reply::status(400, "messages.1.content.0: Invalid `signature` in `thinking` block")
        }
        _ => Reply::text("Nothing to do."),
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let world =
        world.also(model("one", Provider::Anthropic, &url)).also(model("two", Provider::Anthropic, &url));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    for name in ["one", "two", "two"] {
        choose(&sessions, id, name).await;
        sessions.prompt(id, ann(), "Again".into()).await.unwrap();
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
    }
    let told: Vec<&EventBody> = follow
        .events
        .iter()
        .map(|event| &event.body)
        .filter(|body| matches!(body, EventBody::ErrorRaised { .. }))
        .collect();
    match told.as_slice() {
        [EventBody::ErrorRaised { code: Code::ModelAdapted, message, .. }] => {
            assert!(message.starts_with("two: ") && message.contains("earlier reasoning"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_edited_once_and_only_to_what_can_be() {
    let world =
        world(Script::new().say("Nothing to do.").say("Nothing to do."), &[("spare", Provider::Anthropic)])
            .await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    let edit = |title: Option<&str>, model: Option<&str>| EditSession {
        title: title.map(Into::into),
        model: model.map(Into::into),
        budgets: None,
    };
    let refused = sessions.edit(id, ann(), edit(None, Some("absent"))).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.status, refused.hint.as_deref()),
        (Code::ModelNotFound, 404, Some("the models are: main, spare"))
    );
    for wrong in [edit(None, None), edit(Some(" \n "), None), edit(Some(&"x".repeat(201)), None)] {
        assert_eq!(sessions.edit(id, ann(), wrong).await.unwrap_err().code, Code::BadRequest);
    }
    let before = sessions.get(id).await.unwrap();
    let command = CommandId::new();
    let cause = |before| Cause { actor: ann(), command: Some(Command { id: command, before }) };
    let both = edit(Some("A better\n  title"), Some("spare"));
    let edited = sessions.edit(id, cause(Before::Never), both.clone()).await.unwrap();
    assert_eq!((edited.title.as_str(), edited.model.as_str()), ("A better title", "spare"));
    assert_eq!(edited.seq, before.seq + 2);
    choose(&sessions, id, "main").await;
    // Whoever does not know whether it was done has its answer, and changes nothing.
    let again = sessions.edit(id, cause(Before::Perhaps), both).await.unwrap();
    assert_eq!((again.title, again.model), (edited.title, edited.model));
    let now = sessions.get(id).await.unwrap();
    assert_eq!((now.model.as_str(), now.seq), ("main", before.seq + 3));
    choose(&sessions, id, "main").await;
    assert_eq!(sessions.get(id).await.unwrap().seq, now.seq, "what is so already is not said");
    world.end(sessions).await;
}
