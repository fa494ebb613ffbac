//! Bedrock and Vertex AI: their addresses, their way to take a key, and what they refuse of the formats that they speak.

use super::*;

/// Each provider with the base of its addresses below a host.
const CLOUDS: [(Provider, &str); 6] = [
    (Provider::Bedrock, "/openai/v1"),
    (Provider::BedrockResponses, "/openai/v1"),
    (Provider::BedrockAnthropic, "/anthropic/v1"),
    (Provider::Vertex, "/v1/projects/p/locations/global/endpoints/openapi"),
    (Provider::VertexAnthropic, "/v1/projects/p/locations/us-east5"),
    (Provider::VertexGemini, "/v1/projects/p/locations/europe-west1"),
];

#[tokio::test]
async fn a_conversation_with_calls_works_at_every_cloud_from_a_few_lines_of_table() {
    for (provider, base) in CLOUDS {
        let usage = Usage { input: 7, output: 5, ..Usage::default() };
        let script = Script::new()
            .answer(
                Reply::new()
                    .signed_reasoning("Hm.", "SIG")
                    .say("Both.")
                    .call("shell", json!({"command": "ls"}))
                    .call("shell", json!({"command": "pwd"}))
                    .usage(usage),
            )
            .say("Done.");
        let options = Options { key: Some(KEY.into()), ..Options::default() };
        let server = Server::start_with(script, options).await.unwrap();
        let model = model_at(provider, format!("http://{}{base}", server.address()));
        let first = complete(&model, &request(vec![user("Go.")])).await.0;
        let first = first.unwrap_or_else(|error| panic!("{provider:?}: {error}")).completion;
        assert_eq!((first.stop, first.usage.prompt()), (Stop::Tools, 7), "{provider:?}");
        let results = first.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(ToolResult { text: call.arguments.clone(), ..result_of(&call.id) }),
            Part::Text { .. } | Part::Reasoning { .. } => None,
        });
        let results: Vec<ToolResult> = results.collect();
        let messages = vec![
            user("Go."),
            Message::Assistant { parts: first.parts.clone() },
            Message::Tools { results: results.clone() },
        ];
        let second = complete(&model, &request(messages)).await.0;
        let second = second.unwrap_or_else(|error| panic!("{provider:?}: {error}"));
        assert_eq!(second.completion.parts, [Part::Text { text: "Done.".into() }], "{provider:?}");
        assert_eq!(second.notes, Vec::<String>::new(), "{provider:?} had to teach us something");
        assert_eq!(server.violations(), Vec::<String>::new(), "{provider:?}");
        let seen = &server.requests()[1];
        assert_eq!(seen.model, "scripted", "{provider:?}");
        let texts =
            |results: &[ToolResult]| results.iter().map(|result| result.text.clone()).collect::<Vec<_>>();
        assert_eq!(
            texts(seen.results()),
            texts(&results),
            "{provider:?}: results in the order of their calls"
        );
    }
}

/// A result without words.
fn result_of(call: &str) -> ToolResult {
    serde_json::from_value(json!({"call_id": call, "text": "", "is_error": false})).unwrap()
}

#[tokio::test]
async fn a_server_that_takes_no_ids_of_calls_teaches_it() {
    let reply = Reply::new().call("shell", json!({"command": "ls"}));
    let server = Server::start(Script::new().answer(reply).say("Done.")).await;
    // Not the provider that is known for it, at an address that is.
    let base = format!("http://{}/v1/projects/p/locations/r/publishers/google", server.address());
    let model = Model {
        key: None,
        headers: BTreeMap::from([("authorization".into(), format!("Bearer {KEY}"))]),
        ..model_at(Provider::Gemini, base)
    };
    let client = Client::new().unwrap();
    let first = client.complete(&model, &request(vec![user("Go.")]), &mut |_| {}).await.unwrap().completion;
    let Some(Part::Call(call)) = first.parts.last() else { panic!("{first:?}") };
    let results = vec![ToolResult { text: "a.rs".into(), ..result_of(&call.id) }];
    let messages =
        vec![user("Go."), Message::Assistant { parts: first.parts.clone() }, Message::Tools { results }];
    let answer = client.complete(&model, &request(messages), &mut |_| {}).await.unwrap();
    assert!(answer.notes.iter().any(|note| note.contains("no ids")), "{:?}", answer.notes);
    assert_eq!(server.violations().len(), 1, "{:?}", server.violations());
}
