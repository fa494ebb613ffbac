//! Everything that goes wrong between us and a model server: each failure has its class, says what to do, and shows no
//! key.

use super::*;

/// The error of one call to a server with this one reply, after a look that it says what to do and no secret.
async fn failure(provider: Provider, reply: Reply) -> Error {
    let server = Server::start(Script::new().answer(reply)).await;
    let (answer, _) = complete(&model_at(provider, server.url()), &request(vec![user("Go.")])).await;
    let error = answer.unwrap_err();
    assert_eq!(server.violations(), Vec::<String>::new());
    assert!(!error.message.contains(KEY) && !format!("{error:?}").contains(KEY), "{}", error.message);
    assert!(error.message.ends_with('.'), "{}", error.message);
    error
}

#[tokio::test]
async fn each_refusal_has_its_class_and_says_what_to_do() {
    let long = "This model's maximum context length is 8192 tokens.";
    for provider in FORMATS {
        for (status, said, class, advice) in [
            (400, "no such parameter", Class::BadRequest, "Check [models.main]"),
            (400, long, Class::ContextOverflow, "Shorten it"),
            (401, "who are you?", Class::Auth, "api_key_env"),
            (403, "not for you", Class::Auth, "api_key_env"),
            (404, "never heard of it", Class::UnknownModel, "does not know the model \"scripted\""),
            (408, "too slow", Class::TimedOut, "Try again"),
            (413, "too big", Class::ContextOverflow, "Shorten it"),
            (429, "slow down", Class::RateLimited, "Wait a little"),
            (500, "oops", Class::Overloaded, "Try again later"),
            (503, "busy", Class::Overloaded, "Try again later"),
            (529, "overloaded", Class::Overloaded, "Try again later"),
        ] {
            let error = failure(provider, Reply::status(status, said)).await;
            assert_eq!(error.class, class, "{status}: {}", error.message);
            assert!(error.message.contains(advice), "{status}: {}", error.message);
            assert!(error.message.contains(said.trim_end_matches('.')), "{status}: {}", error.message);
        }
    }
}

/// A server whose key may send so many tokens in a minute, of which the room for an answer takes a part.
fn sparing(limit: u64) -> Script {
    Script::from_fn(move |request, _| {
        let sent = serde_json::to_string(&request.messages).unwrap().len() as u64 / 4;
        match sent + request.max_output_tokens.unwrap_or_default() {
            needed if needed > limit => {
                let said = "Request too large for m in organization o on tokens per min (TPM)";
                Reply::status(429, format!("{said}: Limit {limit}, Requested {needed}. Reduce it."))
            }
            _ => Reply::text("Done."),
        }
    })
}

#[tokio::test]
async fn a_key_that_may_send_little_at_once_gets_shorter_answers_and_then_is_an_overflow() {
    for provider in FORMATS {
        let server = Server::start(sparing(6000)).await;
        // Thinks without being asked to, which needs room as well.
        let model = Model { model: "gpt-5".into(), ..model_at(provider, server.url()) };
        let client = Client::new().unwrap();
        let brief = Request { max_output_tokens: 8192, ..request(vec![user("Go.")]) };
        for notes in [1, 0] {
            let answer = client.complete(&model, &brief, &mut |_| {}).await.unwrap();
            assert_eq!(answer.notes.len(), notes, "{provider:?}: {:?}", answer.notes);
        }
        let asked: Vec<_> =
            server.requests().iter().map(|request| request.max_output_tokens.unwrap()).collect();
        assert_eq!((asked.len(), &asked[1..]), (3, &[1500, 1500][..]), "{provider:?}");
        assert!(asked[0] > 8000, "{provider:?}: {asked:?}");
        let long = Request { messages: vec![user(&"word ".repeat(5000))], ..brief };
        let error = client.complete(&model, &long, &mut |_| {}).await.unwrap_err();
        assert_eq!((error.class, error.takes), (Class::ContextOverflow, Some(6000)), "{}", error.message);
        assert_eq!(server.violations(), Vec::<String>::new(), "{provider:?}");
    }
}

