//! `read`: a text file with line numbers.

use agent::tools::{Extent, numbered};
use guest::FileKind;

use super::{Done, Scope, absolute, refused};
use crate::failure::Failure;

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
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(Done::error(format!(
            "The output {name:?} cannot be read any more ({error}). Make the call again."
        ))),
    }
}

/// A text file of the workspace, or what the model should know instead.
pub(super) async fn text(scope: &Scope, path: &str) -> Result<Result<String, Done>, Failure> {
    let inside = absolute(path);
    let guest = scope.sandbox.guest();
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
    let (bytes, size) = match guest.read_file(&inside, 0, LIMIT).await {
        Ok(read) => read,
        Err(error) => return refused(error, path).map(Err),
    };
    if size > LIMIT {
        return Ok(Err(Done::error(format!(
            "{path} has {size} bytes, more than the {LIMIT} that can be read at once. Use search, or `sed -n` or `head -c` \
             in a shell, for the part you need."
        ))));
    }
    Ok(String::from_utf8(bytes.to_vec()).map_err(|_| {
        Done::error(format!(
            "{path} is not UTF-8 text ({size} bytes): an image, a binary or another encoding. Use `file` or `xxd` in a \
             shell to look at it."
        ))
    }))
}

pub(super) async fn run(scope: &Scope, path: &str, extent: Extent) -> Result<Done, Failure> {
    let text = match path.trim().strip_prefix(OUTPUT) {
        Some(name) => earlier(scope, name).await,
        None => text(scope, path).await?,
    };
    Ok(text.map_or_else(|done| done, |text| Done::ok(numbered(&text, extent))))
}
