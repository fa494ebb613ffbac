//! Images: what is read or given with a prompt is seen by models that see, told of to others, and kept beside the log.

use protocol::chat::{Image, Message};
use protocol::{
    Code, CreatePrompt, CreateSession, EditPrompt, EditSession, EventBody, ForkSession, ImageData, ImageFile,
    ItemKind, Outcome, SessionId,
};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::{Reply, Request, Script};

use crate::support::{Follow, World, ann};

/// One pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// What a model is told of it.
const DESCRIBED: &str = "image/png, 1×1, 70 bytes";

fn given() -> Vec<ImageData> {
    vec![ImageData { media_type: "image/jpeg".into(), data: PNG.into() }]
}

async fn create(sessions: &Sessions, model: Option<&str>, images: Vec<ImageData>) -> SessionId {
    let request = CreateSession {
        environment: "plain".into(),
        prompt: "Look at it".into(),
        images,
        model: model.map(str::to_owned),
        budgets: None,
        policy: None,
    };
    sessions.create(ann(), request).await.unwrap().id
}

fn images_of(message: &Message) -> Vec<&Image> {
    match message {
        Message::User { images, .. } => images.iter().collect(),
        Message::Tools { results } => results.iter().flat_map(|result| &result.images).collect(),
        Message::Assistant { .. } => Vec::new(),
    }
}

/// The images that a request shows, by their type and data.
fn shown(request: &Request) -> Vec<(&str, &str)> {
    let images = request.messages.iter().flat_map(images_of);
    images.map(|image| (image.file.media_type.as_str(), &*image.data)).collect()
}

/// Answers so far.
fn answers(request: &Request) -> usize {
    request.messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count()
}