#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_known() {
    for (name, value, wait) in [("retry-after", "7", 7000), ("Retry-After-Ms", "1500", 1500)] {
        let error = failure(Provider::Anthropic, Reply::status(429, "slow").header(name, value)).await;
        assert_eq!(error.retry_after, Some(Duration::from_millis(wait)));
        let delay = llm::retry_delay(&error, 1).unwrap();
        assert!(
            delay >= Duration::from_millis(wait) && delay <= Duration::from_millis(wait * 5 / 4),
            "{delay:?}"
        );
    }
}

#[tokio::test]
async fn what_is_no_answer_says_what_came_instead() {
    let page = "<!doctype html>\n<html><body>Welcome to nginx!</body></html>";
    for provider in FORMATS {
        for (reply, said) in [
            (Reply::raw(200, "text/html", page), "Welcome to nginx!"),
            (Reply::raw(200, "text/plain", "error: out of cheese"), "out of cheese"),
            (Reply::raw(200, "application/json", "{\"object\": \"list\"}"), "said nothing"),
            (Reply::raw(200, "application/json", "{\"choices\": ["), "not JSON"),
            (Reply::raw(200, "application/json", ""), "is empty"),
            (Reply::raw(200, "text/event-stream", "data: {\"choices\": oops\n\n"), "not JSON"),
            (Reply::raw(200, "text/event-stream", ": nothing\n\n"), "neither JSON nor a stream"),
        ] {
            let error = failure(provider, reply).await;
            assert_eq!(error.class, Class::BadResponse, "{}", error.message);
            assert!(error.message.contains(said), "{}", error.message);
            assert!(error.message.contains("base_url of [models.main]"), "{}", error.message);
        }
        let error = failure(provider, Reply::raw(502, "text/html", page)).await;
        assert_eq!(error.class, Class::Overloaded);
        assert!(error.message.contains("Welcome to nginx!"), "{}", error.message);
    }
    let error =
        failure(Provider::OpenAiCompatible, Reply::events([("", "{\"choices\":[]}"), ("", "[DONE]")])).await;
    assert_eq!(error.class, Class::BadResponse);
    assert!(error.message.contains("no choices"), "{}", error.message);
}

#[tokio::test]
async fn what_a_call_used_in_vain_is_known() {
    // What is reported before the end, and what is reported with an error at the end.
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error",
        "message":"oh"},"usage":{"input_tokens":7,"output_tokens":2}}}"#
        .replace('\n', "");
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#;
    let begun = r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":2}}}"#;
    let nothing = r#"{"candidates":[{"finishReason":"OTHER"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2}}"#;
    let events = [chunk, failed.as_str(), begun, nothing];
    for (provider, event) in FORMATS.into_iter().zip(events) {
        let error = failure(provider, Reply::events([("", event)])).await;
        assert_eq!((error.usage.input, error.usage.output), (7, 2), "{provider:?}: {}", error.message);
    }
    assert_eq!(failure(Provider::Anthropic, Reply::status(500, "oh")).await.usage, Usage::default());
}

