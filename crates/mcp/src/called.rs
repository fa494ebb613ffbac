//! What a call gave, in the two forms that a model can be given: text and images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// What a call gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Called {
    /// Its text.
    pub text: String,
    /// The bytes of its images, as the server sent them: nobody has looked at them.
    pub images: Vec<Vec<u8>>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

impl Called {
    pub(crate) fn new(result: CallToolResult) -> Self {
        let mut called = Self { is_error: result.is_error.unwrap_or(false), ..Self::default() };
        for block in &result.content {
            called.take(block);
        }
        // Where there is text, it says the same for models.
        if called.text.trim().is_empty()
            && let Some(value) = result.structured_content
        {
            let pretty = serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string());
            called.say(&pretty);
        }
        called
    }

    fn say(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    fn take(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.say(&text.text),
            ContentBlock::Image(image) => match STANDARD.decode(image.data.trim()) {
                Ok(bytes) => self.images.push(bytes),
                Err(_) => self.say("(an image that cannot be read)"),
            },
            ContentBlock::Audio(audio) => {
                self.say(&format!("(audio of the type {}, which cannot be shown)", audio.mime_type));
            }
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.say(&format!("[{uri}]\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let kind = mime_type.as_deref().unwrap_or("an unknown type");
                    self.say(&format!("[{uri}: {kind}, about {} bytes, no text]", blob.len() / 4 * 3));
                }
                _ => self.say("(a resource that cannot be shown)"),
            },
            ContentBlock::ResourceLink(link) => {
                let about = link.description.as_deref().map(|about| format!(": {about}")).unwrap_or_default();
                self.say(&format!("[{} at {}{about}]", link.name, link.uri));
            }
            _ => self.say("(something that cannot be shown)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn called(result: serde_json::Value) -> Called {
        Called::new(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn text_and_images_are_given_and_the_rest_is_named() {
        let called = called(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
            {"type": "image", "data": "???", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAAAAAA", "mimeType": "application/zip"}},
            {"type": "resource_link", "uri": "https://x.test/", "name": "c", "description": "d"},
        ], "isError": true}));
        assert!(called.is_error);
        assert_eq!(called.images, [b"\x89PNG".to_vec()]);
        for words in [
            "one",
            "cannot be read",
            "audio/wav",
            "[file:///a]\ntwo",
            "application/zip, about 6",
            "c at https://x.test/: d",
        ] {
            assert!(called.text.contains(words), "{words}: {}", called.text);
        }
    }

    #[test]
    fn what_has_a_structure_and_no_text_is_shown() {
        let alone = called(json!({"content": [], "structuredContent": {"a": 1}}));
        assert!(alone.text.contains("\"a\": 1"), "{}", alone.text);
        let both =
            called(json!({"content": [{"type": "text", "text": "a is 1"}], "structuredContent": {"a": 1}}));
        assert_eq!(both.text, "a is 1");
    }
}
