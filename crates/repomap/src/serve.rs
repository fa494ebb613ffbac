//! The reading process: what `git cat-file --batch` gives comes in, what each file defines goes out.

use std::io::{self, BufRead, Read, Write};

use crate::FILE_LIMIT;
use crate::symbols::FileSymbols;

/// Longest line before a file's text.
const HEAD: u64 = 8 * 1024;

/// Why files could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process could not be confined.
    #[error("the process that reads files cannot be confined: {0}")]
    Confine(String),
    /// The pipes broke.
    #[error("cannot read files or tell what is in them: {0}")]
    Io(#[from] io::Error),
    /// What came in is not what git gives.
    #[error("not the text of files: {0}")]
    Malformed(String),
}

/// Reads the files that come in, each after a line `OBJECT SIZE PATH`, and writes a line of JSON for each. This is to be run in a
/// process that was confined before.
pub fn serve(from: impl Read, to: impl Write) -> Result<(), Error> {
    let mut from = io::BufReader::with_capacity(1 << 16, from);
    let mut to = io::BufWriter::with_capacity(1 << 16, to);
    while let Some(head) = line(&mut from)? {
        let mut fields = head.splitn(3, ' ');
        let (Some(object), Some(size), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            // An object that git does not have.
            continue;
        };
        let size: u64 = size.parse().map_err(|_| Error::Malformed(format!("a size is {size:?}")))?;
        let mut text = Vec::new();
        from.by_ref().take(size.min(FILE_LIMIT)).read_to_end(&mut text)?;
        let rest = size.saturating_sub(FILE_LIMIT) + 1;
        let passed = io::copy(&mut from.by_ref().take(rest), &mut io::sink())?;
        if passed != rest {
            return Err(Error::Malformed("it ends in the middle of a file".to_owned()));
        }
        let symbols = if size > FILE_LIMIT {
            FileSymbols { path: path.to_owned(), object: object.to_owned(), ..FileSymbols::default() }
        } else {
            FileSymbols::of(path, object, &text)
        };
        serde_json::to_writer(&mut to, &symbols).map_err(io::Error::from)?;
        to.write_all(b"\n")?;
    }
    Ok(to.flush()?)
}

/// The next line without its end; None at the end.
fn line(from: &mut impl BufRead) -> Result<Option<String>, Error> {
    let mut bytes = Vec::new();
    from.by_ref().take(HEAD).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Some(_) => Err(Error::Malformed("a line has no end".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(input: &[u8]) -> Result<Vec<FileSymbols>, Error> {
        let mut out = Vec::new();
        serve(input, &mut out)?;
        Ok(String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn each_file_is_told() {
        let text = "fn a() {}\n";
        let input = format!("1f {} src/a b.rs\n{text}\n2f missing\n3f 0 empty.py\n\n", text.len());
        let told = told(input.as_bytes()).unwrap();
        assert_eq!((told[0].path.as_str(), told[0].object.as_str()), ("src/a b.rs", "1f"));
        assert_eq!((told[0].definitions[0].name.as_str(), told[0].definitions[0].line), ("a", 1));
        assert_eq!((told.len(), told[1].path.as_str()), (2, "empty.py"));
    }

    #[test]
    fn a_large_file_is_passed_over() {
        let size = FILE_LIMIT as usize + 10;
        let mut input = format!("1f {size} a.rs\n").into_bytes();
        input.extend(std::iter::repeat_n(b' ', size));
        input.extend(b"\n2f 9 b.rs\nfn b() {}\n");
        let told = told(&input).unwrap();
        assert_eq!((told[0].definitions.len(), told[1].definitions.len()), (0, 1));
    }

    #[test]
    fn rubbish_is_an_error() {
        for input in [&b"1f ten a.rs\n"[..], b"1f 10 a.rs\nfn", b"no end"] {
            assert!(matches!(told(input), Err(Error::Malformed(_))), "{input:?}");
        }
        assert!(told(b"").unwrap().is_empty());
    }
}