#[tokio::test]
async fn an_answer_is_cut_off_where_its_server_knows_no_limit() {
    let text: String = (0..20_000).map(|number| format!("{:x}\n", number * 7919 % 65_537)).collect();
    for provider in FORMATS {
        let server = Server::start(Script::new().answer(Reply::text(text.clone()))).await;
        let asked = Request { max_output_tokens: 100, ..request(vec![user("Count.")]) };
        let answer = complete(&model_at(provider, server.url()), &asked).await.0.unwrap();
        assert_eq!(answer.completion.stop, Stop::Length, "{provider:?}");
        assert!(answer.notes.iter().any(|note| note.contains("beyond its limit")), "{:?}", answer.notes);
        assert!(answer.completion.usage.output > 10_000, "what nobody told is estimated");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_no_answer() {
    for provider in FORMATS {
        for events in [0, 1, 4] {
            let reply = Reply::new().say("A text of some length.").cut(events).pieces(3);
            let error = failure(provider, reply).await;
            assert_eq!(error.class, Class::BadResponse);
            assert!(error.message.contains("broke off"), "{}", error.message);
        }
    }
    // The connection ends in good order, but the answer does not.
    let piece = r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
    let error = failure(Provider::OpenAiCompatible, Reply::events([("", piece)])).await;
    assert!(error.message.contains("broke off"), "{}", error.message);
}

#[tokio::test]
async fn an_error_inside_a_stream_is_an_error() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let start = r#"{"type":"message_start","message":{"usage":{}}}"#;
    let error =
        failure(Provider::Anthropic, Reply::events([("message_start", start), ("error", overloaded)])).await;
    assert_eq!(error.class, Class::Overloaded);
    let piece = r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
    let limited = r#"{"error":{"message":"slow down","code":429}}"#;
    let error = failure(Provider::OpenAiCompatible, Reply::events([("", piece), ("", limited)])).await;
    assert_eq!(error.class, Class::RateLimited);
    let piece = r#"{"type":"response.output_text.delta","delta":"Hel"}"#;
    let flat = r#"{"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null}"#;
    let failed = r#"{"type":"response.failed","response":{"status":"failed","output":[],
        "error":{"code":"server_error","message":"slow down"}}}"#;
    for (last, class) in [(flat, Class::RateLimited), (failed, Class::Overloaded)] {
        let error = failure(Provider::OpenAiResponses, Reply::events([("", piece), ("", last)])).await;
        assert_eq!(error.class, class);
        assert!(error.message.contains("slow down"), "{}", error.message);
    }
    let piece = r#"{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}"#;
    let limited = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    let error = failure(Provider::Gemini, Reply::events([("", piece), ("", limited)])).await;
    assert_eq!(error.class, Class::Overloaded);
}

#[tokio::test]
async fn silence_is_not_waited_for_for_ever() {
    let timeouts = Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() };
    for provider in FORMATS {
        for at in [At::Response, At::Event(0), At::Event(3)] {
            let gate = Gate::new();
            let script = Script::new().answer(Reply::text("A text of some length.").stall(at, &gate));
            let server = Server::start(script).await;
            let model = model_at(provider, server.url());
            let (answer, _) = complete_within(timeouts, &model, &request(vec![user("Go.")])).await;
            let error = answer.unwrap_err();
            assert_eq!(error.class, Class::TimedOut);
            assert!(error.message.contains("sent nothing for 200ms"), "{}", error.message);
            server.wait_for_abandoned(1).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_says_the_same_for_ever_is_cut_off() {
    let line = "I will look at the file again.\n";
    for provider in FORMATS {
        let gate = Gate::new();
        for reply in [
            Reply::text(format!("Well. {}", line.repeat(1000))),
            Reply::new().reasoning(line.repeat(1000)),
            Reply::text(" ".repeat(30_000)),
        ] {
            // The end of it never comes.
            let server = Server::start(Script::new().answer(reply.stall(At::Event(2500), &gate))).await;
            let model = model_at(provider, server.url());
            let (answer, deltas) = complete(&model, &request(vec![user("Go.")])).await;
            let Answer { completion, notes, .. } = answer.unwrap();
            assert_eq!(completion.stop, Stop::Length, "{provider:?}");
            assert!(notes.iter().any(|note| note.contains("again and again")), "{provider:?}: {notes:?}");
            let said = match &completion.parts[..] {
                [Part::Text { text } | Part::Reasoning { text, .. }] => text,
                other => panic!("{provider:?}: {other:?}"),
            };
            assert!((8192..20_000).contains(&said.len()), "{provider:?}: {} bytes", said.len());
            let (reasoning, text, _) = gathered(&deltas);
            assert_eq!(format!("{reasoning}{text}"), *said, "{provider:?}");
            // It is paid for, although nobody said how much it was.
            let usage = completion.usage;
            assert!(usage.prompt() > 20 && usage.output + usage.reasoning >= 2048, "{provider:?}: {usage:?}");
            server.wait_for_abandoned(1).await;
        }
    }
    // One that comes in one piece and ends is no better.
    let once = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "So it is.\n".repeat(3000)},
        "finish_reason": "stop"}], "usage": {"prompt_tokens": 70, "completion_tokens": 9000}});
    let server =
        Server::start(Script::new().answer(Reply::raw(200, "application/json", once.to_string()))).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let answer = complete(&model, &request(vec![user("Go.")])).await.0.unwrap();
    assert_eq!((answer.completion.stop, answer.completion.usage.output), (Stop::Length, 9000));
    // A table is not endless, and what ends by itself is an answer.
    let table: String = (0..3000).map(|row| format!("| {row} | the same |\n")).collect();
    let server = Server::start(Script::new().say(table.clone())).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let answer = complete(&model, &request(vec![user("Go.")])).await.0.unwrap();
    assert_eq!(answer.completion.parts, [Part::Text { text: table }]);
}

