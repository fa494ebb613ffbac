//! `read`: a text file with line numbers.

use guest::FileKind;

use super::{Done, Scope, absolute, refused};
use crate::failure::Failure;

/// Largest file that is read as a whole.
pub(super) const LIMIT: u64 = 2 * 1024 * 1024;

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
            "{path} has {size} bytes, more than the {LIMIT} that can be read at once. Use search, or `sed -n` in a shell, \
             for the part you need."
        ))));
    }
    Ok(String::from_utf8(bytes.to_vec()).map_err(|_| {
        Done::error(format!(
            "{path} is not UTF-8 text ({size} bytes): an image, a binary or another encoding. Use `file` or `xxd` in a \
             shell to look at it."
        ))
    }))
}

pub(super) async fn run(scope: &Scope, path: &str, offset: u64, limit: u64) -> Result<Done, Failure> {
    Ok(match text(scope, path).await? {
        Ok(text) => Done::ok(agent::tools::numbered(&text, offset, limit)),
        Err(done) => done,
    })
}
