//! `write`: a whole file.

use bytes::Bytes;

use super::{Done, Scope, absolute, read, refused};
use crate::failure::Failure;

/// Whether the model means what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Insists {
    /// It said the same before.
    Yes,
    /// It says so for the first time.
    No,
    /// It repeats itself anyway, so that a repetition says nothing.
    Never,
}

/// Writes a file. Where the new text would silently drop code of the old one it is refused, unless the model insists. A small
/// model means the part that it wrote, so that is merged where it is plain what is meant.
pub(super) async fn run(
    scope: &Scope,
    path: &str,
    mut content: String,
    insists: Insists,
) -> Result<Done, Failure> {
    let old = match insists {
        Insists::Yes => None,
        Insists::No | Insists::Never => match scope.sandbox.guest().stat(&absolute(path)).await {
            Ok(_) => read::text(scope, path).await?.ok(),
            Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => None,
            Err(error @ guest::Error::Unavailable(_)) => return Err(error.into()),
        },
    };
    let mut note = "";
    if let Some(old) = old
        && let Some(lost) = agent::tools::dropped(&old, &content)
    {
        match (insists, agent::tools::merged(&old, &content)) {
            (Insists::Never, Some(merged)) => {
                content = merged;
                note = " What your text left out stayed as it was.";
            }
            (Insists::Never, None) => return Ok(Done::error(format!("{path}: {lost}"))),
            (Insists::Yes | Insists::No, _) => {
                let text = format!("{path}: {lost} If they should go, send the same call again.");
                return Ok(Done::error(text));
            }
        }
    }
    let (bytes, lines) = (content.len(), content.lines().count());
    match scope.sandbox.guest().write_file(&absolute(path), Bytes::from(content)).await {
        Ok(()) => Ok(Done::ok(format!("Wrote {path} ({lines} lines, {bytes} bytes).{note}"))),
        Err(error) => refused(error, path),
    }
}