#[tokio::test]
async fn a_server_that_forgets_to_end_its_stream_has_answered() {
    let gate = Gate::new();
    let last = r#"{"choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]}"#;
    let reply = Reply::events([("", last), ("", "[DONE]")]).stall(At::Event(1), &gate);
    let server = Server::start(Script::new().answer(reply)).await;
    let timeouts = Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() };
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let (answer, _) = complete_within(timeouts, &model, &request(vec![user("Go.")])).await;
    assert_eq!(answer.unwrap().completion.parts, [Part::Text { text: "Hi.".into() }]);
}

#[tokio::test]
async fn a_count_that_cannot_be_is_no_count() {
    for tokens in [json!(1e30), json!(u64::MAX)] {
        let usage = json!({"prompt_tokens": tokens, "completion_tokens": 3});
        let answer = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."},
            "finish_reason": "stop"}], "usage": usage});
        let server =
            Server::start(Script::new().answer(Reply::raw(200, "application/json", answer.to_string())))
                .await;
        let model = model_at(Provider::OpenAiCompatible, server.url());
        let Answer { completion, usage_told, notes, .. } =
            complete(&model, &request(vec![user("Go.")])).await.0.unwrap();
        assert!(!usage_told && (1..10_000).contains(&completion.usage.prompt()), "{:?}", completion.usage);
        assert!(notes.iter().any(|note| note.contains("more than can be")), "{notes:?}");
    }
}

#[tokio::test]
async fn a_count_that_cannot_be_does_not_count_where_the_answer_breaks_off_either() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": u64::MAX, "output_tokens": 1}}});
    let block =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half"}});
    let bytes = format!("data: {start}\n\ndata: {block}\n\n");
    let server =
        Server::start(Script::new().answer(Reply::raw(200, "text/event-stream", bytes).cut(1))).await;
    let error = complete(&model_at(Provider::Anthropic, server.url()), &request(vec![user("Go.")]))
        .await
        .0
        .unwrap_err();
    assert_eq!(error.class, Class::BadResponse, "{}", error.message);
    assert!((1..10_000).contains(&error.usage.prompt()), "{:?}", error.usage);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let model = model_at(Provider::OpenAiCompatible, &url);
    let hang_up = tokio::spawn(async move {
        // Closes both the connection and, after it, the port.
        drop(listener.accept().await.unwrap());
    });
    let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
    assert_eq!(error.class, Class::Unreachable, "{}", error.message);
    hang_up.await.unwrap();
    let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
    assert_eq!(error.class, Class::Unreachable);
    let expected = format!(
        "Cannot reach the model server at {url} (Connection refused (os error 111)): is it running? Check base_url of \
         [models.main] in slipway.toml."
    );
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn a_server_that_speaks_no_https_is_told_from_one_that_is_not_there() {
    let server = Server::start(Script::new().say("Never.")).await;
    let url = server.url().replace("http://", "https://");
    let model = model_at(Provider::OpenAiCompatible, &url);
    let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
    assert_eq!(error.class, Class::Unreachable);
    assert!(error.message.contains("does not speak https there. Write http://"), "{}", error.message);
}

