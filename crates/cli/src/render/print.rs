//! Standard output: data only. A reader that went away (`| head`) is not an error worth a word.

use std::io::{ErrorKind, Write};

use serde::Serialize;

fn write(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// A line of text.
pub(crate) fn line(text: &str) -> std::io::Result<()> {
    write(&format!("{text}\n"))
}

/// Text that has its own line ends.
pub(crate) fn text(text: &str) -> std::io::Result<()> {
    if text.ends_with('\n') { write(text) } else { line(text) }
}

/// A value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(&serde_json::to_string(value)?)?)
}
