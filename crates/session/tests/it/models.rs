//! Which model works: lists of those that take over, and a change in the middle of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use llm::{Overrides, Provider};
use protocol::chat::Message;
use protocol::{
    ActorKind, Code, CommandId, EditSession, Event, EventBody, Outcome, SessionId, SetQueue, Status, Usage,
};
use serde_json::json;
use session::{Before, Cause, Command, Sessions, ShutDown};
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

/// No answer, which is worth two more attempts.
fn rubbish() -> Reply {
    Reply::raw(200, "text/html", "<p>try later</p>")
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
            ("scripted", false) => rubbish(),
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
        2,
        "its own attempts come first"
    );
    assert_eq!(told("retry.scheduled").len(), 2);
    assert_eq!(told("error.raised").len(), 0, "nothing failed for good");
    match &follow.events[changed].body {
        EventBody::ModelChanged { reason: Some(reason), .. } => {
            assert!(reason.contains("could not be read") && reason.contains("try later"), "{reason}");
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
            "spare-model" => rubbish(),
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
    assert_eq!(retries, 2, "a bad key and an unknown model are not tried again");
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
    let world = world(script, &[("spare", Provider::Gemini)]).await;
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
        ("gemini", Provider::Gemini),
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
    let script = Script::from_fn(|request, _| match request.json.to_string().contains("SIGone") {
        true => Reply::status(400, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        false => Reply::new().signed_reasoning("Hm.", "SIGone").say("Nothing to do."),
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let world = world.also(model("one", Provider::Anthropic, &url));
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    choose(&sessions, id, "one").await;
    for _ in 0..3 {
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
            assert!(message.starts_with("one: ") && message.contains("earlier reasoning"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drops_what_it_cannot_read_is_told_of_and_sent_less() {
    let script = Script::from_fn(|request, step| {
        let tokens = request.json.to_string().len() as u64 * 2 / 7;
        let reply = if step < 16 {
            Reply::new().call("shell", json!({"command": format!("seq {step}000 {step}900")}))
        } else {
            Reply::text("Done.")
        };
        reply.usage(Usage { input: tokens.min(8192), output: 30, ..Usage::default() })
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let overrides = Overrides {
        context: Some(128_000),
        tool_mode: Some(protocol::ToolMode::Native),
        ..Overrides::default()
    };
    let world = world.also(llm::Model { overrides, ..model("local", Provider::Ollama, &url) });
    let sessions = world.start().await;
    let request = protocol::CreateSession {
        environment: "plain".into(),
        prompt: "Look around".into(),
        images: Vec::new(),
        model: Some("local".into()),
        budgets: None,
        policy: None,
    };
    let id = sessions.create(ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ErrorRaised { code: Code::ModelAdapted, message, .. } => Some(message.as_str()),
        _ => None,
    });
    let told: Vec<&str> = told.collect();
    assert!(told.len() == 1 && told[0].contains("reads only 8192 tokens"), "{told:?}");
    assert!(follow.names().contains(&"context.compacted"));
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
        policy: None,
        archived: None,
    };
    let refused = sessions.edit(id, ann(), edit(None, Some("absent"))).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.status, refused.hint.as_deref()),
        (Code::ModelNotFound, 404, Some("the models are: main, spare"))
    );
    for wrong in [edit(None, None), edit(Some(" \n "), None), edit(Some(&"x".repeat(201)), None)] {
        assert_eq!(sessions.edit(id, ann(), wrong).await.unwrap_err().code, Code::BadRequest);
    }
    let command = CommandId::new();
    let cause = |before| Cause { actor: ann(), command: Some(Command { id: command, before }) };
    let both = edit(Some("A better\n  title"), Some("spare"));
    let edited = sessions.edit(id, cause(Before::Never), both.clone()).await.unwrap();
    assert_eq!((edited.title.as_str(), edited.model.as_str()), ("A better title", "spare"));
    choose(&sessions, id, "main").await;
    // Whoever does not know whether it was done has its answer, and changes nothing.
    let again = sessions.edit(id, cause(Before::Perhaps), both).await.unwrap();
    assert_eq!((again.title, again.model), (edited.title, edited.model));
    let now = sessions.get(id).await.unwrap();
    assert_eq!((now.title.as_str(), now.model.as_str()), ("A better title", "main"));
    choose(&sessions, id, "main").await;
    // What is so already is not said.
    sessions.edit(id, ann(), edit(Some("The last one"), None)).await.unwrap();
    let last =
        |body: &EventBody| matches!(body, EventBody::SessionRenamed { title, .. } if title == "The last one");
    follow.until(last).await;
    let told: Vec<_> = follow
        .names()
        .into_iter()
        .filter(|name| ["session.renamed", "model.changed"].contains(name))
        .collect();
    assert_eq!(told, ["session.renamed", "model.changed", "model.changed", "session.renamed"]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_reasoning_stays_with_its_server_and_model_also_within_a_wire_format() {
    let script = || {
        Script::from_fn(|request, _| {
            let signature = format!("SIG{}", request.model.replace("-model", ""));
            Reply::new().signed_reasoning("Hm.", signature).say("Nothing to do.")
        })
    };
    for provider in [Provider::Anthropic, Provider::OpenAiResponses, Provider::Gemini] {
        let (world, elsewhere) = (World::new(script()).await, Server::start(script()).await);
        let url = world.model.url();
        let third = llm::Model { model: "one-model".into(), ..model("three", provider, &elsewhere.url()) };
        let world = world.also(model("one", provider, &url)).also(model("two", provider, &url)).also(third);
        let sessions = world.start().await;
        let id = create(&sessions, "Look around").await;
        let mut follow = Follow::new(&sessions, id).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        for name in ["one", "two", "three", "one"] {
            choose(&sessions, id, name).await;
            sessions.prompt(id, ann(), "Again".into()).await.unwrap();
            assert_eq!(follow.finished().await.outcome, Outcome::Done);
        }
        let sent = |server: &Server, place: usize, signature: &str| {
            server.requests()[place].json.to_string().contains(signature)
        };
        // The first request is that of the session's first model, which signs nothing.
        assert!(!sent(&world.model, 2, "SIG"), "{provider:?}: another model at the same address");
        assert!(!sent(&elsewhere, 0, "SIG"), "{provider:?}: the same model at another address");
        assert!(sent(&world.model, 3, "SIGone") && !sent(&world.model, 3, "SIGtwo"), "{provider:?}: its own");
        assert_eq!((world.model.violations(), elsewhere.violations()), (Vec::new(), Vec::new()));
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_stays_too_long_is_for_the_next_model_and_what_waits_stays() {
    for spared in [true, false] {
        let gate = Gate::new();
        let script = Script::from_fn({
            let gate = gate.clone();
            move |request, number| match (request.model.as_str(), number) {
                ("scripted", 0) => Reply::status(413, "too long").stall(At::Response, &gate),
                ("scripted", _) => Reply::status(413, "too long"),
                _ => Reply::text("Nothing to do."),
            }
        });
        let spares: &[(&str, Provider)] = if spared { &[("spare", Provider::Anthropic)] } else { &[] };
        let world = world(script, spares).await;
        let sessions = world.start().await;
        let id = create(&sessions, "one").await;
        gate.reached().await;
        sessions.prompt(id, ann(), "two".into()).await.unwrap();
        gate.open();
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        if spared {
            assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
            assert_eq!(changes(&follow), [change("spare", "main", true)]);
            assert_eq!(follow.finished().await.outcome, Outcome::Done);
        } else {
            assert_eq!(finished.outcome, Outcome::Failed);
            assert!(finished.reason.unwrap().contains("too long"));
            follow.until(|body| matches!(body, EventBody::QueuePaused { .. })).await;
            assert_eq!(sessions.get(id).await.unwrap().queued.len(), 1);
            assert!(follow.names().contains(&"error.raised"), "{:?}", follow.names());
        }
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_a_model_server_asked_for_outlasts_a_restart() {
    let script = Script::from_fn(|_, number| match number {
        0 => Reply::status(503, "try later").header("retry-after-ms", "2000"),
        _ => Reply::status(503, "try later").header("retry-after", "200"),
    });
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let first = follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| *body == first.body).await;
    let second = follow.until(|body| matches!(body, EventBody::RetryScheduled { .. })).await;
    let told = |body: &EventBody| match body {
        EventBody::RetryScheduled { attempt, wake_at, .. } => (*attempt, wake_at.unwrap()),
        other => panic!("{other:?}"),
    };
    assert_eq!((told(&first.body).0, told(&second.body).0), (2, 3), "attempts are counted on");
    assert!(second.at >= told(&first.body).1, "{} is too early", second.at);
    assert_eq!(world.model.requests().len(), 2);
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    world.end(sessions).await;
}
