//! Images on the wire: events have their names and never their bytes, and what has none looks as it did before.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use protocol::chat::{Image, Message};
use protocol::item::Output;
use protocol::{CreatePrompt, EventBody, ImageData, ImageFile, ItemKind, PromptId};
use serde_json::json;

fn file() -> ImageFile {
    let (name, media_type) = (format!("img_{}.png", "0a".repeat(16)), "image/png".to_owned());
    ImageFile { name, media_type, bytes: 12_000, width: 640, height: 480 }
}

#[test]
fn events_name_images_and_those_without_look_as_before() {
    let prompt = PromptId::from_u128(7);
    let shown =
        json!({"name": file().name, "media_type": "image/png", "bytes": 12_000, "width": 640, "height": 480});
    let queued = |images| EventBody::PromptQueued { prompt, text: "Look".into(), now: false, images };
    let with =
        json!({"type": "prompt.queued", "data": {"prompt": prompt, "text": "Look", "images": [shown]}});
    let without = json!({"type": "prompt.queued", "data": {"prompt": prompt, "text": "Look"}});
    for (body, written) in [(queued(vec![file()]), with), (queued(Vec::new()), without)] {
        assert_eq!(serde_json::to_value(&body).unwrap(), written);
        assert_eq!(serde_json::from_value::<EventBody>(written).unwrap(), body);
    }

    let item = |images| ItemKind::Prompt { prompt, text: "Look".into(), images };
    let with = json!({"kind": "prompt", "prompt": prompt, "text": "Look", "images": [shown]});
    let without = json!({"kind": "prompt", "prompt": prompt, "text": "Look"});
    for (kind, written) in [(item(vec![file()]), with), (item(Vec::new()), without)] {
        assert_eq!(serde_json::to_value(&kind).unwrap(), written);
        assert_eq!(serde_json::from_value::<ItemKind>(written).unwrap(), kind);
    }

    let output = |images| Output { text: "x".into(), bytes: 1, blob: None, images };
    let with = json!({"text": "x", "bytes": 1, "images": [shown]});
    for (output, written) in
        [(output(vec![file()]), with), (output(Vec::new()), json!({"text": "x", "bytes": 1}))]
    {
        assert_eq!(serde_json::to_value(&output).unwrap(), written);
        assert_eq!(serde_json::from_value::<Output>(written).unwrap(), output);
    }
}

#[test]
fn a_prompt_brings_the_bytes_and_a_conversation_is_kept_without_them() {
    let body: CreatePrompt =
        serde_json::from_value(json!({"prompt": "Look", "images": [{"data": "iVBORw0KGgo="}]})).unwrap();
    assert_eq!(body.images, [ImageData { media_type: String::new(), data: "iVBORw0KGgo=".into() }]);
    let plain = CreatePrompt { images: Vec::new(), ..body };
    assert_eq!(serde_json::to_value(&plain).unwrap(), json!({"prompt": "Look"}));

    let image = Image { data: "AAAA".into(), ..Image::from(&file()) };
    let message = Message::User { text: "Look".into(), images: vec![image] };
    let kept = serde_json::to_string(&message).unwrap();
    assert!(!kept.contains("AAAA") && kept.contains(&file().name), "{kept}");
    let expected = Message::User { text: "Look".into(), images: vec![Image::from(&file())] };
    assert_eq!(serde_json::from_str::<Message>(&kept).unwrap(), expected);
}
