//! `write`: a whole file.

use bytes::Bytes;

use super::{Done, Scope, absolute, refused};
use crate::failure::Failure;

pub(super) async fn run(scope: &Scope, path: &str, content: String) -> Result<Done, Failure> {
    let (bytes, lines) = (content.len(), content.lines().count());
    match scope.sandbox.guest().write_file(&absolute(path), Bytes::from(content)).await {
        Ok(()) => Ok(Done::ok(format!("Wrote {path} ({lines} lines, {bytes} bytes)."))),
        Err(error) => refused(error, path),
    }
}
