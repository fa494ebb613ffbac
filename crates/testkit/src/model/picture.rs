//! Images in requests, in each format's own shape. The real servers look at the bytes, so this one looks at how they begin.

use protocol::ImageFile;
use protocol::chat::{Image, Message};

use super::request::{Object, Violation};

/// How the bytes of each type begin, in base64.
const BEGINS: [(&str, &str); 4] =
    [("image/png", "iVBORw0KGg"), ("image/jpeg", "/9j/"), ("image/gif", "R0lGOD"), ("image/webp", "UklGR")];

/// An image of this type.
pub(super) fn image(media_type: &str, data: &str) -> Result<Image, Violation> {
    let known = BEGINS.iter().find(|(known, _)| *known == media_type);
    let (_, begins) = known.ok_or_else(|| format!("an image cannot have the type {media_type:?}"))?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    if !data.starts_with(begins) || !data.bytes().all(plain) || !data.len().is_multiple_of(4) {
        return Err(format!("the data of an image is no base64 of the type {media_type}"));
    }
    let file = ImageFile { media_type: media_type.to_owned(), ..ImageFile::default() };
    Ok(Image { file, data: data.into() })
}

/// An image as a `data:` address.
pub(super) fn from_url(url: &str) -> Result<Image, Violation> {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media_type, data) = parts.ok_or("the address of an image must hold its data")?;
    image(media_type, data)
}

/// Anthropic's block.
pub(super) fn from_block(block: Object<'_>) -> Result<Image, Violation> {
    let source = block.only(&["type", "source", "cache_control"])?.get("source");
    let source = Object::new(source.unwrap_or(&serde_json::Value::Null), "the source of an image")?;
    let source = source.only(&["type", "media_type", "data"])?;
    if source.text("type")? != "base64" {
        return Err("the source of an image must have the type \"base64\"".to_owned());
    }
    image(source.text("media_type")?, source.text("data")?)
}

/// Gemini's part.
pub(super) fn from_inline(inline: &serde_json::Value) -> Result<Image, Violation> {
    let inline = Object::new(inline, "inlineData")?.only(&["mimeType", "data"])?;
    image(inline.text("mimeType")?, inline.text("data")?)
}

/// What was said, with the images that stand before it; images at the end are a message of their own.
#[derive(Default)]
pub(super) struct Said {
    messages: Vec<Message>,
    images: Vec<Image>,
}

impl Said {
    pub(super) fn text(&mut self, text: String) {
        self.messages.push(Message::User { text, images: std::mem::take(&mut self.images) });
    }

    pub(super) fn image(&mut self, image: Image) {
        self.images.push(image);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.images.is_empty()
    }

    pub(super) fn messages(mut self) -> Vec<Message> {
        if !self.images.is_empty() {
            self.text(String::new());
        }
        self.messages
    }
}
