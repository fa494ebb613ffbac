//! Images of a request as one server can take them: told of in words where they cannot be shown, and put where the wire
//! format has a place for them.

use std::collections::HashSet;

use protocol::IMAGE_PATH;
use protocol::chat::{Image, Message, Request};

use crate::convert;

/// What stands before images that a format cannot put into a result.
const AFTER_RESULTS: &str = "(The images that the calls above gave.)";

/// A short name of an image, other than that of any signature.
pub(crate) fn mark(image: &Image) -> u64 {
    convert::mark(&format!("{IMAGE_PATH}{}", image.file.name))
}

/// The marks of the images that came last of those that were sent and not refused before: when a server does not take one,
/// it is most likely among them, because it took the others.
pub(crate) fn latest(request: &Request, refused: &HashSet<u64>) -> Vec<u64> {
    let sent = |message: &Message| {
        let sent = images(message).into_iter().filter(|image| !image.data.is_empty());
        sent.map(mark).filter(|mark| !refused.contains(mark)).collect::<Vec<u64>>()
    };
    request.messages.iter().rev().map(sent).find(|marks| !marks.is_empty()).unwrap_or_default()
}

fn images(message: &Message) -> Vec<&Image> {
    match message {
        Message::User { images, .. } => images.iter().collect(),
        Message::Tools { results } => results.iter().flat_map(|result| &result.images).collect(),
        Message::Assistant { .. } => Vec::new(),
    }
}

/// Puts words in the place of images that are not shown: all of them to a model that sees none, and those that could not be
/// read or that its server refused. Gives notes where there were some.
pub(crate) fn tell_in_words(messages: &mut [Message], sees: bool, refused: &HashSet<u64>) -> Vec<String> {
    let (mut unseen, mut not_taken) = (0, 0);
    let mut settle = |text: &mut String, images: &mut Vec<Image>| {
        images.retain(|image| {
            let what = image.file.describe();
            let words = if !sees {
                unseen += 1;
                format!("[Here is an image ({what}). You cannot see images: say so if it matters.]")
            } else if refused.contains(&mark(image)) {
                not_taken += 1;
                format!(
                    "[Here is an image ({what}) that you cannot be shown: your server did not take it. A smaller one, or \
                     another format, may help.]"
                )
            } else if image.data.is_empty() {
                let name = &image.file.name;
                format!(
                    "[Here is an image ({what}) that is not shown again to save room. The read tool shows it: path \
                     \"{IMAGE_PATH}{name}\".]"
                )
            } else {
                return true;
            };
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&words);
            false
        });
    };
    for message in messages {
        match message {
            Message::User { text, images } => settle(text, images),
            Message::Tools { results } => {
                results.iter_mut().for_each(|result| settle(&mut result.text, &mut result.images));
            }
            Message::Assistant { .. } => {}
        }
    }
    let notes = [
        (unseen, "images were told of in words, because the model sees none"),
        (not_taken, "images were told of in words, because the server did not take them"),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    notes.map(|(count, what)| format!("{count} {what}")).collect()
}

/// Puts images of results into messages of their own after them, for a format whose results are text only.
pub(crate) fn after_results(messages: Vec<Message>) -> Vec<Message> {
    let mut sent = Vec::with_capacity(messages.len());
    for mut message in messages {
        let images: Vec<Image> = match &mut message {
            Message::Tools { results } => {
                results.iter_mut().flat_map(|result| std::mem::take(&mut result.images)).collect()
            }
            Message::User { .. } | Message::Assistant { .. } => Vec::new(),
        };
        sent.push(message);
        if !images.is_empty() {
            sent.push(Message::User { text: AFTER_RESULTS.to_owned(), images });
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ImageFile;
    use protocol::chat::ToolResult;

    fn image(name: &str, data: &str) -> Image {
        let media_type = "image/png".to_owned();
        let file = ImageFile { name: name.into(), media_type, bytes: 3000, width: 64, height: 48 };
        Image { file, data: data.into() }
    }

    fn messages() -> Vec<Message> {
        let result = |images| ToolResult { call_id: "a".into(), text: "x".into(), is_error: false, images };
        vec![
            Message::User { text: String::new(), images: vec![image("one", "AA"), image("gone", "")] },
            Message::Tools { results: vec![result(vec![image("two", "BB")]), result(Vec::new())] },
            Message::user("Go on."),
        ]
    }

    fn left(messages: &[Message]) -> Vec<&str> {
        messages.iter().flat_map(images).map(|image| image.file.name.as_str()).collect()
    }

    #[test]
    fn what_is_not_shown_is_told_in_words() {
        let mut shown = messages();
        assert_eq!(tell_in_words(&mut shown, true, &HashSet::new()), Vec::<String>::new());
        assert_eq!(left(&shown), ["one", "two"]);
        let Message::User { text, .. } = &shown[0] else { panic!("{shown:?}") };
        assert!(text.contains("64×48") && text.contains("path \"image:gone\""), "{text}");

        let mut blind = messages();
        assert_eq!(tell_in_words(&mut blind, false, &HashSet::new()).len(), 1);
        assert_eq!(left(&blind), [""; 0]);
        let Message::Tools { results } = &blind[1] else { panic!("{blind:?}") };
        let words =
            "[Here is an image (image/png, 64×48, 3 KiB). You cannot see images: say so if it matters.]";
        assert_eq!(results[0].text, format!("x\n\n{words}"));
        assert_eq!(results[1].text, "x");
    }

    #[test]
    fn a_refusal_is_blamed_on_the_last_images_then_on_those_before_them() {
        let request = Request { messages: messages(), ..Request::default() };
        let mut refused = HashSet::new();
        let mut rounds = Vec::new();
        loop {
            let marks = latest(&request, &refused);
            if marks.is_empty() {
                break;
            }
            refused.extend(marks);
            let mut sent = request.messages.clone();
            assert_eq!(tell_in_words(&mut sent, true, &refused).len(), 1);
            rounds.push(left(&sent).join(" "));
        }
        assert_eq!(rounds, ["one", ""]);
    }

    #[test]
    fn images_of_results_can_come_after_them() {
        let sent = after_results(messages());
        assert_eq!(sent.len(), 4);
        let Message::User { text, images } = &sent[2] else { panic!("{sent:?}") };
        assert_eq!((text.as_str(), images[0].file.name.as_str()), (AFTER_RESULTS, "two"));
        assert_eq!(left(&sent[1..2]), [""; 0]);
    }
}
