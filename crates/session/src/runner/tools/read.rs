//! `read`: a text file with line numbers, or an image as it is seen.

use agent::tools::{Extent, numbered};
use bytes::Bytes;
use guest::FileKind;
use protocol::{IMAGE_LIMIT, IMAGE_PATH, ImageFile, ImageKind};

use super::{Done, Scope, refused};
use crate::failure::Failure;
use crate::pictures::Picture;

/// Largest file that is read as a whole.
pub(super) const LIMIT: u64 = 2 * 1024 * 1024;

/// What the name of an output that was cut begins with.
pub(in crate::runner) const OUTPUT: &str = "output:";

/// The whole of an output that was cut, or what the model should know instead. It is kept on the host, beside the log.
pub(super) async fn earlier(scope: &Scope, name: &str) -> Result<String, Done> {
    let plain = |stem: &str| stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !name.strip_suffix(".out").is_some_and(plain) {
        return Err(Done::error(format!(
            "There is no output {name:?}. Its name stands where the output was cut."
        )));
    }
    match tokio::fs::read(scope.dir.join(name)).await {
        Ok(bytes) => Ok(agent::tools::readable(&bytes)),
        Err(error) => Err(Done::error(format!(
            "The output {name:?} cannot be read any more ({error}). Make the call again."
        ))),
    }
}

/// An image that is kept beside the log, as it was shown before.
async fn seen_before(scope: &Scope, name: &str) -> Done {
    if !ImageFile::is_name(name) {
        return Done::error(format!("There is no image {name:?}. Its name stands where it was left out."));
    }
    let read = tokio::fs::read(scope.dir.join(name)).await;
    match read.map(Picture::recognise) {
        Ok(Some(picture)) => image(picture.file),
        Ok(None) => Done::error(format!("The image {name:?} is damaged and cannot be shown any more.")),
        Err(error) => Done::error(format!("The image {name:?} cannot be read any more ({error}).")),
    }
}

/// What the model is told and shown of an image.
fn image(file: ImageFile) -> Done {
    let mut done = Done::ok(file.describe());
    done.output.images.push(file);
    done
}

/// An image of the workspace. It is kept beside the log, since the file may be another one later.
async fn picture(scope: &Scope, path: &str, beginning: Bytes, size: u64) -> Result<Done, Failure> {
    if size > IMAGE_LIMIT as u64 {
        return Ok(Done::error(format!(
            "{path} is an image of {size} bytes, more than the {IMAGE_LIMIT} that can be shown. Make a smaller copy in a shell \
             and read that."
        )));
    }
    let bytes = if beginning.len() as u64 == size {
        beginning
    } else {
        let (guest, inside) = scope.place(path);
        match guest.read_file(&inside, 0, IMAGE_LIMIT as u64).await {
            Ok((bytes, _)) => bytes,
            Err(error) => return refused(error, path),
        }
    };
    let Some(picture) = Picture::recognise(bytes.to_vec()) else {
        return Ok(Done::error(format!(
            "{path} begins like an image, but is broken. Use `file` or `xxd` in a shell to look at it."
        )));
    };
    Ok(match picture.keep(&scope.dir).await {
        Ok(file) => image(file),
        Err(problem) => Done::error(format!("{path} cannot be shown: {}", problem.title)),
    })
}

/// A text file of the workspace, or what the model should know instead.
pub(super) async fn text(scope: &Scope, path: &str) -> Result<Result<String, Done>, Failure> {
    Ok(match bytes(scope, path).await? {
        Ok((bytes, size)) => as_text(path, &bytes, size),
        Err(done) => Err(done),
    })
}

/// The bytes of a file, as many as a text may have, and how many it has.
async fn bytes(scope: &Scope, path: &str) -> Result<Result<(Bytes, u64), Done>, Failure> {
    let (guest, inside) = scope.place(path);
    match guest.stat(&inside).await {
        Ok(stat) if stat.kind == FileKind::Directory => {
            return Ok(Err(Done::error(format!("{path} is a directory. Use list to see what is in it."))));
        }
        Ok(stat) if stat.kind == FileKind::Other => {
            return Ok(Err(Done::error(format!("{path} is not a regular file."))));
        }
        Ok(_) => {}
        Err(error) => return refused(error, path).map(Err),
    }
    match guest.read_file(&inside, 0, LIMIT).await {
        Ok(read) => Ok(Ok(read)),
        Err(error) => refused(error, path).map(Err),
    }
}

fn as_text(path: &str, bytes: &Bytes, size: u64) -> Result<String, Done> {
    if size > LIMIT {
        return Err(Done::error(format!(
            "{path} has {size} bytes, more than the {LIMIT} that can be read at once. Use search, or `sed -n` or `head -c` \
             in a shell, for the part you need."
        )));
    }
    let text =
        String::from_utf8(bytes.to_vec()).ok().filter(|text| !agent::tools::is_binary(text.as_bytes()));
    text.ok_or_else(|| {
        Done::error(format!(
            "{path} is not UTF-8 text ({size} bytes): a binary or another encoding. Use `file` or `xxd` in a shell to look \
             at it."
        ))
    })
}

pub(super) async fn run(scope: &Scope, path: &str, extent: Extent) -> Result<Done, Failure> {
    if let Some(name) = path.trim().strip_prefix(IMAGE_PATH) {
        return Ok(seen_before(scope, name).await);
    }
    let text = match path.trim().strip_prefix(OUTPUT) {
        Some(name) => earlier(scope, name).await,
        None => match bytes(scope, path).await? {
            Ok((bytes, size)) if ImageKind::of(&bytes).is_some() => {
                return picture(scope, path, bytes, size).await;
            }
            Ok((bytes, size)) => as_text(path, &bytes, size),
            Err(done) => Err(done),
        },
    };
    Ok(text.map_or_else(|done| done, |text| Done::ok(numbered(&text, extent))))
}
