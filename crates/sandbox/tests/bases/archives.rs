//! Makes archives, also such as no honest program would.

use std::io::Write;

use tar::{EntryType, Header};

/// A tar archive that is written entry by entry, with names as they are given.
#[derive(Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn raw(mut self, header: &Header, content: &[u8]) -> Self {
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Any entry. A name that is too long for a header goes before it as GNU tar does it.
    pub(crate) fn entry(mut self, kind: EntryType, name: &[u8], link: &[u8], content: &[u8]) -> Self {
        for (long, text) in [(EntryType::GNULongName, name), (EntryType::GNULongLink, link)] {
            if text.len() > 100 {
                let header = header(long, b"././@LongLink", b"", text.len() as u64 + 1);
                self = self.raw(&header, &[text, b"\0"].concat());
            }
        }
        let short = |text: &[u8]| text[..text.len().min(100)].to_vec();
        self.raw(&header(kind, &short(name), &short(link), content.len() as u64), content)
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name.as_bytes(), b"", content.as_bytes())
    }

    pub(crate) fn dir(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name.as_bytes(), b"", b"")
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name.as_bytes(), to.as_bytes(), b"")
    }

    pub(crate) fn link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Link, name.as_bytes(), to.as_bytes(), b"")
    }

    /// An extended header for the next entry.
    pub(crate) fn pax(self, fields: &[(&str, &[u8])]) -> Self {
        let mut text = Vec::new();
        for (key, value) in fields {
            let rest = key.len() + value.len() + 3;
            let digits = |length: usize| length.to_string().len();
            let mut length = rest + digits(rest);
            length = rest + digits(length);
            text.extend_from_slice(format!("{length} {key}=").as_bytes());
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        self.entry(EntryType::XHeader, b"PaxHeaders/x", b"", &text)
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

/// A header with exactly these bytes as its name and link.
pub(crate) fn header(kind: EntryType, name: &[u8], link: &[u8], size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_000_000);
    let bytes = header.as_old_mut();
    bytes.name[..name.len()].copy_from_slice(name);
    bytes.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    header
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
