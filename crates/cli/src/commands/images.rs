//! `--image`: images that go with a prompt.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::{IMAGE_LIMIT, IMAGES_PER_PROMPT, ImageData, ImageKind};

use crate::exit::Usage;

/// Images of a prompt.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Attached {
    /// Image that belongs to the prompt: a PNG, JPEG, GIF or WebP; may be given several times
    #[arg(long = "image", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Attached {
    /// The images as the server takes them. What is wrong with one is said before anything is asked for.
    pub(super) fn read(&self) -> anyhow::Result<Vec<ImageData>> {
        if self.files.len() > IMAGES_PER_PROMPT {
            let given = self.files.len();
            return Err(Usage(anyhow!(
                "{given} images are given, and a prompt has at most {IMAGES_PER_PROMPT}"
            ))
            .into());
        }
        self.files.iter().map(|file| read(file).map_err(|error| Usage(error).into())).collect()
    }
}

fn read(file: &Path) -> anyhow::Result<ImageData> {
    let name = file.display();
    let size = std::fs::metadata(file).with_context(|| format!("the image {name} cannot be read"))?.len();
    if size > IMAGE_LIMIT as u64 {
        return Err(anyhow!(
            "the image {name} has {size} bytes, and {IMAGE_LIMIT} are allowed\n  make it smaller"
        ));
    }
    let bytes = std::fs::read(file).with_context(|| format!("the image {name} cannot be read"))?;
    let kind = ImageKind::of(&bytes)
        .ok_or_else(|| anyhow!("{name} is no PNG, JPEG, GIF or WebP\n  convert it to one of these"))?;
    Ok(ImageData { media_type: kind.media_type().to_owned(), data: STANDARD.encode(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_told_before_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let told = |files: Vec<PathBuf>| format!("{:#}", Attached { files }.read().unwrap_err());
        let png = file("wrong.jpeg", b"\x89PNG\r\n\x1a\n");
        let read = Attached { files: vec![png.clone(); 8] }.read().unwrap();
        assert_eq!((read.len(), read[0].media_type.as_str()), (8, "image/png"));
        assert_eq!(read[0].data, "iVBORw0KGgo=");
        assert!(told(vec![png; 9]).contains("9 images"));
        assert!(told(vec![file("notes.png", b"not at all")]).contains("notes.png is no PNG"));
        assert!(told(vec![file("huge.png", &vec![0; IMAGE_LIMIT + 1])]).contains("5242881 bytes"));
        assert!(told(vec![dir.path().join("absent.png")]).contains("cannot be read"));
    }
}
