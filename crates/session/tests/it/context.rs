//! What the model is sent over a long turn, as it comes over the wire.

use protocol::chat::Message;
use protocol::event::CompactionLevel;
use protocol::{EventBody, Outcome};
use serde_json::json;
use testkit::model::{Reply, Request, Script, Small};

use crate::support::{Follow, World, create};

const CONTEXT: u64 = 16_384;

fn small_context() -> llm::Overrides {
    llm::Overrides { context: Some(CONTEXT), ..llm::Overrides::default() }
}

fn levels(follow: &Follow) -> Vec<CompactionLevel> {
    let level = |body: &EventBody| match body {
        EventBody::ContextCompacted(compaction) => Some(compaction.level),
        _ => None,
    };
    follow.events.iter().filter_map(|event| level(&event.body)).collect()
}

/// A turn of so many steps on a model with a small context.
async fn long_turn(steps: usize) {
    let small = Small::new(CONTEXT).wants("heliotrope").wants("Write tabs");
    let script = small.script(move |_, step| match step {
        0 => {
            let command = "echo 1 > committed.txt && git add committed.txt && git commit -qm One";
            Reply::new().call("shell", json!({"command": command}))
        }
        step if step < steps => {
            let command = format!("echo step {step}; seq {} | sed 's/^/some line /'", step * 53 % 300);
            Reply::new().call("shell", json!({"command": command}))
        }
        step if step == steps => {
            Reply::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        }
        _ => Reply::text("The answer is 42 now."),
    });
    let world = World::new(script).await.profile(small_context());
    let world = world.environment(|environment| environment.instructions = Some("Write tabs.".into()));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer, heliotrope").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(world.model.violations(), Vec::<String>::new(), "calls and results are whole");
    let seen = small.seen();
    assert_eq!((seen.refused, seen.missing.as_slice()), (0, &[][..]), "{seen:?}");
    assert_eq!(seen.steps, steps + 2);
    assert_eq!(finished.receipt.steps as usize, seen.steps, "a summary is no step");
    assert!(seen.largest > CONTEXT / 2, "{seen:?}");
    let levels = levels(&follow);
    assert!(levels.contains(&CompactionLevel::Masked), "{levels:?}");
    let told = |request: &Request| String::from_utf8_lossy(&request.body).contains("committed.txt | 1 +");
    assert!(world.model.requests().iter().any(told), "what was committed is work too");
    assert_eq!(finished.receipt.spend.calls as usize, seen.steps + seen.summaries, "a summary is paid for");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_turn_fits_a_small_context() {
    long_turn(60).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute: hundreds of commands in a sandbox"]
async fn a_turn_of_hundreds_of_steps_fits_a_small_context() {
    long_turn(400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn most_of_each_request_is_the_request_before_in_every_format() {
    let formats = [
        ("chat", llm::Provider::OpenAiCompatible),
        ("responses", llm::Provider::OpenAiResponses),
        ("messages", llm::Provider::Anthropic),
        ("gemini", llm::Provider::Gemini),
    ];
    let results = |request: &Request| {
        let of_tools = |message: &&Message| matches!(message, Message::Tools { .. });
        request.messages.iter().filter(of_tools).count()
    };
    let script = Script::from_fn(move |request, _| match results(request) {
        step @ 0..50 => {
            let command = format!("echo step {step}; seq {}", step * 37 % 200);
            Reply::new().call("shell", json!({"command": command}))
        }
        _ => Reply::text("Nothing to do."),
    });
    let mut world = World::new(script).await;
    for (name, provider) in formats {
        let overrides = llm::Overrides { context: Some(200_000), ..llm::Overrides::default() };
        let model = llm::Model {
            name: name.into(),
            provider,
            model: "scripted".into(),
            base_url: Some(world.model.url()),
            key: None,
            headers: Default::default(),
            price: None,
            overrides,
        };
        world = world.also(model);
    }
    let sessions = world.start().await;
    for (number, (name, _)) in formats.into_iter().enumerate() {
        let request = protocol::CreateSession {
            environment: "plain".into(),
            prompt: "Look around".into(),
            images: Vec::new(),
            model: Some(name.into()),
            budgets: None,
            policy: None,
        };
        let id = sessions.create(crate::support::ann(), request).await.unwrap().id;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{name}: {:?}", finished.reason);
        assert_eq!(levels(&follow), []);
        let bodies: Vec<Vec<u8>> =
            world.model.requests().into_iter().skip(number * 51).map(|request| request.body).collect();
        assert_eq!(bodies.len(), 51, "{name}");
        let (mut same, mut all) = (0, 0);
        for pair in bodies.windows(2) {
            same += pair[0].iter().zip(&pair[1]).take_while(|(a, b)| a == b).count();
            all += pair[1].len();
        }
        assert!(same * 100 >= all * 95, "{name}: {same} of {all} bytes");
    }
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_too_long_is_shortened_and_the_turn_goes_on() {
    let script = Script::new()
        .call("shell", json!({"command": "seq 800"}))
        .call("shell", json!({"command": "seq 801"}))
        .answer(Reply::status(400, "This model's maximum context length is 6000 tokens."))
        .then(|request, _| match request.tools.is_empty() {
            true => Reply::text("Done\nTwo commands."),
            false => Reply::text("Nothing to do."),
        });
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(!levels(&follow).is_empty());
    assert!(!follow.names().contains(&"error.raised"));
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_send_little_in_a_minute_is_given_less_and_does_not_wait() {
    const LIMIT: u64 = 12_000;
    let mut step = 0;
    let script = Script::from_fn(move |request, _| {
        let needed = request.body.len() as u64 / 4 + request.max_output_tokens.unwrap_or_default();
        if needed > LIMIT {
            let said = "Request too large for m in organization o on tokens per min (TPM)";
            return Reply::status(429, format!("{said}: Limit {LIMIT}, Requested {needed}."));
        }
        if request.tools.is_empty() {
            return Reply::text("Done\nSome commands.");
        }
        step += 1;
        match step {
            1..=16 => Reply::new().call("shell", json!({"command": format!("seq {}", 900 + step)})),
            _ => Reply::text("Nothing to do."),
        }
    });
    let large = llm::Overrides { context: Some(200_000), ..llm::Overrides::default() };
    let world = World::new(script).await.profile(large);
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(!levels(&follow).is_empty());
    assert!(!follow.names().contains(&"retry.scheduled"), "{:?}", follow.names());
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::ErrorRaised { message, .. } => Some(message.as_str()),
        _ => None,
    });
    let told: Vec<&str> = told.collect();
    assert!(matches!(told.as_slice(), [note] if note.contains("answers are shorter")), "{told:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cut_of_an_output_can_be_read() {
    let script = Script::new().call("shell", json!({"command": "seq 30000"})).then(|request, number| {
        let last = request.results().last().map(|result| result.text.clone()).unwrap_or_default();
        match number {
            1 => {
                // What is shown and what is left out add up to all of it.
                let (head, rest) = last.split_once("\n[").unwrap();
                let (left_out, rest) = rest.split_once(" bytes left out]\n").unwrap();
                let (tail, rest) = rest.split_once("\n[the whole output has 168894 bytes").unwrap();
                assert!(head.starts_with("1\n2\n3\n") && tail.ends_with("\n30000\n"), "{last}");
                let shown = head.len() + tail.len();
                assert_eq!(left_out.parse::<usize>().unwrap() + shown, 168_894, "{last}");
                assert!(rest.contains("the whole output can be read with the read tool"), "{last}");
                let (_, rest) = last.rsplit_once("path \"").unwrap();
                let path = rest.split('"').next().unwrap();
                Reply::new().call("read", json!({"path": path, "offset": 12345, "limit": 2}))
            }
            2 => {
                assert!(last.contains("12345\n") && last.contains("12346"), "{last}");
                Reply::new().call("read", json!({"path": "output:../log.db"}))
            }
            _ => Reply::text(last),
        }
    });
    let world = World::new(script).await.profile(small_context());
    let sessions = world.start().await;
    let id = create(&sessions, "Look around").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let outputs: Vec<usize> =
        follow.calls().iter().map(|(_, call)| call.output.as_ref().unwrap().text.len()).collect();
    assert!(outputs[0] < 8 * 1024, "{outputs:?}");
    assert!(follow.last_output().contains("There is no output"), "{}", follow.last_output());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_middle_of_a_prompt_that_is_too_long_can_be_read() {
    let line =
        |number: usize| if number == 1500 { "heliotrope\n".to_owned() } else { format!("line {number}\n") };
    let prompt = format!("Say what stands in line 1501.\n{}", (1..6000).map(line).collect::<String>());
    let script = Script::new().then(|request, number| {
        let result = request.results().last().map(|result| result.text.clone()).unwrap_or_default();
        match number {
            0 => {
                let told = request.last_user().unwrap();
                assert!(
                    told.contains("Say what stands in line 1501.") && told.contains("line 5999"),
                    "{told}"
                );
                assert!(!told.contains("heliotrope"), "{told}");
                let (_, rest) = told.rsplit_once("path \"").unwrap();
                let path = rest.split('"').next().unwrap();
                Reply::new().call("read", json!({"path": path, "offset": 1501, "limit": 1}))
            }
            _ => Reply::text(result),
        }
    });
    let world = World::new(script).await.profile(small_context());
    let sessions = world.start().await;
    let id = create(&sessions, &prompt).await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let read = &follow.calls()[0].1.output.as_ref().unwrap().text;
    assert!(read.contains("heliotrope"), "{read}");
    let told = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { code: protocol::Code::ModelAdapted, message, .. } => Some(message.clone()),
        _ => None,
    });
    assert!(told.as_ref().is_some_and(|told| told.contains("its middle is left out")), "{told:?}");
    assert_eq!(world.model.requests().len(), 2, "no summary is bought");
    world.end(sessions).await;
}

/// Results that are too long together lose their middles, and none of them is left out before the model has read it.
#[tokio::test(flavor = "multi_thread")]
async fn results_that_no_model_has_read_are_never_left_out() {
    for calls in [4, 12] {
        let small = Small::new(CONTEXT);
        let script = small.script(move |_, step| match step {
            0..3 => (0..calls).fold(Reply::new(), |reply, file| {
                let command = format!("seq 1500 | sed 's/^/{step}.{file} /'");
                reply.call("shell", json!({"command": command}))
            }),
            _ => Reply::text("Nothing to do."),
        });
        let world = World::new(script).await.profile(small_context());
        let sessions = world.start().await;
        let id = create(&sessions, "Look around").await;
        let mut follow = Follow::new(&sessions, id).await;
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        assert_eq!((world.model.violations(), small.seen().refused), (Vec::new(), 0));
        let requests = world.model.requests();
        let read = requests.iter().filter_map(|request| match request.messages.last() {
            Some(Message::Tools { results }) => Some(results.clone()),
            _ => None,
        });
        let read: Vec<_> = read.collect();
        assert_eq!(read.len(), 3, "one request after each step");
        for (step, results) in read.iter().enumerate() {
            assert_eq!(results.len(), calls);
            for (file, result) in results.iter().enumerate() {
                let (head, text) = (format!("{step}.{file} 1\n"), &result.text);
                assert!(text.starts_with(&head) && text.contains(&format!("{step}.{file} 1500\n")), "{text}");
                assert!(text.contains(" cut …]"), "{text}");
            }
        }
        assert!(
            levels(&follow).iter().all(|level| *level == CompactionLevel::Masked),
            "{:?}",
            levels(&follow)
        );
        world.end(sessions).await;
    }
}
