//! What goes beyond one plain answer: keys in files, limits of time, what servers teach us, and trying a model out.

use super::*;

use protocol::chat::AnswerSchema;

fn shaped() -> Request {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    let answer = Some(AnswerSchema { name: "number".into(), schema });
    Request { tools: Vec::new(), answer, ..request(vec![user("How many?")]) }
}

#[tokio::test]
async fn a_key_in_a_file_goes_out_and_a_missing_one_is_told() {
    let file = std::env::temp_dir().join(format!("slipway-llm-it-key-{}", std::process::id()));
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    let options = Options { key: Some(KEY.into()), ..Options::default() };
    let server = Server::start_with(Script::new().say("Hi."), options).await.unwrap();
    let mut model = model_at(Provider::Anthropic, server.url());
    model.key = Some(Key::from_file(&file));
    let answer = complete(&model, &request(vec![user("Go.")])).await.0;
    std::fs::remove_file(&file).unwrap();
    answer.unwrap();
    let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
    assert_eq!(error.class, Class::Auth);
    assert!(
        error.message.contains("cannot be read") && error.message.contains("api_key_file"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_answer_that_never_ends_is_given_up_although_it_shows_life() {
    for provider in FORMATS {
        let reply = Reply::text("slow ".repeat(200)).pieces(1).delay(Duration::from_millis(20));
        let server = Server::start(Script::new().answer(reply)).await;
        let mut model = model_at(provider, server.url());
        model.overrides.total = Some(Duration::from_millis(300));
        let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
        assert_eq!(error.class, Class::TimedOut);
        assert!(error.message.contains("300ms in all"), "{}", error.message);
        server.wait_for_abandoned(1).await;
    }
}

#[tokio::test]
async fn reasoning_that_a_server_refuses_is_left_out_and_stays_out() {
    let refusal = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let server =
        Server::start(Script::new().answer(Reply::status(400, refusal)).say("One.").say("Two.")).await;
    let model = model_at(Provider::Anthropic, server.url());
    let client = Client::new().unwrap();
    let reasoning =
        |signature: &str| Part::Reasoning { text: "Hm.".into(), signature: Some(signature.into()) };
    let said = Part::Text { text: "Well.".into() };
    let turn = |signature: &str| Message::Assistant { parts: vec![reasoning(signature), said.clone()] };
    let mut messages = vec![user("Go."), turn("FOREIGN"), user("On.")];
    let answer = client.complete(&model, &request(messages.clone()), &mut |_| {}).await.unwrap();
    assert!(answer.notes.iter().any(|note| note.contains("earlier reasoning")), "{:?}", answer.notes);
    messages.extend([turn("OWN"), user("On.")]);
    let answer = client.complete(&model, &request(messages), &mut |_| {}).await.unwrap();
    assert_eq!(answer.notes, Vec::<String>::new());
    let bodies: Vec<String> = server.requests().iter().map(|request| request.json.to_string()).collect();
    let sent = |signature: &str| bodies.iter().map(|body| body.contains(signature)).collect::<Vec<_>>();
    assert_eq!(sent("FOREIGN"), [true, false, false]);
    assert_eq!(sent("OWN"), [false, false, true]);
}

#[tokio::test]
async fn a_conversation_with_gaps_is_mended_for_every_format() {
    let call = |id: &str| Part::Call(Call { id: id.into(), tool: "shell".into(), arguments: "{}".into() });
    let result =
        |id: &str| ToolResult { call_id: id.into(), text: id.into(), is_error: false, images: Vec::new() };
    let long = "functions.shell:".repeat(9);
    for provider in FORMATS {
        let server = Server::start(Script::new().say("Done.")).await;
        let messages = vec![
            user("Go."),
            Message::Assistant { parts: vec![call("a"), call(&long)] },
            user("Wait."),
            Message::Tools { results: vec![result("nobody"), result(&long)] },
            Message::Assistant { parts: vec![call("a")] },
            Message::Tools { results: vec![result("a")] },
        ];
        let answer = complete(&model_at(provider, server.url()), &request(messages)).await.0.unwrap();
        assert_eq!(server.violations(), Vec::<String>::new(), "{provider:?}");
        assert_eq!(answer.notes.len(), 2, "{provider:?}: {:?}", answer.notes);
        let body = server.requests()[0].json.to_string();
        assert!(body.contains("was interrupted") && !body.contains("nobody"), "{provider:?}: {body}");
    }
}

#[tokio::test]
async fn an_answer_of_a_given_shape_comes_as_text_from_every_format() {
    for provider in FORMATS {
        // At an address that is not the provider's own, a schema may be passed over, so Anthropic's gets a tool.
        let script = Script::from_fn(|request, _| match request.tool_names().as_slice() {
            ["answer"] => Reply::new().call("answer", json!({"n": 7})),
            _ => Reply::text("{\"n\":7}"),
        });
        let server = Server::start(script).await;
        let (answer, deltas) = complete(&model_at(provider, server.url()), &shaped()).await;
        let completion = answer.unwrap().completion;
        assert_eq!(server.violations(), Vec::<String>::new(), "{provider:?}");
        assert_eq!(completion.parts, [Part::Text { text: "{\"n\":7}".into() }], "{provider:?}");
        assert_eq!((completion.stop, gathered(&deltas).1.as_str()), (Stop::End, "{\"n\":7}"), "{provider:?}");
    }
}

#[tokio::test]
async fn a_server_without_schemas_is_asked_in_words_and_that_is_told() {
    let refusal = || Reply::status(400, "response_format type json_schema is not supported");
    let script = Script::new().answer(refusal()).answer(refusal()).say("{\"n\":7}").say("{\"n\":8}");
    let server = Server::start(script).await;
    let client = Client::new().unwrap();
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let answer = client.complete(&model, &shaped(), &mut |_| {}).await.unwrap();
    assert!(answer.notes.iter().any(|note| note.contains("schema")), "{:?}", answer.notes);
    client.complete(&model, &shaped(), &mut |_| {}).await.unwrap();
    let asked: Vec<Value> =
        server.requests().iter().map(|request| request.json["response_format"]["type"].clone()).collect();
    assert_eq!(asked, [json!("json_schema"), json!("json_object"), Value::Null, Value::Null]);
    assert!(server.requests()[2].system.contains("JSON schema"), "{}", server.requests()[2].system);
}

#[tokio::test]
async fn trying_a_model_out_says_what_works_and_which_mode_fits() {
    let add = || Reply::new().call("add", json!({"a": 1923, "b": 2377}));
    let paris = || Reply::text("{\"capital\":\"Paris\"}");
    for provider in FORMATS {
        let server = Server::start(Script::new().answer(add())).await;
        let found = Client::new().unwrap().probe(&model_at(provider, server.url())).await.unwrap();
        assert!(found.streams && found.reports_usage, "{provider:?}: {found:?}");
        assert_eq!((found.tool_calls, found.structured), (llm::ToolCalls::Native, None), "{provider:?}");
        assert_eq!(found.tool_mode, protocol::ToolMode::Native);
        assert_eq!(server.requests().len(), 1, "{provider:?}: one request shows all that matters");
    }
    let written = "```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1923, \"b\": 2377}}\n```";
    let server = Server::start(Script::new().say(written).answer(paris())).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let found = Client::new().unwrap().probe(&model).await.unwrap();
    assert_eq!(found.tool_calls, llm::ToolCalls::AsText);
    assert_eq!(found.tool_mode, protocol::ToolMode::JsonStep);

    let refusal = Reply::status(400, "tiny does not support tools");
    let server = Server::start(Script::new().answer(refusal).say("4300").say("Paris, of course.")).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let found = Client::new().unwrap().probe(&model).await.unwrap();
    assert!(matches!(found.tool_calls, llm::ToolCalls::Refused(_)), "{found:?}");
    assert!(found.structured.unwrap().unwrap_err().contains("not JSON"));
    let fits = (found.tool_mode, found.edit_format);
    assert_eq!(fits, (protocol::ToolMode::Fenced, protocol::EditFormat::Whole));

    // A bad moment of the server says nothing of the model, so it is asked again.
    let busy = || Reply::status(503, "busy");
    let server =
        Server::start(Script::new().answer(busy()).say(written).answer(busy()).answer(paris())).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let found = Client::new().unwrap().probe(&model).await.unwrap();
    assert_eq!((found.tool_calls, found.tool_mode), (llm::ToolCalls::AsText, protocol::ToolMode::JsonStep));
    let server = Server::start(Script::new().say(written).answer(busy()).answer(busy())).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let found = Client::new().unwrap().probe(&model).await.unwrap();
    assert_eq!((found.tool_calls, found.tool_mode), (llm::ToolCalls::AsText, protocol::ToolMode::Fenced));
    assert!(found.notes.iter().any(|note| note.contains("bad moment")), "{:?}", found.notes);
    assert!(found.structured.unwrap().unwrap_err().contains("busy"));

    let refusal = Reply::status(501, "This server does not support tools. Start it with `--jinja`");
    let server = Server::start(Script::new().answer(refusal).say("4300").answer(paris())).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let found = Client::new().unwrap().probe(&model).await.unwrap();
    assert!(matches!(found.tool_calls, llm::ToolCalls::Refused(_)), "{found:?}");
    assert_eq!(found.tool_mode, protocol::ToolMode::JsonStep);

    assert_eq!(found.edit_format, protocol::EditFormat::Replace);

    // Who declines shows nothing of what it can do.
    let declines = || Reply::refusal("I would rather not.");
    let server = Server::start(Script::new().answer(declines()).answer(declines())).await;
    let model = model_at(Provider::Anthropic, server.url());
    let found = Client::new().unwrap().probe(&model).await.unwrap();
    assert_eq!((found.tool_calls, found.tool_mode), (llm::ToolCalls::No, protocol::ToolMode::Native));

    let server = Server::start(Script::new().answer(Reply::text("")).answer(Reply::text(""))).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let error = Client::new().unwrap().probe(&model).await.unwrap_err();
    assert!(error.message.contains("are empty"), "{}", error.message);

    let server = Server::start(Script::new().answer(Reply::status(401, "who are you?"))).await;
    let error = Client::new().unwrap().probe(&model_at(Provider::Anthropic, server.url())).await.unwrap_err();
    assert_eq!(error.class, Class::Auth);
}

#[tokio::test]
async fn what_a_server_refuses_by_name_is_written_otherwise_and_remembered() {
    let instructed = "Developer instruction is not enabled for models/gemma-3-27b-it";
    let unsigned = "Unknown name \"thoughtSignature\" at 'contents[1].parts[0]': Cannot find field.";
    for (provider, refusal, field) in [
        (Provider::Gemini, instructed, "systemInstruction"),
        (Provider::Gemini, unsigned, "thoughtSignature"),
        (Provider::OpenAiResponses, "Unknown parameter: 'instructions'.", "\"instructions\""),
        (Provider::OpenAiResponses, "Unsupported parameter: 'max_output_tokens'", "max_output_tokens"),
        (Provider::OpenAiResponses, "Unknown parameter: 'include'.", "\"include\""),
    ] {
        let script = Script::new().answer(Reply::status(400, refusal)).say("Hi.").say("Hi.");
        let server = Server::start(script).await;
        let (client, model) = (Client::new().unwrap(), model_at(provider, server.url()));
        let signature = Some("gemini-thought:SIG".into());
        let parts =
            vec![Part::Reasoning { text: "Hm.".into(), signature }, Part::Text { text: "Well.".into() }];
        let messages = vec![user("Go."), Message::Assistant { parts }, user("On.")];
        for notes in [1, 0] {
            let answer = client.complete(&model, &request(messages.clone()), &mut |_| {}).await.unwrap();
            assert_eq!(answer.notes.len(), notes, "{refusal}: {:?}", answer.notes);
        }
        assert_eq!(server.violations(), Vec::<String>::new(), "{refusal}");
        let sent: Vec<String> = server.requests().iter().map(|request| request.json.to_string()).collect();
        let named: Vec<bool> = sent.iter().map(|sent| sent.contains(field)).collect();
        assert_eq!(named, [true, false, false], "{refusal}");
        assert!(sent.iter().all(|sent| sent.contains("You are careful.")), "{refusal}");
    }
}