#[tokio::test]
async fn a_redirect_does_not_carry_the_key_away() {
    let elsewhere = Server::start(Script::new().say("Give me your key.")).await;
    for status in [301, 307] {
        let target = format!("{}/chat/completions", elsewhere.url());
        let error = failure(
            Provider::OpenAiCompatible,
            Reply::raw(status, "text/html", "").header("location", target),
        );
        let error = error.await;
        assert_eq!(error.class, Class::BadRequest);
        assert!(error.message.contains("Set base_url of [models.main]"), "{}", error.message);
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_key_that_a_server_echoes_is_not_shown() {
    for provider in FORMATS {
        for status in [400, 401, 500] {
            let error = failure(provider, Reply::status(status, format!("bad key {KEY} given"))).await;
            assert!(error.message.contains("bad key … given"), "{}", error.message);
            // The same key in Base64.
            let said = "bad key c2stc2VjcmV0LTAxMjM0NTY3ODk= given";
            let error = failure(provider, Reply::status(status, said)).await;
            assert!(error.message.contains("bad key … given"), "{}", error.message);
        }
        let error = failure(provider, Reply::raw(200, "text/html", format!("<p>{KEY}</p>"))).await;
        assert!(error.message.contains("<p>…</p>"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_key_that_was_replaced_meanwhile_is_not_shown_either() {
    for provider in FORMATS {
        let reply = Reply::status(401, format!("bad key {KEY}-1 given"));
        let server = Server::start(Script::new().answer(reply)).await;
        let mut model = model_at(provider, server.url());
        let asked = std::sync::atomic::AtomicUsize::new(0);
        model.key = Some(Key::from_store("MAIN", move |_| {
            let count = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            Ok(format!("{KEY}-{count}").into())
        }));
        let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
        let sent = format!("{:?}", server.requests()[0].headers);
        assert!(sent.contains(&format!("{KEY}-1")), "{sent}");
        assert!(error.message.contains("bad key … given"), "{}", error.message);
        assert!(error.message.contains("slipway secret set MAIN"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_wrong_key_is_told_from_a_missing_one() {
    for provider in FORMATS {
        let options = Options { key: Some("another".into()), ..Options::default() };
        let server = Server::start_with(Script::new(), options).await.unwrap();
        let mut model = model_at(provider, server.url());
        let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
        assert_eq!(error.class, Class::Auth);
        assert!(error.message.contains("refused the key"), "{}", error.message);
        model.key = None;
        let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
        assert!(error.message.contains("wants a key"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_call_that_broke_off_counts_as_read_though_nothing_is_told_before_its_end() {
    let long = request(vec![user(&"word ".repeat(3000))]);
    for provider in [Provider::OpenAiCompatible, Provider::OpenAiResponses] {
        let reply = Reply::text("A text of some length, which is lost on the way.").cut(5).pieces(7);
        let server = Server::start(Script::new().answer(reply)).await;
        let error = complete(&model_at(provider, server.url()), &long).await.0.unwrap_err();
        assert!(error.usage.input > 4000 && error.usage.output > 0, "{provider:?}: {:?}", error.usage);

        // It was read while nothing came.
        let gate = Gate::new();
        let reply = Reply::text("Never.").stall(At::Event(0), &gate);
        let server = Server::start(Script::new().answer(reply)).await;
        let timeouts = Timeouts { idle: Duration::from_millis(200), ..Timeouts::default() };
        let (answer, _) = complete_within(timeouts, &model_at(provider, server.url()), &long).await;
        assert!(answer.unwrap_err().usage.input > 4000, "{provider:?}");

        for refused in [
            Reply::status(503, "busy"),
            Reply::events([("", r#"{"error":{"code":503,"message":"busy"}}"#)]),
            Reply::raw(200, "text/html", "<p>busy</p>"),
        ] {
            let error = failure(provider, refused).await;
            assert_eq!(error.usage, Usage::default(), "{provider:?}: {}", error.message);
        }
    }
}

#[tokio::test]
async fn an_answer_is_whole_whatever_comes_after_it() {
    let timeouts = Timeouts { idle: Duration::from_millis(400), ..Timeouts::default() };
    let last = r#"{"choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]}"#;
    // Signs of life that never end.
    let pings = (0..100).map(|_| ("", r#"{"choices":[]}"#));
    let mut living = Reply::events(std::iter::once(("", last)).chain(pings));
    for number in 1..100 {
        living = living.stall(At::Event(number), Duration::from_millis(150));
    }
    let begun = r#"{"type":"message_start","message":{"usage":{"input_tokens":7}}}"#;
    let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi."}}"#;
    let whole = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#;
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let late = || Reply::events([("", begun), ("", text), ("", whole), ("", overloaded)]);
    for (provider, reply) in [
        (Provider::OpenAiCompatible, living),
        (Provider::Anthropic, late()),
        (Provider::Anthropic, late().stall(At::Event(3), Duration::from_millis(50))),
    ] {
        let server = Server::start(Script::new().answer(reply)).await;
        let model = model_at(provider, server.url());
        let request = request(vec![user("Go.")]);
        let called = complete_within(timeouts, &model, &request);
        let (answer, _) = tokio::time::timeout(Duration::from_secs(10), called).await.unwrap();
        assert_eq!(answer.unwrap().completion.parts, [Part::Text { text: "Hi.".into() }], "{provider:?}");
    }
}

#[tokio::test]
async fn an_answer_each_piece_of_which_is_called_the_last_is_read_to_its_end() {
    let timeouts = Timeouts { idle: Duration::from_millis(400), ..Timeouts::default() };
    let chat = r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#;
    for (provider, piece) in [(Provider::OpenAiCompatible, chat), (Provider::Gemini, gemini)] {
        let mut reply = Reply::events((0..8).map(|_| ("", piece)));
        for number in 1..8 {
            reply = reply.stall(At::Event(number), Duration::from_millis(150));
        }
        let server = Server::start(Script::new().answer(reply)).await;
        let model = model_at(provider, server.url());
        let answer = complete_within(timeouts, &model, &request(vec![user("Go.")])).await.0.unwrap();
        assert_eq!(answer.completion.parts, [Part::Text { text: "x".repeat(8) }], "{provider:?}");
    }
}

#[tokio::test]
async fn a_call_that_the_server_could_not_read_is_told_as_a_call() {
    let groq = r#"{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"<function=shell{"}}"#;
    let piece = r#"{"choices":[{"index":0,"delta":{"content":"I look. "}}]}"#;
    let ollama = "error parsing tool call: raw='{\"command\":\"ls' err=unexpected end of JSON input";
    for (reply, parts, tool) in [
        (Reply::raw(400, "application/json", groq), 1, "shell"),
        (Reply::events([("", piece), ("", groq)]), 2, "shell"),
        (Reply::status(500, ollama), 1, "unreadable_call"),
    ] {
        let server = Server::start(Script::new().answer(reply)).await;
        let model = model_at(Provider::OpenAiCompatible, server.url());
        let answer = complete(&model, &request(vec![user("Go.")])).await.0.unwrap();
        let completion = answer.completion;
        assert_eq!((completion.parts.len(), completion.stop), (parts, Stop::Tools), "{completion:?}");
        let Some(Part::Call(call)) = completion.parts.last() else { panic!("{completion:?}") };
        assert_eq!(call.tool, tool);
        assert!(call.arguments.contains("could not read this call: "), "{}", call.arguments);
        assert!(
            serde_json::from_str::<Value>(&call.arguments).is_err(),
            "whoever runs it sees that it is broken"
        );
        assert!(completion.usage.prompt() > 0 && answer.notes.is_empty(), "{:?}", answer.notes);
    }
    // Where no tool was offered there is nothing to tell.
    let server = Server::start(Script::new().answer(Reply::raw(400, "application/json", groq))).await;
    let plain = Request { tools: Vec::new(), ..request(vec![user("Go.")]) };
    let model = model_at(Provider::OpenAiCompatible, server.url());
    assert_eq!(complete(&model, &plain).await.0.unwrap_err().class, Class::BadResponse);
}

#[tokio::test]
async fn an_answer_is_as_long_as_the_server_takes() {
    let refusal = "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.";
    let script = Script::from_fn(move |request, _| match request.max_output_tokens {
        Some(..=4096) => Reply::text("Done."),
        _ => Reply::status(400, refusal),
    });
    let server = Server::start(script).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let client = Client::new().unwrap();
    let asked = Request { max_output_tokens: 8192, ..request(vec![user("Go.")]) };
    for notes in [1, 0] {
        let answer = client.complete(&model, &asked, &mut |_| {}).await.unwrap();
        assert_eq!(answer.notes.len(), notes, "{:?}", answer.notes);
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_message_after_results_is_learned_to_be_refused() {
    let script = Script::from_fn(|request, _| {
        let after = |pair: &[Message]| matches!(pair, [Message::Tools { .. }, Message::User { .. }]);
        match request.messages.windows(2).any(after) {
            true => Reply::raw(
                400,
                "application/json",
                r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","code":"3230"}"#,
            ),
            false => Reply::text("Done."),
        }
    });
    let server = Server::start(script).await;
    let call = Part::Call(Call { id: "a".into(), tool: "shell".into(), arguments: "{}".into() });
    let result = ToolResult { call_id: "a".into(), text: "ok".into(), is_error: false, images: Vec::new() };
    let messages = vec![
        user("Go."),
        Message::Assistant { parts: vec![call] },
        Message::Tools { results: vec![result] },
        user("Stop."),
    ];
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let answer = complete(&model, &request(messages)).await.0.unwrap();
    assert_eq!(answer.notes.len(), 1, "{:?}", answer.notes);
    assert_eq!((server.requests().len(), server.requests()[1].messages.len()), (2, 5));
}

#[tokio::test]
async fn a_key_in_an_answer_is_not_shown() {
    for provider in FORMATS {
        for pieces in [1, 4096] {
            let reply = Reply::text(format!("your headers: Bearer {KEY}!")).pieces(pieces);
            let server = Server::start(Script::new().answer(reply)).await;
            let (answer, deltas) =
                complete(&model_at(provider, server.url()), &request(vec![user("Go.")])).await;
            let shown = "your headers: Bearer …!";
            assert_eq!(answer.unwrap().completion.parts, [Part::Text { text: shown.into() }], "{provider:?}");
            assert_eq!(gathered(&deltas).1, shown, "{provider:?}");
        }
    }
}

#[tokio::test]
async fn a_window_that_is_full_is_told_from_an_answer_that_is_long_enough() {
    let server = Server::start(Script::new().answer(Reply::text("On and").stop(Stop::Window))).await;
    let answer = complete(&model_at(Provider::Anthropic, server.url()), &request(vec![user("Go.")])).await.0;
    assert_eq!(answer.unwrap().completion.stop, Stop::Window);
}
