//! Where a value comes from: standard input, or a person at a terminal, who does not see what is typed. Never from the
//! command line, which other users of a machine can read.

use std::io::{IsTerminal, Read, Stdin};

use anyhow::anyhow;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::{Interrupted, Usage};
use crate::render::style;

/// More than any value may have; what is longer is refused later.
const LIMIT: u64 = 128 * 1024;

/// Reads the value of a secret.
pub(in crate::commands) fn read(name: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return ask(name, &stdin);
    }
    let mut bytes = Vec::new();
    stdin.lock().take(LIMIT).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Usage(anyhow!("the value is not text\n  give it as UTF-8, or the base64 of what it is meant to be"))
    })?;
    Ok(without_line_end(text))
}

fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

fn ask(name: &str, stdin: &Stdin) -> anyhow::Result<String> {
    let silence = Silence::begin(stdin)?;
    style::note(&format!("value of {name} (it is not shown), then Enter:"));
    let typed = typed(stdin.lock().take(LIMIT).bytes());
    drop(silence);
    match typed? {
        Typed::Line(bytes) => {
            String::from_utf8(bytes).map_err(|_| Usage(anyhow!("the value is not text in UTF-8")).into())
        }
        Typed::Interrupted => Err(Interrupted.into()),
    }
}

/// What a person typed.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line(Vec<u8>),
    Interrupted,
}

/// Reads up to the end of a line, key by key: a terminal that collects lines cuts them off at 4096 bytes.
fn typed(keys: impl Iterator<Item = std::io::Result<u8>>) -> std::io::Result<Typed> {
    const INTERRUPT: u8 = 0x03;
    const END: u8 = 0x04;
    const ERASE_LINE: u8 = 0x15;
    let mut line: Vec<u8> = Vec::new();
    for key in keys {
        match key? {
            INTERRUPT => return Ok(Typed::Interrupted),
            b'\n' | b'\r' | END => break,
            ERASE_LINE => line.clear(),
            // A character may be several bytes.
            0x08 | 0x7f => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            byte => line.push(byte),
        }
    }
    Ok(Typed::Line(line))
}

/// A terminal that shows nothing of what is typed; as it was again when dropped.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin(stdin: &Stdin) -> anyhow::Result<Self> {
        let before = tcgetattr(stdin)?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(stdin, OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // Flushed, so that the rest of something with several lines does not end up in the shell.
        if tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before).is_err() {
            style::note("the terminal could not be put back as it was: type reset");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_goes() {
        for (given, kept) in
            [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("a\n\n", "a\n"), ("\n", ""), ("a b ", "a b ")]
        {
            assert_eq!(without_line_end(given.to_owned()), kept, "{given:?}");
        }
    }

    #[test]
    fn what_is_typed_can_be_corrected() {
        let line = |keys: &[u8]| typed(keys.iter().map(|key| Ok(*key))).unwrap();
        let text = |text: &str| Typed::Line(text.as_bytes().to_vec());
        assert_eq!(line(b"key\nmore"), text("key"));
        assert_eq!(line(b"wrong\x15key\r"), text("key"));
        assert_eq!(line("kä\x7fey\n".as_bytes()), text("key"));
        assert_eq!(line(b"\x7f\x08key\x04"), text("key"));
        assert_eq!(line(b"key"), text("key"), "the terminal went away");
        assert_eq!(line(b"key\x03"), Typed::Interrupted);
    }
}
