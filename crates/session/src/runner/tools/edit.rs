//! `edit`: replaces text in a file; every byte outside the match stays.

use bytes::Bytes;

use super::{Done, Scope, read, refused};
use crate::failure::Failure;

pub(super) async fn run(scope: &Scope, path: &str, old: &str, new: &str, all: bool) -> Result<Done, Failure> {
    let content = match read::text(scope, path).await? {
        Ok(content) => content,
        Err(done) => return Ok(done),
    };
    let edited = match agent::tools::edit(&content, old, new, all) {
        Ok(edited) => edited,
        Err(text) => return Ok(Done::error(format!("{path}: {text}"))),
    };
    let (guest, inside) = scope.place(path);
    match guest.write_file(&inside, Bytes::from(edited)).await {
        Ok(()) => Ok(Done::ok(format!("Edited {path}."))),
        Err(error) => refused(error, path),
    }
}
