//! The memory with an embedding endpoint over real HTTP: notes are found by what it says that they mean, vectors of another
//! model are made anew, and while it is down words go on and it is said.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use protocol::{Actor, EventBody, ItemKind, NewNote, NoteKind, NoteScope, NoteSource, Outcome};
use session::{Embedding, MemoryOptions, Occasion, Sessions};
use testkit::embeddings::Embeddings;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, create};

const KEY: &str = "canary-embedding-key-31337";
const NOTE: &str = "The crab in the corner is drawn by assets/mascot.svg";

fn memory(server: &Embeddings, model: &str) -> MemoryOptions {
    let model = llm::Model {
        name: "memory.embedding".into(),
        provider: llm::Provider::OpenAiCompatible,
        model: model.into(),
        base_url: Some(server.url()),
        key: Some(llm::Key::new(KEY.to_owned())),
        headers: BTreeMap::new(),
        price: None,
        overrides: llm::Overrides::default(),
    };
    let embedding = Embedding {
        embeddings: llm::Embeddings::new(model, Some(512)),
        query_prefix: "query: ".into(),
        text_prefix: String::new(),
    };
    MemoryOptions { enabled: true, embedding: Some(embedding) }
}

async fn world() -> World {
    World::new(Script::from_fn(|_, _| Reply::text("Seen."))).await
}

async fn add(sessions: &Sessions, world: &World, text: &str) {
    let scope = NoteScope::repository(world.repo.url());
    let new = NewNote { scope, kind: NoteKind::Fact, subject: None, text: text.into() };
    sessions.remember(new, NoteSource::by(Actor::user("bob"))).await.unwrap();
}

async fn found(sessions: &Sessions, text: &str) -> (Vec<String>, Option<String>) {
    let found = sessions.recall(text.into(), None, Occasion::Asked, 5).await.unwrap();
    (found.found.into_iter().map(|found| found.note.text).collect(), found.words_only)
}

/// Waits until a note is found by what it means.
async fn until_found(sessions: &Sessions, text: &str) {
    let began = Instant::now();
    while found(sessions, text).await.0.first().is_none_or(|first| first != NOTE) {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never embedded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_are_found_by_what_an_endpoint_says_they_mean() {
    let server = Embeddings::start(&[("crustacean", "crab")], Some(KEY)).await;
    let other = world().await;
    // Written while the bundled model was in use, which knows nothing of this.
    let sessions = other.start().await;
    add(&sessions, &other, NOTE).await;
    add(&sessions, &other, "Invoices are printed on Mondays").await;
    other.end(sessions).await;

    let world = other.memory(memory(&server, "first"));
    let sessions = world.start().await;
    until_found(&sessions, "crustacean").await;
    assert!(server.texts().iter().any(|text| text == "query: crustacean"), "{:?}", server.texts());
    let requests = server.requests();
    assert!(requests.iter().all(|request| request["model"] == "first" && request["dimensions"] == 512));
    world.end(sessions).await;

    let world = world.memory(memory(&server, "second"));
    let sessions = world.start().await;
    let before = server.requests().len();
    until_found(&sessions, "crustacean").await;
    let anew = server.requests()[before..]
        .iter()
        .any(|request| request["model"] == "second" && request["input"].to_string().contains("mascot.svg"));
    assert!(anew, "another model makes other vectors: {:?}", server.requests());
    assert_eq!(server.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_endpoint_is_down_words_go_on_and_it_is_said_without_the_key() {
    let server = Embeddings::start(&[], Some(KEY)).await;
    server.put_down();
    let world = world().await.memory(memory(&server, "first"));
    let sessions = world.start().await;
    add(&sessions, &world, NOTE).await;
    let (notes, why) = found(&sessions, "mascot").await;
    assert_eq!(notes, [NOTE], "by its words");
    let why = why.expect("it is said");
    assert!(why.contains("refuses with 503") && !why.contains(KEY), "{why}");

    let id = create(&sessions, "Why is the crab drawn in the corner by the mascot.svg of the assets?").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let said = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { message, .. } => Some(message.clone()),
        _ => None,
    });
    assert!(said.expect("people are told").contains("embedding"), "{:?}", follow.events);
    let given = follow
        .items()
        .iter()
        .any(|item| matches!(&item.kind, ItemKind::Notice { notes, .. } if notes.len() == 1));
    assert!(given, "words are enough here: {:?}", follow.events);
    assert!(!serde_json::to_string(&follow.events).unwrap().contains(KEY));
    world.end(sessions).await;
}
