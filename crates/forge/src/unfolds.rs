//! How large what is in a bundle becomes once it is unfolded, told without unfolding it: a few bytes can stand for gigabytes,
//! and git unfolds each object that is a difference to another one in memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};

use crate::Error;

/// Larger objects are refused. The largest are files; those that hold trees and commits have no reason to be.
pub const OBJECT_LIMIT: u64 = 256 * 1024 * 1024;
/// More than this in all is refused.
const ALL_LIMIT: u64 = 16 * OBJECT_LIMIT;
/// The list of refs and of what a bundle builds on is not longer.
const HEADER_LIMIT: u64 = 16 * 1024 * 1024;
/// A difference begins with the size of what it is to and of what it makes, each in no more bytes than ten.
const SIZES: usize = 20;
/// Bytes that are unfolded at a time.
const PIECE: usize = 64 * 1024;

/// What is taken.
#[derive(Clone, Copy)]
struct Bounds {
    object: u64,
    all: u64,
}

const BOUNDS: Bounds = Bounds { object: OBJECT_LIMIT, all: ALL_LIMIT };

/// What is wrong with a pack.
enum Fault {
    /// It is not as a pack is.
    Broken(&'static str),
    /// One object unfolds to so many bytes, or to more.
    Large(u64),
    /// All together unfold to more than is taken.
    LargeInAll,
    /// The file cannot be read.
    Io(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::Broken("it ends too soon"),
            _ => Self::Io(error),
        }
    }
}

/// Refuses a bundle that unfolds to more than is taken. Ids of objects have so many bytes in it.
pub(crate) async fn check(bundle: &Path, id: usize) -> Result<(), Error> {
    let path = bundle.to_owned();
    let look = move || File::open(path).map_err(Fault::Io).and_then(|file| scan(file, id, BOUNDS));
    let fault = match tokio::task::spawn_blocking(look).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(fault)) => fault,
        Err(error) => Fault::Io(std::io::Error::other(error)),
    };
    Err(match fault {
        Fault::Broken(why) => Error::Refused(format!("its bundle cannot be unpacked: {why}")),
        Fault::Large(bytes) => Error::Refused(format!(
            "one of its files unfolds to {} MiB or more, and no file of more than {} MiB is taken: take it out of every \
             commit",
            bytes >> 20,
            OBJECT_LIMIT >> 20
        )),
        Fault::LargeInAll => Error::Refused(format!(
            "its commits unfold to more than {} GiB in all: take large files out of every commit",
            ALL_LIMIT >> 30
        )),
        Fault::Io(error) => Error::io(format_args!("read {}", bundle.display()), &error),
    })
}

fn scan(bundle: impl Read, id: usize, bounds: Bounds) -> Result<(), Fault> {
    let mut reader = BufReader::with_capacity(PIECE, bundle);
    skip_header(&mut reader)?;
    let mut start = [0; 12];
    reader.read_exact(&mut start)?;
    let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = start else {
        return Err(Fault::Broken("there is no pack in it"));
    };
    let mut inflater = Inflater { state: Decompress::new(true), out: vec![0; PIECE], bound: bounds.object };
    let mut all = 0_u64;
    for _ in 0..u32::from_be_bytes(count) {
        let (kind, size) = entry(&mut reader)?;
        match kind {
            1..=4 => {}
            // How far back the other object is, or its name.
            6 => drop(varint(&mut reader)?),
            7 => reader.read_exact(&mut [0; 32][..id])?,
            _ => return Err(Fault::Broken("it has an object of an unknown kind")),
        }
        if size > bounds.object {
            return Err(Fault::Large(size));
        }
        let (made, beginning) = inflater.skip(&mut reader)?;
        all += made;
        if matches!(kind, 6 | 7) {
            let mut sizes = beginning.as_slice();
            varint(&mut sizes)?;
            let result = varint(&mut sizes)?;
            if result > bounds.object {
                return Err(Fault::Large(result));
            }
            all += result;
        }
        if all > bounds.all {
            return Err(Fault::LargeInAll);
        }
    }
    Ok(())
}

/// Goes to the empty line after which the pack begins.
fn skip_header(reader: &mut impl BufRead) -> Result<(), Fault> {
    let mut header = reader.take(HEADER_LIMIT);
    let mut line = Vec::new();
    while line != b"\n" {
        line.clear();
        if header.read_until(b'\n', &mut line)? == 0 {
            return Err(Fault::Broken("its list of refs has no end"));
        }
    }
    Ok(())
}

/// An object's kind, and the size of what follows once it is inflated.
fn entry(reader: &mut impl Read) -> Result<(u8, u64), Fault> {
    let first = byte(reader)?;
    let rest = if first & 0x80 == 0 { 0 } else { varint(reader)? };
    let size = rest.checked_mul(16).ok_or(Fault::Large(u64::MAX))? + u64::from(first & 15);
    Ok(((first >> 4) & 7, size))
}

/// A number in pieces of seven bits, the lowest first.
fn varint(reader: &mut impl Read) -> Result<u64, Fault> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let byte = byte(reader)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Fault::Broken("it has a number that is too large"))
}

