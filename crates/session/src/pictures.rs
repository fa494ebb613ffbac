//! Images that models are shown, as files beside the log. A file's name follows from its bytes, so what is read or given
//! twice is kept once, and an event never names what is not there: the file is on the disk before the event is.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::chat::{Image, Message, Request};
use protocol::{Code, IMAGE_LIMIT, IMAGES_PER_PROMPT, ImageData, ImageFile, ImageKind, Problem};
use sha2::{Digest as _, Sha256};

use crate::problem;

/// Most images that one request shows, the latest ones. Servers that take more want them smaller.
const SHOWN: usize = 20;
/// Most bytes of them; on the wire they are a third longer, and servers take about 32 MB.
const SHOWN_BYTES: u64 = 20 * 1024 * 1024;

/// An image with its bytes.
pub(crate) struct Picture {
    pub(crate) file: ImageFile,
    bytes: Vec<u8>,
}

impl Picture {
    /// What the bytes are; none where they are no image that models take.
    pub(crate) fn recognise(bytes: Vec<u8>) -> Option<Self> {
        let kind = ImageKind::of(&bytes)?;
        let (width, height) = kind.dimensions(&bytes)?;
        let sum = Sha256::digest(&bytes);
        let hex: String = sum.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let file = ImageFile {
            name: format!("img_{hex}.{}", kind.ending()),
            media_type: kind.media_type().to_owned(),
            bytes: bytes.len() as u64,
            width,
            height,
        };
        Some(Self { file, bytes })
    }

    /// Puts it beside the log, on the disk.
    pub(crate) async fn keep(self, dir: &Path) -> Result<ImageFile, Problem> {
        let path = dir.join(&self.file.name);
        let told = path.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &self.bytes).map(|()| self.file));
        match written.await {
            Ok(kept) => kept.map_err(|error| problem::file(&told, &error)),
            Err(error) => Err(problem::file(&told, &std::io::Error::other(error))),
        }
    }
}

/// The images of a prompt, or what is wrong with them.
pub(crate) fn given(images: Vec<ImageData>) -> Result<Vec<Picture>, Problem> {
    if images.len() > IMAGES_PER_PROMPT {
        return Err(Problem::new(
            Code::BadRequest,
            format!("the prompt has {} images; {IMAGES_PER_PROMPT} are allowed", images.len()),
        )
        .hint("send some of them with another prompt, or put them into the repository and name them"));
    }
    (1..).zip(images).map(|(number, image)| one(number, &image)).collect()
}

fn one(number: usize, image: &ImageData) -> Result<Picture, Problem> {
    let refused = |detail: String| Problem::new(Code::BadRequest, format!("image {number} {detail}"));
    let bytes = STANDARD.decode(image.data.trim()).map_err(|error| {
        refused(format!("is not base64: {error}")).hint("send its bytes in base64, nothing before them")
    })?;
    if bytes.len() > IMAGE_LIMIT {
        let title = format!("image {number} has {} bytes; {IMAGE_LIMIT} are allowed", bytes.len());
        return Err(
            Problem::new(Code::TooLarge, title).hint("make it smaller: models see no more than that anyway")
        );
    }
    Picture::recognise(bytes).ok_or_else(|| {
        refused("is no PNG, JPEG, GIF or WebP, whatever its type says".to_owned())
            .hint("convert it to one of these; a broken file counts as none")
    })
}

/// Puts the images of a prompt beside the log.
pub(crate) async fn keep_all(dir: &Path, pictures: Vec<Picture>) -> Result<Vec<ImageFile>, Problem> {
    let mut kept = Vec::with_capacity(pictures.len());
    for picture in pictures {
        kept.push(picture.keep(dir).await?);
    }
    Ok(kept)
}

/// A power cut leaves the whole file or none, so one that is there is whole.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| found.len() == bytes.len() as u64) {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new();
    let mut new = new
        .prefix(".image-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .tempfile_in(dir)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    std::fs::File::open(dir)?.sync_all()
}

/// The request with the bytes of its images, if it has any. What cannot be read stays without, and the model is told.
pub(crate) async fn shown(dir: PathBuf, request: &Request) -> Option<Request> {
    let files: Vec<ImageFile> = images(request).map(|image| image.file.clone()).collect();
    if files.is_empty() {
        return None;
    }
    let read = tokio::task::spawn_blocking(move || read(&dir, files)).await;
    let read = read.unwrap_or_else(|error| {
        tracing::error!(%error, "images could not be read");
        HashMap::new()
    });
    let mut request = request.clone();
    for message in &mut request.messages {
        let images: Vec<&mut Image> = match message {
            Message::User { images, .. } => images.iter_mut().collect(),
            Message::Tools { results } => results.iter_mut().flat_map(|result| &mut result.images).collect(),
            Message::Assistant { .. } => Vec::new(),
        };
        for image in images {
            if let Some(data) = read.get(&image.file.name) {
                image.data = Arc::clone(data);
            }
        }
    }
    Some(request)
}

fn images(request: &Request) -> impl Iterator<Item = &Image> {
    request.messages.iter().flat_map(|message| -> Vec<&Image> {
        match message {
            Message::User { images, .. } => images.iter().collect(),
            Message::Tools { results } => results.iter().flat_map(|result| &result.images).collect(),
            Message::Assistant { .. } => Vec::new(),
        }
    })
}

/// The latest images in base64, as many as one request may have.
fn read(dir: &Path, files: Vec<ImageFile>) -> HashMap<String, Arc<str>> {
    let (mut read, mut bytes) = (HashMap::new(), 0);
    for file in files.into_iter().rev() {
        if read.contains_key(&file.name) {
            continue;
        }
        bytes += file.bytes;
        if read.len() == SHOWN || bytes > SHOWN_BYTES {
            break;
        }
        match std::fs::read(dir.join(&file.name)) {
            Ok(content) => drop(read.insert(file.name, STANDARD.encode(content).into())),
            Err(error) => tracing::warn!(%error, name = file.name, "an image beside a log cannot be read"),
        }
    }
    read
}
