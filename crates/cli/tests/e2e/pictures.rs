//! Images that are given with `--image`, and images that the model reads: it sees them, and they are beside the log.

use std::path::PathBuf;

use protocol::chat::{Image, Message};
use serde_json::{Value, json};
use testkit::model::{Reply, Request, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models};

/// One pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// The same as a file.
const BYTES: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\x0dIDATx\xdacd\xf8\xcfP\x0f\0\x03\x86\x01\x80Z4}k\0\0\0\0IEND\xaeB`\x82";

fn images_of(message: &Message) -> Vec<&Image> {
    match message {
        Message::User { images, .. } => images.iter().collect(),
        Message::Tools { results } => results.iter().flat_map(|result| &result.images).collect(),
        Message::Assistant { .. } => Vec::new(),
    }
}

fn images(request: &Request) -> Vec<&Image> {
    request.messages.iter().flat_map(images_of).collect()
}

#[tokio::test]
async fn a_model_sees_what_it_is_given_and_what_it_reads() {
    let script = Script::from_fn(|request, _| {
        let asked = |text: &str| request.last_user().is_some_and(|last| last.contains(text));
        // Each answer depends on what was seen.
        match images(request).len() {
            0 => Reply::text("I see nothing."),
            1 if asked("Copy") => Reply::new()
                .call(
                    "shell",
                    json!({"command": format!("echo {PNG} | base64 -d >copy; echo 42 >answer.txt")}),
                )
                .call("read", json!({"path": "copy"})),
            seen => Reply::text(format!("I see {seen}.")),
        }
    });
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::new();
    let blind = format!(
        "[models.blind]\nprovider = \"openai-compatible\"\nmodel = \"scripted\"\nbase_url = \"{}\"\nimages = false\n\n",
        model.url()
    );
    world.configure(&format!("{}{blind}{}", models(&model), environment(&repo)));
    let file: PathBuf = world.home().join("screen.jpeg");
    std::fs::write(&file, BYTES).unwrap();
    let file = file.to_str().unwrap();

    let arguments = ["run", "--env", ENVIRONMENT, "--model", "claude", "--image", file, "--json", "Copy it"];
    let events = world.ok(&arguments).await.events();
    let named = &events.only("prompt.queued")["images"];
    let described =
        json!({"name": named[0]["name"], "media_type": "image/png", "bytes": 70, "width": 1, "height": 1});
    assert_eq!(named, &json!([described]));
    let read = events.calls("read");
    assert_eq!(read[0]["output"]["text"], "image/png, 1×1, 70 bytes");
    assert_eq!(read[0]["output"]["images"], json!([described]));
    let said: Vec<&Value> = events.items("message").into_iter().map(|item| &item["text"]).collect();
    assert_eq!(said.last().unwrap().as_str(), Some("I see 2."), "{said:?}");
    for image in images(model.requests().last().unwrap()) {
        assert_eq!((image.file.media_type.as_str(), &*image.data), ("image/png", PNG));
    }
    let session = events.session();
    let kept = world.data().join("sessions").join(session).join(named[0]["name"].as_str().unwrap());
    assert_eq!(std::fs::read(&kept).unwrap(), BYTES);

    // A later prompt, in another format and after a restart; then with a model that sees none.
    let prompted = world.ok(&["prompt", session, "--image", file, "And this?"]).await;
    assert!(prompted.stderr.contains("image/png, 1×1, 70 bytes"), "{prompted}");
    assert_eq!(images(model.requests().last().unwrap()).len(), 3);
    world.ok(&["edit", session, "--model", "blind"]).await;
    world.ok(&["prompt", session, "And now?"]).await;
    let last = model.requests().pop().unwrap();
    assert!(images(&last).is_empty());
    assert_eq!(last.json.to_string().matches("You cannot see images").count(), 3);
    assert_eq!(model.violations(), [""; 0]);

    for (image, words) in [("/etc/passwd", "is no PNG, JPEG, GIF or WebP"), ("/absent.png", "cannot be read")]
    {
        let refused = world.run(&["prompt", session, "--image", image, "Look"]).await.expect_code(2);
        assert!(refused.stderr.contains(words), "{refused}");
    }
    world.finish().await;
}