fn byte(reader: &mut impl Read) -> Result<u8, Fault> {
    let mut byte = [0];
    reader.read_exact(&mut byte)?;
    Ok(byte[0])
}

struct Inflater {
    state: Decompress,
    out: Vec<u8>,
    bound: u64,
}

impl Inflater {
    /// Goes to the end of what is deflated. Gives how much that is, and how it begins.
    fn skip(&mut self, reader: &mut impl BufRead) -> Result<(u64, Vec<u8>), Fault> {
        const BROKEN: Fault = Fault::Broken("an object in it cannot be inflated");
        self.state.reset(true);
        let mut beginning = Vec::new();
        loop {
            let input = reader.fill_buf()?;
            let ended = input.is_empty();
            let (taken, made) = (self.state.total_in(), self.state.total_out());
            let status =
                self.state.decompress(input, &mut self.out, FlushDecompress::None).map_err(|_| BROKEN)?;
            let (taken, made) = (self.state.total_in() - taken, self.state.total_out() - made);
            reader.consume(taken as usize);
            let wanted = (SIZES - beginning.len()).min(made as usize);
            beginning.extend_from_slice(&self.out[..wanted]);
            let total = self.state.total_out();
            if total > self.bound {
                return Err(Fault::Large(total));
            }
            match status {
                Status::StreamEnd => return Ok((total, beginning)),
                _ if made > 0 => {}
                _ if ended => return Err(Fault::Broken("it ends too soon")),
                _ if taken == 0 => return Err(BROKEN),
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    const MOST: u64 = 1 << 20;
    const SMALL: Bounds = Bounds { object: MOST, all: 16 * MOST };

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn number(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    fn object(kind: u8, size: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80 | kind << 4 | (size & 15) as u8];
        bytes.extend(number(size >> 4));
        match kind {
            6 => bytes.extend([0x81, 0x01]),
            7 => bytes.extend([7; 20]),
            _ => {}
        }
        bytes.extend(deflated(content));
        bytes
    }

    /// A difference that makes an object of this size.
    fn difference(kind: u8, result: u64) -> Vec<u8> {
        let content = [number(100), number(result), vec![0x90; 30]].concat();
        object(kind, content.len() as u64, &content)
    }

    fn bundle(objects: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = b"# v2 git bundle\n-0123 base\n4567 refs/heads/work\n\nPACK\0\0\0\x02".to_vec();
        bytes.extend((objects.len() as u32).to_be_bytes());
        objects.iter().for_each(|object| bytes.extend(object));
        bytes.extend([9; 20]);
        bytes
    }

    fn said(objects: &[Vec<u8>]) -> String {
        match scan(bundle(objects).as_slice(), 20, SMALL) {
            Ok(()) => "fine".to_owned(),
            Err(Fault::Broken(why)) => why.to_owned(),
            Err(Fault::Large(bytes)) => format!("{bytes} bytes"),
            Err(Fault::LargeInAll) => "too much in all".to_owned(),
            Err(Fault::Io(error)) => error.to_string(),
        }
    }

    #[test]
    fn what_is_bounded_passes() {
        let (small, empty) = (object(3, 5, b"hello"), object(1, 0, b""));
        let large = object(3, 300_000, &vec![b'x'; 300_000]);
        assert_eq!(said(&[small, large, difference(6, MOST), empty, difference(7, 1)]), "fine");
        assert_eq!(said(&[]), "fine");
    }

    #[test]
    fn what_unfolds_to_too_much_does_not() {
        let small = object(3, 5, b"hello");
        for kind in [6, 7] {
            let bomb = difference(kind, MOST + 1);
            assert_eq!(said(&[small.clone(), bomb]), format!("{} bytes", MOST + 1));
        }
        assert_eq!(said(&[object(3, 1 << 40, b"")]), format!("{} bytes", 1_u64 << 40));
        let many: Vec<_> = (0..17).map(|_| difference(6, MOST)).collect();
        assert_eq!(said(&many), "too much in all");
    }

    #[test]
    fn what_is_said_of_a_size_need_not_be_true() {
        let mut bomb = object(3, 5, b"");
        bomb.truncate(bomb.len() - deflated(b"").len());
        bomb.extend(deflated(&vec![0; MOST as usize + 1]));
        assert!(said(&[bomb]).ends_with(" bytes"));
    }

    #[test]
    fn what_is_no_pack_is_refused() {
        let whole = bundle(&[object(3, 5, b"hello"), difference(6, 9)]);
        for length in 0..whole.len() - 20 {
            assert!(matches!(scan(&whole[..length], 20, SMALL), Err(Fault::Broken(_))), "{length}");
        }
        assert_eq!(said(&[vec![0x35, 1, 2, 3, 4, 5, 6, 7, 8, 9]]), "an object in it cannot be inflated");
        assert_eq!(said(&[object(5, 5, b"hello")]), "it has an object of an unknown kind");
        assert_eq!(said(&[vec![0xff; 40]]), "it has a number that is too large");
    }
}