fn model(name: &str, provider: llm::Provider, url: String, images: Option<bool>) -> llm::Model {
    llm::Model {
        name: name.into(),
        provider,
        model: "scripted".into(),
        base_url: Some(url),
        key: None,
        headers: Default::default(),
        price: None,
        overrides: llm::Overrides { images, ..llm::Overrides::default() },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_read_is_seen_whatever_its_name_says() {
    let script = Script::from_fn(|request, _| {
        match answers(request) {
        0 => Reply::new().call(
            "shell",
            json!({"command": format!("echo {PNG} | base64 -d >notes.txt; echo word >a.png; echo 42 >answer.txt")}),
        ),
        1 => Reply::new().call("read", json!({"path": "notes.txt"})).call("read", json!({"path": "a.png"})),
        _ => Reply::text("Seen."),
    }
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let world = world.also(model("messages", llm::Provider::Anthropic, url.clone(), None));
    let world = world.also(model("blind", llm::Provider::Anthropic, url, Some(false)));
    let sessions = world.start().await;
    for name in ["messages", "blind"] {
        let id = create(&sessions, Some(name), Vec::new()).await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.until(|body| matches!(body, EventBody::TurnFinished { .. })).await;
        assert_eq!(world.model.violations(), Vec::<String>::new(), "{name}: {finished:?}");
        let calls = follow.calls();
        let output = calls[1].1.output.as_ref().unwrap();
        assert_eq!((output.text.as_str(), output.images.len()), (DESCRIBED, 1), "{name}");
        assert!(calls[2].1.output.as_ref().unwrap().text.contains("word"), "{name}");
        let path = sessions.blob(id, &output.images[0].name).await.unwrap();
        assert_eq!(std::fs::read(path).unwrap().len(), 70);
        let logged = serde_json::to_string(calls[1].1).unwrap();
        assert!(!logged.contains(PNG) && logged.len() < 1000, "the log stays small: {logged}");

        let requests = world.model.requests();
        let last = requests.iter().rfind(|request| answers(request) == 2).unwrap();
        let expected = if name == "blind" { vec![] } else { vec![("image/png", PNG)] };
        assert_eq!(shown(last), expected, "{name}");
        let told = last.json.to_string();
        assert_eq!(told.contains("You cannot see images"), name == "blind", "{name}: {told}");
        assert!(told.contains(DESCRIBED), "{name}: {told}");
    }
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_a_prompt_survive_edits_restarts_forks_and_a_model_that_sees_none() {
    let script = Script::from_fn(|request, _| {
        // What was seen again is said after it.
        match request.last_user().and_then(|text| text.split_once("Again image:")) {
            Some((_, name)) => Reply::new().call("read", json!({"path": format!("image:{name}")})),
            None => Reply::text("Seen."),
        }
    });
    let world = World::new(script).await;
    let url = world.model.url();
    let world = world.also(model("blind", llm::Provider::OpenAiCompatible, url, Some(false)));
    let sessions = world.start().await;
    let id = create(&sessions, None, given()).await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let named = |follow: &Follow| -> Vec<ImageFile> {
        let queued = follow.events.iter().rev().find_map(|event| match &event.body {
            EventBody::PromptQueued { images, .. } => Some(images.clone()),
            _ => None,
        });
        queued.unwrap()
    };
    let file = named(&follow).remove(0);
    assert_eq!(file.describe(), DESCRIBED, "what the bytes are counts");
    let last = || world.model.requests().pop().unwrap();
    assert_eq!(shown(&last()), [("image/png", PNG)]);
    let first_request = last().body;

    // One that waits is edited, and keeps what it had.
    sessions.set_queue(id, ann(), protocol::SetQueue { paused: true }).await.unwrap();
    let prompt = CreatePrompt { prompt: "Then".into(), now: false, images: given() };
    let waiting = sessions.send(id, ann(), prompt).await.unwrap();
    let edit = EditPrompt { prompt: Some("Then this".into()), place: None };
    let queue = sessions.edit_prompt(id, ann(), waiting, edit).await.unwrap();
    assert_eq!(queue.prompts[0].images, std::slice::from_ref(&file), "the same bytes are one file");
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    sessions.set_queue(id, ann(), protocol::SetQueue { paused: false }).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(shown(&last()), [("image/png", PNG); 2]);
    let item = follow.items().into_iter().rev().find_map(|item| match &item.kind {
        ItemKind::Prompt { text, images, .. } => Some((text.clone(), images.clone())),
        _ => None,
    });
    assert_eq!(item, Some(("Then this".into(), vec![file.clone()])));
    let same = first_request.iter().zip(&last().body).take_while(|(a, b)| a == b).count();
    let end = first_request.windows(PNG.len()).position(|window| window == PNG.as_bytes()).unwrap();
    assert!(same > end + PNG.len(), "a restart sends the same bytes again");

    // A model that sees none is told, and one that sees gets to see again.
    let edit = |model: &str| EditSession { model: Some(model.into()), ..EditSession::default() };
    sessions.edit(id, ann(), edit("blind")).await.unwrap();
    sessions.prompt(id, ann(), "Without eyes".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = last();
    assert_eq!((shown(&told).len(), told.json.to_string().matches("You cannot see images").count()), (0, 2));
    sessions.edit(id, ann(), edit("main")).await.unwrap();
    sessions.prompt(id, ann(), format!("Again image:{}", file.name)).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(shown(&last()), [("image/png", PNG); 3]);
    follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;

    let request = ForkSession { prompt: "Another way".into(), images: given(), snapshot: None, model: None };
    let fork = sessions.fork(id, ann(), request).await.unwrap().id;
    let mut forked = Follow::new(&sessions, fork).await;
    forked.until(|body| matches!(body, EventBody::PromptQueued { text, .. } if text == "Another way")).await;
    assert_eq!(forked.finished().await.outcome, Outcome::Done);
    assert_eq!(shown(&last()), [("image/png", PNG); 4], "files came along");
    assert!(sessions.blob(fork, &file.name).await.unwrap().is_file());

    // One whose file is gone is told of.
    std::fs::remove_file(sessions.blob(fork, &file.name).await.unwrap()).unwrap();
    sessions.prompt(fork, ann(), "Go on".into()).await.unwrap();
    assert_eq!(forked.finished().await.outcome, Outcome::Done);
    let told = last().json.to_string();
    assert!(shown(&last()).is_empty() && told.contains("is not shown again"), "{told}");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_image_is_refused_before_anything_is_made() {
    let world = World::new(Script::new().say("Nothing to do.")).await;
    let sessions = world.start().await;
    let refused = async |images: Vec<ImageData>| {
        let request = CreateSession {
            environment: "plain".into(),
            prompt: "Look".into(),
            images,
            model: None,
            budgets: None,
            policy: None,
        };
        let problem = sessions.create(ann(), request).await.unwrap_err();
        assert!(problem.hint.is_some(), "{problem:?}");
        (problem.code, problem.title)
    };
    let image = |data: &str| ImageData { media_type: "image/png".into(), data: data.into() };
    let (code, title) = refused(vec![image(PNG), image("%%%")]).await;
    assert!(code == Code::BadRequest && title.starts_with("image 2 is not base64"), "{title}");
    let (code, title) = refused(vec![image("bm8gaW1hZ2U=")]).await;
    assert!(code == Code::BadRequest && title.starts_with("image 1 is no PNG, JPEG"), "{title}");
    let (code, title) = refused(vec![image(PNG); 9]).await;
    assert!(code == Code::BadRequest && title.contains("9 images; 8 are allowed"), "{title}");
    let (code, title) = refused(vec![image(&"A".repeat(7_000_000))]).await;
    assert!(code == Code::TooLarge && title.contains("5242880 are allowed"), "{title}");
    assert_eq!(sessions.list().await.unwrap().len(), 0);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn most_of_each_request_is_the_request_before_where_each_step_reads_an_image() {
    const STEPS: usize = 50;
    // Distinct ones: what comes after the end of an image is not looked at.
    let make = format!(
        "for n in $(seq {STEPS}); do {{ echo {PNG} | base64 -d; head -c 2000 /dev/urandom; }} >p$n.png; done; echo 42 >answer.txt"
    );
    let script = Script::from_fn(move |request, _| {
        let (tool, input) = match answers(request) {
            0 => ("shell", json!({"command": make})),
            step @ 1..=STEPS => ("read", json!({"path": format!("p{step}.png")})),
            _ => ("finish", json!({"summary": "Seen."})),
        };
        match (request.json.get("tools").is_some(), tool) {
            (true, "finish") => Reply::text("Seen."),
            (true, _) => Reply::new().call(tool, input),
            (false, _) => Reply::text(json!({"tool": tool, "arguments": input}).to_string()),
        }
    });
    let formats = [
        ("chat", llm::Provider::OpenAiCompatible),
        ("responses", llm::Provider::OpenAiResponses),
        ("messages", llm::Provider::Anthropic),
        ("gemini", llm::Provider::Gemini),
        ("steps", llm::Provider::OpenAiCompatible),
    ];
    let mut world = World::new(script).await;
    for (name, provider) in formats {
        let mut model = model(name, provider, world.model.url(), None);
        model.overrides.context = Some(200_000);
        model.overrides.tool_mode = (name == "steps").then_some(protocol::ToolMode::JsonStep);
        world = world.also(model);
    }
    let sessions = world.start().await;
    for (number, (name, _)) in formats.into_iter().enumerate() {
        let id = create(&sessions, Some(name), Vec::new()).await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{name}: {:?}", finished.reason);
        let compacted = |event: &&protocol::Event| matches!(event.body, EventBody::ContextCompacted(_));
        assert_eq!(follow.events.iter().filter(compacted).count(), 0, "{name}");
        let requests: Vec<Request> = world.model.requests().into_iter().skip(number * (STEPS + 2)).collect();
        assert_eq!(requests.len(), STEPS + 2, "{name}");
        assert_eq!(shown(&requests[STEPS + 1]).len(), STEPS, "{name}");
        let (mut same, mut all) = (0, 0);
        for pair in requests.windows(2) {
            same += pair[0].body.iter().zip(&pair[1].body).take_while(|(a, b)| a == b).count();
            all += pair[1].body.len();
        }
        assert!(same * 100 >= all * 95, "{name}: {same} of {all} bytes");
    }
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}
