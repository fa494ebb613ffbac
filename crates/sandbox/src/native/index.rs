//! The index of a layer that was saved of a running sandbox: which file of the sandbox each of its files is a copy of,
//! and in which state. The next save links what is still in that state instead of copying it.
//!
//! It only ever saves work: without it, or with less in it, everything is copied.

use std::collections::HashMap;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use protocol::SandboxId;
use rustix::fs::Stat;

const MAGIC: &[u8] = b"slipway index 1\n";

/// How many files an index tells of; those beyond are copied.
const ENTRIES: usize = 200_000;

/// Longer paths are not kept: no system call would take them.
pub(super) const PATH: usize = 4000;

/// The state of a file: as long as it is the same, so is the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    inode: u64,
    seconds: i64,
    nanoseconds: u32,
    size: u64,
}

impl Version {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            seconds: stat.st_ctime,
            nanoseconds: u32::try_from(stat.st_ctime_nsec).unwrap_or_default(),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
        }
    }

    /// When the file changed last, in nanoseconds since 1970.
    pub(super) fn changed(&self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

/// Which file is a copy of what.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<u64, (Version, Box<[u8]>)>,
}

impl Index {
    /// Remembers that the file at `path` in the layer is a copy of a file in this state.
    pub(super) fn insert(&mut self, version: Version, path: &[u8]) {
        if self.entries.len() < ENTRIES && path.len() <= PATH {
            self.entries.insert(version.inode, (version, path.into()));
        }
    }

    /// Where in the layer a copy of a file in this very state is.
    pub(super) fn find(&self, version: &Version) -> Option<&[u8]> {
        self.entries.get(&version.inode).filter(|(known, _)| known == version).map(|(_, path)| &**path)
    }

    /// Forgets a file.
    pub(super) fn forget(&mut self, inode: u64) {
        self.entries.remove(&inode);
    }

    pub(super) fn write(&self, path: &Path, sandbox: SandboxId) -> std::io::Result<()> {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        self.write_to(&mut file, sandbox)?;
        file.flush()
    }

    /// Writes it into anything.
    pub(super) fn write_to(&self, mut file: impl Write, sandbox: SandboxId) -> std::io::Result<()> {
        file.write_all(MAGIC)?;
        writeln!(file, "{sandbox}")?;
        for (version, path) in self.entries.values() {
            file.write_all(&version.inode.to_le_bytes())?;
            file.write_all(&version.seconds.to_le_bytes())?;
            file.write_all(&version.nanoseconds.to_le_bytes())?;
            file.write_all(&version.size.to_le_bytes())?;
            file.write_all(&u16::try_from(path.len()).unwrap_or_default().to_le_bytes())?;
            file.write_all(path)?;
        }
        Ok(())
    }

    /// Reads the index of a layer that was saved of this very sandbox. Anything else is as good as none.
    pub(super) fn read(path: &Path, sandbox: SandboxId) -> Option<Self> {
        Self::read_from(BufReader::new(std::fs::File::open(path).ok()?), sandbox)
    }

    /// The same of what was written into anything.
    pub(super) fn read_from(mut file: impl Read, sandbox: SandboxId) -> Option<Self> {
        let mut head = vec![0; MAGIC.len()];
        file.read_exact(&mut head).ok()?;
        let mut whose = vec![0; sandbox.to_string().len() + 1];
        file.read_exact(&mut whose).ok()?;
        if head != MAGIC || whose != format!("{sandbox}\n").as_bytes() {
            return None;
        }
        let mut index = Self::default();
        loop {
            let mut fixed = [0; 30];
            match file.read_exact(&mut fixed) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Some(index),
                other => other.ok()?,
            }
            let (inode, rest) = fixed.split_first_chunk::<8>()?;
            let (seconds, rest) = rest.split_first_chunk::<8>()?;
            let (nanoseconds, rest) = rest.split_first_chunk::<4>()?;
            let (size, rest) = rest.split_first_chunk::<8>()?;
            let (length, _) = rest.split_first_chunk::<2>()?;
            let mut path = vec![0; u16::from_le_bytes(*length).into()];
            file.read_exact(&mut path).ok()?;
            let version = Version {
                inode: u64::from_le_bytes(*inode),
                seconds: i64::from_le_bytes(*seconds),
                nanoseconds: u32::from_le_bytes(*nanoseconds),
                size: u64::from_le_bytes(*size),
            };
            index.insert(version, &path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(inode: u64, size: u64) -> Version {
        Version { inode, seconds: 1, nanoseconds: 2, size }
    }

    #[test]
    fn an_index_is_only_for_the_sandbox_it_was_made_of() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let (own, other) = (SandboxId::from_u128(1), SandboxId::from_u128(2));
        let mut index = Index::default();
        index.insert(version(7, 3), b"a\n\xff/b");
        index.insert(version(8, 0), b"c");
        index.forget(8);
        index.write(&path, own).unwrap();
        let read = Index::read(&path, own).unwrap();
        assert_eq!(read.find(&version(7, 3)), Some(&b"a\n\xff/b"[..]));
        assert_eq!(read.find(&version(7, 4)), None);
        assert_eq!(read.find(&version(8, 0)), None);
        assert!(Index::read(&path, other).is_none());
        std::fs::write(&path, &std::fs::read(&path).unwrap()[..60]).unwrap();
        assert!(Index::read(&path, own).is_none_or(|index| index.find(&version(7, 3)).is_none()));
    }
}
