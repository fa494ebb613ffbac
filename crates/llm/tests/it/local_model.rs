//! Three of the four wire formats against software that is not ours: a real model behind llama.cpp's server, on this
//! machine. `scripts/local-model.sh` fetches it, starts it and runs these.

use protocol::chat::{AnswerSchema, ToolChoice};

use super::*;

/// The formats that the server speaks.
const SPOKEN: [Provider; 3] = [Provider::OpenAiCompatible, Provider::OpenAiResponses, Provider::Anthropic];

/// Small models on busy machines take their time.
fn patient() -> Timeouts {
    Timeouts { idle: Duration::from_secs(600), ..Timeouts::default() }
}

fn base_url() -> String {
    std::env::var("SLIPWAY_LOCAL_MODEL").unwrap_or_else(|_| {
        panic!("SLIPWAY_LOCAL_MODEL has no address: run this with scripts/local-model.sh")
    })
}

fn local(provider: Provider) -> Model {
    let name = std::env::var("SLIPWAY_LOCAL_MODEL_NAME").unwrap_or_else(|_| "local".into());
    Model { model: name, key: None, ..model_at(provider, base_url()) }
}

/// A request without tools, whose answer is short and the same each time.
fn question(text: &str) -> Request {
    let temperature = Some(0.0);
    Request { tools: Vec::new(), max_output_tokens: 40, temperature, ..request(vec![user(text)]) }
}

async fn ask(provider: Provider, request: &Request) -> (Result<Answer, Error>, Vec<Delta>) {
    complete_within(patient(), &local(provider), request).await
}

fn said(answer: &Answer) -> String {
    let texts = answer.completion.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Reasoning { .. } | Part::Call(_) => None,
    });
    texts.collect()
}

#[tokio::test]
#[ignore = "needs the local model: scripts/local-model.sh"]
async fn an_answer_streams_and_is_counted_alike_in_every_format() {
    let request = question("Write the word \"harbour\" five times, and nothing else.");
    let mut prompts = Vec::new();
    for provider in SPOKEN {
        let (answer, deltas) = ask(provider, &request).await;
        let answer = answer.unwrap();
        let text = said(&answer);
        assert!(text.to_lowercase().contains("harbour"), "{provider:?}: {text:?}");
        assert!(deltas.len() > 2, "{provider:?} came in {} pieces", deltas.len());
        assert_eq!(gathered(&deltas).1, text, "{provider:?}");
        assert_eq!(answer.completion.stop, Stop::End, "{provider:?}");
        let usage = answer.completion.usage;
        assert!((2..=40).contains(&usage.output), "{provider:?}: {usage:?}");
        prompts.push(usage.prompt());
    }
    // The same conversation is the same prompt to the model, whatever carried it.
    assert!(prompts[0] > 20 && prompts.iter().all(|prompt| *prompt == prompts[0]), "{prompts:?}");
    for provider in SPOKEN {
        let usage = ask(provider, &request).await.0.unwrap().completion.usage;
        assert!(usage.cache_read > 0 && usage.input < usage.cache_read, "{provider:?}: {usage:?}");
        assert_eq!(usage.prompt(), prompts[0], "{provider:?}");
    }
}

#[tokio::test]
#[ignore = "needs the local model: scripts/local-model.sh"]
async fn an_answer_that_is_too_long_says_so() {
    let request = Request { max_output_tokens: 8, ..question("Count from one to a hundred in words.") };
    for provider in SPOKEN {
        let completion = ask(provider, &request).await.0.unwrap().completion;
        assert_eq!(completion.usage.output, 8, "{provider:?}");
        assert_eq!(completion.stop, Stop::Length, "{provider:?}");
    }
}

#[tokio::test]
#[ignore = "needs the local model: scripts/local-model.sh"]
async fn calls_and_their_results_are_read_in_every_format() {
    let call =
        Call { id: "call_1".into(), tool: "shell".into(), arguments: r#"{"command":"cat pin.txt"}"#.into() };
    let result =
        ToolResult { call_id: "call_1".into(), text: "7317\n".into(), is_error: false, images: Vec::new() };
    let messages = vec![
        user("Which number is in pin.txt?"),
        Message::Assistant { parts: vec![Part::Call(call)] },
        Message::Tools { results: vec![result] },
        // Small models like to call again, unless they are asked.
        user("Which number did the command print? Answer in one short sentence."),
    ];
    let tool_choice = ToolChoice::Never;
    let request = Request { max_output_tokens: 40, temperature: Some(0.0), tool_choice, ..request(messages) };
    for provider in SPOKEN {
        let answer = ask(provider, &request).await.0.unwrap();
        assert!(said(&answer).contains("7317"), "{provider:?}: {:?}", answer.completion.parts);
    }
}

#[tokio::test]
#[ignore = "needs the local model: scripts/local-model.sh"]
async fn a_call_that_is_dropped_frees_the_server() {
    const MUCH: u64 = 3000;
    let request = Request {
        max_output_tokens: MUCH as u32,
        ..question("Write the numbers from 1 to 3000, one on each line. Leave none out.")
    };
    for provider in SPOKEN {
        let client = Client::with_timeouts(patient()).unwrap();
        let (model, (began, begins)) = (local(provider), tokio::sync::oneshot::channel());
        let mut began = Some(began);
        let mut heard = |_| {
            if let Some(began) = began.take() {
                began.send(()).unwrap();
            }
        };
        tokio::select! {
            answer = client.complete(&model, &request, &mut heard) => panic!("it ended by itself: {answer:?}"),
            begun = begins => begun.unwrap(),
        }
        let slot = loop {
            let slot = slot().await;
            if slot["is_processing"] == false {
                break slot;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let tokens = slot["n_prompt_tokens"].as_u64().unwrap();
        assert!(tokens < MUCH / 2, "{provider:?}: it went on to {tokens} tokens for nobody");
    }
}

/// What the server does; it answers one call at a time.
async fn slot() -> Value {
    let url = format!("{}/slots", base_url().trim_end_matches("/v1"));
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[0].take()
}

#[tokio::test]
#[ignore = "needs the local model: scripts/local-model.sh"]
async fn a_prompt_that_does_not_fit_is_an_overflow() {
    let request = question(&"far too long ".repeat(20_000));
    for provider in SPOKEN {
        let error = ask(provider, &request).await.0.unwrap_err();
        assert_eq!(error.class, Class::ContextOverflow, "{provider:?}: {}", error.message);
        assert!(error.message.contains("16384"), "{provider:?}: {}", error.message);
    }
}

#[tokio::test]
#[ignore = "needs the local model: scripts/local-model.sh"]
async fn an_answer_has_the_shape_that_was_asked_for() {
    let schema = json!({"type": "object", "properties": {"fruit": {"type": "string"},
        "colour": {"enum": ["red", "yellow", "green"]}}, "required": ["fruit", "colour"],
        "additionalProperties": false});
    let mut request = Request { max_output_tokens: 80, ..question("Name a fruit and its colour.") };
    request.answer = Some(AnswerSchema { name: "fruit".into(), schema });
    for provider in SPOKEN {
        let text = said(&ask(provider, &request).await.0.unwrap());
        let value: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{provider:?}: {error}: {text}"));
        assert!(value["fruit"].is_string(), "{provider:?}: {text}");
        let colours = ["red", "yellow", "green"].map(Value::from);
        assert!(colours.contains(&value["colour"]), "{provider:?}: {text}");
    }
}
