//! Images that a server does not take must not end a conversation: they are told of in words, and others are still shown.

use llm::{Client, Model, Provider};
use protocol::ImageFile;
use protocol::chat::{Call, Image, Message, Part, Request, ToolResult};
use testkit::model::{Reply, Script, Server};

use crate::{FORMATS, model_at, request, user};

fn image(name: &str) -> Image {
    let (name, media_type) = (name.to_owned(), "image/png".to_owned());
    let file = ImageFile { name, media_type, bytes: 8, width: 64, height: 48 };
    Image { file, data: "iVBORw0KGgo=".into() }
}

fn asked(text: &str, name: &str) -> Message {
    Message::User { text: text.into(), images: vec![image(name)] }
}

fn shown(request: &testkit::model::Request) -> usize {
    let images = request.messages.iter().map(|message| match message {
        Message::User { images, .. } => images.len(),
        Message::Tools { results } => results.iter().map(|result| result.images.len()).sum(),
        Message::Assistant { .. } => 0,
    });
    images.sum()
}

#[tokio::test]
async fn every_format_shows_the_images_of_prompts_and_of_results() {
    for provider in FORMATS {
        for name in ["scripted", "gemini-3-pro"] {
            let server = Server::start(Script::new().say("Seen.")).await;
            let model = Model { model: name.into(), ..model_at(provider, server.url()) };
            let call =
                |id: &str| Part::Call(Call { id: id.into(), tool: "shell".into(), arguments: "{}".into() });
            let result = |id: &str, images| ToolResult {
                call_id: id.into(),
                text: id.into(),
                is_error: false,
                images,
            };
            let request = request(vec![
                asked("This?", "one"),
                Message::Assistant { parts: vec![call("a"), call("b")] },
                Message::Tools {
                    results: vec![result("a", vec![image("two"), image("three")]), result("b", Vec::new())],
                },
                user("Well?"),
            ]);
            Client::new().unwrap().complete(&model, &request, &mut |_| {}).await.unwrap();
            assert_eq!(server.violations(), Vec::<String>::new(), "{provider:?}");
            let seen = server.requests().pop().unwrap();
            assert_eq!(shown(&seen), 3, "{provider:?} {name}: {}", seen.json);
        }
    }
}

#[tokio::test]
async fn an_image_that_is_refused_is_told_of_and_the_others_are_shown() {
    for complaint in [
        "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum: 6966552 bytes > 5242880 bytes",
        "Could not process image",
        "You uploaded an unsupported image. Please make sure your image is valid.",
        "Provided image is not valid.",
        "Unsupported MIME type: image/gif",
    ] {
        let script = Script::new().answer(Reply::status(400, complaint)).say("Seen.").repeat_last();
        let server = Server::start(script).await;
        let model = model_at(Provider::Anthropic, server.url());
        let client = Client::new().unwrap();
        let said = Message::Assistant { parts: vec![Part::Text { text: "Yes.".into() }] };
        let mut request: Request =
            request(vec![asked("This?", "good"), said.clone(), asked("And this?", "bad")]);
        let answer = client.complete(&model, &request, &mut |_| {}).await.unwrap();
        assert!(
            answer.notes.iter().any(|note| note.contains("does not take an image")),
            "{:?}",
            answer.notes
        );
        let requests = server.requests();
        assert_eq!(requests.iter().map(shown).collect::<Vec<_>>(), [2, 1], "{complaint}");
        let told = requests[1].json.to_string();
        assert!(told.contains("your server did not take it"), "{told}");

        // The next call knows, and what is new is shown.
        request.messages.extend([said, asked("And that?", "other")]);
        client.complete(&model, &request, &mut |_| {}).await.unwrap();
        assert_eq!(shown(server.requests().last().unwrap()), 2, "{complaint}");
    }
}

#[tokio::test]
async fn a_model_that_turns_out_to_see_nothing_is_told_of_all_of_them() {
    let complaint =
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj";
    let script = Script::new().answer(Reply::status(500, complaint)).say("I cannot see.").repeat_last();
    let server = Server::start(script).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let request = request(vec![asked("This?", "one"), user("Well?")]);
    Client::new().unwrap().complete(&model, &request, &mut |_| {}).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.iter().map(shown).collect::<Vec<_>>(), [1, 0]);
    assert!(requests[1].json.to_string().contains("You cannot see images"), "{}", requests[1].json);
}
