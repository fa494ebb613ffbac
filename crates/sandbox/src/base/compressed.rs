//! Archives as they come: plain, or compressed with gzip or zstd, told apart by how they begin.

use std::io::{self, BufRead, BufReader, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const BUFFER: usize = 128 * 1024;

/// What is in it, uncompressed.
pub(super) fn open<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut source = BufReader::with_capacity(BUFFER, source);
    let begin = source.fill_buf()?;
    Ok(match begin {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Box::new(Zstd::new(source)),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => return Err(other_compression("xz")),
        [b'B', b'Z', b'h', ..] => return Err(other_compression("bzip2")),
        _ => Box::new(source),
    })
}

fn other_compression(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it is compressed with {name}: pack it with gzip or zstd, or not at all"),
    )
}

/// All frames of a zstd file one after the other; those that only carry notes are left out.
struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Self { source, frame: FrameDecoder::new(), open: false }
    }

    /// Whether another frame follows.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.frame.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
            }
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.open {
                while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                    self.frame
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                }
                let got = self.frame.read(buffer)?;
                if got > 0 {
                    return Ok(got);
                }
                self.open = false;
            }
            if !self.next_frame()? {
                return Ok(0);
            }
            self.open = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        open(bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_packing_gives_the_same_back() {
        let text: Vec<u8> = (0..400_000u32).flat_map(|n| n.to_le_bytes()).collect();
        let (first, second) = text.split_at(600_001);
        let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let note = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], b"abc".as_slice()].concat();
        for packed in [
            text.clone(),
            gzip(&text),
            [gzip(first), gzip(second)].concat(),
            zstd(&text),
            [zstd(first), zstd(second)].concat(),
            [note.clone(), zstd(first), note.clone(), zstd(second), note].concat(),
        ] {
            assert!(read(&packed).unwrap() == text);
        }
        assert!(read(b"").unwrap().is_empty());
    }

    #[test]
    fn a_part_of_a_file_is_an_error() {
        for packed in [gzip(&[7; 9000]), compress_to_vec(&[7u8; 9000][..], CompressionLevel::Fastest)] {
            assert!(read(&packed[..packed.len() - 6]).is_err());
        }
        assert!(read(b"\xfd7zXZ\0").unwrap_err().to_string().contains("xz"));
    }
}
