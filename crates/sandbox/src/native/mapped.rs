//! Which files of a sandbox are mapped into memory so that they can be written without a sign of it: the time of a file
//! changes with the first write to a mapped page, and not with those after it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// More than this is not read while a sandbox stands still.
const BYTES: u64 = 32 << 20;

/// The inodes, in the sandbox's writable layer, of every such file. An error means that nobody can tell.
pub(super) fn mapped(processes: &[u32], upper: &OwnedFd) -> std::io::Result<HashSet<u64>> {
    let mut inodes = HashSet::new();
    let mut left = BYTES;
    for process in processes {
        let maps = match std::fs::File::open(Path::new("/proc").join(process.to_string()).join("maps")) {
            // It ended meanwhile, and with it its maps.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other?,
        };
        let mut lines = BufReader::with_capacity(64 * 1024, maps.take(left + 1));
        let mut line = Vec::new();
        loop {
            line.clear();
            match lines.read_until(b'\n', &mut line) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                Ok(0) => break,
                Ok(count) => left = left.checked_sub(count as u64).ok_or(std::io::ErrorKind::FileTooLarge)?,
                Err(error) => return Err(error),
            }
            if let Some(path) = writable_file(&line) {
                // The kernel's way of writing is not one to one, so whatever it may mean counts.
                for path in [path.to_owned(), unescape(path)] {
                    inodes.extend(inode(upper, path.strip_suffix(b" (deleted)").unwrap_or(&path))?);
                    inodes.extend(inode(upper, &path)?);
                }
            }
        }
    }
    Ok(inodes)
}

/// The path of a file that is shared and writable, from a line such as
/// `7f0a-7f0b rw-s 00000000 00:2a 1234      /workspace/x`.
fn writable_file(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let start = line.iter().position(|byte| *byte == b'/')?;
    let (fields, path) = line.split_at(start);
    let permissions = fields.split(|byte| *byte == b' ').nth(1)?;
    if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') {
        return None;
    }
    Some(path)
}

/// The kernel writes a line break in a name as `\012`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                plain.push(b'\n');
                rest = after;
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

fn inode(upper: &OwnedFd, path: &[u8]) -> std::io::Result<Option<u64>> {
    let below = path.strip_prefix(b"/").unwrap_or(path);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(upper.as_fd(), below, flags, Mode::empty(), resolve) {
        Ok(file) => Ok(Some(rustix::fs::fstat(&file)?.st_ino)),
        // Not in the writable layer: in a layer below, or in memory.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_shared_and_writable_count() {
        let read = |line: &str| {
            writable_file(line.as_bytes()).map(|path| String::from_utf8(unescape(path)).unwrap())
        };
        let shared = "7f0000000000-7f0000001000 rw-s 00000000 00:2a 12 \t /work space/a\\012b\n";
        assert_eq!(read(shared).as_deref(), Some("/work space/a\nb"));
        assert_eq!(read("7f00-7f01 rw-p 00000000 00:2a 12   /workspace/private\n"), None);
        assert_eq!(read("7f00-7f01 r--s 00000000 00:2a 12   /workspace/read\n"), None);
        assert_eq!(read("7f00-7f01 rw-p 00000000 00:00 0 \n"), None);
        assert_eq!(read("7f00-7f01 rw-p 00000000 00:00 0    [heap]\n"), None);
    }
}
