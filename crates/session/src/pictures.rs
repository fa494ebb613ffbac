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

/// Most images that one request shows where one of them is large. Servers that take more want them smaller.
const LARGE_SHOWN: usize = 20;
/// The longest side of an image that is not large.
const LARGE: u32 = 2000;
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

/// The request with the bytes of its images, if it has any, and of no more than `most` of them. What cannot be read stays
/// without, and the model is told.
pub(crate) async fn shown(dir: PathBuf, request: &Request, most: usize) -> Option<Request> {
    let files: Vec<Vec<ImageFile>> = request
        .messages
        .iter()
        .map(|message| images(message).into_iter().map(|image| image.file.clone()).collect())
        .collect();
    let first = first_shown(&files, most);
    let files: Vec<ImageFile> = files.into_iter().flatten().collect();
    if files.is_empty() {
        return None;
    }
    let read = tokio::task::spawn_blocking(move || read(&dir, &files[first..])).await;
    let read = read.unwrap_or_else(|error| {
        tracing::error!(%error, "images could not be read");
        HashMap::new()
    });
    let mut request = request.clone();
    let images = request.messages.iter_mut().flat_map(|message| -> Vec<&mut Image> {
        match message {
            Message::User { images, .. } => images.iter_mut().collect(),
            Message::Tools { results } => results.iter_mut().flat_map(|result| &mut result.images).collect(),
            Message::Assistant { .. } => Vec::new(),
        }
    });
    // One that is shown again later stays left out where it was left out before: what a provider has cached goes on to hold.
    for image in images.skip(first) {
        if let Some(data) = read.get(&image.file.name) {
            image.data = Arc::clone(data);
        }
    }
    Some(request)
}

fn images(message: &Message) -> Vec<&Image> {
    match message {
        Message::User { images, .. } => images.iter().collect(),
        Message::Tools { results } => results.iter().flat_map(|result| &result.images).collect(),
        Message::Assistant { .. } => Vec::new(),
    }
}

/// The first image that a request shows, of those of its messages. When there are too many, half of what may be shown goes at
/// once, so that requests begin with the bytes of those before them until as many have come again; but nothing that came last,
/// which the model has not seen. It follows from the conversation alone, so that a restart sends the same bytes.
fn first_shown(messages: &[Vec<ImageFile>], most: usize) -> usize {
    let all: Vec<&ImageFile> = messages.iter().flatten().collect();
    let bytes = |range: std::ops::Range<usize>| all[range].iter().map(|file| file.bytes).sum::<u64>();
    let (mut first, mut end) = (0, 0);
    for images in messages.iter().filter(|images| !images.is_empty()) {
        let new = end..end + images.len();
        end = new.end;
        let large = all[first..end].iter().any(|file| file.width.max(file.height) > LARGE);
        let most = if large { most.min(LARGE_SHOWN) } else { most };
        if end - first <= most && bytes(first..end) <= SHOWN_BYTES {
            continue;
        }
        let count = new.len().clamp(most / 2, most);
        let size = bytes(new).clamp(SHOWN_BYTES / 2, SHOWN_BYTES);
        while first < end && (end - first > count || bytes(first..end) > size) {
            first += 1;
        }
    }
    first
}

/// Images in base64, by name.
fn read(dir: &Path, files: &[ImageFile]) -> HashMap<String, Arc<str>> {
    let mut read = HashMap::new();
    for file in files {
        if read.contains_key(&file.name) {
            continue;
        }
        match std::fs::read(dir.join(&file.name)) {
            Ok(content) => drop(read.insert(file.name.clone(), STANDARD.encode(content).into())),
            Err(error) => tracing::warn!(%error, name = file.name, "an image beside a log cannot be read"),
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(count: usize, images: usize, bytes: u64, width: u32) -> Vec<Vec<ImageFile>> {
        let file = |number| ImageFile {
            name: format!("img_{number}.png"),
            media_type: "image/png".into(),
            bytes,
            width,
            height: 10,
        };
        (0..count).map(|step| (0..images).map(|image| file(step * images + image)).collect()).collect()
    }

    /// The first image that is shown in each request of a turn.
    fn firsts(messages: &[Vec<ImageFile>], most: usize) -> Vec<usize> {
        (1..=messages.len()).map(|count| first_shown(&messages[..count], most)).collect()
    }

    #[test]
    fn images_are_left_out_in_batches() {
        let firsts_of = |width| {
            let mut firsts = firsts(&steps(100, 1, 1000, width), 50);
            firsts.dedup();
            firsts
        };
        assert_eq!(firsts_of(2000), [0, 26, 52]);
        assert_eq!(firsts_of(2001), [0, 11, 22, 33, 44, 55, 66, 77, 88]);
        let heavy = firsts(&steps(100, 1, 5 << 20, 10), 50);
        assert_eq!(heavy[..8], [0, 0, 0, 0, 3, 3, 3, 6]);
        for (images, most) in [(1, 50), (3, 20), (7, 20), (20, 20), (50, 50)] {
            for (count, first) in (1..).zip(firsts(&steps(60, images, 1000, 10), most)) {
                let shown = count * images - first;
                assert!(shown <= most && shown >= images, "{images} of {most}: {shown}");
            }
        }
    }

    #[test]
    fn what_came_last_is_shown_as_far_as_a_request_can_have_it() {
        for (before, last, expected) in [(40, 30, 30), (10, 40, 50), (10, 45, 45), (0, 60, 50), (49, 2, 25)] {
            let mut messages = steps(before, 1, 1000, 10);
            messages.extend(steps(1, last, 1000, 10));
            assert_eq!(before + last - first_shown(&messages, 50), expected, "{before} and {last}");
        }
        // Four of these fit; an answer with three keeps them, whatever went before.
        let mut messages = steps(3, 1, 5 << 20, 10);
        messages.extend(steps(1, 3, 5 << 20, 10));
        assert_eq!(first_shown(&messages, 50), 3);
    }
}
