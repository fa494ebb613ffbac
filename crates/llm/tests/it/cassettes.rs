//! Cassettes: answers in the shapes that providers document, and those of llama.cpp as its server gave them, served over real
//! HTTP. Each `.sse` file is the body as it goes over the wire; the `.json` file beside it says what must come of it.

use super::*;

use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    provider: Provider,
    #[serde(default)]
    completion: Option<Completion>,
    #[serde(default)]
    error: Option<ExpectedError>,
}

#[derive(Deserialize)]
struct ExpectedError {
    class: String,
    says: String,
}

/// Each cassette: its name, its bytes and what must come of them.
fn cassettes() -> Vec<(String, Vec<u8>, Expected)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cassettes");
    let mut found = Vec::new();
    for dir in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(dir.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "sse") {
                let expected = std::fs::read(file.with_extension("json")).unwrap();
                let expected = serde_json::from_slice(&expected).unwrap();
                found.push((file.display().to_string(), std::fs::read(&file).unwrap(), expected));
            }
        }
    }
    assert!(found.len() > 25, "{} cassettes", found.len());
    found
}

async fn play(provider: Provider, reply: Reply) -> (Result<Answer, Error>, Vec<Delta>) {
    let server = Server::start(Script::new().answer(reply)).await;
    let played = complete(&model_at(provider, server.url()), &request(vec![user("Go.")])).await;
    assert_eq!(server.violations(), Vec::<String>::new());
    let (answer, deltas) = played;
    let unmarked = |mut answer: Answer| {
        // Who made a signature stands before it, with the address of the server of this test.
        for part in &mut answer.completion.parts {
            if let Part::Reasoning { signature: Some(signature), .. } = part {
                *signature = signature.split_once(':').unwrap().1.to_owned();
            }
        }
        // An estimate tells about the request of this test.
        if !answer.usage_told {
            answer.completion.usage = Usage::default();
        }
        answer
    };
    (answer.map(unmarked), deltas)
}

fn check(name: &str, expected: &Expected, answer: Result<Answer, Error>, deltas: &[Delta]) {
    match (&expected.completion, &expected.error, answer) {
        (Some(completion), None, Ok(answer)) => {
            assert_eq!(&answer.completion, completion, "{name}");
            assert!(answer.streamed, "{name}");
            let texts = |part: &Part| match part {
                Part::Text { text } => Some(text.clone()),
                Part::Reasoning { .. } | Part::Call(_) => None,
            };
            let text: String = completion.parts.iter().filter_map(texts).collect();
            assert_eq!(gathered(deltas).1, text, "{name}: what streamed is what was said");
        }
        (None, Some(expected), Err(error)) => {
            assert_eq!(format!("{:?}", error.class), expected.class, "{name}: {}", error.message);
            assert!(error.message.contains(&expected.says), "{name}: {}", error.message);
        }
        (.., answer) => panic!("{name}: {answer:?}"),
    }
}

#[tokio::test]
async fn every_documented_shape_is_understood_however_it_is_cut() {
    for (name, bytes, expected) in cassettes() {
        for pieces in [None, Some(1), Some(5)] {
            let mut reply = Reply::raw(200, "text/event-stream", bytes.clone());
            if let Some(size) = pieces {
                reply = reply.pieces(size);
            }
            let (answer, deltas) = play(expected.provider, reply).await;
            check(&name, &expected, answer, &deltas);
        }
    }
}

#[tokio::test]
async fn a_connection_that_just_ends_is_no_answer_unless_it_was_whole() {
    for (name, bytes, expected) in cassettes() {
        // The connection breaks after the last byte, in the middle, and right before the end.
        for keep in [bytes.len(), bytes.len() / 2, bytes.len() - bytes.len() / 10] {
            let reply = Reply::raw(200, "text/event-stream", bytes[..keep].to_vec()).cut(1);
            let (answer, _) = play(expected.provider, reply).await;
            match (answer, &expected.completion) {
                (Ok(answer), Some(completion)) => {
                    assert_eq!(answer.completion.parts, completion.parts, "{name} up to {keep}");
                }
                (Ok(answer), None) => panic!("{name} up to {keep}: {answer:?}"),
                (Err(error), _) => assert!(
                    error.class.may_pass() || expected.error.is_some(),
                    "{name} up to {keep}: {}",
                    error.message
                ),
            }
        }
    }
}

#[tokio::test]
async fn a_last_event_that_only_the_end_of_the_body_ends_counts() {
    for (name, bytes, expected) in cassettes() {
        // A gateway that trims what it passes on takes the empty line away.
        let trimmed = bytes.trim_ascii_end().to_vec();
        let reply = Reply::raw(200, "text/event-stream", trimmed);
        match play(expected.provider, reply).await {
            (answer, deltas) if expected.completion.is_some() => check(&name, &expected, answer, &deltas),
            // A last event that is broken is one that broke off.
            (answer, _) => assert!(answer.is_err(), "{name}: {answer:?}"),
        }
    }
}
